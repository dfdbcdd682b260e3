"""What lives in the driver's process: the contract that planner, transport and kit keep with any live table."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from headrace.arrow.types import wire_schema
from headrace.execute.live import LivePlan, LiveTable, MergingSource
from headrace.negotiate.negotiation import Negotiation
from headrace.negotiate.registry import RegisteredTable
from headrace.push.channel import Channel
from headrace.push.packing import Packing
from headrace.push.sink import TableSink
from headrace.push.table import PushTable
from headrace.tables.adbc.access import AdbcStream
from headrace.tables.flight.stream import FlightStream
from headrace.testing import check_provider
from headrace.transport import driver_partition
from headrace.transport.driver_partition import DriverPartition
from headrace.transport.protocol import FRAME_HEADER, FrameKind
from headrace.transport.seal import Seals
from producing import NUMBERS, FunctionTable, numbers, ten_rows
from raw_frames import NONCE


class Basket(LiveTable):
    """Gives away what is in it, once; knows nothing of push."""

    def __init__(self, fails: bool = False) -> None:
        self.fails = fails
        self.claims: list[tuple[int, int]] = []
        self.released = 0

    def schema(self) -> pa.Schema:
        return NUMBERS

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        return BasketPlan(self)

    def query_ended(self, query: object, error: str = "", reason: str = "", *, planned: bool = False) -> None:
        raise AssertionError("no query is run here")

    def reader_lost(self, reason: str) -> None: ...

    def abandon(self, error: hr.StreamError) -> None:
        raise AssertionError("the table is never deregistered here")


class BasketPlan(LivePlan):
    failure_place = "the basket"

    def __init__(self, table: Basket) -> None:
        self.schema = NUMBERS
        self.table = table

    def claim(self, partition: int, execution: int) -> MergingSource:
        self.table.claims.append((partition, execution))
        return Apples(self.table.fails)

    def released(self) -> None:
        self.table.released += 1


class Apples(MergingSource):
    patient = False

    def __init__(self, fails: bool) -> None:
        self._fails = fails
        self._left = [numbers(2)]

    def __next__(self) -> pa.RecordBatch:
        if self._left:
            return self._left.pop()
        if self._fails:
            raise ValueError("rotten")
        raise StopIteration


def registered(provider: hr.TableProvider) -> RegisteredTable:
    return RegisteredTable("t", provider, NUMBERS, wire_schema(NUMBERS))


def served(partition: DriverPartition) -> list[tuple[FrameKind, bytes]]:
    """The frames that a partition sends, up to the last."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(10)
        partition.serve(theirs, NONCE, Seals(None, None))
        theirs.shutdown(socket.SHUT_WR)
        data = b"".join(iter(lambda: ours.recv(1 << 16), b""))
    frames: list[tuple[FrameKind, bytes]] = []
    while data:
        kind, _, _, first, second, _ = FRAME_HEADER.unpack(data[: FRAME_HEADER.size])
        end = FRAME_HEADER.size + first + second
        frames.append((FrameKind(kind), data[FRAME_HEADER.size : end]))
        data = data[end:]
    return frames


def test_live_plan_partition_is_claimed_for_its_query_when_it_is_opened() -> None:
    basket = Basket()
    task = Negotiation(registered(basket)).plan().task()
    opened = DriverPartition(task, 0, 17)
    assert basket.claims == [(0, 17)]
    assert [kind for kind, _ in served(opened)] == [FrameKind.SCHEMA, FrameKind.BATCH, FrameKind.END]
    assert basket.claims == [(0, 17)]


def test_live_plan_error_is_blamed_on_its_own_place() -> None:
    task = Negotiation(registered(Basket(fails=True))).plan().task()
    kind, body = served(DriverPartition(task, 0, 1))[-1]
    assert kind is FrameKind.ERROR
    assert (json.loads(body)["where"], json.loads(body)["message"]) == ("the basket", "rotten")


def test_ordinary_driver_plan_error_is_blamed_on_execute() -> None:
    def failing(_partition: int) -> Iterator[pa.RecordBatch]:
        yield numbers(1)
        raise ValueError("dry")

    provider = FunctionTable(failing, placement=hr.Placement.DRIVER)
    task = Negotiation(registered(provider)).plan().task()
    assert task.live is None
    kind, body = served(DriverPartition(task, 0, 1))[-1]
    assert kind is FrameKind.ERROR
    assert json.loads(body)["where"] == "FunctionPlan.execute"


def test_release_tells_a_live_plan_once_and_nobody_else() -> None:
    basket = Basket()
    planned = Negotiation(registered(basket)).plan()
    assert basket.released == 0
    planned.release()
    assert basket.released == 1
    Negotiation(registered(FunctionTable(ten_rows))).plan().release()


def test_registered_table_knows_whether_it_is_live() -> None:
    basket = Basket()
    assert registered(basket).live is basket
    assert registered(FunctionTable(ten_rows)).live is None


def test_check_provider_live_table_is_refused() -> None:
    with pytest.raises(TypeError, match="can be scanned once"):
        check_provider(Basket())


class WithInterrupt:
    def interrupt(self, reason: str) -> None: ...


@pytest.mark.parametrize(
    ("source", "expected"),
    [(WithInterrupt(), True), (iter([]), False), (numbers(1), False)],
    ids=["has interrupt", "iterator", "batch"],
)
def test_interruptible_is_whatever_has_interrupt(source: Any, expected: bool) -> None:
    assert isinstance(source, hr.Interruptible) is expected


@pytest.mark.parametrize("kind", [AdbcStream, FlightStream])
def test_interruptible_streams_of_ready_made_tables(kind: type) -> None:
    assert issubclass(kind, hr.Interruptible)


def test_reader_that_vanishes_without_a_word_is_told_as_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The endpoint tells why, as a rule; on a busy machine it may be late."""
    monkeypatch.setattr(driver_partition, "_REASON_SECONDS", 0.05)
    channel: Channel[Any] = Channel("t")
    packing = Packing(NUMBERS, channel.capacity)
    sink = TableSink(channel, packing)
    partition = DriverPartition(Negotiation(registered(PushTable("t", channel, packing))).plan().task(), 0, 7)
    sink.write(numbers(1))
    ours, theirs = socket.socketpair()
    ours.close()
    with theirs, pytest.raises(OSError):
        partition.serve(theirs, NONCE, Seals(None, None))
    with pytest.raises(hr.ScanEndedError) as caught:
        sink.write(numbers(2))
    assert caught.value.reason == "lost"
