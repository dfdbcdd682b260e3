"""What everybody gets when Spark's JVM dies while queries run (argument: the signal's name); prints it as JSON."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import threading
import time

import psutil
import pyarrow as pa
from pyspark import SparkContext

import headrace as hr

SCHEMA = pa.schema([("a", pa.int64())])


def rows(count: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(range(count), pa.int64())], schema=SCHEMA)


class Witness(threading.Thread):
    """Runs a function until it raises, and knows what and when."""

    def __init__(self, name: str, function) -> None:
        super().__init__(name=name, daemon=True)
        self._function = function
        self.error: BaseException | None = None
        self.ended_at = 0.0
        self.start()

    def run(self) -> None:
        try:
            self._function()
        except BaseException as error:
            self.error = error
        self.ended_at = time.monotonic()

    def seen(self, since: float) -> list[object]:
        self.join(max(0.0, since + 60 - time.monotonic()))
        if self.is_alive():
            return ["hangs", "", 60]
        return [type(self.error).__name__, str(self.error), self.ended_at - since]


def outcome(function) -> list[str]:
    try:
        return ["no error", str(function())]
    except Exception as error:
        return [type(error).__name__, str(error)]


def forever(sink: hr.TableSink) -> None:
    while True:
        sink.write(rows(10))


def main() -> None:
    found: dict[str, object] = {}
    ctx = hr.SessionContext(master="local[4]")
    jvm = next(child for child in psutil.Process().children(recursive=True) if child.name() == "java")

    pulled = threading.Event()

    def endless():
        while True:
            yield rows(10)
            pulled.set()
            time.sleep(0.01)  # a slow source

    ctx.register_table("pull", hr.SimpleTable(SCHEMA, endless, placement=hr.Placement.DRIVER))
    read = ctx.register_streaming_table("read", SCHEMA, 2)
    unread = ctx.register_streaming_table("unread", SCHEMA, 2)
    stream = ctx.execute_stream("SELECT a FROM read")
    next_rows = threading.Event()

    def consume() -> None:
        for _ in stream:
            next_rows.set()

    witnesses = [
        Witness("sink that is read", lambda: forever(read)),
        Witness("sink that is not read", lambda: forever(unread)),
        Witness("stream", consume),
        Witness("collect", lambda: ctx.collect("SELECT sum(a) FROM pull")),
    ]
    assert next_rows.wait(60)
    assert pulled.wait(60)
    while unread.stats.blocked_s == 0:
        time.sleep(0.01)
    killed_at = time.monotonic()
    os.kill(jvm.pid, getattr(signal, sys.argv[1]))
    for witness in witnesses:
        found[witness.name] = witness.seen(killed_at)
    psutil.wait_procs([jvm], timeout=60)  # one that was asked to end answers a little longer
    found["sql"] = outcome(lambda: ctx.sql("SELECT 1"))
    found["register"] = outcome(lambda: ctx.register_table("new", hr.MemTable(rows(1))))
    deadline = time.monotonic() + 10
    while (named := outcome(ctx.table_names))[0] == "no error" and time.monotonic() < deadline:
        time.sleep(0.01)  # it asks no JVM: this process has to have noticed by itself, on another thread
    found["names"] = named
    started = time.monotonic()
    found["close"] = [*outcome(ctx.close), time.monotonic() - started]
    found["directories"] = [name for name in os.listdir(tempfile.gettempdir()) if name.startswith("headrace-")]
    found["active"] = SparkContext._active_spark_context is not None
    with hr.SessionContext(master="local[1]") as again:
        found["again"] = again.collect("SELECT 1 AS one").to_pylist()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
