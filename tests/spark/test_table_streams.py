"""The ready-made tables as streams on Spark: new rows of a database and of a service, new files of a folder."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as hr
from growing import Batches, read_available, running
from ticket_service import SCHEMA, serving_tickets


def test_rows_of_a_database_come_as_they_are_inserted_and_changed(ctx: hr.SessionContext, tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "orders.db", isolation_level=None)
    database.execute("CREATE TABLE orders (id INTEGER, version INTEGER, name TEXT)")
    database.executemany("INSERT INTO orders VALUES (?, ?, ?)", [(n, n, f"order {n}") for n in range(5)])
    table = hr.AdbcTable("sqlite", str(tmp_path / "orders.db"), "orders", cursor="version")
    ctx.register_table("orders", table)
    batches = Batches()
    with running(ctx.stream("orders").where("id <> 1").select("id", "name"), tmp_path / "checkpoint", batches):
        batches.wait_for_rows(4)
        database.execute("UPDATE orders SET name = 'changed', version = 10 WHERE id = 3")
        database.execute("UPDATE orders SET version = 11 WHERE id = 1")
        batches.wait_for_rows(5)
    assert [(row["id"], row["name"]) for row in batches.rows][-1] == (3, "changed")
    assert batches.column("id") == [0, 2, 3, 3, 4]
    database.close()


def test_rows_of_a_service_come_as_they_change(ctx: hr.SessionContext, tmp_path: Path) -> None:
    with serving_tickets() as service:
        for id in range(5):
            service.put(id, at=id)
        since = hr.ApiFilter("since", "updated_at", ">=")
        ctx.register_table("tickets", hr.PagedApi(service.url, SCHEMA, filters=[since], cursor="updated_at"))
        batches = Batches()
        with running(ctx.stream("tickets").select("id", "state"), tmp_path / "checkpoint", batches):
            batches.wait_for_rows(5)
            service.put(2, at=10, state="closed")
            batches.wait_for_rows(6)
    assert batches.rows[-1] == {"id": 2, "state": "closed"}
    assert batches.column("id") == [0, 1, 2, 2, 3, 4]


def test_files_of_a_folder_come_as_they_are_put_there(ctx: hr.SessionContext, tmp_path: Path) -> None:
    landing = tmp_path / "landing"
    landing.mkdir()

    def put(name: str, *numbers: int) -> None:
        (landing / f"year={name}").mkdir()
        pq.write_table(pa.table({"n": pa.array(numbers, pa.int64())}), tmp_path / name)
        (tmp_path / name).rename(landing / f"year={name}" / "a.parquet")

    ctx.register_table("landing", hr.DatasetTable(landing, schema="n BIGINT, year INT"))
    batches = Batches()
    with running(ctx.stream("landing").where("n > 1"), tmp_path / "checkpoint", batches):
        put("2025", 1, 2, 3)
        batches.wait_for_rows(2)
        put("2026", 0, 4)
        batches.wait_for_rows(3)
    assert batches.rows == [{"n": 2, "year": 2025}, {"n": 3, "year": 2025}, {"n": 4, "year": 2026}]
    put("2027", 5)
    later = read_available(ctx.stream("landing").select("year"), tmp_path / "checkpoint")
    assert later.rows[-1] == {"year": 2027}


@pytest.mark.parametrize("kind", ["database", "service", "files"])
def test_table_that_was_not_told_how_it_grows_says_what_to_do(
    ctx: hr.SessionContext, tmp_path: Path, kind: str
) -> None:
    with sqlite3.connect(tmp_path / "orders.db") as database:
        database.execute("CREATE TABLE orders (id INTEGER)")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    tables = {
        "database": lambda: hr.AdbcTable("sqlite", str(tmp_path / "orders.db"), "orders"),
        "service": lambda: hr.PagedApi("http://127.0.0.1:9/none", SCHEMA),
        "files": lambda: hr.DatasetTable([str(tmp_path / "a.parquet")]),
    }
    advice = {
        "database": r"AdbcTable orders has no cursor: .*cursor='updated_at'",
        "service": r"has no cursor: .*cursor='updated_at'",
        "files": "does not grow: make it of a folder or of a glob",
    }
    ctx.register_table("fixed", tables[kind]())
    with pytest.raises(hr.HeadraceError, match=f"'fixed' cannot be read as a stream: .*{advice[kind]}"):
        ctx.stream("fixed")
