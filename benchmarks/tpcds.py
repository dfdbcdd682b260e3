"""TPC-DS's 99 queries over Headrace's DatasetTable and over Spark's own Parquet reader."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import headrace as hr
from benchmarks.bench import Rows
from benchmarks.harness import Case, Contender, Result, total
from benchmarks.tpcds_data import for_spark, generated, queries, tables

MOST_ROUNDS = 2  # there are 99 queries
PARQUET = "Spark's Parquet reader"
PREFIXES = {"headrace": "tpcds_dataset_", PARQUET: "tpcds_parquet_"}
TOTAL_BARS = {PARQUET: 1.0}


def register(ctx: hr.SessionContext, directory: Path) -> None:
    """Makes the tables of both contenders, with their prefixes before their names."""
    for table in tables():
        ctx.register_table(PREFIXES["headrace"] + table, hr.DatasetTable(directory / table), replace=True)
        ctx.spark.read.parquet(str(directory / table)).createOrReplaceTempView(PREFIXES[PARQUET] + table)


def answer(ctx: hr.SessionContext, query: str, contender: str) -> Rows:
    """The rows, in the order of the query, which leaves no choice."""
    return [tuple(row) for row in ctx.sql(for_spark(query, PREFIXES[contender])).collect()]


def cases(ctx: hr.SessionContext, scale_factor: float) -> list[Case]:
    register(ctx, generated(scale_factor))
    return [
        Case(
            f"tpcds: {name}",
            [Contender(contender, partial(answer, ctx, query, contender)) for contender in PREFIXES],
            warmups=0,  # the first of the rounds is the cold one; the best counts
            most_rounds=MOST_ROUNDS,
        )
        for name, query in queries().items()
    ]


def totals(results: Sequence[Result]) -> Result:
    return total(f"tpcds: all {len(results)} queries", results, PREFIXES, TOTAL_BARS)
