"""Workers whose user code writes to their connection: their query fails by name, the next task never reads of it."""

from __future__ import annotations

import json
import os
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import headrace as hr
from headrace.transport.protocol import FRAME_HEADER, PROTOCOL_VERSION, TOTALS, FrameKind
from java_limits import shortened
from producing import FunctionTable, Marks, wait_until

PIDS = pa.schema([("a", pa.int64()), ("pid", pa.int64())])
STALL_MILLIS = 1500


def rows(partition: int) -> Iterator[pa.RecordBatch]:
    """Ten rows, numbered through, and who made them."""
    yield pa.record_batch(
        [pa.array(range(partition * 10, partition * 10 + 10)), pa.array([os.getpid()] * 10)], PIDS.names
    )


def connection() -> int:
    """A descriptor of its own of the worker's connection: the only socket that a worker has."""
    for entry in os.listdir("/proc/self/fd"):
        try:
            if stat.S_ISSOCK(os.fstat(int(entry)).st_mode):
                return os.dup(int(entry))
        except OSError:  # the descriptor of the listing itself
            continue
    raise AssertionError("a worker without a connection")


def nonce() -> int:
    """That of the request being served: the worst a worker can do is to answer in its name."""
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_code.co_name == "serve_partition":
            return int(frame.f_locals["nonce"])
    raise AssertionError("not called from a worker")


def frame(kind: FrameKind, number: int, first: bytes = b"", second: bytes = b"") -> bytes:
    return FRAME_HEADER.pack(kind, PROTOCOL_VERSION, 0, len(first), len(second), number) + first + second


def forged_stream(number: int) -> bytes:
    """A whole answer, with rows that no table has."""
    batch = pa.record_batch([pa.array([-1, -2, -3]), pa.array([0, 0, 0])], PIDS.names)
    message = bytes(batch.serialize())
    cut = 8 + int.from_bytes(message[4:8], "little")
    return (
        frame(FrameKind.SCHEMA, number, bytes(batch.schema.serialize()))
        + frame(FrameKind.BATCH, number, message[:cut], message[cut:])
        + frame(FrameKind.END, number, TOTALS.pack(3, 1))
    )


ERROR = json.dumps(
    {"error": "ProviderError", "exception_type": "KeyError", "message": "forged", "text": "a forged error"}
).encode()


def error_and_a_whole_stream(number: int) -> bytes:
    return frame(FrameKind.ERROR, number, ERROR) + forged_stream(number)


def error_and_half_a_frame(number: int) -> bytes:
    return frame(FrameKind.ERROR, number, ERROR) + forged_stream(number)[:7]


def error_with_a_body(number: int) -> bytes:
    return frame(FrameKind.ERROR, number, ERROR, b"more than an error has")


def error_that_is_none(number: int) -> bytes:
    return frame(FrameKind.ERROR, number, b'{"text": "no error"}')


def end_and_a_whole_stream(number: int) -> bytes:
    return frame(FrameKind.END, number, TOTALS.pack(10, 1)) + forged_stream(number)


def another_stream(number: int) -> bytes:
    return forged_stream(number)


def stream_of_another_request(number: int) -> bytes:
    return forged_stream(number ^ 1)


def garbage(_number: int) -> bytes:
    return b"GET / HTTP/1.1\r\n" * 100


def unknown_kind(number: int) -> bytes:
    return FRAME_HEADER.pack(9, PROTOCOL_VERSION, 0, 0, 0, number)


def huge_claim(number: int) -> bytes:
    return FRAME_HEADER.pack(FrameKind.BATCH, PROTOCOL_VERSION, 0, 8, 60 << 30, number)


def poisoned(poison: Callable[[int], bytes], marks: Marks) -> Callable[[int], Iterator[pa.RecordBatch]]:
    """A partition of ten rows, behind which its code writes ``poison`` to the connection."""

    def produce(partition: int) -> Iterator[pa.RecordBatch]:
        yield from rows(partition)
        time.sleep(0.2)  # the rows are sent, and this is no part of them
        marks.leave("poisoned", str(os.getpid()))  # first: it may be killed at once
        os.write(connection(), poison(nonce()))
        yield from rows(partition)

    return produce


@pytest.fixture
def marks(tmp_path: Path) -> Marks:
    return Marks(tmp_path)


def pids_of_a_right_query(ctx: hr.SessionContext) -> set[int]:
    """Reads a good table until its tasks have taken every idle worker."""
    pids: set[int] = set()
    for _ in range(4):
        found = ctx.collect("SELECT a, pid FROM good ORDER BY a")
        assert found["a"].to_pylist() == list(range(40))
        pids |= set(found["pid"].to_pylist())
    return pids


def with_good_table(ctx: hr.SessionContext) -> hr.SessionContext:
    ctx.register_table("good", FunctionTable(rows, schema=PIDS, partitions=4))
    return ctx


REFUSED = {
    error_and_a_whole_stream: "forged",
    error_and_half_a_frame: "forged",
    error_with_a_body: "forged",
    error_that_is_none: "an error that cannot be read",
    another_stream: "was sent as 3 rows in 1 batches, 13 in 2 arrived",  # a stream may change how columns are sent
    stream_of_another_request: "a frame of another request",
    garbage: "not a Headrace frame",
    unknown_kind: "not a Headrace frame",
    huge_claim: "not a Headrace frame",
}


@pytest.mark.daily("garbage")
@pytest.mark.parametrize(("poison", "message"), REFUSED.items(), ids=[poison.__name__ for poison in REFUSED])
def test_worker_that_sent_something_else_fails_its_query_and_is_never_used_again(
    ctx: hr.SessionContext, marks: Marks, poison: Callable[[int], bytes], message: str
) -> None:
    with_good_table(ctx)
    ctx.register_table("bad", FunctionTable(poisoned(poison, marks), schema=PIDS))
    with pytest.raises(hr.HeadraceError, match=message):
        ctx.collect("SELECT * FROM bad")
    wait_until(lambda: marks.has("poisoned"))
    assert int(marks.text("poisoned")) not in pids_of_a_right_query(ctx)


def test_worker_with_a_stream_behind_its_end_is_never_used_again(ctx: hr.SessionContext, marks: Marks) -> None:
    """Code that ends its own stream in Headrace's name gets what it asked for; nobody else does."""
    with_good_table(ctx)
    ctx.register_table("bad", FunctionTable(poisoned(end_and_a_whole_stream, marks), schema=PIDS))
    assert ctx.collect("SELECT a FROM bad")["a"].to_pylist() == list(range(10))
    wait_until(lambda: marks.has("poisoned"))
    assert int(marks.text("poisoned")) not in pids_of_a_right_query(ctx)


def test_worker_that_writes_while_it_is_idle_is_never_used_again(ctx: hr.SessionContext, marks: Marks) -> None:
    def later(partition: int) -> Iterator[pa.RecordBatch]:
        sock, number = connection(), nonce()

        def write() -> None:
            wait_until(lambda: marks.has("read"))
            os.write(sock, forged_stream(number))
            marks.leave("poisoned", str(os.getpid()))

        threading.Thread(target=write, daemon=True).start()
        yield from rows(partition)

    with_good_table(ctx)
    ctx.register_table("bad", FunctionTable(later, schema=PIDS))
    assert ctx.collect("SELECT a FROM bad").num_rows == 10
    marks.leave("read")
    wait_until(lambda: marks.has("poisoned"))
    assert int(marks.text("poisoned")) not in pids_of_a_right_query(ctx)


def test_worker_that_was_stopped_early_and_sent_more_is_never_used_again(ctx: hr.SessionContext, marks: Marks) -> None:
    def until_stopped(partition: int) -> Iterator[pa.RecordBatch]:
        sock, number = connection(), nonce()
        try:
            while True:
                yield from rows(partition)
                time.sleep(0.01)  # a slow source
        finally:
            marks.leave("poisoned", str(os.getpid()))
            os.write(sock, end_and_a_whole_stream(number))

    with_good_table(ctx)
    ctx.register_table("bad", FunctionTable(until_stopped, schema=PIDS))
    assert ctx.collect("SELECT a FROM bad WHERE a % 2 = 0 LIMIT 3").num_rows == 3
    wait_until(lambda: marks.has("poisoned"))
    assert int(marks.text("poisoned")) not in pids_of_a_right_query(ctx)


@pytest.fixture
def short_stall(spark: SparkSession) -> Iterator[None]:
    """A frame that stopped is given up after a moment, instead of a minute."""
    with shortened(spark, "PeerChannel", "stallMillis", STALL_MILLIS):
        yield


@pytest.mark.daily("body")
@pytest.mark.parametrize("sent", [3, FRAME_HEADER.size, FRAME_HEADER.size + 5], ids=["header", "metadata", "body"])
def test_worker_that_promises_bytes_that_never_come_fails_its_query_in_time(
    ctx: hr.SessionContext, marks: Marks, short_stall: None, sent: int
) -> None:
    def half_a_frame(partition: int) -> Iterator[pa.RecordBatch]:
        yield from rows(partition)
        time.sleep(0.2)  # the rows are sent, and this is no part of them
        marks.leave("poisoned", str(os.getpid()))
        os.write(connection(), frame(FrameKind.BATCH, nonce(), b"12345", b"body")[:sent])
        while True:
            time.sleep(0.05)  # alive, and silent

    with_good_table(ctx)
    ctx.register_table("bad", FunctionTable(half_a_frame, schema=PIDS))
    with pytest.raises(hr.TransportError, match=f"stopped before its end.*none has come for {STALL_MILLIS} ms"):
        ctx.collect("SELECT * FROM bad")
    assert int(marks.text("poisoned")) not in pids_of_a_right_query(ctx)


def test_generator_slower_than_the_limit_of_a_frame_is_waited_for(ctx: hr.SessionContext, short_stall: None) -> None:
    def slow(partition: int) -> Iterator[pa.RecordBatch]:
        yield from rows(partition)
        time.sleep(2 * STALL_MILLIS / 1000)  # between two frames, which is no stall
        yield from rows(partition)

    ctx.register_table("slow", FunctionTable(slow, schema=PIDS))
    assert ctx.collect("SELECT a FROM slow").num_rows == 20


def test_worker_whose_code_raised_is_used_again(ctx: hr.SessionContext, marks: Marks) -> None:
    def failing(partition: int) -> Iterator[pa.RecordBatch]:
        yield from rows(partition)
        marks.leave("raised", str(os.getpid()))
        raise LookupError("shard 7 is gone")

    with_good_table(ctx)
    ctx.register_table("failing", FunctionTable(failing, schema=PIDS))
    with pytest.raises(hr.ProviderError, match="shard 7 is gone"):
        ctx.collect("SELECT * FROM failing")
    assert int(marks.text("raised")) in pids_of_a_right_query(ctx)
