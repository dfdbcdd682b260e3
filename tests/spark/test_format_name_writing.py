"""Writing by the format name: write, writeStream, and INSERT INTO tables and views that were made USING it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import headrace as hr
from written_files import FileTable

pytestmark = pytest.mark.core


@pytest.fixture
def table(ctx: hr.SessionContext, tmp_path: Path) -> FileTable:
    directory = tmp_path / "table"
    directory.mkdir()
    made = FileTable(directory)
    ctx.register_table("t", made)
    return made


def frame(spark: SparkSession, *ids: int) -> DataFrame:
    return spark.createDataFrame([(n, f"row {n}") for n in ids], "id BIGINT, name STRING")


def writer(rows: DataFrame, **options: str) -> Any:
    return rows.write.format("headrace").options(**options)


def ids(table: FileTable) -> list[int]:
    return [row["id"] for row in table.rows()]


def test_format_appends_and_overwrites(spark: SparkSession, table: FileTable) -> None:
    writer(frame(spark, 1, 2), table="t", color="red").mode("append").save()
    writer(frame(spark, 3), table="t").mode("append").save()
    assert ids(table) == [1, 2, 3]
    assert table.calls("insert")[0][4]["color"] == "red"
    writer(frame(spark, 4), table="t").mode("overwrite").save()
    assert ids(table) == [4]
    assert [call[1] for call in table.calls("insert")] == ["APPEND", "APPEND", "TRUNCATE"]
    assert [row.id for row in spark.read.format("headrace").option("table", "t").load().collect()] == [4]


def test_format_writes_columns_by_name_and_refuses_others(spark: SparkSession, table: FileTable) -> None:
    writer(spark.sql("SELECT 'row 1' AS name, 1L AS id"), table="t").mode("append").save()
    assert table.rows() == [{"id": 1, "name": "row 1"}]
    with pytest.raises(AnalysisException, match=r"INCOMPATIBLE_DATA_FOR_TABLE|CANNOT_FIND_DATA"):
        writer(spark.sql("SELECT 1L AS other"), table="t").mode("append").save()
    assert len(table.calls("insert")) == 1


def test_format_without_a_mode_refuses_a_table_that_exists_and_ignore_leaves_it(
    spark: SparkSession, table: FileTable
) -> None:
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        writer(frame(spark, 1), table="t").save()
    writer(frame(spark, 1), table="t").mode("ignore").save()
    assert table.calls() == []


def test_format_refuses_to_write_to_a_table_that_is_read_only_or_unknown(
    ctx: hr.SessionContext, spark: SparkSession
) -> None:
    ctx.register_table("numbers", hr.SimpleTable("id BIGINT", lambda: []))
    for mode in ("append", "overwrite"):
        with pytest.raises(AnalysisException, match=r"WriteError: the table 'numbers' is read-only"):
            writer(spark.range(1), table="numbers").mode(mode).save()
        with pytest.raises(AnalysisException, match=r"HeadraceError: no table 'nmbers' is registered.*numbers"):
            writer(spark.range(1), table="nmbers").mode(mode).save()


def test_format_writes_from_a_session_that_knows_nothing_of_the_context(spark: SparkSession, table: FileTable) -> None:
    writer(frame(spark.newSession(), 1), table="t").mode("append").save()
    assert ids(table) == [1]


def test_table_made_using_the_format_is_inserted_into(spark: SparkSession, table: FileTable) -> None:
    spark.sql("CREATE TABLE kept USING headrace OPTIONS (table 't')")
    spark.sql("CREATE TEMPORARY VIEW shown USING headrace OPTIONS (table 't')")
    try:
        spark.sql("INSERT INTO kept VALUES (1, 'row 1')")
        frame(spark, 2).writeTo("kept").append()
        frame(spark, 3).write.insertInto("kept")
        spark.newSession().sql("INSERT INTO kept (name, id) VALUES ('row 4', 4)")
        spark.sql("INSERT INTO shown VALUES (5, 'row 5')")
        assert ids(table) == [1, 2, 3, 4, 5]
        spark.sql("INSERT OVERWRITE kept VALUES (6, 'row 6')")
        assert ids(table) == [6]
    finally:
        spark.sql("DROP TABLE kept")
        spark.catalog.dropTempView("shown")
    assert ids(table) == [6]  # only the name was dropped


def test_streaming_query_writes_by_the_format(spark: SparkSession, table: FileTable, tmp_path: Path) -> None:
    source, checkpoint = str(tmp_path / "source"), str(tmp_path / "checkpoint")
    for run in range(2):
        frame(spark, run).coalesce(1).write.mode("append").parquet(source)
        stream = spark.readStream.schema("id BIGINT, name STRING").parquet(source)
        options = {"table": "t", "checkpointLocation": checkpoint}
        started = stream.writeStream.format("headrace").options(**options).trigger(availableNow=True).start()
        assert started.awaitTermination(60)
    assert ids(table) == [0, 1]
    assert [call[3] for call in table.calls("insert")] == [0, 1]


def test_streaming_query_to_a_table_that_is_gone_is_refused_by_name(
    ctx: hr.SessionContext, spark: SparkSession, tmp_path: Path
) -> None:
    stream = spark.readStream.format("rate").load()
    writing = stream.writeStream.format("headrace").option("checkpointLocation", str(tmp_path))
    with pytest.raises((AnalysisException, StreamingQueryException), match="HeadraceError: no table 'gone' is reg"):
        writing.option("table", "gone").start()
