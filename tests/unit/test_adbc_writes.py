"""AdbcTable as the target of writes to databases in files: SQLite and DuckDB."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import adbc_driver_sqlite.dbapi
import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import headrace as hr
from headrace.tables.adbc.target import _LOOKS_LIKE_A_NUMBER
from headrace.testing import check_writer
from headrace.testing.written_rows import written_rows
from writing import committed, read_rows, request_for, written


class File:
    def __init__(self, driver: str, path: Path) -> None:
        self.driver, self.path = driver, str(path / "file.db")
        self.run("CREATE TABLE t (id BIGINT PRIMARY KEY, name TEXT, score DOUBLE)")
        self.run("INSERT INTO t VALUES (1, 'a', 1.5), (2, NULL, NULL)")

    def table(self, **options: Any) -> hr.AdbcTable:
        return hr.AdbcTable(self.driver, self.path, "t", **options)

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        connection: Any = sqlite3.connect(self.path) if self.driver == "sqlite" else duckdb.connect(self.path)
        try:
            found = connection.execute(sql).fetchall()
            connection.commit()
            return list(found)
        finally:
            connection.close()


@pytest.fixture(params=["sqlite", "duckdb"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> File:
    return File(request.param, tmp_path)


def rows(*ids: int, name: str | None = "new") -> pa.Table:
    return pa.table({"id": ids, "name": [name] * len(ids), "score": [float(i) for i in ids]})


def ids(database: File) -> list[int]:
    return [row[0] for row in database.run("SELECT id FROM t ORDER BY id")]


def test_writer_keeps_all_promises(database: File) -> None:
    database.run("CREATE TABLE free (n BIGINT, s TEXT, f DOUBLE, b BLOB)")
    table = hr.AdbcTable(database.driver, database.path, "free")
    made_up = written_rows(table.schema(), 40, Random(1))
    without_nan = made_up.filter(pc.invert(pc.fill_null(pc.is_nan(made_up["f"]), False)))  # which SQLite has not
    check_writer(table, rows=without_nan).raise_if_failed()


def test_rows_of_all_tasks_are_appended_in_one_transaction(database: File) -> None:
    table = database.table()
    plan = table.insert(request_for(table))
    messages = [written(plan, rows(3)), written(plan, rows(4, 5), 1)]
    assert ids(database) == [1, 2]
    plan.commit(messages)
    plan.commit(messages)
    assert ids(database) == [1, 2, 3, 4, 5]
    assert sorted(read_rows(table)["id"].to_pylist()) == [1, 2, 3, 4, 5]


def test_row_that_the_database_refuses_leaves_all_out(database: File) -> None:
    table = database.table()
    plan = table.insert(request_for(table, mode=hr.WriteMode.TRUNCATE))
    messages = [written(plan, rows(7)), written(plan, rows(7), 1)]
    with pytest.raises(Exception, match=r"(?i)constraint|duplicate"):
        plan.commit(messages)
    plan.abort(messages)
    assert ids(database) == [1, 2]


def test_upsert_replaces_rows_of_the_same_key(database: File) -> None:
    committed(database.table(upsert_on=["id"]), rows(2, 3), rows(4))
    assert database.run("SELECT id, name FROM t ORDER BY id") == [(1, "a"), (2, "new"), (3, "new"), (4, "new")]


def test_key_that_is_no_column_is_named(database: File) -> None:
    with pytest.raises(hr.RegistrationError, match=r"t has no column 'key' \(id, name, score\)"):
        database.table(upsert_on=["key"]).schema()


def test_overwrite_and_delete_take_filters_that_the_database_decides(database: File) -> None:
    table = database.table()
    schema = table.schema()
    low = hr.Comparison("<", hr.Column("id"), hr.Literal(2, schema.field("id").type))
    assert table.can_overwrite([low])
    committed(table, rows(9), mode=hr.WriteMode.OVERWRITE, filters=(low,))
    assert ids(database) == [2, 9]
    nameless = hr.IsNull(hr.Column("name"))
    assert table.can_delete([nameless])
    table.delete((nameless,))
    assert ids(database) == [9]
    table.delete(())
    assert ids(database) == []
    unknown = hr.Comparison("=", hr.Call("SOUNDEX", (hr.Column("name"),)), hr.Literal("A000", pa.string()))
    assert not table.can_delete([unknown])


def test_epochs_are_noted_beside_the_table(database: File) -> None:
    for epoch in (0, 1, 1, 2, 0):
        committed(database.table(), rows(10 + epoch), query_id="q'1", epoch=epoch)
    assert ids(database) == [1, 2, 10, 11, 12]
    assert database.run("SELECT table_name, query_id, epoch FROM headrace_epochs") == [("t", "q'1", 2)]


def test_cut_stream_is_told_as_it_came(database: File) -> None:
    def cut() -> Iterator[pa.RecordBatch]:
        yield from rows(3).to_batches()
        raise ConnectionError("cut")

    table = database.table()
    plan = table.insert(request_for(table))
    with pytest.raises(ConnectionError, match="cut"):
        plan.write(hr.WriteTask(0, 1), cut())
    plan.abort([None])
    assert ids(database) == [1, 2]


def test_nan_is_not_stored_as_null_by_sqlite(tmp_path: Path) -> None:
    table = File("sqlite", tmp_path).table()
    with pytest.raises(hr.WriteError, match="SQLite has no NaN, and column 'score' has one"):
        committed(table, pa.table({"id": [3], "name": ["x"], "score": [math.nan]}))
    assert read_rows(table).num_rows == 2


NUMERIC = ["STRING", "DATE", "NUMERIC", "BOOLEAN", "DECIMAL(8, 2)", "ANY"]
NUMBERS = ["0123", "1", "1e5", " 12 ", "+1", "1.0", ".5", "-0", "1e999", "9" * 40, "\v7", "1\x002", "7 \x00a\n"]
TEXTS = ["abc", "2024-01-01", "", " ", "0x10", "1_000", "nan", "Infinity", "e5", "1 2", ".", "\u0663", None]


@pytest.mark.parametrize("upsert_on", [[], ["id"]], ids=["append", "upsert"])
@pytest.mark.parametrize("declared", NUMERIC)
def test_sqlite_text_that_would_become_a_number_is_refused(tmp_path: Path, declared: str, upsert_on: list[str]) -> None:
    database = File("sqlite", tmp_path)
    database.run(f"CREATE TABLE odd (id INTEGER PRIMARY KEY, s {declared})")
    table = hr.AdbcTable("sqlite", database.path, "odd", upsert_on=upsert_on)
    for number in NUMBERS:
        bad = pa.table({"id": [1, 2, 3], "s": ["x", None, number]})
        with pytest.raises(hr.WriteError, match=r"column 's' of \"odd\" .* store as a number"):
            committed(table, bad)
    assert database.run("SELECT * FROM odd") == []
    committed(table, pa.table({"id": range(len(TEXTS)), "s": TEXTS}))
    assert read_rows(table)["s"].to_pylist() == TEXTS


@pytest.mark.parametrize("declared", ["TEXT", "VARCHAR(3)", "CLOB", "", "ANY STRICT"])
def test_sqlite_text_comes_back_from_columns_without_numeric_affinity(tmp_path: Path, declared: str) -> None:
    database = File("sqlite", tmp_path)
    type_, _, strict = declared.partition(" ")
    database.run(f"CREATE TABLE plain (id INTEGER PRIMARY KEY, s {type_}) {strict}")
    table = hr.AdbcTable("sqlite", database.path, "plain")
    committed(table, pa.table({"id": range(len(NUMBERS)), "s": NUMBERS}))
    assert read_rows(table)["s"].to_pylist() == NUMBERS


@pytest.mark.parametrize(("declared", "value"), [("NUMERIC", 3.0), ("NUMERIC", 2**63 - 1), ("BOOLEAN", 1)])
def test_sqlite_numbers_come_back_from_columns_of_numbers(tmp_path: Path, declared: str, value: float) -> None:
    database = File("sqlite", tmp_path)
    database.run(f"CREATE TABLE numbers (n {declared})")
    database.run(f"INSERT INTO numbers VALUES ({1.5 if isinstance(value, float) else 1})")
    table = hr.AdbcTable("sqlite", database.path, "numbers")
    committed(table, pa.table({"n": [value]}))
    (found,) = read_rows(table)["n"].to_pylist()[1:]
    assert (found, type(found)) == (value, type(value))


def test_sqlite_makes_a_number_of_no_text_that_is_let_through() -> None:
    rng = Random(5)
    texts = ["".join(rng.choices(" \t\v\f+-..0059eE\0x_\u0663", k=rng.randint(0, 6))) for _ in range(20_000)]
    with adbc_driver_sqlite.dbapi.connect() as connection, connection.cursor() as cursor:  # Python's SQLite is another
        cursor.execute("CREATE TABLE t (x NUMERIC)")
        cursor.adbc_ingest("t", pa.table({"x": texts}), mode="append")
        cursor.execute("SELECT typeof(x) FROM t ORDER BY rowid")
        kinds = [kind for (kind,) in cursor.fetchall()]
    refused = pc.match_substring_regex(pa.array(texts), _LOOKS_LIKE_A_NUMBER).to_pylist()
    assert [text for text, kind, out in zip(texts, kinds, refused, strict=True) if kind != "text" and not out] == []
    assert sum(refused) < 1.3 * sum(kind != "text" for kind in kinds)


def test_duckdb_columns_of_other_types_are_cast(tmp_path: Path) -> None:
    database = File("duckdb", tmp_path)
    database.run("CREATE TABLE other (u UUID, n DECIMAL(8, 2), l INTEGER[], d DATE)")
    table = hr.AdbcTable("duckdb", database.path, "other")
    one = {"u": "00000000-0000-0000-0000-000000000001", "n": 1, "l": [1, None], "d": None}
    committed(table, pa.Table.from_pylist([one], table.schema()))
    assert len(database.run("SELECT * FROM other WHERE n = 1 AND len(l) = 2 AND d IS NULL")) == 1


def test_driver_whose_sql_is_not_known_cannot_write() -> None:
    table = hr.AdbcTable("flightsql", "grpc://localhost:1", "t")
    table._described = hr.tables.adbc.relation.Description(pa.schema([]), {})  # type: ignore[attr-defined]
    with pytest.raises(hr.WriteError, match="through the drivers postgresql, sqlite and duckdb, not 'flightsql'"):
        table.insert(hr.WriteRequest(pa.schema([])))
    assert not table.can_delete([])


def test_catalog_makes_tables_and_drops_them(database: File) -> None:
    catalog = hr.AdbcCatalog(database.driver, database.path)
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False), ("s", pa.string()), ("f", pa.float64())])
    made = catalog.create_table("main", "made here", columns)
    committed(made, pa.Table.from_pylist([{"id": 1, "s": "x", "f": 2.5}], made.schema()))
    assert database.run('SELECT * FROM "made here"') == [(1, "x", 2.5)]
    with pytest.raises(Exception, match=r"(?i)null"):
        database.run('INSERT INTO "made here" VALUES (NULL, NULL, NULL)')
    assert catalog.drop_table("main", "made here")
    assert not catalog.drop_table("main", "made here")


def test_catalog_refuses_columns_that_would_be_of_another_type(tmp_path: Path) -> None:
    catalog = hr.AdbcCatalog("sqlite", File("sqlite", tmp_path).path)
    with pytest.raises(hr.WriteError, match="sqlite has no type for columns of type date32"):
        catalog.create_table("main", "d", pa.schema([("d", pa.date32())]))
    assert "d" not in catalog.table_names("main")
