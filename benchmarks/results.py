"""Results: a query's rows back in Python, against PySpark's ways."""

from __future__ import annotations

import time

import headrace as hr
from benchmarks.harness import Case, Contender

TO_ARROW = "toArrow"
FIRST = "first batch against toArrow's total"
QUERY = "SELECT id, id * 2 AS twice, CAST(id AS double) AS d, CAST(id AS string) AS s FROM range({rows})"


def cases(ctx: hr.SessionContext, rows: int) -> list[Case]:
    query = QUERY.format(rows=rows)

    def first() -> int:
        with ctx.execute_stream(query) as stream:
            next(stream)
            started.append(time.perf_counter())
        return rows

    started: list[float] = []
    return [
        Case(
            "results: whole result",
            [
                Contender("headrace", lambda: sum(batch.num_rows for batch in ctx.execute_stream(query))),
                Contender(TO_ARROW, lambda: ctx.sql(query).toArrow().num_rows),
            ],
            {TO_ARROW: 1 / 0.9},
        ),
        Case(
            "results: first batch",
            [
                Contender("headrace", first),
                Contender(TO_ARROW, lambda: ctx.sql(query).toArrow().num_rows),
            ],
            {TO_ARROW: 1 / 0.15},
        ),
    ]
