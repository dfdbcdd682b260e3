"""REFRESH TABLE: what a table keeps of its source is read again, cached rows too, and the schema stays."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import headrace as hr
from producing import NUMBERS, numbers

pytestmark = pytest.mark.core


class Numbers(hr.FileFormat):
    def schema(self, file: hr.DataFile) -> pa.Schema:
        return NUMBERS

    def read(self, file: hr.DataFile, request: hr.ScanRequest) -> Iterator[pa.RecordBatch]:
        yield from pq.read_table(file.path).to_batches()


def store(directory: Path, name: str, count: int) -> None:
    directory.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_batches([numbers(count)]), directory / f"{name}.parquet")


def count(spark: SparkSession, name: str) -> int:
    return int(spark.sql(f"SELECT count(a) FROM {name}").collect()[0][0])


@pytest.mark.parametrize(
    ("kind", "name", "cached"),
    [
        ("dataset", "t", False),
        ("dataset", "t", True),
        ("dataset", "headrace.t", True),
        ("glob", "headrace.t", False),
        ("listing", "t", False),
        ("listing", "headrace.default.t", True),
        ("sorted", "t", False),
    ],
)
def test_refreshed_table_of_files_has_those_that_came(
    ctx: hr.SessionContext, spark: SparkSession, tmp_path: Path, kind: str, name: str, cached: bool
) -> None:
    folder = tmp_path / "t"
    store(folder, "a", 3)
    tables: dict[str, Any] = {
        "dataset": lambda: hr.DatasetTable(folder),
        "glob": lambda: hr.DatasetTable(str(folder / "*.parquet")),
        "listing": lambda: hr.ListingTable(folder, Numbers()),
        "sorted": lambda: hr.SortedTable(hr.ListingTable(folder, Numbers()), [hr.SortKey("a")]),
    }
    ctx.register_table("t", tables[kind]())
    shown = name.replace("headrace", ctx.catalog)
    if cached:
        spark.sql(f"CACHE TABLE {shown}")
    assert count(spark, shown) == 3
    store(folder, "b", 4)
    assert count(spark, shown) == 3
    spark.sql(f"REFRESH TABLE {shown}")
    assert count(spark, shown) == 7
    (folder / "a.parquet").unlink()
    spark.catalog.refreshTable(shown if "." in shown else f"{ctx.catalog}.t")  # Spark does not look behind views
    assert count(spark, shown) == 4
    if cached:
        spark.sql(f"UNCACHE TABLE {shown}")


def test_refresh_of_a_database_table_asks_for_its_ranges_again(
    ctx: hr.SessionContext, spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "file.db")
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (a INTEGER)")
        connection.execute("INSERT INTO t VALUES (1), (2)")
    table = hr.AdbcTable("sqlite", path, "t", "a", partitions=2)
    ctx.register_table("t", table)
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO t VALUES (1000)")
    before = table._key_ranges
    assert count(spark, "t") == 3
    spark.sql("REFRESH TABLE t")
    assert table._key_ranges != before
    assert count(spark, "t") == 3


@pytest.mark.parametrize("refresh", ["REFRESH TABLE t", "REFRESH TABLE {catalog}.t"])
def test_refresh_of_a_dataset_that_pyarrow_made_is_refused_by_name(
    ctx: hr.SessionContext, spark: SparkSession, tmp_path: Path, refresh: str
) -> None:
    store(tmp_path / "t", "a", 3)
    ctx.register_table("t", hr.DatasetTable(ds.dataset(tmp_path / "t")))
    with pytest.raises(PySparkException, match=r"PlanError.*make it of a path"):
        spark.sql(refresh.format(catalog=ctx.catalog))
    assert count(spark, "t") == 3


def test_refresh_of_a_listing_whose_files_are_gone_fails_and_keeps_the_table(
    ctx: hr.SessionContext, spark: SparkSession, tmp_path: Path
) -> None:
    store(tmp_path / "t", "a", 3)
    table = hr.ListingTable(tmp_path / "t", Numbers())
    ctx.register_table("t", table)
    (tmp_path / "t" / "a.parquet").unlink()
    with pytest.raises(PySparkException, match="FileNotFoundError"):
        spark.sql("REFRESH TABLE t")
    store(tmp_path / "t", "a", 3)
    assert count(spark, "t") == 3


@pytest.mark.parametrize("name", ["", "a.parquet"], ids=["folder", "file"])
def test_refresh_of_a_dataset_whose_path_is_gone_fails_and_keeps_the_table(
    ctx: hr.SessionContext, spark: SparkSession, tmp_path: Path, name: str
) -> None:
    """It would have no rows while a disk is not mounted."""
    folder = tmp_path / "t"
    store(folder, "a", 3)
    ctx.register_table("t", hr.DatasetTable(folder / name))
    folder.rename(tmp_path / "elsewhere")
    with pytest.raises(PySparkException, match=r"FileNotFoundError: .* is not there any more"):
        spark.sql("REFRESH TABLE t")
    (tmp_path / "elsewhere").rename(folder)
    assert count(spark, "t") == 3


def test_refresh_of_a_table_that_keeps_nothing_does_nothing(ctx: hr.SessionContext, spark: SparkSession) -> None:
    ctx.register_table("t", hr.MemTable(numbers(3)))
    ctx.register_streaming_table("pushed", NUMBERS)
    for name in ("t", f"{ctx.catalog}.t", "pushed"):
        spark.sql(f"REFRESH TABLE {name}")
    assert count(spark, "t") == 3
