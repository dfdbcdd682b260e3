"""Writers that are killed again and again, and what must be there afterwards; for the tests of exactly-once writes."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

from places import SUPPORT
from postgres import Postgres
from scripts.epochs import all_rows, table_of
from writing import committed, read_rows


def check_killed(specification: dict[str, Any], kills: int, seed: int) -> None:
    """Whatever the processes were doing when they were killed, all rows are there, once, and nothing is left."""
    script = [sys.executable, str(SUPPORT / "scripts" / "epochs.py")]
    done = subprocess.run(
        [*script, json.dumps(specification), str(kills), str(seed)], stdout=subprocess.PIPE, text=True, timeout=3000
    )
    assert done.returncode == 0, f"seed {seed}"
    epochs = int(done.stdout)
    check_written(specification, epochs, f"seed {seed}, {epochs} epochs")


def check_written(specification: dict[str, Any], epochs: int, what: str) -> None:
    """Each row of the epochs is there once, and the next write leaves nothing but rows."""
    table = table_of(specification)
    found = sorted(read_rows(table).to_pylist(), key=lambda row: (row["epoch"], row["number"]))
    assert found == all_rows(epochs), what
    committed(table, read_rows(table).slice(0, 0))  # the next write removes what the killed ones left


def check_killed_folder(path: Path, kills: int, seed: int) -> None:
    check_killed({"folder": str(path / "t")}, kills, seed)
    check_folder(path / "t")


def check_folder(folder: Path) -> None:
    """It has no file but those of its table, and what says so."""
    listed = {part.whole.path for part in table_of({"folder": str(folder)})._parts}  # type: ignore[union-attr]
    left = {str(file) for file in folder.rglob("*") if file.is_file() and file.name not in ("record.json", "lock")}
    assert left == listed


def check_killed_postgres(postgres: Postgres, kills: int, seed: int, *, staged: bool) -> None:
    name = f"killed_{seed}_{int(staged)}"
    postgres.run(f"CREATE TABLE {name} (epoch bigint, number bigint, text text)")
    check_killed({"driver": "postgresql", "uri": postgres.uri, "table": name, "staged": staged}, kills, seed)
    check_no_staging(postgres)


def check_no_staging(postgres: Postgres) -> None:
    assert postgres.rows("SELECT tablename FROM pg_tables WHERE tablename LIKE 'headrace_stage%'") == []


def check_killed_sqlite(path: Path, kills: int, seed: int) -> None:
    with sqlite3.connect(path / "file.db") as connection:
        connection.execute("CREATE TABLE t (epoch INTEGER, number INTEGER, text TEXT)")
    connection.close()
    check_killed({"driver": "sqlite", "uri": str(path / "file.db"), "table": "t"}, kills, seed)
