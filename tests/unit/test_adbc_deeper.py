"""AdbcTable's aggregates, orders, offsets and runtime filters on SQLite and DuckDB, held against their own rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import headrace as hr
from effort import cases
from headrace.negotiate.aggregates import OfferedFunction
from headrace.negotiate.negotiation import Negotiation
from headrace.negotiate.planned import PlannedScan
from headrace.negotiate.registry import RegisteredTable
from headrace.testing import check_provider

ROWS = [
    (1, "b", "x", 1.5, b"\xff"),
    (2, "B", "X", -0.0, b""),
    (3, "é", "x", 0.0, None),
    (4, None, "", None, b"a"),
    (5, "z", None, 7.25, b"a"),
    (None, "", "x", 1e300, None),
    (5, "b", "x", -3.0, b"\x00"),
]


def sqlite(path: Path) -> hr.AdbcTable:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (n INTEGER, s TEXT, c TEXT COLLATE NOCASE, r REAL, y BLOB)")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", ROWS)
        connection.execute("CREATE TABLE free (v)")
        connection.executemany("INSERT INTO free VALUES (?)", [("9",), (10,), ("10",), (None,)])
        connection.commit()
    return hr.AdbcTable("sqlite", str(path), "t", "n", partitions=2)


def duck(path: Path) -> hr.AdbcTable:
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE TABLE t (n INTEGER, s VARCHAR, c VARCHAR COLLATE NOCASE, r DOUBLE, y BLOB, f FLOAT, "
            "d DECIMAL(9, 2), w DECIMAL(38, 0), l BIGINT, b BOOLEAN, day DATE, ts TIMESTAMP, tz TIMESTAMPTZ, "
            "e ENUM ('z', 'a'))"
        )
        for i, (n, s, c, r, y) in enumerate(ROWS):
            more = (i / 8, n and n * 11, i, 2**53 + i, i % 2 == 0, f"2024-01-0{i + 1}", f"2024-01-01 0{i}:00:00")
            values = [n, s, c, float("nan") if i == 5 else r, y, *more, f"2024-01-01 0{i}:00:00+00", "za"[i % 2]]
            connection.execute(f"INSERT INTO t VALUES ({', '.join('?' * 14)})", values)
    return hr.AdbcTable("duckdb", str(path), "t", "n", partitions=2)


TABLES = {"sqlite": sqlite, "duckdb": duck}


@pytest.fixture(params=TABLES)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> hr.AdbcTable:
    return TABLES[request.param](tmp_path / "a.db")


def negotiation(provider: hr.TableProvider) -> Negotiation:
    schema = provider.schema()
    return Negotiation(RegisteredTable("t", provider, schema, schema))


def rows_of(planned: PlannedScan) -> list[tuple[Any, ...]]:
    partitions = range(planned.partitioning.n)
    return [tuple(row.values()) for i in partitions for batch in planned.plan.execute(i) for row in batch.to_pylist()]


def aggregated(provider: hr.TableProvider, groups: Sequence[str], *functions: Any) -> list[tuple[Any, ...]] | None:
    offer = negotiation(provider)
    offered = [
        OfferedFunction(name, None if column is None else hr.Column(column), *more) for name, column, *more in functions
    ]
    if (
        offer.offer_aggregation([hr.Column(name) for name in groups], offered).answer
        is hr.AggregatePushdown.UNSUPPORTED
    ):
        return None
    return rows_of(offer.plan())


@pytest.mark.daily
@pytest.mark.parametrize("driver", TABLES)
def test_database_keeps_every_promise(tmp_path: Path, driver: str) -> None:
    TABLES[driver](tmp_path / "a.db")
    connect: Any = {"sqlite": sqlite3.connect, "duckdb": duckdb.connect}[driver]
    with closing(connect(str(tmp_path / "a.db"))) as connection:
        connection.execute("CREATE VIEW few AS SELECT n, c, r FROM t")  # a connection for each scan takes its time
    report = check_provider(hr.AdbcTable(driver, str(tmp_path / "a.db"), "few"), samples=cases(3), planning_budget_s=60)
    assert report.ok, str(report)


def test_text_is_grouped_and_counted_by_its_bytes_whatever_the_collation(table: hr.AdbcTable) -> None:
    found = aggregated(table, ["c"], ("count", None), ("min", "s"), ("max", "s"))
    assert sorted(map(str, found or ())) == sorted(
        map(str, [("x", 4, "", "é"), ("X", 1, "B", "B"), ("", 1, None, None), (None, 1, "z", "z")])
    )
    assert aggregated(table, [], ("count", "c", True)) == [(3,)]
    assert aggregated(table, ["c"]) is not None  # SELECT DISTINCT


def test_orders_are_those_of_spark_with_offset(table: hr.AdbcTable) -> None:
    for descending, nulls_first, expected in (
        (False, True, [None, "", "B", "b", "b", "z", "é"]),
        (True, False, ["é", "z", "b", "b", "B", "", None]),
    ):
        offer = negotiation(table)
        offer.offer_columns(pa.schema([("s", pa.string())]))
        assert offer.offer_top_n([hr.SortKey("s", descending, nulls_first)], 5).answer is hr.Pushdown.EXACT
        assert offer.offer_offset(2)
        planned = offer.plan()
        assert planned.partitioning.n == 1
        assert [row[0] for row in rows_of(planned)] == expected[2:5]


def test_offset_without_an_order_stays_with_spark(table: hr.AdbcTable) -> None:
    assert not negotiation(table).offer_offset(2)


def test_keys_of_a_join_become_an_in_list_and_leave_out_ranges(table: hr.AdbcTable) -> None:
    offer = negotiation(table)
    first = offer.plan()
    type_ = table.schema().field("n").type
    planned = offer.narrow(first, [hr.InList(hr.Column("n"), (hr.Literal(1, type_), hr.Literal(2, type_)))])
    assert (first.partitioning.n, planned.partitioning.n) == (2, 1)
    assert "IN (1, 2)" in planned.plan.queries[0]  # type: ignore[attr-defined]
    assert sorted(row[0] for row in rows_of(planned)) == [1, 2]


def test_list_of_keys_that_is_too_long_for_sql_is_left_out(table: hr.AdbcTable) -> None:
    offer = negotiation(table)
    values = tuple(hr.Literal("x" * 100 + str(i), pa.string()) for i in range(5000))
    assert len(rows_of(offer.narrow(offer.plan(), [hr.InList(hr.Column("s"), values)]))) == len(ROWS)


def test_what_a_database_means_otherwise_is_refused(tmp_path: Path) -> None:
    lite, other = sqlite(tmp_path / "a.db"), duck(tmp_path / "b.db")
    for function in (("sum", "n"), ("avg", "n"), ("max", "r"), ("max", "y"), ("count", "r", True)):
        assert aggregated(lite, [], function) is None
    for function in (("avg", "d"), ("max", "y"), ("max", "b"), ("sum", "r", True)):
        assert aggregated(other, [], function) is None
    assert aggregated(lite, ["r"]) is None
    assert aggregated(other, ["r"]) is None
    assert negotiation(lite).offer_top_n([hr.SortKey("r")], 3).answer is hr.Pushdown.UNSUPPORTED


def test_sqlite_values_of_several_types_are_compared_as_the_text_that_spark_sees(tmp_path: Path) -> None:
    sqlite(tmp_path / "a.db")
    free = hr.AdbcTable("sqlite", str(tmp_path / "a.db"), "free")
    assert aggregated(free, [], ("min", "v"), ("max", "v"), ("count", "v", True)) == [("10", "9", 2)]
    offer = negotiation(free)
    offer.offer_top_n([hr.SortKey("v", nulls_first=False)], 3)
    assert rows_of(offer.plan()) == [("10",), ("10",), ("9",)]


def test_duckdb_sums_and_averages_have_sparks_types(tmp_path: Path) -> None:
    provider = duck(tmp_path / "b.db")
    found = aggregated(provider, [], ("sum", "n"), ("avg", "n"), ("sum", "d"), ("avg", "l"), ("sum", "f"), ("max", "r"))
    assert found is not None
    (row,) = found
    assert (row[0], row[1], str(row[2]), row[4]) == (20, 20 / 6, "220.00", 21 / 8)
    assert row[3] == float(2**53 + 3)
    assert row[5] != row[5]  # NaN is the greatest


def test_sum_that_spark_has_no_room_for_is_an_error(tmp_path: Path) -> None:
    path = str(tmp_path / "b.db")
    with duckdb.connect(path) as connection:
        connection.execute("CREATE TABLE t AS SELECT 9223372036854775807 AS l UNION ALL SELECT 1")
    with pytest.raises(Exception, match=r"(?i)out of range|conversion"):
        aggregated(hr.AdbcTable("duckdb", path, "t"), [], ("sum", "l"))
