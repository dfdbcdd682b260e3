"""INSERT INTO and its kin on the ready-made tables: in memory, in files, in databases, in a function."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import headrace as hr
from headrace.errors import WriteError

pytestmark = pytest.mark.core

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("score", pa.float64())])
FRAME = "SELECT id, concat('c', id % 3) AS city, id / 4 AS score FROM range(0, {rows}, 1, 3)"


def frame(rows: int) -> str:
    return FRAME.format(rows=rows)


def ids(spark: SparkSession, name: str) -> list[int]:
    return [row[0] for row in spark.sql(f"SELECT id FROM {name} ORDER BY id").collect()]


KINDS = ["memory", "folder", "partitions", "sqlite", "duckdb"]
DAILY = pytest.mark.daily("memory", "partitions", "duckdb")


@pytest.fixture(params=KINDS)
def table(request: pytest.FixtureRequest, ctx: hr.SessionContext, tmp_path: Path) -> hr.WritableProvider:
    """An empty table ``t`` of each kind that takes all modes."""
    made: hr.WritableProvider
    if request.param == "memory":
        made = hr.MemTable(SCHEMA.empty_table(), partitions=2)
    elif request.param == "folder":
        made = hr.DatasetTable(tmp_path / "t", schema=SCHEMA)
    elif request.param == "partitions":
        made = hr.DatasetTable(tmp_path / "t", schema=SCHEMA, partition_by=["city"])
    else:
        path = str(tmp_path / "file.db")
        sql = "CREATE TABLE t (id BIGINT, city VARCHAR, score DOUBLE)"
        if request.param == "sqlite":
            connection: Any = sqlite3.connect(path)
        else:
            connection = pytest.importorskip("duckdb").connect(path)
        connection.execute(sql)
        connection.commit()
        connection.close()
        made = hr.AdbcTable(request.param, path, "t")
    ctx.register_table("t", made)
    return made


@DAILY
@pytest.mark.usefixtures("table")
def test_rows_are_inserted_and_overwritten(spark: SparkSession) -> None:
    spark.sql(f"INSERT INTO t {frame(10)}")
    assert spark.sql("SELECT count(*), sum(id), min(city), max(score) FROM t").collect()[0][:] == (10, 45, "c0", 2.25)
    spark.sql("INSERT INTO t VALUES (100, NULL, NULL)")
    spark.sql("INSERT INTO t SELECT id + 200, city, score FROM t WHERE id < 2")  # what it reads is what was there
    assert ids(spark, "t") == [*range(10), 100, 200, 201]
    spark.sql("INSERT OVERWRITE t SELECT * FROM t WHERE id > 7")
    assert ids(spark, "t") == [8, 9, 100, 200, 201]
    spark.sql("DELETE FROM t")
    assert ids(spark, "t") == []


@DAILY
@pytest.mark.parametrize("table", [kind for kind in KINDS if kind != "folder"], indirect=True)
@pytest.mark.usefixtures("table")
def test_rows_of_a_condition_are_replaced_and_deleted(spark: SparkSession, ctx: hr.SessionContext) -> None:
    spark.sql(f"INSERT INTO t {frame(9)}")
    name = f"{ctx.catalog}.t"
    spark.sql(f"INSERT INTO {name} REPLACE WHERE city = 'c1' SELECT 50L, 'c1', 0.5D")
    assert ids(spark, "t") == [0, 2, 3, 5, 6, 8, 50]
    spark.sql(f"DELETE FROM {name} WHERE city = 'c2'")
    assert ids(spark, "t") == [0, 3, 6, 50]


@DAILY
def test_failed_statement_leaves_nothing(spark: SparkSession, ctx: hr.SessionContext, table: Any) -> None:
    spark.sql(f"INSERT INTO t {frame(3)}")
    with pytest.raises(PySparkException):
        spark.sql("INSERT OVERWRITE t SELECT id, city, CAST(raise_error('no') AS DOUBLE) FROM t")
    assert ids(spark, "t") == [0, 1, 2]


def test_partitions_that_get_rows_are_replaced(spark: SparkSession, ctx: hr.SessionContext, tmp_path: Path) -> None:
    ctx.register_table("t", hr.DatasetTable(tmp_path / "t", schema=SCHEMA, partition_by=["city"]))
    spark.sql(f"INSERT INTO t {frame(9)}")
    spark.sql("SELECT 70L AS id, 'c1' AS city, 0D AS score").writeTo(f"{ctx.catalog}.t").overwritePartitions()
    assert ids(spark, "t") == [0, 2, 3, 5, 6, 8, 70]
    assert (
        len(list((tmp_path / "t").glob("city=*/*.parquet"))) == 3
    )  # one file of each partition, as rows are clustered


def test_files_are_read_by_spark_itself(spark: SparkSession, ctx: hr.SessionContext, tmp_path: Path) -> None:
    for format in ("parquet", "csv", "orc"):
        folder = tmp_path / format
        ctx.register_table(
            "t", hr.DatasetTable(folder, schema=SCHEMA, format=format, partition_by=["city"]), replace=True
        )
        spark.sql(f"INSERT INTO t {frame(7)}")
        spark.sql("INSERT INTO t VALUES (100, 'a b/é=%', 1.5), (101, NULL, NULL)")
        reader = spark.read.option("header", True).option("inferSchema", True)
        found = {tuple(row) for row in reader.format(format).load(str(folder)).select("id", "city", "score").collect()}
        assert found == {tuple(row) for row in spark.sql("SELECT id, city, score FROM t").collect()}
        assert (100, "a b/é=%", 1.5) in found
        assert (101, None, None) in found


def test_folder_that_spark_wrote_takes_rows(spark: SparkSession, ctx: hr.SessionContext, tmp_path: Path) -> None:
    path = str(tmp_path / "own")
    spark.sql(frame(6)).write.partitionBy("city").parquet(path)
    ctx.register_table("t", hr.DatasetTable(path))
    spark.sql("INSERT INTO t (id, city, score) VALUES (77, 'c1', 0.0)")
    assert ids(spark, "t") == [0, 1, 2, 3, 4, 5, 77]
    assert spark.read.parquet(path).count() == 7


def test_function_gets_each_tasks_rows(spark: SparkSession, ctx: hr.SessionContext) -> None:
    got: list[list[int]] = []
    lock = threading.Lock()

    def take(batches: Iterator[pa.RecordBatch]) -> None:
        found = [value for batch in batches for value in batch["id"].to_pylist()]
        with lock:
            got.append(found)

    ctx.register_table("sink", hr.FunctionSink("id BIGINT", take))
    spark.sql("INSERT INTO sink SELECT id FROM range(0, 9, 1, 3)")
    assert sorted(got) == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    with pytest.raises(PySparkException, match="a FunctionSink can only be written to: take gets the rows"):
        spark.sql("SELECT * FROM sink").collect()


def test_table_that_can_only_be_read_says_why(spark: SparkSession, ctx: hr.SessionContext, tmp_path: Path) -> None:
    pq.write_table(SCHEMA.empty_table(), tmp_path / "a.parquet")
    ctx.register_table("t", hr.DatasetTable(tmp_path / "a.parquet"))
    with pytest.raises((PySparkException, WriteError), match="can only be read: it is made of one file"):
        spark.sql(f"INSERT INTO t {frame(1)}")


def test_stream_that_starts_again_leaves_each_row_once(
    spark: SparkSession, ctx: hr.SessionContext, tmp_path: Path
) -> None:
    ctx.register_table("t", hr.DatasetTable(tmp_path / "t", schema=SCHEMA))
    source, checkpoint = tmp_path / "source", tmp_path / "checkpoint"
    for number in range(3):
        spark.sql(f"SELECT id + {10 * number} AS id, 'c' AS city, 0D AS score FROM range(10)").write.mode(
            "append"
        ).parquet(str(source))
        stream = spark.readStream.schema("id BIGINT, city STRING, score DOUBLE").parquet(str(source))
        query = (
            stream.writeStream.option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .toTable(f"{ctx.catalog}.t")
        )
        query.awaitTermination(120)
        assert query.exception() is None
        commits = sorted((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
        commits[-1].unlink()  # as if it had been killed after its sink had committed
        (checkpoint / "commits" / f".{commits[-1].name}.crc").unlink(missing_ok=True)
    assert ids(spark, "t") == list(range(30))


@pytest.mark.parametrize("cached", ["days", "headrace.days"])
@pytest.mark.parametrize("name", ["days", "headrace.days"])
def test_rows_of_a_cached_table_are_deleted(
    spark: SparkSession, ctx: hr.SessionContext, tmp_path: Path, cached: str, name: str
) -> None:
    schema = pa.schema([("id", pa.int64()), ("Day", pa.int32())])
    ctx.register_table("days", hr.DatasetTable(tmp_path / "days", schema=schema, partition_by=["Day"]))
    spark.sql("INSERT INTO days VALUES (1, 1), (2, 2), (3, 3)")
    kept = spark.table(cached.replace("headrace", ctx.catalog)).cache()
    assert kept.count() == 3
    spark.sql(f"DELETE FROM {name.replace('headrace', ctx.catalog)} WHERE DAY IN (2, 3) AND day > 2")
    assert (ids(spark, "days"), kept.count()) == ([1, 2], 2)
    spark.sql("DELETE FROM days")
    assert (ids(spark, "days"), kept.count()) == ([], 0)
    kept.unpersist()


def test_rows_of_a_table_with_a_cached_view_are_deleted(spark: SparkSession, ctx: hr.SessionContext) -> None:
    ctx.register_table("t", hr.MemTable(pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]})))
    for view, columns in (("all_of_it", "*"), ("renamed", "id AS name, name AS id"), ("some", "name")):
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {view} AS SELECT {columns} FROM t")
        spark.sql(f"CACHE TABLE {view}")
    spark.sql("DELETE FROM t WHERE id = 1")
    assert (ids(spark, "t"), spark.table("all_of_it").count()) == ([2, 3], 2)
    spark.sql("DELETE FROM t WHERE name = 'b'")
    assert (ids(spark, "t"), spark.table("renamed").count(), spark.table("some").count()) == ([3], 1, 1)
    for view in ("all_of_it", "renamed", "some"):
        spark.sql(f"UNCACHE TABLE {view}")
        spark.catalog.dropTempView(view)


def test_condition_in_another_case_replaces_and_deletes_rows(
    spark: SparkSession, ctx: hr.SessionContext, tmp_path: Path
) -> None:
    schema = pa.schema([("id", pa.int64()), ("Day", pa.int32())])
    ctx.register_table("days", hr.DatasetTable(tmp_path / "days", schema=schema, partition_by=["Day"]))
    spark.sql("INSERT INTO days VALUES (1, 1), (2, 2), (3, 3)")
    spark.sql("INSERT INTO days REPLACE WHERE DAY = 1 VALUES (4, 1)")
    spark.sql("DELETE FROM days WHERE day = 2")
    assert ids(spark, "days") == [3, 4]


def test_condition_with_a_date_that_no_provider_gets_says_which_dates_there_are(
    spark: SparkSession, ctx: hr.SessionContext, tmp_path: Path
) -> None:
    schema = pa.schema([("id", pa.int64()), ("day", pa.date32())])
    ctx.register_table("far", hr.DatasetTable(tmp_path / "far", schema=schema, partition_by=["day"]))
    with pytest.raises(PySparkException, match=r"WriteError: .* the years 1 to 9999"):
        spark.sql("INSERT OVERWRITE far PARTITION (day = DATE '+12024-01-01') VALUES (1)")


def test_nulls_of_lists_of_a_fixed_size_are_inserted(spark: SparkSession, ctx: hr.SessionContext) -> None:
    schema = pa.schema([("id", pa.int64()), ("pair", pa.list_(pa.float32(), 2))])
    ctx.register_table("pairs", hr.MemTable(schema.empty_table()))
    spark.sql("INSERT INTO pairs VALUES (1, NULL)")
    spark.sql("INSERT INTO pairs VALUES (2, array(1.5, NULL)), (3, NULL)")
    found = ctx.collect("SELECT pair FROM pairs ORDER BY id")
    assert found["pair"].to_pylist() == [None, [1.5, None], None]
