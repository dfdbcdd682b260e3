"""A SQLite table of many types, for the tests of AdbcTable."""

from __future__ import annotations

import sqlite3

COLUMNS = "id INTEGER PRIMARY KEY, r REAL, t TEXT COLLATE NOCASE, y BLOB, day DATE, flag BOOLEAN, n NUMERIC, free"


def path_of(database: sqlite3.Connection) -> str:
    return str(database.execute("PRAGMA database_list").fetchone()[2])


def filled(database: sqlite3.Connection, rows: int = 12, nulls: int = 3) -> str:
    """A table ``t`` whose first rows are all null."""
    database.execute(f"CREATE TABLE t ({COLUMNS})")
    values = [(i, *[None] * 7) for i in range(nulls)]
    values += [
        (i, i / 4, "aB"[i % 2], bytes([i % 256]), "2024-01-01", i % 2, i if i % 2 else i / 8, f"f{i}")
        for i in range(nulls, rows)
    ]
    database.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)
    database.commit()
    return path_of(database)
