"""Streams by the format name: readStream, and from one table of Headrace's to another."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import headrace as hr
from growing import Counter
from written_files import FileTable

pytestmark = pytest.mark.core


def test_format_reads_a_stream_and_writes_it_to_another_table(
    ctx: hr.SessionContext, spark: SparkSession, tmp_path: Path
) -> None:
    counter, sunk = Counter(), FileTable(tmp_path)
    ctx.register_table("numbers", counter)
    ctx.register_table("sunk", sunk)
    for head in (3, 5):
        counter.head = head
        stream = spark.readStream.format("headrace").option("table", "numbers").option("maxRowsPerTrigger", 2).load()
        assert stream.isStreaming
        writing = stream.selectExpr("n AS id", "text AS name").writeStream.format("headrace").option("table", "sunk")
        writing = writing.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        assert writing.start().awaitTermination(60)
        assert [row["id"] for row in sunk.rows()] == list(range(head))
    assert [call[3] for call in sunk.calls("insert")] == [0, 1, 2]


def test_table_made_using_the_format_is_read_as_a_stream(
    ctx: hr.SessionContext, spark: SparkSession, tmp_path: Path
) -> None:
    ctx.register_table("numbers", Counter(4))
    spark.sql("CREATE TABLE kept_numbers USING headrace OPTIONS (table 'numbers')")
    try:
        stream = spark.readStream.table("kept_numbers")
        writing = stream.writeStream.format("memory").queryName("seen").trigger(availableNow=True)
        assert writing.option("checkpointLocation", str(tmp_path)).start().awaitTermination(60)
        assert sorted(row.n for row in spark.table("seen").collect()) == [0, 1, 2, 3]
    finally:
        spark.sql("DROP TABLE kept_numbers")
        spark.catalog.dropTempView("seen")


def test_format_refuses_a_stream_of_a_table_that_has_none_or_is_gone(
    ctx: hr.SessionContext, spark: SparkSession
) -> None:
    ctx.register_table("still", {"id": [1]})
    with pytest.raises(Exception, match=r"headrace does not support streamed reading"):
        spark.readStream.format("headrace").option("table", "still").load()
    with pytest.raises(Exception, match=r"HeadraceError: no table 'gone' is registered.*still"):
        spark.readStream.format("headrace").option("table", "gone").load()
