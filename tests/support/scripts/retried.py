"""What happens where Spark runs tasks again (argument: the master); prints what was seen as JSON."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time

import psutil
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import functions as F

import headrace as hr

SCHEMA = pa.schema([("a", pa.int64())])


def rows(start: int, count: int = 1) -> pa.RecordBatch:
    return pa.record_batch([pa.array(range(start, start + count), pa.int64())], schema=SCHEMA)


def outcome(function) -> object:
    try:
        return function()
    except Exception as error:
        return [type(error).__name__, str(error)]


def fails_first(at: int):
    """A UDF that fails in a task's first attempt, where it sees ``at``."""

    @F.udf("long")
    def check(value: int) -> int:
        if value == at and TaskContext.get().attemptNumber() == 0:
            raise RuntimeError("the first attempt fails")
        return value

    return check


def push(ctx: hr.SessionContext, name: str, found: dict[str, object]) -> tuple[hr.TableSink, threading.Thread]:
    """Writes one row after the other until the scan ends."""
    sink = ctx.register_streaming_table(name, SCHEMA)

    def produce() -> None:
        number = 0
        try:
            while True:
                sink.write(rows(number))
                number += 1
        except hr.StreamError as error:
            found["producer"] = type(error).__name__

    thread = threading.Thread(target=produce, daemon=True)
    thread.start()
    return sink, thread


def on_one_machine(ctx: hr.SessionContext, found: dict[str, object]) -> None:
    for name in ("native", "stream"):
        _, thread = push(ctx, name, found)
        frame = ctx.sql(f"SELECT if(a = 5000, raise_error('the first attempt fails'), a) FROM {name}")
        found[name] = outcome(
            lambda frame=frame, name=name: ctx.collect(frame) if name == "stream" else frame.collect()
        )
        thread.join(20)

    numbers = ctx.spark.range(0, 200_000, numPartitions=1)
    check = fails_first(190_000)

    def consume_at_once() -> int:
        with ctx.execute_stream(numbers.select(check("id"))) as stream:
            next(stream)  # the task fails later: its last rows are still in Python
            return 1 + sum(1 for _ in stream)

    found["handed out"] = outcome(consume_at_once)
    found["collected"] = outcome(lambda: ctx.collect(numbers.select(check("id"))).num_rows)
    found["limited"] = outcome(lambda: ctx.collect(numbers.select(check("id")).limit(195_000)).num_rows)
    # The second of two partitions fails and is run again while the first holds it up.
    sink = ctx.register_streaming_table("t", SCHEMA)
    both = ctx.table("t").union(ctx.spark.range(0, 1000, numPartitions=1).select(fails_first(900)("id")))

    def consume_after_the_retry() -> int:
        with ctx.execute_stream(both) as stream:
            sink.write(rows(1))
            count = next(stream).num_rows
            while stream._query.inbox.progress()[0] == 0:  # the second partition is there, whole
                threading.Event().wait(0.05)
            sink.close()
            return count + sum(batch.num_rows for batch in stream)

    found["not handed out"] = outcome(consume_after_the_retry)


class Attempts(hr.ExecutionPlan):
    """Partitions of one row: the number of the attempt. ``trouble(attempt)`` comes first, in the worker."""

    schema = SCHEMA

    def __init__(self, partitions: int, trouble) -> None:
        self.partitioning = hr.UnknownPartitioning(partitions)
        self.trouble = trouble

    def execute(self, partition: int):
        attempt = TaskContext.get().attemptNumber()
        self.trouble(attempt)
        yield rows(attempt)


class AttemptsTable(hr.TableProvider):
    def __init__(self, partitions: int, trouble) -> None:
        self.plan = Attempts(partitions, trouble)

    def schema(self) -> pa.Schema:
        return SCHEMA

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        return self.plan


def leave_garbage(_attempt: int) -> None:
    """What takes its time to go, between this task and the worker's next one."""

    class Ring:
        def __init__(self) -> None:
            self.own = self

        def __del__(self) -> None:
            time.sleep(0.05)

    Ring()
    time.sleep(0.05)


def die_at_first(attempt: int) -> None:
    """Its connection stays open for a while: another process holds it."""
    if attempt == 0 and os.fork() != 0:
        os.kill(os.getpid(), signal.SIGKILL)
    elif attempt == 0:
        time.sleep(20)
        os._exit(0)


def in_workers(ctx: hr.SessionContext, found: dict[str, object]) -> None:
    for name, trouble, partitions in (("garbage", leave_garbage, 60), ("killed", die_at_first, 1)):
        ctx.register_table(name, AttemptsTable(partitions, trouble))
        found[f"workers: {name}"] = outcome(lambda name=name: ctx.collect(f"SELECT a FROM {name}")["a"].to_pylist())


def is_executor(process: psutil.Process) -> bool:
    try:
        return process.name() == "java" and any("CoarseGrainedExecutorBackend" in part for part in process.cmdline())
    except psutil.Error:
        return False


def on_a_cluster(ctx: hr.SessionContext, found: dict[str, object]) -> None:
    sink, thread = push(ctx, "t", found)
    query = threading.Thread(
        target=lambda: found.update(
            {"executor killed": outcome(lambda: ctx.collect("SELECT sum(a) FROM t").to_pylist())}
        )
    )
    query.start()
    while sink.stats.rows_delivered == 0:
        threading.Event().wait(0.05)
    (executor,) = [process for process in psutil.Process().children(recursive=True) if is_executor(process)]
    os.kill(executor.pid, signal.SIGKILL)
    query.join()
    thread.join(20)
    found["afterwards"] = ctx.spark.range(10).count()


def main() -> None:
    master = sys.argv[1]
    found: dict[str, object] = {}
    config = {
        "spark.sql.execution.arrow.maxRecordsPerBatch": 100,
        "spark.executor.extraJavaOptions": os.environ.get("SPARK_SUBMIT_OPTS", ""),
    }
    with hr.SessionContext(master=master, config=config) as ctx:
        (on_a_cluster if "cluster" in master else on_one_machine)(ctx, found)
        in_workers(ctx, found)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
