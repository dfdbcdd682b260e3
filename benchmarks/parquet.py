"""Parquet files: DatasetTable, which reads them with pyarrow, against the reader that Spark has for them."""

from __future__ import annotations

import headrace as hr
from benchmarks import rivals
from benchmarks.bench import Bench
from benchmarks.harness import Case
from benchmarks.pull import QUERIES
from benchmarks.rivals import PARQUET, headrace_query
from benchmarks.sources import Source

BARS = {"one column": 1.0, "four columns": 1.0}


def cases(bench: Bench) -> list[Case]:
    source = Source(bench.rows)

    def prepare() -> None:
        bench.forget_memory()
        bench.ctx.register_table("parquet_dataset", hr.DatasetTable(bench.parquet(source)), replace=True)

    return [
        Case(
            f"parquet: {query.name}",
            [
                headrace_query(bench, "parquet_dataset", query.text),
                rivals.parquet_read(bench, source, query.text),
            ],
            {PARQUET: BARS[query.name]},
            rows=bench.rows,
            prepare=prepare,
        )
        for query in QUERIES
        if query.name in BARS
    ]
