"""Results: a query's rows back in Python, against PySpark's ways."""

from __future__ import annotations

import threading

import headrace as hr
from benchmarks.harness import Case, Contender

TO_ARROW = "toArrow"
QUERY = "SELECT id, id * 2 AS twice, CAST(id AS double) AS d, CAST(id AS string) AS s FROM range({rows})"


def cases(ctx: hr.SessionContext, rows: int) -> list[Case]:
    query = QUERY.format(rows=rows)

    def first() -> int:
        stream = ctx.execute_stream(query)
        next(stream)
        threading.Thread(target=stream.close).start()  # cancelling takes its time, which is not what is measured
        return rows

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
