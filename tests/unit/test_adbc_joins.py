"""Joins of two AdbcTables of one database: the SQL, the rows on SQLite and DuckDB, and what is refused."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import headrace as hr
from headrace.negotiate.aggregates import OfferedFunction
from headrace.negotiate.joins import OfferedJoin
from headrace.negotiate.negotiation import Negotiation
from headrace.negotiate.planned import PlannedScan
from headrace.negotiate.registry import RegisteredTable
from headrace.provider import JoinType
from headrace.tables.adbc.relation import AdbcPlan

ORDERS = [(1, 10, "a", 2.0), (2, 20, "B", 0.5), (3, None, None, 1.5), (4, 10, "b", -0.0), (5, 99, "é", None)]
CUSTOMERS = [(10, "ann", "b", 0.0), (20, "bob", "b", 2.0), (None, "nobody", None, 1.5), (10, "twin", "é", 7.0)]
PRICED = [(10, "1.50"), (20, "2.25"), (99, None)]


def sqlite(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER, customer INTEGER, code TEXT COLLATE NOCASE, v REAL)")
        connection.execute("CREATE TABLE customers (id INTEGER, name TEXT, code TEXT COLLATE NOCASE, v REAL)")
        connection.execute("CREATE TABLE free (k, name TEXT)")
        connection.execute("CREATE TABLE numbers (n, name TEXT)")
        connection.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", ORDERS)
        connection.executemany("INSERT INTO customers VALUES (?, ?, ?, ?)", CUSTOMERS)
        connection.executemany("INSERT INTO free VALUES (?, ?)", [(10, "number"), ("10", "text"), ("x", "x")])
        connection.executemany("INSERT INTO numbers VALUES (?, ?)", [(10, "a")])
        connection.commit()


def duck(path: Path) -> None:
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE orders (id INT, customer INT, code VARCHAR COLLATE NOCASE, v DOUBLE)")
        connection.execute("CREATE TABLE customers (id BIGINT, name VARCHAR, code VARCHAR COLLATE NOCASE, v DOUBLE)")
        connection.execute("CREATE TABLE priced (id INT, price DECIMAL(9, 2))")
        connection.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", ORDERS)
        connection.executemany("INSERT INTO customers VALUES (?, ?, ?, ?)", CUSTOMERS)
        connection.executemany("INSERT INTO priced VALUES (?, ?)", PRICED)


@pytest.fixture(params=["sqlite", "duckdb"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    path = tmp_path / "shop.db"
    (sqlite if request.param == "sqlite" else duck)(path)
    return request.param, str(path)


@pytest.fixture
def lite(tmp_path: Path) -> str:
    sqlite(tmp_path / "shop.db")
    return str(tmp_path / "shop.db")


@pytest.fixture
def ducks(tmp_path: Path) -> tuple[str, str]:
    duck(tmp_path / "shop.duckdb")
    return "duckdb", str(tmp_path / "shop.duckdb")


def scan_of(name: str, provider: hr.TableProvider, **more: Any) -> Negotiation:
    return Negotiation(RegisteredTable.of(name, provider, **more))


def table(database: tuple[str, str], name: str) -> Negotiation:
    return scan_of(name, hr.AdbcTable(*database, name))


def offered(left: Negotiation, right: Negotiation, condition: hr.Expr | None, how: JoinType = "inner") -> OfferedJoin:
    """With all columns; those of the right that the left has too get a suffix, as Spark gives them."""
    left_columns = tuple((name, name) for name in left.schema.names)
    taken = set(left.schema.names)
    right_columns = tuple((name, f"{name}_1" if name in taken else name) for name in right.schema.names)
    return left.offer_join(right, how, (left_columns, right_columns), condition)


def equal(left: str, right: str, op: str = "=") -> hr.Expr:
    return hr.Comparison(op, hr.Column(left), hr.Column(right))  # type: ignore[arg-type]


def literal(value: Any, type_: pa.DataType) -> hr.Literal:
    return hr.Literal(value, type_)


def rows_of(scan: Negotiation | PlannedScan) -> list[tuple[Any, ...]]:
    planned = scan.plan() if isinstance(scan, Negotiation) else scan
    partitions = range(planned.partitioning.n)
    found = [row for i in partitions for batch in planned.plan.execute(i) for row in batch.to_pylist()]
    return sorted((tuple(row.values()) for row in found), key=repr)


def query_of(scan: Negotiation) -> str:
    plan = scan.plan().plan
    assert isinstance(plan, AdbcPlan)
    (query,) = plan.queries
    return query


def joined(how: str, match: Any) -> list[tuple[Any, ...]]:
    """The same join in Python."""
    pairs = [(o, c) for o in ORDERS for c in CUSTOMERS if match(o, c)]
    rows = [o + c for o, c in pairs]
    if how == "left":
        rows += [o + (None,) * 4 for o in ORDERS if not any(o is one for one, _ in pairs)]
    if how == "right":
        rows += [(None,) * 4 + c for c in CUSTOMERS if not any(c is one for _, one in pairs)]
    return sorted(rows, key=repr)


@pytest.mark.parametrize("how", ["inner", "left", "right"])
def test_join_equals_one_made_in_python(database: tuple[str, str], how: JoinType) -> None:
    orders = table(database, "orders")
    taken = offered(orders, table(database, "customers"), equal("customer", "id_1"), how)
    assert taken.why_not == ""
    assert rows_of(orders) == joined(how, lambda o, c: o[1] is not None and o[1] == c[0])
    assert orders.plan().partitioning.n == 1


@pytest.mark.parametrize("how", ["inner", "left", "right"])
def test_join_of_text_compares_bytes_whatever_the_collation(database: tuple[str, str], how: JoinType) -> None:
    orders = table(database, "orders")
    assert offered(orders, table(database, "customers"), equal("code", "code_1"), how).joined is not None
    assert rows_of(orders) == joined(how, lambda o, c: o[2] is not None and o[2] == c[2])


def test_join_null_safe_and_of_floats_equals_spark(database: tuple[str, str]) -> None:
    orders = table(database, "orders")
    assert offered(orders, table(database, "customers"), equal("customer", "id_1", "<=>")).joined is not None
    assert rows_of(orders) == joined("inner", lambda o, c: o[1] == c[0])
    floats = table(database, "orders")
    assert offered(floats, table(database, "customers"), equal("v", "v_1")).joined is not None
    assert rows_of(floats) == joined("inner", lambda o, c: o[3] is not None and o[3] == c[3])  # -0.0 equals 0.0


def test_join_with_filters_aggregate_and_limit_is_one_query(lite: str) -> None:
    orders, customers = table(("sqlite", lite), "orders"), table(("sqlite", lite), "customers")
    orders.offer_filters([hr.Comparison(">", hr.Column("id"), literal(1, pa.int64()))])
    customers.offer_filters([hr.Comparison("=", hr.Column("name"), literal("ann", pa.string()))])
    columns = ((("id", "id"), ("customer", "customer")), (("id", "id_1"), ("name", "name")))
    assert orders.offer_join(customers, "left", columns, equal("customer", "id_1")).joined is not None
    orders_sql = '(SELECT `id` AS "id", `customer` AS "customer", `code` AS "code", `v` AS "v" FROM "orders") AS t'
    customers_sql = '(SELECT `id` AS "id", `name` AS "name", `code` AS "code", `v` AS "v" FROM "customers") AS t'
    source = (
        f'(SELECT "id" AS "id", "customer" AS "customer" FROM {orders_sql} WHERE ("id" > 1)) AS l LEFT JOIN '
        f'(SELECT "id" AS "id_1", CAST("name" AS TEXT) AS "name" FROM {customers_sql} '
        """WHERE ("name" COLLATE BINARY = 'ann')) AS r ON "customer" = "id_1\""""
    )
    columns_sql = '"id" AS "id", "customer" AS "customer", "id_1" AS "id_1", "name" AS "name"'
    assert query_of(orders).endswith(f"SELECT * FROM (SELECT {columns_sql} FROM {source} LIMIT -1)")
    answer = orders.offer_aggregation([hr.Column("name")], [OfferedFunction("count", None)]).answer
    assert answer is hr.AggregatePushdown.COMPLETE
    assert f'count(*) AS "count_0" FROM {source} GROUP BY CAST' in query_of(orders)
    assert rows_of(orders) == [("ann", 1), (None, 3)]


def test_join_top_n_and_runtime_filters_are_of_the_joined_rows(database: tuple[str, str]) -> None:
    orders = table(database, "orders")
    assert offered(orders, table(database, "customers"), equal("customer", "id_1")).joined is not None
    order = [hr.SortKey("name", descending=True)]
    assert orders.offer_top_n(order, 2).answer is hr.Pushdown.EXACT
    planned = orders.narrow(orders.plan(), [hr.InList(hr.Column("id_1"), (literal(10, pa.int64()),))])
    assert [row[5] for row in rows_of(planned)] == ["twin", "twin"]
    assert planned.ordering == ()  # Spark would look for "name" among the columns of the left table


def test_join_of_a_join_is_one_query(database: tuple[str, str]) -> None:
    orders = table(database, "orders")
    assert offered(orders, table(database, "customers"), equal("customer", "id_1")).joined is not None
    others = table(database, "orders")
    columns = (tuple((name, name) for name in ("id", "name")), (("id", "id_2"), ("customer", "customer")))
    condition = hr.And(equal("id", "id_2"), hr.Comparison(">", hr.Column("id_2"), literal(1, pa.int64())))
    assert orders.offer_join(others, "inner", columns, condition).joined is not None
    matches = [(o, c) for o in ORDERS for c in CUSTOMERS if o[1] is not None and o[1] == c[0]]
    assert rows_of(orders) == sorted([(o[0], c[1], o[0], o[1]) for o, c in matches if o[0] > 1], key=repr)
    assert query_of(orders).count("JOIN") == 2


def test_join_of_text_without_a_declared_type_takes_numbers_as_they_arrive(lite: str) -> None:
    left, right = table(("sqlite", lite), "free"), table(("sqlite", lite), "free")
    assert rows_of(left)[0][0] == rows_of(left)[1][0] == "10"
    again = table(("sqlite", lite), "free")
    assert offered(again, right, equal("k", "k_1")).joined is not None
    assert len(rows_of(again)) == 5


def test_join_alias_that_is_the_name_of_another_column_leaves_filters_alone(database: tuple[str, str]) -> None:
    orders, customers = table(database, "orders"), table(database, "customers")
    customers.offer_filters([hr.Comparison("=", hr.Column("name"), literal("bob", pa.string()))])
    columns = ((("id", "id"), ("customer", "customer")), (("id", "name"), ("code", "code")))
    assert orders.offer_join(customers, "inner", columns, equal("customer", "name")).joined is not None
    assert rows_of(orders) == [(2, 20, 20, "b")]
    again = table(database, "orders")
    other = (("id", "name"), ("name", "code"))
    assert offered(again, table(database, "customers"), equal("customer", "id_1")).joined is not None
    more = table(database, "customers")
    more.offer_filters([hr.Comparison("=", hr.Column("name"), literal("bob", pa.string()))])
    assert again.offer_join(more, "inner", ((("id", "id"), ("id_1", "id_1")), other), equal("id_1", "name")).joined
    assert rows_of(again) == [(2, 20, 20, "bob")]


def test_join_without_columns_of_a_side_counts_rows(database: tuple[str, str]) -> None:
    orders = table(database, "orders")
    condition = hr.Comparison(">", hr.Column("id"), literal(3, orders.schema.field("id").type))
    assert orders.offer_join(table(database, "customers"), "left", ((("id", "id"),), ()), condition).joined is not None
    assert rows_of(orders) == sorted([(1,), (2,), (3,), *[(4,)] * 4, *[(5,)] * 4], key=repr)


def test_join_on_decimals_refuses_the_sums_that_stand_for_an_average(ducks: tuple[str, str]) -> None:
    """Spark names their columns as they were before the join: ``price`` would be that of the left side."""
    left, right = table(ducks, "priced"), table(ducks, "priced")
    assert offered(left, right, equal("id", "id_1")).joined is not None
    average = [OfferedFunction("avg", hr.Column("price_1"))]
    assert left.ask_aggregation([], average).answer is hr.AggregatePushdown.UNSUPPORTED
    instead = [OfferedFunction("sum", hr.Column("price")), OfferedFunction("count", hr.Column("price"))]
    refused = left.offer_aggregation([], instead)
    assert refused.answer is hr.AggregatePushdown.UNSUPPORTED
    assert "before the join" in refused.why_not
    unique = table(ducks, "orders")
    assert offered(unique, table(ducks, "priced"), equal("customer", "id_1")).joined is not None
    unique.ask_aggregation([], [OfferedFunction("avg", hr.Column("price"))])
    assert unique.offer_aggregation([], instead).answer is hr.AggregatePushdown.COMPLETE
    assert rows_of(unique) == [(Decimal("5.25"), 3)]
    plain = table(ducks, "priced")
    plain.ask_aggregation([], [OfferedFunction("avg", hr.Column("price"))])
    assert plain.offer_aggregation([], instead).answer is hr.AggregatePushdown.COMPLETE


# --- refusals --------------------------------------------------------------------------------------------


class OwnScan(hr.AdbcTable):
    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        return super().scan(request)


def test_join_refused_says_why_to_both_scans(lite: str, ducks: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    sqlite(tmp_path / "other" / "shop.db")
    here = ("sqlite", lite)
    elsewhere = ("sqlite", str(tmp_path / "other" / "shop.db"))
    same_id = equal("customer", "id_1")
    mem = hr.MemTable(pa.table({"id": [10]}))

    def check(left: Negotiation, right: Negotiation, condition: hr.Expr | None, why: str) -> None:
        columns = left.schema, left.table
        refused = offered(left, right, condition)
        assert why in refused.why_not
        assert refused.joined is None
        assert left.joins == right.joins == (refused,)
        assert (left.schema, left.table) == columns

    check(table(here, "orders"), table(elsewhere, "customers"), same_id, "different databases")
    check(table(here, "orders"), table(ducks, "customers"), same_id, "different databases")
    check(table(here, "orders"), scan_of("mem", mem), same_id, "MemTable is no table of a database")
    check(scan_of("mem", mem), table(here, "orders"), equal("id", "customer"), "MemTable does not join")
    check(table(here, "orders"), table(here, "customers"), None, "no form here")
    check(table(here, "orders"), table(here, "customers"), equal("v", "id_1"), "may decide v = id_1 otherwise")
    check(table(here, "orders"), table(here, "numbers"), equal("customer", "n"), "no declared type")
    check(scan_of("own", OwnScan(*here, "orders")), table(here, "customers"), same_id, "OwnScan has a scan of its own")
    check(table(here, "orders"), scan_of("own", OwnScan(*here, "customers")), same_id, "a scan of its own")
    verified = scan_of("checked", hr.AdbcTable(*here, "customers"), verify="all")
    check(table(here, "orders"), verified, same_id, "promises of checked are verified")
    filtered = table(here, "customers")
    filtered.offer_filters([None])
    check(table(here, "orders"), filtered, same_id, "Spark still filters customers")
    limited = table(here, "customers")
    limited.offer_limit(3)
    check(limited, table(here, "orders"), equal("id", "customer"), "customers are cut")


def test_join_refused_scan_goes_on_as_before(lite: str) -> None:
    orders = table(("sqlite", lite), "orders")
    assert offered(orders, scan_of("mem", hr.MemTable(pa.table({"id": [10]}))), equal("customer", "id_1")).why_not
    assert len(rows_of(orders)) == len(ORDERS)
