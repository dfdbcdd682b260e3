"""INSERT ... PARTITION (...) on partitioned DatasetTables, held against a table of Spark's own; many partitions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import headrace as hr
from headrace.errors import WriteError

pytestmark = pytest.mark.core

ROWS = """VALUES (1L, 1, DATE '2024-01-01', 'a'), (2L, 1, DATE '2024-01-01', 'b'), (3L, 1, DATE '2024-01-02', 'a'),
    (4L, 1, NULL, 'a')"""
STATEMENTS = {
    "static": "INSERT INTO {t} PARTITION (day = DATE '2024-05-05', city = 'z') VALUES (10L, 7), (11L, 8)",
    "text for a date": "INSERT INTO {t} PARTITION (day = '2024-05-05', city = 5) SELECT 12L, 7",
    "dynamic": "INSERT INTO {t} PARTITION (day, city) SELECT 13L, 1, DATE '2024-01-01', 'a'",
    "both": "INSERT INTO {t} PARTITION (day = '2024-01-01', city) SELECT 14L, 1, 'new'",
    "null": "INSERT INTO {t} PARTITION (day = NULL, city = 'n') VALUES (15L, 7)",
    "other spelling": "INSERT INTO {t} PARTITION (DAY = '2024-01-01', City = 'a') VALUES (16L, 7)",
    "column list": "INSERT INTO {t} PARTITION (day = '2024-01-01', city = 'a') (n, id) VALUES (7, 17L)",
    "by name": "INSERT INTO {t} PARTITION (day = '2024-01-01', city = 'a') BY NAME SELECT 5 AS n, 18L AS id",
    "overwrite static": "INSERT OVERWRITE {t} PARTITION (day = '2024-01-01', city = 'a') VALUES (20L, 7)",
    "overwrite null": "INSERT OVERWRITE {t} PARTITION (day = NULL, city = 'a') VALUES (21L, 7)",
    "overwrite both": "INSERT OVERWRITE {t} PARTITION (day = '2024-01-01', city) SELECT 22L, 7, 'a'",
    "overwrite dynamic": "INSERT OVERWRITE {t} PARTITION (day, city) SELECT 23L, 7, DATE '2024-01-01', 'a'",
    "overwrite by name": "INSERT OVERWRITE {t} PARTITION (day = NULL, city = 'a') BY NAME SELECT 5 AS n, 24L AS id",
    "overwrite all": "INSERT OVERWRITE {t} SELECT 25L, 7, DATE '2024-01-01', 'a'",
}


@pytest.fixture
def own(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """A table of Spark's own, of the same rows as ``t``."""
    yield "partitions_of_spark"
    spark.sql("DROP TABLE IF EXISTS partitions_of_spark")


@pytest.fixture(params=["static", "dynamic"])
def mode(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    """How partitions are overwritten; with one of them also without ANSI and adaptive execution."""
    settings = {"spark.sql.sources.partitionOverwriteMode": request.param}
    if request.param == "dynamic":
        settings |= {"spark.sql.ansi.enabled": "false", "spark.sql.adaptive.enabled": "false"}
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield request.param
    for name, earlier in before.items():
        spark.conf.set(name, str(earlier))


def filled(ctx: hr.SessionContext, spark: SparkSession, folder: Path, own: str) -> None:
    schema = "id BIGINT, n INT, day DATE, city STRING"
    ctx.register_table("t", hr.DatasetTable(folder / "t", schema=schema, partition_by=["day", "city"]), replace=True)
    spark.sql(f"DROP TABLE IF EXISTS {own}")
    spark.sql(f"CREATE TABLE {own} ({schema}) USING parquet PARTITIONED BY (day, city) LOCATION '{folder}/own'")
    for name in ("t", own):
        spark.sql(f"INSERT INTO {name} {ROWS}")


def rows(spark: SparkSession, name: str) -> list[str]:
    return sorted(map(str, spark.sql(f"SELECT * FROM {name}").collect()))


@pytest.mark.daily("static")
def test_statements_with_a_partition_do_what_they_do_to_tables_of_spark(
    ctx: hr.SessionContext, spark: SparkSession, tmp_path: Path, own: str, mode: str
) -> None:
    for number, (what, statement) in enumerate(STATEMENTS.items()):
        if number in (0, 8):
            filled(ctx, spark, tmp_path / str(number), own)
        spark.sql(statement.format(t="t" if number % 2 else f"{ctx.catalog}.t"))
        spark.sql(statement.format(t=own))
        assert rows(spark, "t") == rows(spark, own), what


def test_partition_is_overwritten_where_no_row_comes(
    ctx: hr.SessionContext, spark: SparkSession, tmp_path: Path
) -> None:
    table = hr.DatasetTable(tmp_path / "t", schema="id BIGINT, day DATE", partition_by=["day"])
    ctx.register_table("t", table)
    spark.sql("INSERT INTO t VALUES (1L, DATE '2024-01-01'), (2L, DATE '2024-01-02')")
    spark.sql("INSERT OVERWRITE t PARTITION (day = '2024-01-01') SELECT 1L WHERE false")
    assert [row.id for row in spark.sql("SELECT id FROM t").collect()] == [2]
    described = [row.col_name for row in spark.sql(f"DESCRIBE {ctx.catalog}.t").collect()]
    assert described[-1] == "day"
    assert "# Partition Information" in described
    frame = spark.sql("SELECT 3L AS id, DATE '2024-01-02' AS day").write.mode("append")
    frame.partitionBy("day").saveAsTable(f"{ctx.catalog}.t")
    assert spark.sql("SELECT * FROM t").count() == 2


@pytest.mark.parametrize("statement", ["INSERT INTO {t}", "INSERT OVERWRITE TABLE {t}"])
def test_partition_of_a_table_without_partition_columns_is_refused_by_its_name(
    ctx: hr.SessionContext, spark: SparkSession, tmp_path: Path, statement: str
) -> None:
    ctx.register_table("flat", hr.DatasetTable(tmp_path / "t", schema="id BIGINT, day DATE"))
    for name in ("flat", f"{ctx.catalog}.`flat`"):
        sql = f"{statement.format(t=name)} PARTITION (day = '2024-01-01') SELECT 1L"
        with pytest.raises((PySparkException, WriteError), match="'flat' has no partition columns"):
            ctx.sql(sql).collect()
    spark.sql("INSERT INTO flat (day, id) SELECT day, row_number() OVER (PARTITION BY day ORDER BY id) FROM flat")
    ctx.register_table("partition", hr.DatasetTable(tmp_path / "p", schema="id BIGINT, day DATE"))
    spark.sql("INSERT INTO TABLE partition (id, day) VALUES (1L, NULL)")
    spark.sql("INSERT INTO partition (id, day) VALUES (2L, NULL)")
    assert spark.sql("SELECT * FROM `partition`").count() == 2


def test_column_that_is_no_partition_is_refused(ctx: hr.SessionContext, spark: SparkSession, tmp_path: Path) -> None:
    ctx.register_table("t", hr.DatasetTable(tmp_path / "t", schema="id BIGINT, p INT", partition_by=["p"]))
    with pytest.raises(PySparkException, match="NON_PARTITION_COLUMN"):
        spark.sql("INSERT INTO t PARTITION (id = 1) SELECT 1")


@pytest.mark.daily
def test_thousands_of_partitions_are_written(ctx: hr.SessionContext, spark: SparkSession, tmp_path: Path) -> None:
    """In a single task, with names that make a list of its files longer than what a task may send."""
    table = hr.DatasetTable(tmp_path / "t", schema="id BIGINT, p STRING", partition_by=["p"])
    ctx.register_table("t", table)
    spark.sql("INSERT INTO t SELECT id, lpad(id, 180, 'x') FROM range(0, 6000, 1, 1)")
    assert spark.sql("SELECT count(*), count(DISTINCT p), sum(id) FROM t").collect()[0][:] == (6000, 6000, 17_997_000)
    spark.sql("INSERT OVERWRITE t PARTITION (p = 'y') SELECT 1L")
    assert len(table._parts) == 6001
