"""Results: a query's rows back in Python, against PySpark's ways."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.bench import Bench
from benchmarks.harness import Case, Contender
from benchmarks.rivals import HEADRACE

TO_ARROW = "toArrow"
TO_PANDAS = "toPandas"
ITERATOR = "toLocalIterator"
COLLECT = "collect"
QUERY = "SELECT id, id * 2 AS twice, CAST(id AS double) AS d, CAST(id AS string) AS s FROM range({rows})"
PART = 4  # of all the rows: pandas has a Python object for each text
MOST_OBJECTS = 200_000  # a Python object for each value


def cases(bench: Bench) -> list[Case]:
    return [_whole(bench), _first(bench), _objects(bench), _first_row(bench)]


def _whole(bench: Bench) -> Case:
    rows = bench.rows // PART
    ctx, query = bench.ctx, QUERY.format(rows=rows)

    def streamed() -> list[Any]:
        return _sums(pa.Table.from_batches(ctx.execute_stream(query)))

    def pandas() -> list[Any]:
        frame: Any = ctx.sql(query).toPandas()
        return [len(frame), int(frame["id"].sum()), frame["d"].sum()]

    return Case(
        "results: whole result",
        [
            Contender(HEADRACE, streamed),
            Contender(TO_ARROW, lambda: _sums(ctx.sql(query).toArrow())),
            Contender(TO_PANDAS, pandas),
        ],
        {TO_ARROW: 1 / 0.9},
        rows=rows,
    )


def _first(bench: Bench) -> Case:
    """How long until there is something to work with. The rival of the bar has nothing before it has everything."""
    rows = bench.rows // PART
    ctx, query = bench.ctx, QUERY.format(rows=rows)

    return Case(
        "results: first batch",
        [
            Contender(HEADRACE, lambda: _first_value(bench, query)),
            Contender(TO_ARROW, lambda: ctx.sql(query).toArrow()["id"][0].as_py()),
        ],
        {TO_ARROW: 1 / 0.15},
        rows=rows,
    )


def _objects(bench: Bench) -> Case:
    """Python tuples in the end, in all of them."""
    rows = bench.settings.at_most(MOST_OBJECTS)
    ctx, query = bench.ctx, QUERY.format(rows=rows)

    def streamed() -> list[Any]:
        tuples = itertools.chain.from_iterable(
            zip(*(column.to_pylist() for column in batch.columns), strict=True) for batch in ctx.execute_stream(query)
        )
        return _counted(tuples)

    return Case(
        "results: row by row",
        [
            Contender(HEADRACE, streamed),
            Contender(COLLECT, lambda: _counted(ctx.sql(query).collect())),
            Contender(ITERATOR, lambda: _counted(ctx.sql(query).toLocalIterator())),
        ],
        rows=rows,
    )


def _first_row(bench: Bench) -> Case:
    """On fewer rows: toLocalIterator moves a whole partition as Python objects before it gives the first one."""
    rows = bench.settings.at_most(MOST_OBJECTS)
    query = QUERY.format(rows=rows)
    return Case(
        "results: first row",
        [
            Contender(HEADRACE, lambda: _first_value(bench, query)),
            Contender(ITERATOR, lambda: next(iter(bench.ctx.sql(query).toLocalIterator()))["id"]),
        ],
        rows=rows,
    )


def _first_value(bench: Bench, query: str) -> Any:
    stream = bench.ctx.execute_stream(query)
    value = next(stream)["id"][0].as_py()
    # Cancelling takes its time, which is not what is measured; the rivals do not cancel anything.
    threading.Thread(target=stream.close).start()
    return value


def _sums(table: pa.Table) -> list[Any]:
    return [table.num_rows, pc.sum(table["id"]).as_py(), pc.sum(table["d"]).as_py()]


def _counted(rows: Any) -> list[Any]:
    count = total = 0
    for row in rows:
        count += 1
        total += row[1]
    return [count, total]
