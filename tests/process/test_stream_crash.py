"""A program that loads streams is killed between a micro-batch and its commit, and run again: every row, once."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from places import SCRIPTS
from ticket_service import Tickets, serving_tickets

pytestmark = [pytest.mark.timeout(400), pytest.mark.daily]
BEFORE, AFTER = 100, 130


def run(directory: Path, url: str, *batch: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPTS / "loads_killed.py"), str(directory), url, *batch],
        capture_output=True,
        text=True,
        timeout=180,
    )


def fill(directory: Path, service: Tickets, numbers: range) -> None:
    """The same numbers everywhere; twenty to a file."""
    with sqlite3.connect(directory / "orders.db") as database:
        database.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, name TEXT)")
        database.executemany("INSERT INTO orders VALUES (?, ?)", [(n, f"order {n}") for n in numbers])
    (directory / "landing").mkdir(exist_ok=True)
    for start in range(numbers.start, numbers.stop, 20):
        rows = pa.table({"id": pa.array(range(start, min(start + 20, numbers.stop)), pa.int64())})
        hidden = directory / "landing" / f".{start}.parquet"
        pq.write_table(rows, hidden)
        os.utime(hidden, (1_700_000_000 + start, 1_700_000_000 + start))
        hidden.rename(directory / "landing" / f"{start}.parquet")
    for n in numbers:
        service.put(n, at=n)


def loaded(directory: Path, name: str) -> dict[int, list[Any]]:
    """What each micro-batch wrote."""
    rows = ds.dataset(directory / "loaded" / name, format="parquet", partitioning="hive").to_table(["id", "batch"])
    found: dict[int, list[Any]] = {}
    for row in rows.to_pylist():
        found.setdefault(row["batch"], []).append(row["id"])
    return {batch: sorted(ids) for batch, ids in sorted(found.items())}


def test_program_that_was_killed_goes_on_from_its_checkpoints(tmp_path: Path) -> None:
    with serving_tickets() as service:
        fill(tmp_path, service, range(BEFORE))
        killed = run(tmp_path, service.url, "2")
        assert killed.returncode == -signal.SIGKILL, killed.stderr[-4000:]
        by_then = {name: loaded(tmp_path, name) for name in ("service", "database", "folder")}
        assert all(list(found) == [0, 1, 2] for found in by_then.values())
        fill(tmp_path, service, range(BEFORE, AFTER))
        again = run(tmp_path, service.url)
        assert again.returncode == 0, again.stderr[-4000:]
    for name, earlier in by_then.items():
        found = loaded(tmp_path, name)
        assert {batch: found[batch] for batch in earlier} == earlier, name  # the third one was read again
        assert [id for ids in found.values() for id in ids] == list(range(AFTER)), name
        assert len(found) >= 6, name
