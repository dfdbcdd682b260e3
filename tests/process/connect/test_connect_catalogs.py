"""Catalogs and table functions over Spark Connect: this process answers, as in a classic session."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException

import headrace as hr
from catalogs import NUMBERS, Shop
from connect_server import ConnectServer
from producing import wait_until

pytestmark = pytest.mark.timeout(200)


@pytest.fixture
def other(server: ConnectServer) -> Iterator[Any]:
    from pyspark.sql.connect.session import SparkSession

    session = SparkSession.builder.remote(server.url).create()
    yield session
    session.stop()


def answers(session: Any, query: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in session.sql(query).collect()]


# Catalogs


def test_connect_catalog_is_queried_listed_and_described(ctx: hr.SessionContext, spark: Any) -> None:
    shop = Shop()
    ctx.register_catalog("crm", shop)
    assert answers(spark, "SELECT sum(n) FROM crm.sales.orders WHERE n > 1") == [(5,)]
    assert ctx.collect("SELECT max(name) AS m FROM crm.sales.orders").to_pylist() == [{"m": "sales.orders"}]
    assert [row.tableName for row in spark.sql("SHOW TABLES IN crm.sales").collect()] == ["orders"]
    assert [row.col_name for row in spark.sql("DESCRIBE crm.sales.orders").collect()][:2] == ["n", "name"]
    assert shop.asked.count("sales.orders") == 1
    assert answers(spark, "SELECT DISTINCT name FROM crm.sales.orders VERSION AS OF 'v7'") == [("v7 None",)]
    assert "columns       n  [1 of 2]" in ctx.explain("SELECT n FROM crm.sales.orders")
    with pytest.raises(hr.ProviderError, match="LookupError: no such version"):
        ctx.collect("SELECT * FROM crm.sales.orders VERSION AS OF 'broken'")


def test_connect_catalog_is_refreshed_replaced_deregistered_and_registered_again(
    ctx: hr.SessionContext, spark: Any
) -> None:
    shop = Shop()
    ctx.register_catalog("crm", shop)
    assert spark.sql("SHOW TABLES IN crm.sales").count() == 1
    shop.names["sales"].append("invoices")
    ctx.refresh_catalog("crm")
    assert spark.sql("SHOW TABLES IN crm.sales").count() == 2
    with pytest.raises(hr.TableExistsError, match="registered already"):
        ctx.register_catalog("crm", Shop())
    ctx.register_catalog("crm", Shop(), replace=True)
    assert spark.sql("SHOW TABLES IN crm.sales").count() == 1
    assert ctx.deregister_catalog("crm") is True
    assert ctx.deregister_catalog("crm") is False
    with pytest.raises(AnalysisException, match="NOT_FOUND"):
        spark.sql("SELECT * FROM crm.sales.orders").collect()
    with hr.SessionContext(spark) as second:  # Spark has the catalog still; another context answers for it now
        second.register_catalog("crm", Shop())
        assert answers(spark, "SELECT count(*) FROM crm.sales.orders") == [(3,)]
        with pytest.raises(hr.TableExistsError, match="Spark has a catalog 'crm' already"):
            ctx.register_catalog("crm", Shop())
    ctx.register_catalog("crm", Shop())
    assert answers(spark, "SELECT count(*) FROM crm.sales.orders") == [(3,)]


def test_connect_catalogs_of_one_name_in_two_sessions_are_two(ctx: hr.SessionContext, other: Any) -> None:
    class Closed(Shop):
        def table(self, *_: Any, **__: Any) -> hr.TableProvider:
            raise PermissionError("closed on Sundays")

    with hr.SessionContext(other) as second:
        ctx.register_catalog("crm", Shop())
        second.register_catalog("crm", Closed())
        assert answers(ctx.spark, "SELECT count(*) FROM crm.sales.orders") == [(3,)]
        with pytest.raises(hr.ProviderError, match="closed on Sundays"):
            second.collect("SELECT * FROM crm.sales.orders")
    assert answers(ctx.spark, "SELECT count(*) FROM crm.sales.orders") == [(3,)]


# Table functions


def test_connect_table_function_gets_constants_as_python_values(ctx: hr.SessionContext, spark: Any) -> None:
    calls: list[tuple[Any, ...]] = []

    def tickets(state: str, depth: int = 1, *, since: datetime.date | None = None) -> hr.TableProvider:
        calls.append((state, depth, since))
        if state == "bad":
            raise ValueError("a state is open or closed")
        return hr.MemTable(pa.table({"n": list(range(depth))}))

    ctx.register_table_function("tickets", tickets)
    assert answers(spark, "SELECT sum(n) FROM tickets('open', 1 + 2, since => DATE '2026-01-01')") == [(3,)]
    assert calls[-1] == ("open", 3, datetime.date(2026, 1, 1))
    with pytest.raises(hr.ProviderError, match="ValueError: a state is open or closed"):
        ctx.collect("SELECT * FROM tickets('bad')")


def test_connect_table_function_is_replaced_dropped_and_refused_by_name(
    ctx: hr.SessionContext, spark: Any, other: Any
) -> None:
    ctx.register_table_function("Numbers", lambda: hr.MemTable(NUMBERS))
    assert answers(spark, "SELECT sum(n) FROM numbers()") == [(6,)]
    with pytest.raises(AnalysisException, match="UNRESOLVABLE_TABLE_VALUED_FUNCTION"):
        other.sql("SELECT * FROM numbers()").collect()
    with pytest.raises(hr.TableExistsError, match="registered already"):
        ctx.register_table_function("numbers", lambda: hr.MemTable(NUMBERS))
    ctx.register_table_function("numbers", lambda: hr.MemTable(NUMBERS.slice(0, 1)), replace=True)
    assert answers(spark, "SELECT count(*) FROM numbers()") == [(1,)]
    with pytest.raises(hr.TableExistsError, match="Spark has a table function 'range' already"):
        ctx.register_table_function("range", lambda: hr.MemTable(NUMBERS))
    with hr.SessionContext(spark) as second:
        with pytest.raises(hr.TableExistsError, match="Spark has a table function 'numbers' already"):
            second.register_table_function("numbers", lambda: hr.MemTable(NUMBERS))
        second.register_table_function("other_numbers", lambda: hr.MemTable(NUMBERS))
        assert answers(spark, "SELECT count(*) FROM other_numbers()") == [(3,)]
    with pytest.raises(AnalysisException, match="UNRESOLVABLE_TABLE_VALUED_FUNCTION"):
        spark.sql("SELECT * FROM other_numbers()").collect()
    assert answers(spark, "SELECT count(*) FROM range(3)") == [(3,)]
    assert ctx.deregister_table_function("numbers") is True
    assert ctx.deregister_table_function("numbers") is False
    with pytest.raises(AnalysisException, match="UNRESOLVABLE_TABLE_VALUED_FUNCTION"):
        spark.sql("SELECT * FROM numbers()").collect()


@pytest.mark.daily
def test_connect_analyses_of_catalogs_and_functions_leave_nothing_behind(
    ctx: hr.SessionContext, spark: Any, server: ConnectServer
) -> None:
    ctx.register_catalog("crm", Shop())
    ctx.register_table_function("numbers", lambda: hr.MemTable(NUMBERS))
    held: Any = ctx._attached.planner.catalogs.held
    for version in range(20):
        assert spark.sql("SELECT * FROM numbers()").columns == ["n"]
        assert spark.sql(f"SELECT n FROM crm.sales.orders VERSION AS OF 'v{version}'").columns == ["n"]

    def is_little() -> bool:  # what Spark's last plans hold; the rest has to be collected first
        server.reachable()
        return len(held) <= 10

    wait_until(is_little, what="that at most 10 tables are held")


def test_connect_planning_beside_the_server_refuses_catalogs_and_functions_by_name(spark: Any) -> None:
    with hr.SessionContext(spark, planning="server") as ctx:
        with pytest.raises(
            hr.HeadraceError, match=r'catalogs and table functions cannot be had with planning="server"'
        ):
            ctx.register_catalog("crm", Shop())
        with pytest.raises(
            hr.HeadraceError, match=r'catalogs and table functions cannot be had with planning="server"'
        ):
            ctx.register_table_function("f", lambda: hr.MemTable(NUMBERS))
