"""AdbcTable on SQLite, whose columns hold values of any type, and on DuckDB."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from effort import cases
from headrace.tables.adbc.access import AdbcAccess, driver_name
from headrace.testing import check_provider
from sqlite_table import filled, path_of


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "x.db")) as connection:
        yield connection


def table_of(provider: hr.TableProvider, **request: Any) -> pa.Table:
    schema = provider.schema()
    plan = provider.scan(hr.ScanRequest(schema, tuple(schema.names), **request))
    found: list[pa.RecordBatch] = []
    for partition in range(plan.partitioning.n):
        stream: Any = plan.execute(partition)
        found += stream
        stream.close()
    return pa.Table.from_batches(found, schema)


def test_sqlite_types_come_from_declarations_and_first_values(database: sqlite3.Connection) -> None:
    provider = hr.AdbcTable("sqlite", filled(database), "t")
    number, real, text = pa.int64(), pa.float64(), pa.string()
    types = [number, real, text, pa.binary(), text, number, real, text]
    assert provider.schema() == pa.schema(zip(["id", "r", "t", "y", "day", "flag", "n", "free"], types, strict=True))
    assert table_of(provider).to_pylist()[3] == {
        **{"id": 3, "r": 0.75, "t": "B", "y": b"\x03", "day": "2024-01-01"},
        **{"flag": 1, "n": 3.0, "free": "f3"},
    }


def test_sqlite_types_hold_where_many_first_rows_are_null(database: sqlite3.Connection) -> None:
    """By itself the driver takes such a column for one of integers, and fails at its first text."""
    provider = hr.AdbcTable("sqlite", filled(database, rows=80_010, nulls=80_000), "t")
    found = table_of(provider)
    assert found.num_rows == 80_010
    assert found["t"].null_count == 80_000
    assert found["free"][-1].as_py() == "f80009"


def test_sqlite_column_that_is_gone_is_an_error(database: sqlite3.Connection) -> None:
    """SQLite takes a name in double quotes, of which it knows no column, for text."""
    database.execute('CREATE TABLE "t`" (id INTEGER, "a`b" TEXT)')
    database.execute("INSERT INTO \"t`\" VALUES (1, 'x')")
    database.commit()
    provider = hr.AdbcTable("sqlite", path_of(database), ["t`"])
    assert table_of(provider).to_pylist() == [{"id": 1, "a`b": "x"}]
    schema = provider.schema()
    database.execute('ALTER TABLE "t`" RENAME COLUMN "a`b" TO other')
    name, other = hr.Column("a`b"), hr.Literal("y", pa.string())
    plan = provider.scan(hr.ScanRequest(schema, tuple(schema.names)))
    for refused in (
        lambda: list(plan.execute(0)),
        provider.refresh,
        lambda: provider.delete((hr.Comparison("!=", name, other),)),
    ):
        with pytest.raises(Exception, match="no such column: a`b"):
            refused()
    assert database.execute('SELECT count(*) FROM "t`"').fetchone() == (1,)


def test_sqlite_empty_table_has_its_types(database: sqlite3.Connection) -> None:
    found = table_of(hr.AdbcTable("sqlite", filled(database, 0, 0), "main.t", "id"))
    assert found.num_rows == 0
    assert found.schema.field("r").type == pa.float64()


@pytest.mark.parametrize(("column", "value"), [("id2", "text"), ("id2", 1.5), ("r", "text")])
def test_sqlite_value_of_another_type_fails_the_scan(database: sqlite3.Connection, column: str, value: Any) -> None:
    database.execute("CREATE TABLE odd (id2 INTEGER, r REAL)")
    database.execute("INSERT INTO odd VALUES (1, 1.0)")
    database.execute(f"INSERT INTO odd ({column}) VALUES (?)", [value])
    database.commit()
    with pytest.raises((hr.SchemaMismatchError, OSError), match=f"column '{column}'|Type mismatch"):
        table_of(hr.AdbcTable("sqlite", path_of(database), "odd"))


@pytest.mark.daily
@pytest.mark.parametrize("table", ["few", "t"])
def test_sqlite_keeps_every_promise(database: sqlite3.Connection, table: str) -> None:
    path = filled(database, 24)
    database.execute("CREATE VIEW few AS SELECT id, t, r FROM t")  # a connection for each scan takes its time
    database.commit()
    provider = hr.AdbcTable("sqlite", path, table, "id", partitions=3, order_by=[hr.SortKey("t", descending=True), "r"])
    check_provider(provider, samples=cases(3), planning_budget_s=60).raise_if_failed()


def test_sqlite_ranges_of_a_view_and_rows_added_later(database: sqlite3.Connection) -> None:
    path = filled(database, 100)
    database.execute("CREATE VIEW v AS SELECT NULLIF(id, 50) AS k, t FROM t")
    provider = hr.AdbcTable("sqlite", path, "v", "k", partitions=3)
    assert table_of(provider).num_rows == 100
    plan = provider.scan(hr.ScanRequest(provider.schema(), ("k", "t")))
    database.execute("INSERT INTO t (id) VALUES (-5), (5000)")
    database.commit()
    assert [sum(batch.num_rows for batch in plan.execute(i)) for i in range(3)] == [33 + 2, 32, 34 + 1]


@pytest.mark.parametrize("text", ['"', "'", "; DROP TABLE t; --", "a.b", "%"])
def test_sqlite_hostile_names_and_literals_stay_data(database: sqlite3.Connection, text: str) -> None:
    name = '"' + text.replace('"', '""') + '"'
    database.execute(f"CREATE TABLE {name} ({name} TEXT)")
    database.execute(f"INSERT INTO {name} VALUES (?), ('x')", [text])
    database.commit()
    provider = hr.AdbcTable("sqlite", path_of(database), (text,), order_by=[text])
    equal = hr.Comparison("=", hr.Column(text), hr.Literal(text, pa.string()))
    assert table_of(provider, filters=(equal,)).to_pylist() == [{text: text}]


def test_sqlite_text_of_no_declared_type_is_filtered_by_spark(database: sqlite3.Connection) -> None:
    database.execute("CREATE TABLE free (v, t TEXT)")
    database.executemany("INSERT INTO free VALUES (?, ?)", [(10, "a"), ("10", "b")])
    database.commit()
    table = hr.AdbcTable("sqlite", path_of(database), "free")
    table.schema()
    assert table_of(table)["v"].to_pylist() == ["10", "10"]
    filters = [hr.Comparison("=", hr.Column(name), hr.Literal("10", pa.string())) for name in ("v", "t")]
    assert table.supports_filters_pushdown(filters) == [hr.FilterPushdown.UNSUPPORTED, hr.FilterPushdown.EXACT]


def test_sqlite_date_column_cannot_be_cut_into_ranges(database: sqlite3.Connection) -> None:
    with pytest.raises(hr.RegistrationError, match="'day' of t has type string"):
        hr.AdbcTable("sqlite", filled(database), "t", "day").schema()


def test_sqlite_missing_table_is_named(database: sqlite3.Connection) -> None:
    with pytest.raises(Exception, match="no such table: nowhere"):
        hr.AdbcTable("sqlite", path_of(database), "nowhere").schema()


def test_sqlite_key_in_the_uri_is_in_no_error() -> None:
    with pytest.raises(Exception, match="there is no SQLite database") as caught:
        hr.AdbcTable("sqlite", "file:/nowhere/x.db?mode=ro&key=sesame-1234", "t").schema()
    assert "sesame" not in str(caught.value)


def test_duckdb_reads_through_its_own_driver(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    path = str(tmp_path / "duck.db")
    with duckdb.connect(path) as connection:
        connection.execute(
            "CREATE TABLE t AS SELECT i::INT AS id, i::DECIMAL(9, 2) AS n, TIME '01:02:03' AS at, {'x': i} AS st "
            "FROM range(100) r(i)"
        )
    provider = hr.AdbcTable("duckdb", path, "t", "id", order_by=["id"])
    above = hr.Comparison(">", hr.Column("id"), hr.Literal(80, pa.int32()))
    found = table_of(provider, filters=(above,))
    assert found["id"].to_pylist() == list(range(81, 100))
    assert found.schema.field("at").type == pa.string()


def test_driver_is_named_with_or_without_its_prefix() -> None:
    assert driver_name("adbc_driver_sqlite") == driver_name("sqlite") == driver_name("SQLite3") == "sqlite"
    for alias in ("postgres", "pg", "PostgreSQL", "adbc_driver_postgresql"):
        assert repr(hr.AdbcTable(alias, "", "t")) == "<AdbcTable: t through postgresql>"
    for bad in ("", "adbc-driver-sqlite", "os.path"):
        with pytest.raises(ValueError, match="is named like"):
            driver_name(bad)
    assert AdbcAccess("flightsql", "").dialect is None


def test_driver_that_is_not_installed_is_an_error_without_advice_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "adbc_driver_halfway"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "dbapi.py").write_text("import no_such_module_of_theirs")
    monkeypatch.syspath_prepend(tmp_path)
    for driver, module in [("mysql", "adbc_driver_mysql"), ("halfway", "no_such_module_of_theirs")]:
        for ask in (hr.AdbcTable(driver, "x", "t").schema, hr.AdbcCatalog(driver, "x").schema_names):
            with pytest.raises(hr.MissingPackageError, match="knows the drivers postgresql, sqlite, duckdb") as caught:
                ask()
            assert repr(module) in str(caught.value)
            assert "pip" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"table": ""}, ValueError),
        ({"table": ()}, ValueError),
        ({"table": "a..b"}, ValueError),
        ({"table": "t\0"}, ValueError),
        ({"partitions": 0}, ValueError),
        ({"order_by": "id"}, TypeError),
        ({"order_by": [3]}, TypeError),
        ({"driver": "snowflake", "partition_on": "id"}, ValueError),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        hr.AdbcTable(**{"driver": "sqlite", "uri": ":memory:", "table": "t", **arguments})


def test_scan_before_registration_says_so() -> None:
    with pytest.raises(hr.HeadraceError, match="register the table first"):
        hr.AdbcTable("sqlite", ":memory:", "t").scan(hr.ScanRequest(pa.schema([]), ()))


@pytest.mark.parametrize("form", ["{}", "file:{}", "file:{}?mode=rwc"])
def test_sqlite_file_that_is_not_there_is_named_and_not_made(tmp_path: Path, form: str) -> None:
    path = tmp_path / "mistyped.db"
    for ask in (
        lambda uri: hr.AdbcTable("sqlite", uri, "t").schema(),
        lambda uri: hr.AdbcCatalog("sqlite", uri).schema_names(),
    ):
        with pytest.raises(FileNotFoundError, match=f"there is no SQLite database at '{path}'"):
            ask(form.format(path))
    assert not path.exists()


@pytest.mark.parametrize(("uri", "path"), [("sqlite:///x.db", "x.db"), ("sqlite:////tmp/x.db", "/tmp/x.db")])
def test_sqlite_uri_in_the_form_of_sqlalchemy_says_what_to_write(uri: str, path: str) -> None:
    with pytest.raises(ValueError, match=f"not '{uri}': write '{path}'"):
        hr.AdbcTable("sqlite", uri, "t")


def test_connection_in_place_of_the_uri_is_named() -> None:
    with (
        contextlib.closing(sqlite3.connect(":memory:")) as connection,
        pytest.raises(TypeError, match="AdbcTable: uri must be text, not Connection"),
    ):
        hr.AdbcTable("sqlite", connection, "t")  # type: ignore[arg-type]
