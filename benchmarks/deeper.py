"""Deeper negotiation: what a join's keys and Parquet footers save, against the same table without them."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import headrace as hr
from benchmarks.bench import Bench, Rows
from benchmarks.data import base_batch
from benchmarks.harness import Case, Contender

FILES = 200
KEPT = FILES // 100
WITHOUT_KEYS = "without runtime filters"
READ = "the columns read"
STAR = "SELECT count(*), sum(f.id), sum(f.v) FROM facts f JOIN days d ON f.day = d.day WHERE d.wanted = 1"
FOOTERS = "SELECT count(*), min(id), max(id), min(k), max(k) FROM {t}"
_PRUNING = "spark.sql.optimizer.dynamicPartitionPruning.enabled"


class ReadsRows(hr.DatasetTable):
    """The same files, of which Spark counts the rows."""

    def supports_aggregate_pushdown(self, aggregation: hr.Aggregation) -> hr.AggregatePushdown:
        return hr.AggregatePushdown.UNSUPPORTED


def cases(bench: Bench) -> list[Case]:
    ctx = bench.ctx
    root = bench.directory / "facts"
    rows = bench.settings.most_growth_rows

    def prepare() -> None:
        bench.forget_memory()
        if not root.exists():
            _write(root, rows // FILES)
        days = pa.table({"day": pa.array(range(FILES), pa.int32()), "wanted": [int(d < KEPT) for d in range(FILES)]})
        ctx.register_table("days", hr.MemTable(days), replace=True)
        ctx.register_table("facts", hr.DatasetTable(root), replace=True)
        ctx.register_table("read_facts", ReadsRows(root), replace=True)

    def without_keys() -> Rows:
        ctx.spark.conf.set(_PRUNING, "false")
        try:
            return bench.sql(STAR)
        finally:
            ctx.spark.conf.unset(_PRUNING)

    return [
        Case(
            f"deeper: star join that keeps 1 % of {FILES} partitions",
            [Contender("headrace", lambda: bench.sql(STAR)), Contender(WITHOUT_KEYS, without_keys)],
            {WITHOUT_KEYS: 5.0},
            rows=rows,
            most_rounds=3,
            prepare=prepare,
        ),
        Case(
            f"deeper: count, min and max over {FILES} Parquet files",
            [
                Contender("headrace", lambda: bench.sql(FOOTERS, t="facts")),
                Contender(READ, lambda: bench.sql(FOOTERS, t="read_facts")),
            ],
            {READ: 20.0},
            rows=rows,
            most_rounds=3,
            prepare=prepare,
        ),
    ]


def _write(root: Path, rows: int) -> None:
    """A file for each day, of at least one row: all of them the same file, under another path."""
    batches = [base_batch()] * (1 + rows // base_batch().num_rows)
    root.mkdir()
    pq.write_table(pa.Table.from_batches(batches).slice(0, max(1, rows)), root.parent / "part.parquet")
    for day in range(FILES):
        (root / f"day={day}").mkdir()
        os.link(root.parent / "part.parquet", root / f"day={day}" / "part.parquet")
