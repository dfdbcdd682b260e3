"""Executors in JVMs of their own, where Headrace is installed nowhere; prints what was seen as JSON.

Usage: cluster.py DIRECTORY_THAT_HOLDS_THE_PACKAGE
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, sys.argv[1])

import pyarrow as pa
import pyspark
from beside import SCHEMA, BesidePlan, BesideTable, FailingPlan

import headrace as hr

PLACES = pa.schema([("package", pa.string()), ("pickler", pa.string()), ("pid", pa.int64()), ("jvm", pa.int64())])


def parent(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("PPid:")))


class WherePlan(hr.ExecutionPlan):
    """Tells where it runs: worker, its daemon's parent, and whose copy of the packages."""

    schema = PLACES

    def __init__(self, placement: hr.Placement) -> None:
        self.placement = placement
        self.partitioning = hr.UnknownPartitioning(4)

    def execute(self, partition):
        import cloudpickle

        import headrace

        time.sleep(0.3)  # long enough that both executors get a task
        row = [headrace.__file__, cloudpickle.__file__, os.getpid(), parent(parent(os.getpid()))]
        yield pa.record_batch([pa.array([value]) for value in row], schema=PLACES)


class EndlessPlan(hr.ExecutionPlan):
    """Leaves a mark when it is stopped."""

    schema = SCHEMA

    def __init__(self, placement: hr.Placement, marks: str) -> None:
        self.placement = placement
        self.marks = marks

    def execute(self, partition):
        run = f"{time.monotonic_ns()}"
        Path(self.marks, f"started-{run}").touch()
        try:
            number = 0
            while True:
                yield pa.record_batch([pa.array([number])], schema=SCHEMA)
                number += 1
                time.sleep(0.02)  # a slow source
        finally:
            Path(self.marks, f"closed-{run}").touch()


class KilledPlan(BesidePlan):
    def execute(self, partition):
        yield from super().execute(partition)
        os.kill(os.getpid(), signal.SIGKILL)


class Table(BesideTable):
    def schema(self):
        return self.plan.schema


def values(ctx: hr.SessionContext, table: str) -> list[int]:
    return sorted(ctx.collect(f"SELECT a FROM {table}").to_pydict()["a"])


def error_of(ctx: hr.SessionContext, table: str) -> list[str]:
    try:
        ctx.collect(f"SELECT sum(a) FROM {table}")
    except hr.HeadraceError as error:
        return [type(error).__name__, type(error.__cause__).__name__, str(error)]
    return []


def wait_for(condition, timeout_s: float = 20.0) -> float | None:
    start = time.monotonic()
    while time.monotonic() - start < timeout_s:
        if condition():
            return time.monotonic() - start
        time.sleep(0.01)
    return None


def stopped_after_limit(ctx: hr.SessionContext, placement: hr.Placement) -> float | None:
    marks = tempfile.mkdtemp()
    ctx.register_table("endless", Table(EndlessPlan(placement, marks)), replace=True)
    assert ctx.collect("SELECT a FROM endless WHERE a >= 0 LIMIT 3").num_rows == 3
    return wait_for(lambda: list(Path(marks).glob("closed-*")))


def stopped_after_executor_death(ctx: hr.SessionContext) -> float | None:
    """An executor is killed while it reads from the driver: its producer must learn of it."""
    marks = tempfile.mkdtemp()
    ctx.register_table("endless", Table(EndlessPlan(hr.Placement.DRIVER, marks)), replace=True)
    jvms = set(ctx.collect("SELECT jvm FROM where_executors").to_pydict()["jvm"])
    query = ctx.sql("SELECT sum(a) FROM endless")
    context = ctx.spark.sparkContext

    def run() -> None:
        try:
            query.collect()
        except Exception:  # it is cancelled below
            return

    thread = threading.Thread(target=run)
    thread.start()
    wait_for(lambda: list(Path(marks).glob("started-*")))
    for jvm in jvms:  # children of this script's own Spark
        os.kill(jvm, signal.SIGKILL)
    took = wait_for(lambda: list(Path(marks).glob("closed-*")))
    while thread.is_alive():
        context.cancelAllJobs()
        thread.join(0.2)
    return took


def main() -> dict[str, object]:
    seen: dict[str, object] = {}
    config = {
        "spark.executor.memory": "512m",
        "spark.driver.memory": "1g",
        "spark.executor.extraJavaOptions": os.environ.get("SPARK_SUBMIT_OPTS", ""),
    }
    with hr.SessionContext(master="local-cluster[2,1,1024]", config=config) as ctx:
        seen["driver jvm"] = int(ctx.spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())
        seen["driver pid"] = os.getpid()
        for placement in hr.Placement:
            name = f"where_{placement.name}"
            ctx.register_table(name, Table(WherePlan(placement)))
            seen[placement.name] = ctx.collect(f"SELECT * FROM {name}").to_pylist()
        endpoint = ctx._attached.endpoint
        tcp = [listener for listener in endpoint._listeners if listener.family != socket.AF_UNIX]
        seen["hosts"] = [listener.getsockname()[0] for listener in tcp]
        os.rename(endpoint._path, endpoint._path + ".hidden")
        seen["DRIVER over TCP"] = ctx.collect("SELECT * FROM where_DRIVER").to_pylist()
        seen["stopped DRIVER over TCP"] = stopped_after_limit(ctx, hr.Placement.DRIVER)
        os.rename(endpoint._path + ".hidden", endpoint._path)
        for placement in hr.Placement:
            seen[f"stopped {placement.name}"] = stopped_after_limit(ctx, placement)
        ctx.register_table("beside", BesideTable(BesidePlan()))
        seen["beside"] = values(ctx, "beside")
        cell = {"__name__": "__main__"}
        exec(compile("import beside\nclass CellPlan(beside.BesidePlan):\n    pass\n", "<cell>", "exec"), cell)
        ctx.register_table("cell", BesideTable(cell["CellPlan"]()))
        seen["cell"] = values(ctx, "cell")
        ctx.register_table("failing", BesideTable(FailingPlan()))
        seen["failing"] = error_of(ctx, "failing")
        ctx.register_table("killed", BesideTable(KilledPlan()))
        seen["killed"] = error_of(ctx, "killed")
        seen["after"] = values(ctx, "beside")
        seen["executor death"] = stopped_after_executor_death(ctx)
        application = ctx.spark.sparkContext.applicationId
    shutil.rmtree(Path(pyspark.__file__).parent / "work" / application, ignore_errors=True)  # the executors' logs
    return seen


if __name__ == "__main__":
    print("RESULT " + json.dumps(main()), flush=True)
