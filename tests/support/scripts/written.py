"""Writes whose tasks run again, and whose executors die (argument: the master); prints findings as JSON."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import psutil

import headrace as hr
from write_faults import Fault
from written_files import FileTable

ROWS, TASKS = 30_000, 3
INSERT = f"INSERT INTO t SELECT id, 'a' FROM range(0, {ROWS}, 1, {TASKS})"


def found_by(ctx: hr.SessionContext, table: FileTable, statement: str = INSERT) -> dict[str, object]:
    """How a statement ended, and what readers see then."""
    ctx.register_table("t", table, replace=True)
    try:
        ctx.collect(statement)
        ending = "whole"
    except hr.HeadraceError as error:
        ending = f"{type(error).__name__}: {error}"
    ids = [row["id"] for row in table.rows()]
    return {
        "ending": ending,
        "rows": len(ids),
        "different": len(set(ids)),
        "writes": len(table.calls("write")),
        "attempts": len({call[2] for call in table.calls("write")}),
        "commits": len(table.calls("commit")),
        "aborts": table.calls("abort"),
        "left": len(ctx._attached.planner.writes),
    }


def table_of(fault: Fault, placement: hr.Placement) -> FileTable:
    return FileTable(Path(tempfile.mkdtemp()), placement=placement, fault=fault)


def again(ctx: hr.SessionContext, found: dict[str, object]) -> None:
    """Each fault in the first attempt, and in every one."""
    for placement in hr.Placement:
        for place in ("write", "batch", "end", "commit"):
            for name, once in (("once", Path(tempfile.mkdtemp(), "once")), ("always", None)):
                table = table_of(Fault(place, partition=1, once=once), placement)
                found[f"{placement.name} {place} {name}"] = found_by(ctx, table)
    once = Path(tempfile.mkdtemp(), "once")
    table = table_of(Fault("batch", "die", partition=1, once=once), hr.Placement.EXECUTORS)
    found["EXECUTORS dies once"] = found_by(ctx, table)
    table = table_of(Fault("batch", "die", partition=1), hr.Placement.EXECUTORS)
    found["EXECUTORS dies always"] = found_by(ctx, table)


def is_executor(process: psutil.Process) -> bool:
    try:
        return process.name() == "java" and any("CoarseGrainedExecutorBackend" in part for part in process.cmdline())
    except psutil.Error:
        return False


def kill_executors(table: FileTable, partition: int) -> None:
    """As soon as a task has taken all rows of the partition."""
    while partition not in [call[1] for call in table.calls("written")]:
        time.sleep(0.02)
    for executor in filter(is_executor, psutil.Process().children(recursive=True)):
        os.kill(executor.pid, signal.SIGKILL)


def on_a_cluster(ctx: hr.SessionContext, found: dict[str, object]) -> None:
    for placement in hr.Placement:
        stuck = Fault("end", "sleep", partition=2, once=Path(tempfile.mkdtemp(), "once"))
        table = table_of(stuck, placement)
        killer = threading.Thread(target=kill_executors, args=(table, 2))
        killer.start()
        found[f"{placement.name} executor killed"] = found_by(ctx, table)
        killer.join()


def main() -> None:
    master = sys.argv[1]
    found: dict[str, object] = {}
    config = {"spark.executor.extraJavaOptions": os.environ.get("SPARK_SUBMIT_OPTS", "")}
    with hr.SessionContext(master=master, config=config) as ctx:
        (on_a_cluster if "cluster" in master else again)(ctx, found)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
