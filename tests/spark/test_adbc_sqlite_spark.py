"""AdbcTable on SQLite, queried through Spark."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import headrace as hr
from sqlite_table import filled


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "x.db")) as connection:
        yield connection


def test_sqlite_query_through_spark(ctx: hr.SessionContext, database: sqlite3.Connection) -> None:
    ctx.register_table("lite", hr.AdbcTable("sqlite", filled(database, 1000), "t", "id"))
    query = "SELECT count(*) AS n, sum(r) AS r FROM lite WHERE t = 'B' AND r < 100.5"
    assert ctx.collect(query).to_pylist() == [{"n": 200, "r": sum(i / 4 for i in range(3, 402, 2))}]
