"""Joins of two AdbcTables of one SQLite database on a real Spark, held against the rows of Spark's own joins."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from versions import has

pytestmark = pytest.mark.timeout(600)  # many small queries

SETTING = "spark.sql.optimizer.datasourceV2JoinPushdown"
SHOP = """
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, amount REAL, name TEXT);
CREATE TABLE customers (id INTEGER, name TEXT, region TEXT COLLATE NOCASE);
"""
ORDERS = [(i, [None, 1, 2, 3, 9][i % 5], i / 4, f"o{i}") for i in range(60)]
CUSTOMERS = [
    (1, "ann", "N"),
    (2, "bob", "n"),
    (3, "cid", None),
    (None, "nobody", "S"),
    (3, "twin", "S"),
    (7, "eve", "S"),
]

PUSHED = {
    "columns of one name": "SELECT o.*, c.* FROM orders o JOIN customers c ON o.customer = c.id",
    "filters of both": "SELECT o.id, c.id AS cid FROM orders o JOIN customers c ON o.customer = c.id "
    "WHERE o.amount > 3 AND c.name <> 'bob'",
    "left": "SELECT o.*, c.* FROM orders o LEFT JOIN customers c ON o.customer = c.id AND o.id > 20",
    "right": "SELECT o.*, c.* FROM orders o RIGHT JOIN customers c ON o.customer = c.id",
    "null safe": "SELECT o.id, c.name FROM orders o JOIN customers c ON o.customer <=> c.id",
    "range": "SELECT o.id, c.id AS cid FROM orders o JOIN customers c ON o.id < c.id",
    "itself": "SELECT a.id, b.id AS bid FROM orders a JOIN orders b ON a.customer = b.customer WHERE a.id < 9",
    "three": "SELECT a.id, b.name AS b, c.name AS c FROM orders a JOIN orders b ON a.id = b.id "
    "JOIN customers c ON b.customer = c.id",
    "sum in Spark": "SELECT c.name, sum(o.id) AS s FROM orders o JOIN customers c ON o.customer = c.id GROUP BY c.name",
    "average in Spark": "SELECT c.name, avg(c.id) AS a FROM orders o JOIN customers c ON o.customer = c.id "
    "GROUP BY c.name",
    "filter above": "SELECT o.id FROM orders o LEFT JOIN customers c ON o.customer = c.id WHERE c.region IS NULL",
}
AGGREGATED = {
    "count": "SELECT count(*) AS n FROM orders o JOIN customers c ON o.customer = c.id",
    "groups": "SELECT c.name, count(*) AS n, max(o.id) AS m, min(c.id) AS i FROM orders o LEFT JOIN customers c "
    "ON o.customer = c.id GROUP BY c.name",
    "groups of text": "SELECT region, count(DISTINCT o.name) AS n FROM orders o JOIN customers c ON o.customer = c.id "
    "GROUP BY region",
}


@pytest.fixture
def asked(spark: Any) -> Iterator[None]:
    spark.conf.set(SETTING, "true")
    yield
    spark.conf.unset(SETTING)


@pytest.fixture
def shop(ctx: hr.SessionContext, tmp_path: Path) -> str:
    path = str(tmp_path / "shop.db")
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(SHOP)
        connection.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", ORDERS)
        connection.executemany("INSERT INTO customers VALUES (?, ?, ?)", CUSTOMERS)
        connection.commit()
    ctx.register_table("orders", hr.AdbcTable("sqlite", path, "orders", "id", partitions=2))
    ctx.register_table("customers", hr.AdbcTable("sqlite", path, "customers"))
    return path


def rows(ctx: hr.SessionContext, query: str) -> list[str]:
    return sorted(map(repr, ctx.collect(query).to_pylist()))


@pytest.fixture(scope="module")
def truth(spark: Any) -> dict[str, list[str]]:
    """The rows of the same queries over Spark's own tables."""
    tables = {
        "orders": ("id bigint, customer bigint, amount double, name string", ORDERS),
        "customers": ("id bigint, name string, region string", CUSTOMERS),
    }
    for name, (schema, values) in tables.items():
        names = [column.split()[0] for column in schema.split(", ")]
        columns = pa.table([pa.array(column) for column in zip(*values, strict=True)], names)
        spark.createDataFrame(columns, schema).createOrReplaceTempView(f"spark_{name}")
    found = {}
    for name, query in {**PUSHED, **AGGREGATED}.items():
        own = query.replace(" orders ", " spark_orders ").replace(" customers ", " spark_customers ")
        found[name] = sorted(repr(row.asDict()) for row in spark.sql(own).collect())
    for name in tables:
        spark.catalog.dropTempView(f"spark_{name}")
    return found


@pytest.mark.daily
@pytest.mark.usefixtures("adaptive", "asked", "shop")
def test_joins_pushed_give_the_rows_of_sparks_own(ctx: hr.SessionContext, truth: dict[str, list[str]]) -> None:
    for name, query in {**PUSHED, **AGGREGATED}.items():
        assert rows(ctx, query) == truth[name], name
        if has("join pushdown"):
            shown = ctx.explain(query)
            assert "taken: one scan for both" in shown, name
            assert "scan 2" not in shown, name
            assert ("COMPLETE" in shown) == (name in AGGREGATED), shown


@pytest.mark.usefixtures("adaptive", "asked", "shop")
def test_join_pushed_takes_top_n_limit_and_offset(ctx: hr.SessionContext) -> None:
    query = (
        "SELECT o.id, c.name FROM orders o JOIN customers c ON o.customer = c.id "
        "ORDER BY o.id DESC, c.name LIMIT 3 OFFSET 1"
    )
    assert ctx.collect(query).to_pylist() == [
        {"id": 58, "name": "twin"}, {"id": 57, "name": "bob"}, {"id": 56, "name": "ann"}
    ]  # fmt: skip
    limited = "SELECT o.id FROM orders o JOIN customers c ON o.customer = c.id LIMIT 4"
    assert ctx.collect(limited).num_rows == 4
    if has("join pushdown"):
        assert "EXACT: Spark neither sorts nor cuts" in ctx.explain(query)
        assert "ordering=" not in ctx.spark.sql(query)._jdf.queryExecution().toString()  # Spark knows not these columns
        assert "limit         4 rows are enough" in ctx.explain(limited)


@pytest.mark.usefixtures("adaptive", "asked", "shop")
def test_join_pushed_is_narrowed_by_what_another_join_tells(ctx: hr.SessionContext) -> None:
    ctx.register_table("picked", hr.MemTable(pa.table({"id": [2, 3, 4], "tag": ["x", "y", "x"]})))
    query = (
        "SELECT o.id, c.id AS cid, c.name FROM orders o JOIN customers c ON o.customer = c.id "
        "JOIN picked p ON p.id = c.id WHERE p.tag = 'x'"
    )
    found = ctx.collect(query).to_pylist()
    assert sorted(row["id"] for row in found) == [row[0] for row in ORDERS if row[1] == 2]
    assert {(row["cid"], row["name"]) for row in found} == {(2, "bob")}
    if has("join pushdown"):
        assert "taken: one scan for both" in ctx.explain(query)


@pytest.mark.usefixtures("shop")
def test_join_without_the_setting_says_how_to_turn_it_on(ctx: hr.SessionContext) -> None:
    shown = ctx.explain(AGGREGATED["count"])
    assert "scan 2" in shown
    offers = f"only after spark.conf.set('{SETTING}', 'true')" if has("join pushdown") else "from 4.1 on"
    assert shown.count(f"join          not pushed: Spark offers joins {offers}") == 2


@pytest.mark.usefixtures("asked")
def test_join_not_pushed_says_why(ctx: hr.SessionContext, shop: str, tmp_path: Path) -> None:
    if not has("join pushdown"):
        pytest.skip("Spark 4.0 offers no joins")
    other = str(tmp_path / "other.db")
    with closing(sqlite3.connect(other)) as connection:
        connection.executescript(SHOP)
    ctx.register_table("elsewhere", hr.AdbcTable("sqlite", other, "customers"))
    ctx.register_table("mem", hr.MemTable(pa.table({"id": [1, 2]})))
    condition = "ON o.customer = c.id"
    reasons = {
        f"orders o JOIN elsewhere c {condition}": "the tables are of different databases",
        f"orders o LEFT SEMI JOIN customers c {condition}": "Spark never offers a join of this type (LeftSemi)",
        f"orders o FULL JOIN customers c {condition}": "Spark never offers a join of this type (FullOuter)",
        "orders o JOIN customers c ON o.amount = c.id": "sqlite may decide",
        f"orders o JOIN (SELECT * FROM customers WHERE name RLIKE 'n$') c {condition}": "Spark still filters below it",
        "orders o JOIN customers c ON upper(o.name) RLIKE c.name": "Spark offers joins only with a condition",
    }
    for join, why in reasons.items():
        shown = ctx.explain(f"SELECT o.id FROM {join}")
        assert f"not pushed: {why}" in shown, shown
        assert "taken" not in shown, shown
    assert "join  " not in ctx.explain(f"SELECT o.id FROM orders o JOIN mem c {condition}")
    mixed = "SELECT o.id FROM orders o JOIN customers c ON o.customer = c.id JOIN elsewhere e ON e.id = o.id"
    assert "taken: one scan for both" in ctx.explain(mixed)
    assert "different databases" in ctx.explain(mixed)
    assert rows(ctx, mixed) == []


@pytest.mark.usefixtures("asked", "shop")
def test_join_of_catalog_tables_and_failing_queries_behave_as_scans_do(ctx: hr.SessionContext, shop: str) -> None:
    ctx.register_catalog("lite", hr.AdbcCatalog("sqlite", shop))
    query = "SELECT count(*) AS n FROM lite.main.orders o JOIN lite.main.customers c ON o.customer = c.id"
    assert ctx.collect(query).to_pylist() == [{"n": 48}]
    if has("join pushdown"):
        assert "taken: one scan for both" in ctx.explain(query)
    with closing(sqlite3.connect(shop)) as connection:
        connection.execute("DROP TABLE customers")
        connection.commit()
    with pytest.raises(hr.ProviderError, match="no such table: customers"):
        ctx.collect("SELECT o.id FROM orders o JOIN customers c ON o.customer = c.id")


@pytest.mark.usefixtures("asked")
def test_join_of_sorted_tables_is_taken_by_the_tables_inside(
    ctx: hr.SessionContext, shop: str, truth: dict[str, list[str]]
) -> None:
    for name in ("orders", "customers"):
        inner = hr.AdbcTable("sqlite", shop, name)
        ctx.register_table(name, hr.SortedTable(inner, [hr.SortKey("id")]), replace=True)
    for name in ("filters of both", "left"):
        assert rows(ctx, PUSHED[name]) == truth[name]
        if has("join pushdown"):
            assert "taken: one scan for both" in ctx.explain(PUSHED[name])


class Numbers(hr.MemTable, hr.JoiningProvider):
    """A provider of a user's own, whose join with itself on equal keys is a table that it knows."""

    def joined(self, join: hr.Join) -> hr.TableProvider | str:
        if join.how != "inner" or not isinstance(join.right.table, Numbers):
            return f"there is no {join.how} join here"
        if join.left.filters != join.right.filters:  # the pairs below are of equal rows
            return "the filters of both sides differ"
        rows = pa.table({"n": [1, 2, 3], "s": ["a", "b", "c"]})
        columns = [rows[old] for side in (join.left, join.right) for old, _ in side.columns]
        return hr.MemTable(pa.table(columns, schema=join.schema))


@pytest.mark.usefixtures("asked")
def test_join_of_a_provider_of_ones_own_is_asked_for_and_taken(ctx: hr.SessionContext) -> None:
    ctx.register_table("numbers", Numbers(pa.table({"n": [1, 2, 3], "s": ["a", "b", "c"]})))
    ctx.register_table("plain", hr.MemTable(pa.table({"n": [1, 2]})))
    query = "SELECT a.n, b.s FROM numbers a {} JOIN numbers b ON a.n = b.n ORDER BY a.n"
    expected = [{"n": 1, "s": "a"}, {"n": 2, "s": "b"}, {"n": 3, "s": "c"}]
    assert ctx.collect(query.format("")).to_pylist() == expected
    assert ctx.collect(query.format("LEFT")).to_pylist() == expected
    if has("join pushdown"):
        assert "taken: one scan for both" in ctx.explain(query.format(""))
        assert "not pushed: there is no left join here" in ctx.explain(query.format("LEFT"))
    assert "join  " not in ctx.explain("SELECT a.n FROM numbers a JOIN plain b ON a.n = b.n")
