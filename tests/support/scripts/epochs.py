"""Commits epochs to a table in processes that are killed (SIGKILL) at random moments, each beginning as a query does.

    python epochs.py SPECIFICATION KILLS SEED

``SPECIFICATION`` is JSON: ``{"folder": path}``, or the arguments of AdbcTable. Each epoch has three tasks, of which one
has a rival that is lost. A new process begins with the last epoch that the one before it told of: as a streaming query
does that was killed after its sink had committed, and before it noted that. After the last kill one process goes on for
three epochs, and the number of all epochs is printed.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import sys
import time
import traceback
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet

import headrace as hr

SCHEMA = pa.schema([("epoch", pa.int64()), ("number", pa.int64()), ("text", pa.string())])
TASKS, _ROWS = 3, 40
_LONGEST_S = 600.0


def rows_of(epoch: int, task: int) -> pa.Table:
    numbers = range(task * _ROWS, (task + 1) * _ROWS)
    texts = [f"{epoch}/{number}" for number in numbers]
    return pa.table({"epoch": [epoch] * _ROWS, "number": numbers, "text": texts}, SCHEMA)


def all_rows(epochs: int) -> list[dict[str, Any]]:
    return [row for epoch in range(epochs) for task in range(TASKS) for row in rows_of(epoch, task).to_pylist()]


def table_of(specification: dict[str, Any]) -> hr.DatasetTable | hr.AdbcTable:
    if "folder" in specification:
        return hr.DatasetTable(specification["folder"], schema=SCHEMA)
    return hr.AdbcTable(**specification)


def commit_epochs(specification: dict[str, Any], first: int, end: float, told: int) -> None:
    table = table_of(specification)
    schema = table.schema()
    epoch, attempt = first, 0
    while epoch < end:
        plan = table.insert(hr.WriteRequest(schema, query_id="stream", epoch=epoch))
        messages = []
        for task in (0, 0, 1, 2):
            attempt += 1
            batches = iter(rows_of(epoch, task).to_batches(max_chunksize=16))
            messages.append(plan.write(hr.WriteTask(task, attempt, epoch), batches))
        plan.commit(messages[1:])
        os.write(told, b"%d\n" % epoch)
        epoch += 1


def started(specification: dict[str, Any], first: int, end: float) -> tuple[int, int]:
    """A process of its own, and the pipe through which it tells of what it has committed."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    code = 1
    try:
        commit_epochs(specification, first, end, writing)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def ended(pid: int, pipe: int) -> tuple[int, list[int]]:
    with open(pipe) as lines:
        told = [int(line) for line in lines if line.endswith("\n")]
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), told


def main(specification: str, kills: str, seed: str) -> None:
    what, rng = json.loads(specification), random.Random(int(seed))
    last, pace = 0, 0.2
    for _ in range(int(kills)):
        begun = time.monotonic()
        pid, pipe = started(what, last, float("inf"))
        ready = rng.random() < 0.5 and select.select([pipe], [], [], _LONGEST_S)[0]  # else while it begins
        if ready:
            pace = min(1.0, max(0.02, (time.monotonic() - begun) / 2))
        time.sleep(rng.uniform(0, 2 * pace))
        os.kill(pid, signal.SIGKILL)
        code, told = ended(pid, pipe)
        assert code == -signal.SIGKILL, f"the process ended with {code} by itself"
        last = max([last, *told])
    code, told = ended(*started(what, last, last + 4))
    assert code == 0, f"the last process ended with {code}"
    print(last + 4)


if __name__ == "__main__":
    main(*sys.argv[1:])
