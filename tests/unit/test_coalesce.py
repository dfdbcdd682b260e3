"""Small batches in quick succession are merged while the reader is behind, in order and within bounds; no Spark."""

from __future__ import annotations

import math
import threading

import pyarrow as pa
import pytest

from headrace.transport import coalesce
from headrace.transport.coalesce import CoalescingWriter
from raw_frames import TIMEOUT_S, numbers


class GatedWriter:
    """A FrameWriter whose reader is behind until ``open``; ``fail`` makes it break instead."""

    def __init__(self) -> None:
        self.sent: list[pa.RecordBatch] = []
        self.entered = threading.Semaphore(0)
        self.open = threading.Event()
        self.fail: BaseException | None = None

    def batch(self, batch: pa.RecordBatch) -> None:
        self.entered.release()
        assert self.open.wait(TIMEOUT_S)
        if self.fail is not None:
            raise self.fail
        self.sent.append(batch)

    def rows(self) -> list[int]:
        return [value for batch in self.sent for value in batch.column("i").to_pylist()]


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> GatedWriter:
    """Small batches count as quick succession, however slow the machine."""
    monkeypatch.setattr(coalesce, "_BUSY_SECONDS", math.inf)
    return GatedWriter()


def coalescing(gate: GatedWriter) -> CoalescingWriter:
    return CoalescingWriter(gate)  # type: ignore[arg-type]


def test_coalescing_writer_reader_behind_merges_in_order(gate: GatedWriter) -> None:
    out = coalescing(gate)
    out.send(numbers(0, 1))
    assert gate.entered.acquire(timeout=TIMEOUT_S)
    for i in range(1, 10):
        out.send(numbers(i, 1))
    gate.open.set()
    out.finish()
    assert [batch.num_rows for batch in gate.sent] == [1, 9]
    assert gate.rows() == list(range(10))


def test_coalescing_writer_reader_waiting_holds_nothing_back(gate: GatedWriter) -> None:
    gate.open.set()
    out = coalescing(gate)
    for i in range(3):
        out.send(numbers(i, 1))
        assert gate.entered.acquire(timeout=TIMEOUT_S), "the batch is sent though none follows"
    out.finish()
    assert gate.rows() == [0, 1, 2]


def test_coalescing_writer_large_batch_goes_after_the_queued_ones(gate: GatedWriter) -> None:
    out = coalescing(gate)
    out.send(numbers(0, 1))
    assert gate.entered.acquire(timeout=TIMEOUT_S)
    out.send(numbers(1, 1))
    sender = threading.Thread(target=lambda: (out.send(numbers(2, 20_000)), out.finish()))
    sender.start()
    gate.open.set()
    sender.join(TIMEOUT_S)
    assert gate.rows() == list(range(20_002))


def test_coalescing_writer_full_queue_blocks_the_caller(gate: GatedWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coalesce, "BATCH_ROWS", 10)
    out = coalescing(gate)
    out.send(numbers(0, 1))
    assert gate.entered.acquire(timeout=TIMEOUT_S)
    given: list[int] = []

    def produce() -> None:
        for i in range(1, 100):
            out.send(numbers(i, 1))
            given.append(i)

    producer = threading.Thread(target=produce)
    producer.start()
    with out._changed:
        assert out._changed.wait_for(lambda: out._rows == 10, TIMEOUT_S)
    assert len(given) <= 10
    gate.open.set()
    producer.join(TIMEOUT_S)
    out.finish()
    assert gate.rows() == list(range(100))
    assert max(batch.num_rows for batch in gate.sent) <= 10


@pytest.mark.parametrize(
    "error", [BrokenPipeError("gone"), pa.ArrowInvalid("bad"), SystemExit(0)], ids=["os", "arrow", "exit"]
)
def test_coalescing_writer_sender_fails_caller_hears_of_it(gate: GatedWriter, error: BaseException) -> None:
    gate.fail = error
    gate.open.set()
    out = coalescing(gate)

    def send_until_refused() -> None:
        while True:
            out.send(numbers(0, 1))

    with pytest.raises(type(error)):
        send_until_refused()
    with pytest.raises(type(error)):
        out.finish()
    out.abort()
    out.abort()


def test_coalescing_writer_abort_drops_what_is_queued(gate: GatedWriter) -> None:
    out = coalescing(gate)
    out.send(numbers(0, 1))
    assert gate.entered.acquire(timeout=TIMEOUT_S)
    out.send(numbers(1, 1))
    aborter = threading.Thread(target=out.abort)
    aborter.start()
    with out._changed:
        assert out._changed.wait_for(lambda: out._closing, TIMEOUT_S)
    gate.open.set()
    aborter.join(TIMEOUT_S)
    assert gate.rows() == [0]
