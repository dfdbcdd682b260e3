"""Names after a view was dropped or replaced behind the context's back, and queries of names that are not there."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException

import headrace as hr

ONE, TWO = pa.table({"n": [1]}), pa.table({"n": [1, 2]})
Drop = Callable[[hr.SessionContext, str], object]
DROPS: dict[str, Drop] = {
    "sql": lambda ctx, name: ctx.sql(f"DROP VIEW {name}"),
    "catalog": lambda ctx, name: ctx.spark.catalog.dropTempView(name),
    "replaced": lambda ctx, name: ctx.spark.range(3).createOrReplaceTempView(name),
}


@pytest.mark.parametrize("drop", DROPS.values(), ids=DROPS)
def test_table_whose_view_is_dropped_is_forgotten(ctx: hr.SessionContext, drop: Drop) -> None:
    ctx.register_table("dropped", hr.MemTable(ONE))
    ctx.register_table("kept", hr.MemTable(ONE))
    drop(ctx, "dropped")
    try:
        assert not ctx.table_exists("dropped")
        assert ctx.table_names() == ["kept"]
        assert ctx.deregister_table("dropped") is False
        with pytest.raises(hr.HeadraceError, match="no table 'dropped' is registered here"):
            ctx.table("dropped")
        with pytest.raises(AnalysisException):
            ctx.sql(f"SELECT * FROM {ctx.catalog}.dropped")
        ctx.spark.catalog.dropTempView("dropped")
        ctx.register_table("dropped", hr.MemTable(TWO))
        assert ctx.collect("SELECT count(*) AS n FROM dropped").to_pylist() == [{"n": 2}]
    finally:
        ctx.spark.catalog.dropTempView("dropped")


def test_table_whose_view_is_dropped_can_be_registered_again_at_once(ctx: hr.SessionContext) -> None:
    ctx.register_table("again", hr.MemTable(ONE))
    ctx.sql("DROP VIEW again")
    ctx.register_table("again", hr.MemTable(TWO))
    assert ctx.collect("SELECT count(*) AS n FROM again").to_pylist() == [{"n": 2}]


def test_push_table_whose_view_is_dropped_ends_its_sink_and_can_be_registered_again(ctx: hr.SessionContext) -> None:
    sink = ctx.register_streaming_table("pushed", ONE.schema)
    ctx.sql("DROP VIEW pushed")
    again = ctx.register_streaming_table("pushed", ONE.schema)
    with pytest.raises(hr.DeregisteredError, match="'pushed' was dropped or replaced in Spark"):
        sink.write(ONE)
    again.close()
    assert ctx.collect("SELECT * FROM pushed").num_rows == 0


def test_name_replaced_by_a_second_context_is_that_contexts_alone(ctx: hr.SessionContext) -> None:
    ctx.register_table("shared", hr.MemTable(ONE))
    with hr.SessionContext(ctx.spark) as other:
        other.register_table("shared", hr.MemTable(TWO), replace=True)
        assert ctx.collect("SELECT count(*) AS n FROM shared").to_pylist() == [{"n": 2}]
        assert (ctx.table_names(), other.table_names()) == ([], ["shared"])
        with pytest.raises(hr.TableExistsError, match="the session has a temporary view 'shared' already"):
            ctx.register_table("shared", hr.MemTable(ONE))
        assert ctx.deregister_table("shared") is False
        assert other.table_exists("shared")
    ctx.register_table("shared", hr.MemTable(ONE))
    assert ctx.collect("SELECT count(*) AS n FROM shared").to_pylist() == [{"n": 1}]


ASKS: dict[str, Callable[[hr.SessionContext, str], object]] = {
    "sql": hr.SessionContext.sql,
    "collect": hr.SessionContext.collect,
    "execute_stream": hr.SessionContext.execute_stream,
    "explain": hr.SessionContext.explain,
}


@pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS)
def test_query_of_an_unknown_table_names_the_near_ones(
    ctx: hr.SessionContext, ask: Callable[[hr.SessionContext, str], object]
) -> None:
    for name in ("orders", "orders_2026", "people"):
        ctx.register_table(name, hr.MemTable(ONE))
    with pytest.raises(AnalysisException) as found:
        ask(ctx, f"SELECT * FROM {ctx.catalog}.ordrs")
    first = str(found.value).partition("\n")[0]
    assert first.startswith("[TABLE_OR_VIEW_NOT_FOUND]")
    assert first.endswith("Registered here under a name near that: orders, orders_2026.")
    with pytest.raises(AnalysisException, match=r"Registered here: orders, orders_2026, people\."):
        ask(ctx, "SELECT * FROM xyz")


@pytest.mark.parametrize("name", ["HEADRACE.orders", "Headrace.not_there"])
def test_query_with_another_case_of_the_catalog_is_told_its_name(ctx: hr.SessionContext, name: str) -> None:
    with pytest.raises(AnalysisException, match=f"direct query on files.* this context is {ctx.catalog},"):
        ctx.sql(f"SELECT * FROM {name}")


def test_table_of_an_unknown_name_names_the_near_ones(ctx: hr.SessionContext) -> None:
    ctx.register_table("orders", hr.MemTable(ONE))
    with pytest.raises(hr.HeadraceError, match=r"no table 'Order' .*Registered here under a name near that: orders"):
        ctx.table("Order")
