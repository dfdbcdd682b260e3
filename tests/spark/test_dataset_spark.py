"""DatasetTable through Spark: the same rows that Spark's own reader gives."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.feather
import pyarrow.fs
import pyarrow.orc
import pyarrow.parquet as pq

import headrace as hr
from parquet_files import years


def test_dataset_queries_give_what_sparks_own_reader_gives(ctx: hr.SessionContext, tmp_path: Path) -> None:
    root = years(tmp_path / "data")
    nested = pa.table({"id": range(5), "s": [{"a": i, "b": str(i)} for i in range(5)]})
    pq.write_table(nested, tmp_path / "nested.parquet")
    ctx.register_table("ours", hr.DatasetTable(root))
    ctx.register_table("nested", hr.DatasetTable(tmp_path / "nested.parquet"))
    ctx.spark.read.parquet(str(root)).createOrReplaceTempView("theirs")
    try:
        for query in (
            "SELECT year, count(*) AS n, sum(x) AS x FROM {} WHERE id > 15 GROUP BY year ORDER BY year",
            "SELECT name, id FROM {} WHERE name LIKE 'n1%' AND year IS NOT NULL ORDER BY id",
        ):
            assert ctx.sql(query.format("ours")).collect() == ctx.sql(query.format("theirs")).collect()
    finally:
        ctx.spark.catalog.dropTempView("theirs")
    assert ctx.collect("SELECT s.b FROM nested WHERE s.a = 3").to_pylist() == [{"b": "3"}]


def test_dataset_of_files_and_memory_is_queried_as_one(ctx: hr.SessionContext, tmp_path: Path) -> None:
    later = pa.table({"id": range(5, 10), "s": list("fghij")})
    pq.write_table(pa.table({"id": range(5), "s": list("abcde")}), tmp_path / "a.parquet")
    ctx.register_table("both", hr.DatasetTable(ds.dataset([ds.dataset(tmp_path), ds.dataset(later)])))
    assert ctx.collect("SELECT count(*) AS n, min(s) AS low, max(s) AS high FROM both").to_pylist() == [
        {"n": 10, "low": "a", "high": "j"}
    ]
    assert ctx.collect("SELECT s FROM both WHERE id IN (4, 5) ORDER BY id")["s"].to_pylist() == ["e", "f"]
    assert "5 rows in memory" in ctx.explain("SELECT * FROM both")


def test_dataset_with_nulls_in_its_key_gives_what_sparks_own_reader_gives(
    ctx: hr.SessionContext, tmp_path: Path
) -> None:
    keys = [None if i % 100 < 2 else i for i in range(1000)]
    prices = [None if i % 3 == 0 else float("nan") if i % 50 == 7 else i / 4 for i in range(1000)]
    sales = pa.table(
        {"day": pa.array(keys, pa.int32()), "price": prices, "item": [f"item {i:04}" for i in range(1000)]}
    )
    pq.write_table(sales, tmp_path / "sales.parquet", row_group_size=100)
    ctx.register_table("ours", hr.DatasetTable(tmp_path / "sales.parquet"))
    ctx.spark.read.parquet(str(tmp_path / "sales.parquet")).createOrReplaceTempView("theirs")
    ctx.spark.range(1000).selectExpr("CAST(id AS INT) AS day", "id DIV 30 AS month").createOrReplaceTempView("days")
    try:
        for query in (
            "SELECT * FROM {} WHERE day < 50 ORDER BY item",
            "SELECT * FROM {} WHERE day IS NULL OR price > 240 ORDER BY item",
            "SELECT count(*), sum(day) FROM {} WHERE item LIKE 'item 04%' AND NOT day BETWEEN 410 AND 490",
            "SELECT count(*), count(price) FROM {} JOIN days USING (day) WHERE month = 7",
        ):
            assert str(ctx.sql(query.format("ours")).collect()) == str(ctx.sql(query.format("theirs")).collect()), query
    finally:
        ctx.spark.catalog.dropTempView("theirs")
        ctx.spark.catalog.dropTempView("days")
