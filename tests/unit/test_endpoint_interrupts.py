"""What user code does while the endpoint stops it, late or badly, disturbs nobody else; no Spark."""

from __future__ import annotations

import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import headrace as hr
from endpoints import Client, opener, reads_whole
from headrace.execute.partition_stream import ScanTask
from headrace.push.channel import Channel
from headrace.push.packing import Packing
from headrace.push.table import PushTable
from headrace.spill.arrow_spill import ArrowSpill
from headrace.transport.claims import Claim
from headrace.transport.driver_partition import DriverPartition
from headrace.transport.endpoint import Endpoint
from headrace.transport.protocol import FRAME_HEADER
from headrace.transport.seal import Seals
from producing import NUMBERS, numbers, wait_until

# -- an interrupt of the user's own ---------------------------------------------------------------------------------


class Interruptible:
    """Batches until it is interrupted; ``interrupt`` is what the user's own object has under that name."""

    def __init__(self, interrupt: Callable[..., object]) -> None:
        self.interrupt = interrupt
        self.closed = threading.Event()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        time.sleep(0.001)  # a source has a pace of its own
        return numbers(1)

    def close(self) -> None:
        self.closed.set()


def leave_early(endpoint: Endpoint, source: Interruptible) -> None:
    """After the first batch began to arrive, so ``execute`` was called."""
    with Client(endpoint.address(endpoint.offer(opener(lambda _: source), 2))) as client:
        client.sock.sendall(client.claim(client.greeting()))
        assert client.frame() is not None
        client.read(FRAME_HEADER.size)


@pytest.mark.parametrize("library", ["sqlite3", "duckdb"])
def test_interrupt_of_a_database_connection_is_called_without_a_reason(
    endpoint: Endpoint, library: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A long query runs inside the library; its connection's interrupt takes no argument."""
    running = threading.Event()

    def mark(value: int) -> int:
        running.set()
        return value

    if library == "duckdb":
        connection: Any = duckdb.connect(":memory:")
        connection.create_function("mark", mark, ["BIGINT"], "BIGINT")
    else:
        connection = sqlite3.connect(":memory:", check_same_thread=False)
        connection.create_function("mark", 1, mark)

    class Query(Interruptible):
        def __next__(self) -> pa.RecordBatch:
            connection.execute(_ENDLESS).fetchall()
            raise AssertionError("the query came to its end")

    source = Query(connection.interrupt)
    with Client(endpoint.address(endpoint.offer(opener(lambda _: source), 2))) as client:
        client.sock.sendall(client.claim(client.greeting()))
        assert running.wait(60)
    assert source.closed.wait(60)
    assert caplog.records == []
    assert reads_whole(endpoint.address(endpoint.offer(opener(), 2)))


_ENDLESS = "WITH RECURSIVE t(a) AS (SELECT 1 UNION ALL SELECT mark(a) + 1 FROM t) SELECT count(*) FROM t"


@pytest.mark.parametrize("error", [RuntimeError("no"), SystemExit(3)], ids=repr)
def test_interrupt_that_raises_is_logged_and_the_stream_stopped(
    endpoint: Endpoint, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    def interrupt(_reason: str) -> None:
        raise error

    source = Interruptible(interrupt)
    leave_early(endpoint, source)
    assert source.closed.wait(60)
    wait_until(lambda: len(caplog.records) == 1)
    assert type(error).__name__ in caplog.text
    assert reads_whole(endpoint.address(endpoint.offer(opener(), 2)))


def test_interrupt_that_blocks_disturbs_nobody(endpoint: Endpoint) -> None:
    called, let_go = threading.Event(), threading.Event()

    def interrupt(_reason: str) -> None:
        called.set()
        let_go.wait(60)

    source = Interruptible(interrupt)
    try:
        leave_early(endpoint, source)
        assert called.wait(60)
        assert reads_whole(endpoint.address(endpoint.offer(opener(), 2)))
        assert source.closed.wait(60)  # it was between two batches, where it can be stopped without
        endpoint.close()
    finally:
        let_go.set()


def test_interrupt_of_a_stream_read_to_its_end_is_not_called(endpoint: Endpoint) -> None:
    called: list[str] = []

    class Short(Interruptible):
        def __next__(self) -> pa.RecordBatch:
            if self.closed.is_set():
                raise StopIteration
            self.closed.set()
            return numbers(10)

    source = Short(called.append)
    assert reads_whole(endpoint.address(endpoint.offer(opener(lambda _: source), 2)))
    endpoint.close()
    assert called == []


# -- what takes long, on threads of its own -----------------------------------------------------------------------


def test_partition_that_takes_long_to_open_disturbs_nobody(endpoint: Endpoint) -> None:
    opening, let_go, stopped = threading.Event(), threading.Event(), threading.Event()

    class Late:
        def serve(self, sock: socket.socket, nonce: int, seals: Seals) -> None: ...

        def stop(self, reason: str) -> None:
            stopped.set()

    def slow(_claim: Claim) -> Late:
        opening.set()
        let_go.wait(60)
        return Late()

    with Client(endpoint.address(endpoint.offer(slow, 2))) as client:
        client.sock.sendall(client.claim(client.greeting()))
        assert opening.wait(60)
        assert reads_whole(endpoint.address(endpoint.offer(opener(), 2)))
    assert reads_whole(endpoint.address(endpoint.offer(opener(), 2)))  # by now it was seen that the reader is gone
    let_go.set()
    assert stopped.wait(60)


def test_spilled_batches_are_not_deleted_on_the_endpoints_thread(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    deleting: list[str] = []
    original = ArrowSpill.close

    def close(spill: ArrowSpill) -> None:
        deleting.append(threading.current_thread().name)
        original(spill)

    monkeypatch.setattr(ArrowSpill, "close", close)
    channel: Channel[Any] = Channel("t", spill=ArrowSpill())
    table = PushTable("t", channel, Packing(NUMBERS, channel.capacity))
    plan = table.scan(hr.ScanRequest(NUMBERS, ("a",), (), None))
    task = ScanTask("t", plan, NUMBERS, NUMBERS, None)
    ticket = endpoint.offer(lambda claim: DriverPartition(task, claim.partition, 1), 1)
    with Client(endpoint.address(ticket)) as client:
        client.sock.sendall(client.claim(client.greeting()))
        client.read(FRAME_HEADER.size)
    wait_until(lambda: bool(deleting))
    assert "headrace-endpoint" not in deleting
