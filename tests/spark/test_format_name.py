"""The format name: spark.read.format("headrace"), USING headrace, and the names under which Spark finds tables."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import headrace as hr
from catalogs import Shop

pytestmark = pytest.mark.core

ORDERS = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]})


@pytest.fixture
def orders(ctx: hr.SessionContext) -> str:
    ctx.register_table("orders", ORDERS)
    return "orders"


@pytest.fixture
def dropped(spark: SparkSession) -> Iterator[Callable[[str], str]]:
    """Names of tables and views of Spark's own that the test makes."""
    names: list[str] = []
    yield lambda name: names.append(name) or name  # type: ignore[func-returns-value]
    for name in names:
        spark.sql(f"DROP TABLE IF EXISTS spark_catalog.default.{name}")
        spark.catalog.dropTempView(name)


def read(spark: SparkSession, **options: str) -> Any:
    return spark.read.format("headrace").options(**options).load()


# The namespace


def test_namespace_default_has_the_tables_of_a_context(ctx: hr.SessionContext, orders: str) -> None:
    spark, catalog = ctx.spark, ctx.catalog
    assert spark.table(f"{catalog}.default.orders").count() == 3
    assert spark.table(f"{catalog}.orders").count() == 3
    assert [row[0] for row in spark.sql(f"SHOW SCHEMAS IN {catalog}").collect()] == ["default"]
    for where in (catalog, f"{catalog}.default", f"{catalog}.DEFAULT"):
        assert [row.tableName for row in spark.sql(f"SHOW TABLES IN {where}").collect()] == ["orders"]
    columns = [row.col_name for row in spark.sql(f"DESCRIBE {catalog}.default.orders").collect()]
    assert columns[:2] == ["id", "name"]
    assert spark.catalog.tableExists(f"{catalog}.default.orders")
    assert spark.catalog.getTable(f"{catalog}.default.orders").namespace == ["default"]
    assert [table.name for table in spark.catalog.listTables(f"{catalog}.default")] == ["orders"]
    assert spark.catalog.databaseExists(f"{catalog}.default")
    assert not spark.catalog.databaseExists(f"{catalog}.other")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.table(f"{catalog}.other.orders")


def test_tables_of_a_catalog_are_listed_in_the_namespace_default(ctx: hr.SessionContext, orders: str) -> None:
    spark, catalog = ctx.spark, ctx.catalog
    for statement in ("SHOW TABLES IN {}", "SHOW TABLE EXTENDED IN {} LIKE '*'"):
        for where in (catalog, f"{catalog}.default"):
            rows = [row for row in spark.sql(statement.format(where)).collect() if not row.isTemporary]
            assert [(row.namespace, row.tableName) for row in rows] == [("default", "orders")]
    for where in (catalog, f"{catalog}.default"):
        (listed,) = [table for table in spark.catalog.listTables(where) if not table.isTemporary]
        assert (listed.catalog, listed.namespace, listed.name) == (catalog, ["default"], "orders")
        assert spark.table(".".join([catalog, *listed.namespace, listed.name])).count() == 3


@pytest.fixture
def named(embedded: hr.SessionContext) -> Iterator[hr.SessionContext]:
    """A context whose catalog has the name of the format."""
    assert embedded.catalog == "headrace"
    embedded.register_table("sales_2026", [{"id": 1}])
    yield embedded
    embedded.deregister_table("sales_2026")


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM {t}",
        "UPDATE {t} SET id = 1",
        "MERGE INTO {t} t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE",
        "SELECT * FROM {t} VERSION AS OF 1",
        "SELECT * FROM {t} TIMESTAMP AS OF '2026-01-01'",
    ],
)
def test_statement_over_a_missing_table_of_the_catalog_names_those_that_are_near(
    named: hr.SessionContext, statement: str
) -> None:
    with pytest.raises(AnalysisException, match=r"'headrace' has no table 'sales_2062'.*near that: sales_2026"):
        named.spark.sql(statement.format(t="headrace.sales_2062"))


@pytest.mark.parametrize("way", ["SELECT", "SELECT of the context", "spark.table", "spark.read.table", "DESCRIBE"])
def test_missing_table_of_the_catalog_names_those_that_are_near(named: hr.SessionContext, way: str) -> None:
    read_it = {
        "SELECT": lambda: named.spark.sql("SELECT * FROM headrace.sales_2062"),
        "SELECT of the context": lambda: named.sql("SELECT * FROM headrace.sales_2062"),
        "spark.table": lambda: named.spark.table("headrace.sales_2062"),
        "spark.read.table": lambda: named.spark.read.table("headrace.sales_2062"),
        "DESCRIBE": lambda: named.spark.sql("DESCRIBE headrace.sales_2062"),
    }
    with pytest.raises(AnalysisException) as raised:
        read_it[way]().collect()
    assert raised.value.getCondition() == "TABLE_OR_VIEW_NOT_FOUND"
    assert "'headrace' has no table 'sales_2062'" in str(raised.value)
    assert str(raised.value).count("near that: sales_2026") == 1


def test_missing_table_of_the_catalog_is_missing_for_statements_that_look(named: hr.SessionContext) -> None:
    spark = named.spark
    assert not spark.catalog.tableExists("headrace.sales_2062")
    assert spark.catalog.tableExists("headrace.sales_2026")
    spark.sql("DROP TABLE IF EXISTS headrace.sales_2062")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.sql("INSERT INTO headrace.sales_2062 SELECT 1")
    with pytest.raises(AnalysisException, match=r"no table .*sales_2062' is registered"):
        read(spark, table="headrace.sales_2062")
    with pytest.raises(Exception, match="register_table"):
        spark.range(1).write.saveAsTable("headrace.sales_2062")


def test_table_of_a_catalog_whose_context_is_closed_is_missing(spark: SparkSession) -> None:
    with hr.SessionContext(spark, catalog="HeadRace") as context:
        context.register_table("sales_2026", [{"id": 1}])
        assert spark.table("HeadRace.sales_2026").count() == 1
    with pytest.raises(AnalysisException, match=r"TABLE_OR_VIEW_NOT_FOUND.*context is closed"):
        spark.table("HeadRace.sales_2026")


def test_namespace_default_is_where_use_leads(ctx: hr.SessionContext, orders: str) -> None:
    other = ctx.spark.newSession()
    other.sql(f"USE {ctx.catalog}")  # before 4.1 setCurrentCatalog asks whichever session was active last
    assert other.catalog.currentDatabase() == "default"
    assert [row.tableName for row in other.sql("SHOW TABLES").collect()] == ["orders"]
    assert other.table("orders").count() == other.table("default.orders").count() == 3


# Reading


def test_format_reads_a_registered_table_with_all_that_is_pushed_down(ctx: hr.SessionContext, orders: str) -> None:
    frame = read(ctx.spark, table="orders").where("id > 1").select("id")
    assert [row.id for row in frame.collect()] == [2, 3]
    explained = ctx.explain(frame)
    assert "columns       id  [1 of 2]" in explained
    assert "id > 1  EXACT" in explained


def test_format_finds_the_table_by_every_form_of_its_name(ctx: hr.SessionContext, orders: str) -> None:
    catalog = ctx.catalog
    ctx.register_table("größe 1", {"a": [1]})
    for name in ("orders", "ORDERS", "default.orders", f"{catalog}.orders", f"{catalog}.default.orders"):
        assert read(ctx.spark, table=name).count() == 3, name
    assert read(ctx.spark, table="orders", catalog=catalog).count() == 3
    assert read(ctx.spark, table="größe 1").count() == 1


def test_format_finds_tables_of_a_catalog_provider(ctx: hr.SessionContext) -> None:
    ctx.register_catalog("crm", Shop())
    assert read(ctx.spark, table="sales.orders", catalog="crm").count() == 3
    assert read(ctx.spark, table="crm.sales.orders").count() == 3
    assert read(ctx.spark, table="crm.sales.orders", versionAsOf="v7").first().name == "v7 None"
    at = read(ctx.spark, table="crm.sales.orders", timestampAsOf="2026-01-02 03:04:05+00:00").first().name
    assert at == "None 2026-01-02 03:04:05+00:00"


def test_format_works_in_sessions_and_threads_that_know_nothing_of_the_context(
    ctx: hr.SessionContext, spark: SparkSession
) -> None:
    older = spark.newSession()
    older.sql("SELECT 1").collect()
    with hr.SessionContext(spark, catalog="later") as later:
        later.register_table("late", ORDERS)
        assert read(older, table="late").count() == 3
        assert read(spark.newSession(), table="late").count() == 3
        counts: list[int] = []
        thread = threading.Thread(target=lambda: counts.append(read(spark, table="late").count()))
        thread.start()
        thread.join(60)
        assert counts == [3]


def test_format_means_the_table_that_the_bare_name_shows_in_a_session(
    ctx: hr.SessionContext, orders: str, spark: SparkSession
) -> None:
    with hr.SessionContext(spark.newSession()) as other:
        other.register_table("orders", {"id": [7]})
        assert read(spark, table="orders").count() == 3
        assert read(other.spark, table="orders").count() == 1
        third = spark.newSession()
        with pytest.raises(AnalysisException, match=r"several session contexts have a table 'orders'.*'catalog'"):
            read(third, table="orders")
        assert read(third, table="orders", catalog=other.catalog).count() == 1
        assert read(third, table="orders", catalog=ctx.catalog).count() == 3


def test_format_reads_a_push_table_once(ctx: hr.SessionContext) -> None:
    with ctx.register_streaming_table("pushed", "id BIGINT") as sink:
        sink.write({"id": [1, 2]})
    other = ctx.spark.newSession()
    pushed = read(other, table="pushed")
    with pytest.raises(Exception, match="StreamConsumedError: the streaming table 'pushed' can be scanned once"):
        pushed.crossJoin(read(other, table="pushed")).count()
    assert [row.id for row in pushed.orderBy("id").collect()] == [1, 2]
    with pytest.raises(Exception, match="StreamConsumedError"):
        pushed.count()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"table": "ordrs"}, r"HeadraceError: no table 'ordrs' is registered.*orders"),
        ({}, r"HeadraceError: the format 'headrace' needs the option 'table'"),
        ({"table": " "}, r"HeadraceError: the format 'headrace' needs the option 'table'"),
        ({"table": "orders", "catalog": "nowhere"}, r"HeadraceError: no SessionContext answers for .* 'nowhere'"),
        ({"table": "a.`b"}, r"HeadraceError: the option 'table' is no name: 'a.`b'"),
    ],
    ids=["unknown", "missing", "blank", "catalog", "unreadable"],
)
def test_format_with_options_that_name_no_table_is_refused_by_name(
    ctx: hr.SessionContext, orders: str, options: dict[str, str], message: str
) -> None:
    with pytest.raises(AnalysisException, match=message):
        read(ctx.spark, **options)


def test_format_s_table_that_is_gone_is_a_named_error(ctx: hr.SessionContext, spark: SparkSession) -> None:
    with hr.SessionContext(spark) as second:
        second.register_table("brief", ORDERS)
        frame = read(spark, table="brief")
        assert frame.count() == 3
        second.deregister_table("brief")
        with pytest.raises(AnalysisException, match="HeadraceError: no table 'brief' is registered"):
            read(spark, table="brief")
        second.register_table("brief", ORDERS)
        frame = read(spark, table="brief")
    with pytest.raises(AnalysisException, match="ClosedError: the Headrace session context behind"):
        frame.count()


# USING


def test_using_makes_a_table_that_other_sessions_see_and_drop(
    ctx: hr.SessionContext, orders: str, dropped: Callable[[str], str]
) -> None:
    name = dropped("kept_orders")
    ctx.sql(f"CREATE TABLE {name} USING headrace OPTIONS (table 'orders')")
    assert ctx.spark.newSession().sql(f"SELECT sum(id) AS s FROM {name} WHERE id > 1").collect()[0].s == 5
    assert "columns       id  [1 of 2]" in ctx.explain(f"SELECT id FROM {name}")
    ctx.deregister_table("orders")
    with pytest.raises(AnalysisException, match="HeadraceError: no table 'orders' is registered"):
        ctx.sql(f"SELECT id FROM {name}")
    ctx.register_table("orders", {"id": [4]})
    assert ctx.sql(f"SELECT * FROM {name}").collect() == [(4,)]
    ctx.deregister_table("orders")
    ctx.sql(f"DROP TABLE {name}")
    assert not ctx.spark.catalog.tableExists(name)


def test_using_makes_a_temporary_view(ctx: hr.SessionContext, orders: str, dropped: Callable[[str], str]) -> None:
    name = dropped("orders_view")
    ctx.sql(f"CREATE TEMPORARY VIEW {name} USING headrace OPTIONS (table 'orders', catalog '{ctx.catalog}')")
    assert ctx.sql(f"SELECT sum(id) AS s FROM {name} WHERE id > 1").collect()[0].s == 5


@pytest.mark.parametrize("create", ["(id INT) USING headrace", "USING headrace"], ids=["columns", "as select"])
def test_using_with_columns_of_one_s_own_is_refused(ctx: hr.SessionContext, orders: str, create: str) -> None:
    query = "" if "(" in create else " AS SELECT 1 AS id"
    with pytest.raises(Exception, match=r"EXTERNAL_METADATA_UNSUPPORTED.*provider 'headrace'"):
        ctx.sql(f"CREATE TABLE other_orders {create} OPTIONS (table 'orders'){query}")
    assert not ctx.spark.catalog.tableExists("other_orders")


def test_save_as_table_with_the_format_is_refused(ctx: hr.SessionContext, orders: str) -> None:
    for mode in ("error", "append", "overwrite"):
        writer = ctx.spark.range(1).write.format("headrace").option("table", "orders").mode(mode)
        with pytest.raises(Exception, match=r"EXTERNAL_METADATA_UNSUPPORTED.*provider 'headrace'"):
            writer.saveAsTable("other_orders")
    assert not ctx.spark.catalog.tableExists("other_orders")


# A table of the same name as a registered one


@pytest.mark.parametrize("mode", ["error", "append", "overwrite", "ignore"])
def test_save_as_table_of_a_registered_bare_name_is_refused(ctx: hr.SessionContext, orders: str, mode: str) -> None:
    frame = ctx.spark.createDataFrame([(4, "d")], "id BIGINT, name STRING")
    with pytest.raises(AnalysisException, match=rf"TableExistsError: 'orders' is .*insertInto.*{ctx.catalog}\.orders"):
        frame.write.mode(mode).saveAsTable("orders")
    assert not ctx.spark.catalog.tableExists("spark_catalog.default.orders")


def test_create_table_as_select_of_a_registered_bare_name_is_refused(ctx: hr.SessionContext, orders: str) -> None:
    with pytest.raises(AnalysisException, match="TableExistsError: 'orders' is a table registered with Headrace"):
        ctx.sql("CREATE TABLE orders AS SELECT 1 AS id")
    with pytest.raises(AnalysisException, match="TableExistsError: 'orders' is a table registered with Headrace"):
        ctx.spark.range(1).writeTo("orders").create()
    assert not ctx.spark.catalog.tableExists("spark_catalog.default.orders")


def test_save_as_table_of_other_names_is_left_to_spark(
    ctx: hr.SessionContext, orders: str, dropped: Callable[[str], str]
) -> None:
    frame = ctx.spark.range(2)
    frame.write.saveAsTable(dropped("plain_orders"))
    frame.createOrReplaceTempView(dropped("plain_view"))
    frame.write.saveAsTable("plain_view")  # a view of Spark's own: as Spark does it
    assert ctx.spark.table("plain_orders").count() == 2
    ctx.deregister_table("orders")
    frame.write.saveAsTable(dropped("orders"))
    assert ctx.spark.table("orders").count() == 2
    ctx.register_table("orders", ORDERS)
    frame.write.mode("append").saveAsTable("orders")  # which somebody has made knowingly
    assert ctx.spark.table("spark_catalog.default.orders").count() == 4
