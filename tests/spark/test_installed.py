"""What the catalog installs in Spark: in every session that uses it, once, and gone with its context."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import headrace as hr
from catalogs import NUMBERS
from pushing import Producer, filled, rows

RULES = dict.fromkeys(
    (
        *("NestedFiltersRule", "RecursionRule", "WithheldKeysRule", "GroupedPromisesRule", "DistinctLiteralRule"),
        *("SingleScanRule", "BareNameRule", "PrunedStreamRule", "RowChangesRule"),
    ),
    1,
)


def names(objects: Any) -> Counter[str]:
    """The simple names of Headrace's classes among them."""
    classes = (str(objects.apply(index).getClass().getName()) for index in range(objects.size()))
    return Counter(name.rpartition(".")[2] for name in classes if name.startswith("org.headrace."))


def rules_of(spark: SparkSession) -> Counter[str]:
    session: Any = spark._jsparkSession
    return names(session.experimental().extraOptimizations())


def listeners_of(spark: SparkSession) -> Counter[str]:
    jvm: Any = spark._jvm
    listeners = spark.sparkContext._jsc.sc().listenerBus().listeners()
    return names(jvm.scala.jdk.javaapi.CollectionConverters.asScala(listeners).toSeq())


def test_rules_are_installed_once_in_each_session_that_uses_a_catalog(ctx: hr.SessionContext) -> None:
    other = ctx.spark.newSession()
    filled(ctx, "t", 100)
    with hr.SessionContext(ctx.spark) as second:
        second.register_table("u", hr.MemTable(NUMBERS))
    assert rules_of(ctx.spark) == RULES
    assert rules_of(other) == {}
    with pytest.raises(PySparkException, match="this query scans it 2 times"):
        other.sql(f"SELECT * FROM {ctx.catalog}.t x JOIN {ctx.catalog}.t y ON x.a = y.a").collect()
    assert rules_of(other) == RULES
    assert other.sql(f"SELECT sum(a) FROM {ctx.catalog}.t").collect() == [(4950,)]


def test_listener_is_one_for_each_context_with_push_tables_until_it_closes(ctx: hr.SessionContext) -> None:
    before = listeners_of(ctx.spark)
    with hr.SessionContext(ctx.spark) as pulling, hr.SessionContext(ctx.spark) as pushing:
        pulling.register_table("u", hr.MemTable(NUMBERS))
        for name in ("t", "v"):
            sink = pushing.register_streaming_table(name, rows(0).schema)
        assert listeners_of(ctx.spark) - before == {"QueryEndListener": 1}
        producer = Producer(lambda i: sink.write(rows(i)))
        assert pushing.spark.newSession().sql(f"SELECT a FROM {pushing.catalog}.v LIMIT 3").count() == 3
        assert "needs no more rows" in producer.scan_ended()
    assert listeners_of(ctx.spark) == before


def test_table_function_goes_with_its_context_and_is_of_one_session(ctx: hr.SessionContext) -> None:
    with hr.SessionContext(ctx.spark) as second:
        second.register_table_function("of_second", lambda: hr.MemTable(NUMBERS))
        assert ctx.sql("SELECT sum(n) AS s FROM of_second()").collect() == [(6,)]
        other = ctx.spark.newSession()
        assert [row[0] for row in other.sql(f"SHOW USER FUNCTIONS IN {second.catalog}").collect()] == [
            f"{second.catalog}.of_second"
        ]
        with pytest.raises(PySparkException, match="UNRESOLVABLE_TABLE_VALUED_FUNCTION"):
            other.sql("SELECT * FROM of_second()")
        with pytest.raises(hr.TableExistsError, match="Spark has a table function 'of_second' already"):
            ctx.register_table_function("of_second", lambda: hr.MemTable(NUMBERS))
        assert ctx.sql("SELECT sum(n) AS s FROM of_second()").collect() == [(6,)]
    with pytest.raises(PySparkException, match="UNRESOLVABLE_TABLE_VALUED_FUNCTION"):
        ctx.sql("SELECT * FROM of_second()")
