"""Every door of Spark's that writes to a table: by the catalog's name and by the bare one, in both placements."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, lit

import headrace as hr
from written_files import FileTable

pytestmark = pytest.mark.core

ROWS = [{"id": n, "name": f"row {n}"} for n in range(3)]


@pytest.fixture(params=[hr.Placement.EXECUTORS, hr.Placement.DRIVER], ids=lambda one: one.name.lower())
def table(request: pytest.FixtureRequest, ctx: hr.SessionContext, tmp_path: Path) -> FileTable:
    made = FileTable(tmp_path, placement=request.param)
    ctx.register_table("t", made)
    return made


@pytest.fixture(params=["catalog", "bare"])
def name(request: pytest.FixtureRequest, ctx: hr.SessionContext) -> str:
    return f"{ctx.catalog}.t" if request.param == "catalog" else "t"


def frame(spark: SparkSession, rows: int = 3, partitions: int = 2) -> DataFrame:
    return spark.range(0, rows, 1, partitions).selectExpr("id", "concat('row ', id) AS name")


APPENDING: dict[str, Callable[[SparkSession, str], object]] = {
    "insert values": lambda spark, name: spark.sql(
        f"INSERT INTO {name} VALUES (0, 'row 0'), (1, 'row 1'), (2, 'row 2')"
    ),
    "insert select": lambda spark, name: spark.sql(f"INSERT INTO {name} SELECT id, concat('row ', id) FROM range(3)"),
    "insert columns": lambda spark, name: spark.sql(
        f"INSERT INTO {name} (name, id) SELECT concat('row ', id), id FROM range(3)"
    ),
    "insert by name": lambda spark, name: spark.sql(
        f"INSERT INTO {name} BY NAME SELECT concat('row ', id) AS name, id FROM range(3)"
    ),
    "writeTo append": lambda spark, name: frame(spark).writeTo(name).append(),
    "insertInto": lambda spark, name: frame(spark).write.insertInto(name),
    "saveAsTable": lambda spark, name: frame(spark).write.mode("append").saveAsTable(name),
}


@pytest.mark.parametrize("door", APPENDING)
def test_rows_are_appended_through_every_door(spark: SparkSession, table: FileTable, name: str, door: str) -> None:
    if door == "saveAsTable" and name == "t":
        return  # Spark takes a bare name for a table of its own there
    for count in (1, 2):
        APPENDING[door](spark, name)
        assert len(table.rows()) == 3 * count
    assert [row["id"] for row in table.rows()] == [0, 0, 1, 1, 2, 2]
    assert [call[1] for call in table.calls("insert")] == ["APPEND", "APPEND"]
    assert spark.table(name).count() == 6
    assert table.staged() == []


OVERWRITING: dict[str, tuple[str, Callable[[SparkSession, str], object], list[int]]] = {
    "insert overwrite": (
        "TRUNCATE",
        lambda spark, name: spark.sql(f"INSERT OVERWRITE {name} VALUES (1, 'new')"),
        [1],
    ),
    "replace where": (
        "OVERWRITE",
        lambda spark, name: spark.sql(f"INSERT INTO {name} REPLACE WHERE id >= 1 SELECT 7L, 'new'"),
        [0, 7],
    ),
    "writeTo overwrite": (
        "OVERWRITE",
        lambda spark, name: new_row(spark).writeTo(name).overwrite(col("id") == 2),
        [0, 1, 1],
    ),
    "writeTo overwrite all": (
        "TRUNCATE",
        lambda spark, name: new_row(spark).writeTo(name).overwrite(lit(True)),
        [1],
    ),
    "overwritePartitions": (
        "DYNAMIC",
        lambda spark, name: new_row(spark).writeTo(name).overwritePartitions(),
        [0, 1, 2],
    ),
    "insertInto overwrite": (
        "TRUNCATE",
        lambda spark, name: new_row(spark).write.insertInto(name, overwrite=True),
        [1],
    ),
}


def new_row(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([(1, "new")], "id BIGINT, name STRING")


@pytest.mark.parametrize("door", OVERWRITING)
def test_rows_are_replaced_through_every_door(spark: SparkSession, table: FileTable, name: str, door: str) -> None:
    spark.sql(f"INSERT INTO {name} VALUES (0, 'row 0'), (1, 'row 1'), (2, 'row 2')")
    mode, write, left = OVERWRITING[door]
    write(spark, name)
    assert [row["id"] for row in table.rows()] == left
    assert [row["name"] for row in table.rows()].count("new") == 1
    assert [call[1] for call in table.calls("insert")] == ["APPEND", mode]


@pytest.mark.parametrize(
    ("statement", "left"),
    [
        ("DELETE FROM {}", []),
        ("DELETE FROM {} WHERE id > 0 AND name <> 'row 2'", [0, 2]),
        ("DELETE FROM {} WHERE id IN (0, 2)", [1]),
    ],
)
def test_rows_are_deleted(spark: SparkSession, table: FileTable, name: str, statement: str, left: list[int]) -> None:
    spark.sql(f"INSERT INTO {name} VALUES (0, 'row 0'), (1, 'row 1'), (2, 'row 2')")
    spark.sql(statement.format(name))
    assert [row["id"] for row in table.rows()] == left
    assert len(table.calls("delete")) == 1
    assert name == "t" or table.calls("scan") == []  # a view's plan is made before what is done with it is known


def test_table_is_truncated_by_its_name_in_the_catalog(
    ctx: hr.SessionContext, spark: SparkSession, table: FileTable
) -> None:
    spark.sql("INSERT INTO t VALUES (0, 'row 0')")
    with pytest.raises(AnalysisException, match="expects a table but `t` is a view"):
        spark.sql("TRUNCATE TABLE t")
    assert len(table.rows()) == 1
    spark.sql(f"TRUNCATE TABLE {ctx.catalog}.t")
    assert table.rows() == []
    assert (table.calls("delete"), table.calls("scan")) == ([["delete"]], [])


@pytest.mark.parametrize("mode", ["append", "complete"])
def test_streaming_query_writes_each_epoch(
    ctx: hr.SessionContext, spark: SparkSession, table: FileTable, mode: str, tmp_path: Path
) -> None:
    source, checkpoint = tmp_path / "source", tmp_path / "checkpoint"
    for run in range(2):
        frame(spark).coalesce(1).write.mode("append").parquet(str(source))
        stream = spark.readStream.schema("id BIGINT, name STRING").parquet(str(source))
        if mode == "complete":
            stream = stream.groupBy("name").agg({"id": "sum"}).selectExpr("`sum(id)` AS id", "name")
        query = (
            stream.writeStream.outputMode(mode)
            .option("checkpointLocation", str(checkpoint))
            .option("color", "red")
            .trigger(availableNow=True)
            .toTable(f"{ctx.catalog}.t")
        )
        assert query.awaitTermination(60)
        expected = {"append": [0, 1, 2] if run == 0 else [0, 0, 1, 1, 2, 2], "complete": [0, 1 + run, 2 + 2 * run]}
        assert [row["id"] for row in table.rows()] == expected[mode]
    calls = table.calls("insert")
    assert [call[1] for call in calls] == ["APPEND" if mode == "append" else "TRUNCATE"] * 2
    assert [call[3] for call in calls] == [0, 1]
    assert len({call[2] for call in calls}) == 1
    assert {call[3] for call in table.calls("write")} == {0, 1}
    assert calls[0][4]["color"] == "red"
