"""What short queries leave behind in Python, in the JVM and between them, for the tests that say: nothing."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any

import psutil
import pyarrow as pa
import pytest

import headrace as hr
from producing import BOTH_PLACEMENTS, FunctionTable, numbers, ten_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

THREADS = 3


@dataclass(frozen=True)
class Held:
    """What is open at one moment."""

    python_threads: int
    python_files: int
    jvm_threads: int
    jvm_files: int
    workers: int
    arrow_bytes: int
    scans: int
    tickets: int
    connections: int


def held(ctx: hr.SessionContext) -> Held:
    jvm: Any = ctx.spark.sparkContext._jvm
    pid = int(jvm.java.lang.ProcessHandle.current().pid())
    planner: Any = ctx._attached.planner
    endpoint: Any = ctx._attached.endpoint
    return Held(
        python_threads=threading.active_count(),
        python_files=len(os.listdir("/proc/self/fd")),
        jvm_threads=len(jvm_threads(jvm)),
        jvm_files=len(os.listdir(f"/proc/{pid}/fd")),
        workers=len(psutil.Process(pid).children(recursive=True)),
        arrow_bytes=int(jvm.org.apache.spark.sql.util.ArrowUtils.rootAllocator().getAllocatedMemory()),
        scans=len(planner.scans),
        tickets=len(endpoint._tickets),
        # Without those on which the JVM asks, and the one by which its end is noticed.
        connections=sum(not connection.answers for connection in list(endpoint._connections.values())) - 1,
    )


def jvm_threads(jvm: Any) -> list[str]:
    """Names of the JVM's threads, without the pools that Spark's block manager fills up to a fixed size."""
    threads = jvm.java.lang.management.ManagementFactory.getThreadMXBean()
    names = [info.getThreadName() for info in threads.getThreadInfo(threads.getAllThreadIds()) if info is not None]
    return [name for name in names if not name.startswith("block-manager")]


def at_rest(ctx: hr.SessionContext) -> Held:
    """What is held when all that can be collected has been."""
    jvm: Any = ctx.spark.sparkContext._jvm
    best = held(ctx)
    for _ in range(10):
        gc.collect()  # caught exceptions hold frames, which hold DataFrames
        jvm.java.lang.System.gc()
        time.sleep(0.1)  # the JVM's cleaner runs on a thread of its own, and there is nothing to await
        now = held(ctx)
        best = Held(*map(min, astuple(best), astuple(now)))
        if now.scans <= 4 and now.connections == 0:
            return best
    return best


def endless(_partition: int) -> Iterator[pa.RecordBatch]:
    while True:
        yield numbers(100)


def failing(_partition: int) -> Iterator[pa.RecordBatch]:
    yield numbers(10)
    raise ValueError("dry")


SQL = (
    "SELECT a FROM ten_{}",
    "SELECT a FROM ten_{}",
    "SELECT a FROM endless_{} WHERE a >= 0 LIMIT 3",
    "SELECT a FROM failing_{}",
)


def one_round(ctx: hr.SessionContext, planned: dict[str, DataFrame], number: int) -> None:
    """One query: each kind in turn, planned anew every fourth time (planning is what costs most)."""
    kind = number // 2 % 4
    sql = SQL[kind].format(BOTH_PLACEMENTS[number % 2].name)
    if number // 8 % 4 == 0 or sql not in planned:
        planned[sql] = ctx.sql(sql)
    frame = planned[sql]
    if kind == 0:
        assert frame.collect()[19].a == 19
    elif kind == 1:
        assert ctx.collect(frame).num_rows == 20
    elif kind == 2:
        assert len(frame.collect()) == 3
    else:
        with pytest.raises(hr.ProviderError, match="dry"):
            ctx.collect(frame)


def run(ctx: hr.SessionContext, queries: int) -> None:
    planned: dict[str, DataFrame] = {}
    with ThreadPoolExecutor(THREADS) as pool:
        for done in [pool.submit(one_round, ctx, planned, number) for number in range(queries)]:
            done.result()


def assert_nothing_left_behind(ctx: hr.SessionContext, queries: int) -> None:
    """Runs ``queries`` short queries of every kind and compares what is held before and after them."""
    for placement in BOTH_PLACEMENTS:
        ctx.register_table(f"ten_{placement.name}", FunctionTable(ten_rows, partitions=2, placement=placement))
        ctx.register_table(f"endless_{placement.name}", FunctionTable(endless, placement=placement))
        ctx.register_table(f"failing_{placement.name}", FunctionTable(failing, placement=placement))
    run(ctx, 48)
    before = at_rest(ctx)
    run(ctx, queries)
    after = at_rest(ctx)
    print(f"\nbefore {before}\nafter  {after}")
    assert after.arrow_bytes == 0
    assert after.connections == 0
    assert after.scans <= before.scans + 10  # what Spark's own caches and last plans still hold
    assert after.tickets <= before.tickets + 10
    assert after.python_threads <= before.python_threads + 3
    assert after.python_files <= before.python_files + 6
    assert after.workers <= before.workers + 2
    assert after.jvm_threads <= before.jvm_threads + 15
    assert after.jvm_files <= before.jvm_files + 20
