"""Catalogs and table functions: names, listings, versions, caches, errors, and that nothing is left behind."""

from __future__ import annotations

import datetime
import decimal
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException

import headrace as hr
from catalogs import NUMBERS, Shop, assert_analyses_leave_nothing


@pytest.fixture
def shop(ctx: hr.SessionContext) -> Iterator[Shop]:
    shop = Shop()
    ctx.register_catalog("crm", shop)
    yield shop
    ctx.deregister_catalog("crm")


def one(ctx: hr.SessionContext, query: str) -> Any:
    (row,) = ctx.sql(query).collect()
    return row[0] if len(row) == 1 else tuple(row)


@pytest.mark.daily("adaptive*")
@pytest.mark.usefixtures("adaptive")
def test_catalog_tables_are_found_listed_described_and_pruned(ctx: hr.SessionContext, shop: Shop) -> None:
    assert one(ctx, "SELECT sum(n) FROM crm.sales.orders WHERE n > 1") == 5
    assert ctx.collect("SELECT max(name) AS m FROM crm.sales.orders").to_pylist() == [{"m": "sales.orders"}]
    assert sorted(row[0] for row in ctx.sql("SHOW SCHEMAS IN crm").collect()) == ["`odd ``schema``.`", "sales"]
    assert [row.tableName for row in ctx.sql("SHOW TABLES IN crm.sales").collect()] == ["orders"]
    assert [row.col_name for row in ctx.sql("DESCRIBE crm.sales.orders").collect()][:2] == ["n", "name"]
    assert "columns       n  [1 of 2]" in ctx.explain("SELECT n FROM crm.sales.orders")
    assert shop.asked.count("sales.orders") == 1
    assert shop.asked.count("schemas") == 1


@pytest.mark.parametrize("name", ["a.b", "back`tick", "größe 1"])
def test_catalog_names_with_any_character_are_found(ctx: hr.SessionContext, shop: Shop, name: str) -> None:
    schema = "odd `schema`."
    quoted = ".".join("`" + part.replace("`", "``") + "`" for part in (schema, name))
    assert one(ctx, f"SELECT DISTINCT name FROM crm.{quoted}") == f"{schema}.{name}"


def test_catalog_table_or_schema_that_is_missing_is_spark_s_own_error(ctx: hr.SessionContext, shop: Shop) -> None:
    for name in ("crm.sales.missing", "crm.missing.orders", "crm.orders", "crm.a.b.c"):
        with pytest.raises(Exception, match=r"TABLE_OR_VIEW_NOT_FOUND|REQUIRES_SINGLE_PART_NAMESPACE"):
            ctx.sql(f"SELECT * FROM {name}").collect()
    with pytest.raises(Exception, match="SCHEMA_NOT_FOUND"):
        ctx.sql("SHOW TABLES IN crm.missing").collect()
    shop.names["sales"].append("missing")
    assert one(ctx, "SELECT count(*) FROM crm.sales.missing") == 3


@pytest.mark.daily("adaptive*")
@pytest.mark.usefixtures("adaptive")
def test_catalog_versions_reach_the_provider_and_its_error_the_user(ctx: hr.SessionContext, shop: Shop) -> None:
    assert one(ctx, "SELECT DISTINCT name FROM crm.sales.orders VERSION AS OF 'v7'") == "v7 None"
    at = one(ctx, "SELECT DISTINCT name FROM crm.sales.orders TIMESTAMP AS OF '2026-01-02 03:04:05+00:00'")
    assert at == "None 2026-01-02 03:04:05+00:00"
    with pytest.raises(Exception, match="LookupError: no such version"):
        ctx.sql("SELECT * FROM crm.sales.orders VERSION AS OF 'broken'")
    with pytest.raises(hr.ProviderError, match="LookupError: no such version"):
        ctx.collect("SELECT * FROM crm.sales.orders VERSION AS OF 'broken'")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):  # an error of Spark's own stays one
        ctx.collect("SELECT * FROM crm.sales.nowhere")


def test_catalog_refreshed_is_asked_again_and_deregistered_has_no_tables(ctx: hr.SessionContext, shop: Shop) -> None:
    frame = ctx.sql("SELECT count(*) AS n FROM crm.sales.orders")
    shop.names["sales"].append("invoices")
    assert ctx.sql("SHOW TABLES IN crm.sales").count() == 2
    shop.names["sales"].append("returns")
    assert ctx.sql("SHOW TABLES IN crm.sales").count() == 2
    ctx.refresh_catalog("crm")
    assert ctx.sql("SHOW TABLES IN crm.sales").count() == 3
    assert frame.collect()[0].n == 3
    assert ctx.deregister_catalog("crm")
    assert not ctx.deregister_catalog("crm")
    with pytest.raises(Exception, match="NOT_FOUND"):
        ctx.sql("SELECT * FROM crm.sales.orders").collect()
    with pytest.raises(hr.HeadraceError, match="no catalog 'crm'"):
        ctx.refresh_catalog("crm")
    ctx.register_catalog("crm", Shop())
    assert one(ctx, "SELECT count(*) FROM crm.sales.orders") == 3


def test_catalog_that_cannot_be_registered_is_refused_by_name(ctx: hr.SessionContext, shop: Shop) -> None:
    with pytest.raises(hr.TableExistsError, match="registered already"):
        ctx.register_catalog("crm", Shop())
    with pytest.raises(hr.TableExistsError, match="Spark has a catalog"):
        ctx.register_catalog(ctx.catalog, Shop())
    for bad in ("a.b", "", "spark_catalog"):
        with pytest.raises(hr.RegistrationError, match="a catalog's name"):
            ctx.register_catalog(bad, Shop())
    with pytest.raises(hr.RegistrationError, match="takes a CatalogProvider"):
        ctx.register_catalog("other", NUMBERS)  # type: ignore[arg-type]


@pytest.mark.daily("adaptive*")
@pytest.mark.usefixtures("adaptive")
def test_context_s_own_catalog_is_seen_by_other_sessions_and_its_name_is_free_again(ctx: hr.SessionContext) -> None:
    ctx.register_table("numbers", hr.MemTable(NUMBERS))
    other = ctx.spark.newSession()
    assert other.sql(f"SELECT sum(n) AS s FROM {ctx.catalog}.numbers").collect()[0].s == 6
    assert other.sql(f"SHOW TABLES IN {ctx.catalog}").collect()[0].tableName == "numbers"
    with hr.SessionContext(ctx.spark) as second:
        name = second.catalog
        assert name != ctx.catalog
        second.register_table("numbers_2", hr.MemTable(NUMBERS))
        assert one(second, f"SELECT count(*) FROM {name}.numbers_2") == 3
    with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
        ctx.sql(f"SELECT * FROM {name}.numbers_2")
    with hr.SessionContext(ctx.spark) as third:
        assert third.catalog == name
        third.register_table("numbers_3", hr.MemTable(NUMBERS))
        assert one(third, f"SELECT count(*) FROM {name}.numbers_3") == 3


@pytest.mark.daily("adaptive*")
@pytest.mark.usefixtures("adaptive")
def test_table_function_gets_constants_as_python_values(ctx: hr.SessionContext) -> None:
    calls: list[tuple[Any, ...]] = []

    def tickets(state: str, depth: int = 1, *, since: datetime.date | None = None, **rest: Any) -> hr.TableProvider:
        calls.append((state, depth, since, rest))
        if state == "bad":
            raise ValueError("a state is open or closed")
        return hr.MemTable(pa.table({"state": [state] * depth, "n": list(range(depth))}))

    ctx.register_table_function("tickets", tickets)
    try:
        query = "SELECT count(*) FROM tickets('open', 1 + 2, since => DATE '2026-01-01', price => 1.5, x => NULL)"
        assert one(ctx, query) == 3
        assert calls[-1] == ("open", 3, datetime.date(2026, 1, 1), {"price": decimal.Decimal("1.5"), "x": None})
        assert one(ctx, "SELECT count(*) FROM tickets('a', 2) l JOIN tickets('b', 3) r ON l.n = r.n WHERE l.n > 0") == 1
        assert ctx.sql("SELECT sum(n) AS s FROM tickets(:state, 4)", {"state": "x"}).collect()[0].s == 6
        with pytest.raises(Exception, match="ValueError: a state is open or closed"):
            ctx.sql("SELECT * FROM tickets('bad')")
        for ask in (ctx.collect, ctx.explain):
            with pytest.raises(hr.ProviderError, match="ValueError: a state is open or closed") as caught:
                ask("SELECT * FROM tickets('bad')")
            assert isinstance(caught.value.__cause__, ValueError)
        with pytest.raises(Exception, match=r"is no constant|UNRESOLVED_COLUMN"):
            ctx.sql("SELECT * FROM (SELECT 'a' AS s) t, LATERAL tickets(t.s)").collect()
        with pytest.raises(hr.TableExistsError):
            ctx.register_table_function("TICKETS", tickets)
        ctx.register_table_function("tickets", lambda: hr.MemTable(NUMBERS), replace=True)
        assert one(ctx, "SELECT sum(n) FROM tickets()") == 6
        with pytest.raises(hr.TableExistsError, match="Spark has a table function 'range'"):
            ctx.register_table_function("range", tickets)
    finally:
        assert ctx.deregister_table_function("tickets")
    assert not ctx.deregister_table_function("tickets")
    with pytest.raises(Exception, match=r"UNRESOLVABLE_TABLE_VALUED_FUNCTION|resolve"):
        ctx.sql("SELECT * FROM tickets()")


def test_table_function_that_gives_no_provider_is_named(ctx: hr.SessionContext) -> None:
    ctx.register_table_function("nothing", lambda: None)  # type: ignore[arg-type, return-value]
    try:
        with pytest.raises(Exception, match="the table function 'nothing' returned None, expected a TableProvider"):
            ctx.sql("SELECT * FROM nothing()")
    finally:
        ctx.deregister_table_function("nothing")


def test_a_hundred_analyses_leave_nothing_behind(ctx: hr.SessionContext, shop: Shop) -> None:
    assert_analyses_leave_nothing(ctx, 50)


@pytest.mark.daily("adaptive*")
@pytest.mark.usefixtures("adaptive")
def test_adbc_catalog_whole_database_is_queried_by_name(ctx: hr.SessionContext, tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, amount REAL)")
        database.execute('CREATE TABLE "odd.name ""x" (n INTEGER)')
        database.executemany("INSERT INTO orders VALUES (?, ?)", [(i, i / 2) for i in range(10)])
    database.close()
    ctx.register_catalog("shop", hr.AdbcCatalog("sqlite", str(path)))
    try:
        assert one(ctx, "SELECT sum(amount) FROM shop.main.orders WHERE id < 5") == 5.0
        names = {row.tableName for row in ctx.sql("SHOW TABLES IN shop.main").collect()}
        assert names == {"orders", 'odd.name "x'}
        assert one(ctx, 'SELECT count(*) FROM shop.main.`odd.name "x`') == 0
        assert "id < 5  EXACT" in ctx.explain("SELECT amount FROM shop.main.orders WHERE id < 5")
        with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
            ctx.sql("SELECT * FROM shop.main.missing")
    finally:
        ctx.deregister_catalog("shop")
