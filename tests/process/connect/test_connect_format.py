"""The format name over Spark Connect: the server finds the tables of a session's contexts, and of no other session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException

import headrace as hr
from connect_server import ConnectServer
from growing import Counter
from written_files import FileTable

pytestmark = pytest.mark.timeout(200)

ORDERS = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]})


@pytest.fixture
def other(server: ConnectServer) -> Iterator[Any]:
    from pyspark.sql.connect.session import SparkSession

    session = SparkSession.builder.remote(server.url).create()
    yield session
    session.stop()


def read(spark: Any, **options: str) -> Any:
    return spark.read.format("headrace").options(**options).load()


@pytest.mark.parametrize("planning", ["client", "server"])
def test_connect_format_and_namespace_find_the_session_s_tables(spark: Any, planning: str) -> None:
    with hr.SessionContext(spark, planning=planning) as ctx:
        assert [row[0] for row in spark.sql(f"SHOW SCHEMAS IN {ctx.catalog}").collect()] == ["default"]
        assert spark.sql(f"SHOW TABLES IN {ctx.catalog}.default").collect() == []
        ctx.register_table("orders", ORDERS)
        assert [row.id for row in read(spark, table="orders").where("id > 1").select("id").collect()] == [2, 3]
        assert read(spark, table="orders", catalog=ctx.catalog).count() == 3
        assert spark.table(f"{ctx.catalog}.default.orders").count() == 3
        assert [row.tableName for row in spark.sql(f"SHOW TABLES IN {ctx.catalog}.default").collect()] == ["orders"]
        with pytest.raises(AnalysisException, match="no table 'ordrs' is registered"):
            read(spark, table="ordrs").collect()
    with pytest.raises(AnalysisException, match="ClosedError: the format 'headrace' finds no table 'orders'"):
        read(spark, table="orders").collect()


def test_connect_format_makes_views_and_tables(ctx: hr.SessionContext, spark: Any) -> None:
    ctx.register_table("orders", ORDERS)
    spark.sql("CREATE TEMPORARY VIEW orders_view USING headrace OPTIONS (table 'orders')").collect()
    assert spark.sql("SELECT sum(id) AS s FROM orders_view").collect()[0].s == 6
    spark.sql("CREATE TABLE kept_orders USING headrace OPTIONS (table 'orders')").collect()
    try:
        assert spark.sql("SELECT sum(id) AS s FROM kept_orders").collect()[0].s == 6
    finally:
        ctx.deregister_table("orders")
        spark.sql("DROP TABLE kept_orders").collect()
        spark.catalog.dropTempView("orders_view")


def test_connect_format_of_another_session_has_other_tables(ctx: hr.SessionContext, spark: Any, other: Any) -> None:
    ctx.register_table("orders", ORDERS)
    with hr.SessionContext(other) as second:
        with pytest.raises(AnalysisException, match="no table 'orders' is registered"):
            read(other, table="orders").collect()
        second.register_table("orders", {"id": [7]})
        assert read(other, table="orders").count() == 1
        assert read(spark, table="orders").count() == 3


@pytest.mark.parametrize("mode", ["error", "append"])
def test_connect_save_as_table_of_a_registered_bare_name_is_refused(
    ctx: hr.SessionContext, spark: Any, mode: str
) -> None:
    ctx.register_table("orders", ORDERS)
    with pytest.raises(AnalysisException, match="TableExistsError: 'orders' is a table registered with Headrace"):
        spark.range(1).write.mode(mode).saveAsTable("orders")
    assert not spark.catalog.tableExists("spark_catalog.default.orders")


@pytest.mark.parametrize("planning", ["client", "server"])
def test_connect_format_writes(spark: Any, planning: str, tmp_path: Path) -> None:
    table = FileTable(tmp_path)
    with hr.SessionContext(spark, planning=planning) as ctx:
        ctx.register_table("sunk", table)
        for count in (1, 2):
            rows = spark.sql("SELECT id, concat('row ', id) AS name FROM range(3)")
            rows.write.format("headrace").option("table", "sunk").mode("append").save()
            assert len(table.rows()) == 3 * count
        rows.write.format("headrace").option("table", "sunk").mode("overwrite").save()
        assert len(table.rows()) == 3
        with pytest.raises(AnalysisException, match="no table 'snk' is registered"):
            rows.write.format("headrace").option("table", "snk").mode("append").save()


def test_connect_format_reads_and_writes_streams(ctx: hr.SessionContext, spark: Any, tmp_path: Path) -> None:
    table = FileTable(tmp_path)
    ctx.register_table("numbers", Counter(4))
    ctx.register_table("sunk", table)
    stream = spark.readStream.format("headrace").option("table", "numbers").load()
    writing = stream.selectExpr("n AS id", "text AS name").writeStream.format("headrace").option("table", "sunk")
    query = writing.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    assert query.awaitTermination(100)
    assert [row["id"] for row in table.rows()] == [0, 1, 2, 3]
