"""A worker whose process ended is a named error within seconds; a living one may be silent for as long as it likes."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import headrace as hr
from java_limits import shortened
from producing import FunctionTable, Marks, numbers, ten_rows, wait_until
from worker_programs import Ring, hold_the_interpreter

pytestmark = pytest.mark.core

LONG = 600.0  # seconds: longer than any test may take
DIED = "the Python worker died while it produced partition 0 of table 't'"


@pytest.fixture
def marks(tmp_path: Path) -> Iterator[Marks]:
    marks = Marks(tmp_path)
    yield marks
    if marks.has("holder"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(marks.text("holder")), signal.SIGKILL)


def with_a_holder(marks: Marks, batches: int, *, mid_frame: bool = False) -> Callable[[int], Iterator[pa.RecordBatch]]:
    """After some batches it waits to be killed. A process that it forked keeps its connection open."""

    def produce(_partition: int) -> Iterator[pa.RecordBatch]:
        holder = os.fork()
        if holder == 0:
            time.sleep(LONG)
            os._exit(0)
        marks.leave("holder", str(holder))
        for _ in range(batches):
            yield numbers(10)
        if mid_frame:
            time.sleep(0.2)  # the batches are sent, and this is no part of them
            write_half_a_header()
        marks.leave("worker", str(os.getpid()))
        time.sleep(LONG)

    return produce


def write_half_a_header() -> None:
    for entry in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/self/fd/{entry}").startswith("socket:"):
                os.write(int(entry), b"\x02")
                return


@pytest.mark.parametrize(
    ("batches", "mid_frame"),
    [(0, False), (3, False), (3, True)],
    ids=["first", "between", "inside"],
)
def test_worker_killed_while_somebody_keeps_its_connection_open_fails_its_query_by_name(
    ctx: hr.SessionContext, marks: Marks, batches: int, mid_frame: bool
) -> None:
    ctx.register_table("t", FunctionTable(with_a_holder(marks, batches, mid_frame=mid_frame)))
    killed: list[float] = []

    def kill() -> None:
        wait_until(lambda: marks.has("worker"))
        time.sleep(0.2)  # what it sent has come
        os.kill(int(marks.text("worker")), signal.SIGKILL)
        killed.append(time.monotonic())

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(hr.TransportError, match=DIED):
        ctx.collect("SELECT a FROM t")
    killer.join()
    assert time.monotonic() - killed[0] < 20  # a frame that stalls is given up after 60
    assert os.kill(int(marks.text("holder")), 0) is None  # its connection was open all the time


def test_worker_that_is_silent_and_holds_the_interpreter_is_waited_for(
    ctx: hr.SessionContext, spark: SparkSession
) -> None:
    """Before its first frame and between two, for longer than any limit."""

    def silent(_partition: int) -> Iterator[pa.RecordBatch]:
        hold_the_interpreter(3)
        yield numbers(10)
        hold_the_interpreter(3)
        yield numbers(10)

    ctx.register_table("t", FunctionTable(silent))
    with shortened(spark, "PeerChannel", "stallMillis", 500), shortened(spark, "PeerChannel", "lookMillis", 50):
        assert ctx.collect("SELECT a FROM t").num_rows == 20


def test_worker_asked_while_it_frees_what_the_last_task_left_answers(ctx: hr.SessionContext) -> None:
    """Each task leaves garbage that takes its time to go, so the next request comes while the main thread is busy."""

    def leaves_garbage(partition: int) -> Iterator[pa.RecordBatch]:
        Ring(0.05)
        time.sleep(0.05)
        yield from ten_rows(partition)

    ctx.register_table("t", FunctionTable(leaves_garbage, partitions=60))
    assert sorted(ctx.collect("SELECT a FROM t")["a"].to_pylist()) == list(range(600))


def test_worker_that_leaves_after_its_last_frame_disturbs_no_later_query(ctx: hr.SessionContext) -> None:
    """It goes back to Spark's pool, and is dead when the next task would take it."""

    def dies_later(partition: int) -> Iterator[pa.RecordBatch]:
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGKILL)).start()
        yield from ten_rows(partition)

    ctx.register_table("dying", FunctionTable(dies_later, partitions=2))
    ctx.register_table("t", FunctionTable(ten_rows, partitions=2))
    for _ in range(5):
        assert ctx.collect("SELECT a FROM dying").num_rows == 20
        time.sleep(0.2)  # they die
        assert ctx.collect("SELECT a FROM t").num_rows == 20
