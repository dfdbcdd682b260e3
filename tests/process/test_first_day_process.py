"""What a newcomer does to a whole program: Ctrl-C in a query, closing a result early, an error in the log."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

INTERRUPTED = """
import os, signal, threading
import pyarrow as pa
import headrace as hr

schema = pa.schema([("a", pa.int64())])
release = threading.Event()

def rows():
    yield pa.record_batch({"a": [1]})
    if not release.is_set():
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        release.wait(60)
    yield pa.record_batch({"a": [2]})

ctx = hr.SessionContext(master="local[2]")
ctx.register_table("t", hr.SimpleTable(schema, rows, placement=hr.Placement.DRIVER))
for run in ("collect", "stream"):
    release.clear()
    try:
        if run == "collect":
            ctx.collect("SELECT a FROM t")
        else:
            list(ctx.execute_stream("SELECT a FROM t"))
        print(run, "was not interrupted", flush=True)
    except KeyboardInterrupt:
        print(run, "interrupted", flush=True)
    release.set()
    ctx.register_table("t", hr.SimpleTable(schema, rows, placement=hr.Placement.DRIVER), replace=True)
    print(run, ctx.collect("SELECT sum(a) AS n FROM t").to_pylist(), flush=True)
ctx.close()
"""


@pytest.mark.daily
def test_cell_interrupted_in_a_query_can_be_run_again() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=300, env=dict(os.environ)
    )
    runs = ("collect", "stream")
    expected = [line for run in runs for line in (f"{run} interrupted", f"{run} [{{'n': 3}}]")]
    assert done.stdout.splitlines() == expected, done.stderr


PLANNED = """
import os, signal, threading, time
import pyarrow as pa
import headrace as hr

class Slow(hr.SimpleTable):
    def scan(self, request):
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        time.sleep(3)
        return super().scan(request)

def endless():
    while True:
        time.sleep(0.05)
        yield pa.record_batch({"a": [1]})

ctx = hr.SessionContext(master="local[2]")
ctx.register_table("t", Slow(pa.schema([("a", pa.int64())]), endless, placement=hr.Placement.DRIVER))
try:
    ctx.spark.sql("SELECT a FROM t").collect()
except KeyboardInterrupt:
    print("interrupted", flush=True)
time.sleep(5)
deadline = time.monotonic() + 30
status = ctx.spark.sparkContext._jsc.sc().statusTracker()
while any(executor.numRunningTasks() for executor in status.getExecutorInfos()) and time.monotonic() < deadline:
    time.sleep(0.2)
print("running", sum(executor.numRunningTasks() for executor in status.getExecutorInfos()), flush=True)
os._exit(0)
"""


@pytest.mark.daily
def test_query_interrupted_while_it_is_planned_does_not_run_later() -> None:
    done = subprocess.run([sys.executable, "-c", PLANNED], capture_output=True, text=True, timeout=300)
    assert done.stdout.splitlines() == ["interrupted", "running 0"], done.stderr


EARLY = """
import sys
import pyarrow as pa
import headrace as hr

def endless():
    while True:
        yield pa.record_batch({"a": list(range(1000)), "s": ["x" * 50] * 1000})

ctx = hr.SessionContext(master="local[2]")
schema = pa.schema([("a", pa.int64()), ("s", pa.string())])
ctx.register_table("endless", hr.StreamTable(schema, [endless, endless, endless]))
for query in ("SELECT * FROM endless", "SELECT id, repeat('x', 100) AS s FROM range(0, 100000000, 1, 8)"):
    with ctx.execute_stream(query) as stream:
        next(stream)
ctx.close()
print("done")
"""


@pytest.mark.daily
def test_result_closed_early_leaves_no_error_in_the_log() -> None:
    done = subprocess.run(
        [sys.executable, "-c", EARLY], capture_output=True, text=True, timeout=300, env=dict(os.environ)
    )
    assert done.stdout == "done\n"
    assert " ERROR " not in done.stderr, done.stderr
    assert "\tat " not in done.stderr, done.stderr
