"""The ready-made providers over memory, functions and streams, through Spark."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import pandas as pd
import polars as pl
import pyarrow as pa

import headrace as hr
from small_tables import SCHEMA, numbers


def test_mem_table_in_spark_answers_queries(ctx: hr.SessionContext) -> None:
    ctx.register_table("t", hr.MemTable(numbers(100_000, chunk=1000), partitions=3))
    assert ctx.collect("SELECT count(*) AS n FROM t").to_pylist() == [{"n": 100_000}]
    assert ctx.collect("SELECT s FROM t WHERE a = 4711 LIMIT 5").to_pylist() == [{"s": "r4711"}]
    assert ctx.collect("SELECT sum(a) AS x FROM t WHERE s LIKE 'r99%' AND upper(s) != 'R99'").to_pylist() == [
        {"x": sum(i for i in range(100_000) if str(i).startswith("99") and i != 99)}
    ]
    assert ctx.collect("SELECT a FROM t LIMIT 3").num_rows == 3
    assert "EXACT" in ctx.explain("SELECT s FROM t WHERE a = 4711")


def test_mem_table_frames_in_spark_keep_values_and_nested_pruning_works(ctx: hr.SessionContext) -> None:
    frame = pd.DataFrame({"day": pd.to_datetime(["2024-01-02", "2024-01-03"]), "n": [1, 2]})
    ctx.register_table("pandas_frame", hr.MemTable(frame))
    assert ctx.collect("SELECT n FROM pandas_frame WHERE day > TIMESTAMP_NTZ '2024-01-02'").to_pylist() == [{"n": 2}]
    polars_frame = pl.DataFrame(
        {
            "p": [{"x": 1, "y": "u"}, {"x": 2, "y": None}],
            "s": ["é", None],
            "c": pl.Series(["hot", "cold"], dtype=pl.Categorical),
        }
    )
    ctx.register_table("polars_frame", hr.MemTable(polars_frame))
    assert ctx.collect("SELECT p.y, s FROM polars_frame WHERE s = 'é'").to_pylist() == [{"y": "u", "s": "é"}]
    assert ctx.collect("SELECT p.x, c FROM polars_frame WHERE c != 'hot'").to_pylist() == [{"x": 2, "c": "cold"}]


def test_function_and_stream_tables_in_spark_run_in_both_placements(ctx: hr.SessionContext) -> None:
    shards = [functools.partial(shard, i) for i in range(3)]
    for placement in hr.Placement:
        ctx.register_table("f", hr.SimpleTable(SCHEMA, lambda: shard(7), placement=placement), replace=True)
        ctx.register_table("r", hr.SimpleTable(SCHEMA, projected, placement=placement), replace=True)
        ctx.register_table("m", hr.StreamTable(SCHEMA, shards, placement=placement), replace=True)
        assert ctx.collect("SELECT * FROM f").to_pylist() == [{"a": 7, "s": "shard 7"}]
        assert ctx.collect("SELECT s FROM r").to_pylist() == [{"s": "shard 9"}]
        assert ctx.collect("SELECT a FROM m ORDER BY a").to_pydict() == {"a": [0, 1, 2]}


def test_stream_table_without_streams_in_spark_is_empty(ctx: hr.SessionContext) -> None:
    ctx.register_table("none", hr.StreamTable(SCHEMA, []))
    assert ctx.collect("SELECT count(*) AS n, max(a) AS a FROM none").to_pylist() == [{"n": 0, "a": None}]
    assert ctx.collect("SELECT * FROM none WHERE a > 1").num_rows == 0


def test_sorted_table_in_spark_saves_the_sort(ctx: hr.SessionContext) -> None:
    ctx.register_table("unsorted", hr.MemTable(numbers(50)))
    ctx.register_table("sorted", hr.SortedTable(hr.MemTable(numbers(50)), [hr.SortKey("a")]))
    assert "Sort [" in physical_plan(ctx, "SELECT a FROM unsorted SORT BY a")
    assert "Sort [" not in physical_plan(ctx, "SELECT a FROM sorted SORT BY a")
    assert "Sort [" in physical_plan(ctx, "SELECT a FROM sorted SORT BY a DESC")
    assert ctx.collect("SELECT a FROM sorted WHERE a > 10 SORT BY a").to_pydict() == {"a": list(range(11, 50))}


def shard(i: int) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch({"a": [i], "s": [f"shard {i}"]}, SCHEMA)


def projected(request: hr.ScanRequest) -> Iterator[pa.RecordBatch]:
    for batch in shard(9):
        yield batch.select(list(request.projection))


def physical_plan(ctx: hr.SessionContext, query: str) -> str:
    return ctx.sql(query)._jdf.queryExecution().executedPlan().toString()
