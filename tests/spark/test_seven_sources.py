"""Seven sources as a new user would try them, each in one line."""

from __future__ import annotations

import csv
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import headrace as hr

ROWS = [{"id": 1, "name": "ada"}, {"id": 2, "name": "bob"}, {"id": 3, "name": "cyd"}]


@pytest.fixture
def answers(ctx: hr.SessionContext) -> Any:
    def ask(data: Any) -> list[dict[str, Any]]:
        return ctx.collect("SELECT id, name FROM {data} WHERE id > {n} ORDER BY id", data=data, n=1).to_pylist()

    return ask


def test_pandas_frame_in_one_line(answers: Any) -> None:
    assert answers(pd.DataFrame(ROWS)) == ROWS[1:]


def test_polars_frame_in_one_line(answers: Any) -> None:
    assert answers(pl.DataFrame(ROWS)) == ROWS[1:]


def test_duckdb_relation_in_one_line(answers: Any) -> None:
    assert answers(duckdb.sql("FROM (VALUES (1, 'ada'), (2, 'bob'), (3, 'cyd')) AS t(id, name)")) == ROWS[1:]


def test_list_of_dicts_in_one_line(answers: Any) -> None:
    assert answers(ROWS) == ROWS[1:]


def generated() -> Iterator[pa.RecordBatch]:
    for row in ROWS:
        yield pa.RecordBatch.from_pylist([row])


def test_generator_in_one_line_of_which_the_refusal_tells(answers: Any) -> None:
    with pytest.raises(hr.RegistrationError, match=r"hr\.SimpleTable\(schema, function\)"):
        answers(generated())
    assert answers(hr.SimpleTable("id BIGINT, name STRING", generated)) == ROWS[1:]


def test_csv_folder_in_one_line(answers: Any, tmp_path: Path) -> None:
    for row in ROWS:
        with open(tmp_path / f"{row['id']}.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, ["id", "name"])
            writer.writeheader()
            writer.writerow(row)
    assert answers(hr.DatasetTable(tmp_path)) == ROWS[1:]
    assert answers(hr.DatasetTable(f"{tmp_path}/*.csv")) == ROWS[1:]


def test_sqlite_table_in_one_line(answers: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "people.db")
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (id INTEGER, name TEXT)")
        connection.executemany("INSERT INTO t VALUES (:id, :name)", ROWS)
    assert answers(hr.AdbcTable("sqlite", path, "t")) == ROWS[1:]
