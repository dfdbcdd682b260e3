"""Planning: what it costs a query that its table is asked in Python, against a temporary view of the same row."""

from __future__ import annotations

import statistics
import time
from typing import Any

import pyarrow as pa

import headrace as hr
from benchmarks.bench import Bench
from benchmarks.harness import Figure, Probe, WrongAnswerError

QUERY = "SELECT a, b FROM {t} WHERE a > 0"
MOST_MS = 15.0


def cases(bench: Bench) -> list[Probe]:
    return [Probe("planning: overhead per query", lambda: overheads(bench))]


def overheads(bench: Bench) -> list[Figure]:
    """Differences of medians, the two tables in turn."""
    rounds = (100 if bench.settings.full else 40) if bench.settings.warm_seconds else 3
    data = pa.table({"a": [1], "b": ["one"]})
    bench.ctx.register_table("planned_headrace", hr.MemTable(data), replace=True)
    bench.ctx.spark.createDataFrame(data).createOrReplaceTempView("planned_view")
    tables = ("planned_headrace", "planned_view")
    answers = [bench.sql(QUERY, t=table) for table in tables]
    if answers[0] != answers[1]:
        raise WrongAnswerError(f"planning: {answers[0]} from Headrace, {answers[1]} from the view")

    def planned(table: str) -> Any:
        return bench.ctx.sql(QUERY.format(t=table))._jdf.queryExecution().executedPlan()

    def collected(table: str) -> Any:
        return bench.ctx.sql(QUERY.format(t=table)).collect()

    plan: dict[str, list[float]] = {table: [] for table in tables}
    whole: dict[str, list[float]] = {table: [] for table in tables}
    for number in range(-rounds // 2, rounds):
        for table in tables:
            for seconds, run in ((plan, planned), (whole, collected)):
                before = time.perf_counter()
                run(table)
                if number >= 0:
                    seconds[table].append(time.perf_counter() - before)
    own, view = ([statistics.median(kind[table]) * 1e3 for kind in (plan, whole)] for table in tables)
    return [
        Figure("planning: Headrace's table, median", own[0], "ms"),
        Figure("planning: a temporary view, median", view[0], "ms"),
        Figure("planning: overhead per query", own[0] - view[0], "ms", MOST_MS),
        Figure("planning: overhead per query of one row, answered", own[1] - view[1], "ms"),
    ]
