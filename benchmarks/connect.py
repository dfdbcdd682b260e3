"""A Spark Connect server: a live provider, against the same one as a data source of PySpark's own.

The first cases meet a server that has just started: the JVM compiles Spark itself while they run. The next come after
so many small queries that this is mostly done, and show beside it what a query costs there that reads nothing. The last
come after as many large ones, as on a server that is up all day.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import headrace as hr
from benchmarks.bench import Bench, Rows, sorted_rows
from benchmarks.harness import Case, Contender
from benchmarks.pull import FOUR
from benchmarks.rivals import HEADRACE
from benchmarks.sources import Source, SourceTable

MOST_ROWS = 5_000_000
MORE_ROWS = 20_000_000
SMALL_ROWS = 2_000
SMALL_QUERIES = 60
LARGE_QUERIES = 50
DATA_SOURCE = "as_data_source"
NO_ROWS = "Spark's own query over two rows"
NOTHING = "SELECT sum(id), sum(id + 1), sum(id + 2), sum(id + 3) FROM range(0, 2, 1, 2)"
PLACEMENTS = (hr.Placement.EXECUTORS, hr.Placement.DRIVER)


class Server:
    """The session of a client, with the same tables in each of the ways."""

    def __init__(self, ctx: hr.SessionContext) -> None:
        self._ctx = ctx
        self._warmed: set[Source] = set()

    def register(self, source: Source) -> None:
        rival = _name(DATA_SOURCE, source)
        self._ctx.spark.dataSource.register(hr.as_data_source(SourceTable(source), rival))
        self._ctx.spark.read.format(rival).load().createOrReplaceTempView(rival)
        for placement in PLACEMENTS:
            self._ctx.register_table(_name(placement.name, source), SourceTable(source, placement))

    def answer(self, query: str) -> Rows:
        return sorted_rows(self._ctx.spark.sql(query).collect())

    def contender(self, name: str, way: str, source: Source) -> Contender:
        return Contender(name, lambda: self.answer(FOUR.format(t=_name(way, source))))

    def warm(self, source: Source, queries: int) -> None:
        """The same number of queries for everybody, before the first case that wants a server so warm."""
        for _ in range(0 if source in self._warmed else queries):
            for way in (*(placement.name for placement in PLACEMENTS), DATA_SOURCE):
                self.answer(FOUR.format(t=_name(way, source)))
            self.answer(NOTHING)
        self._warmed.add(source)


def cases(bench: Bench) -> list[Case]:
    server = Server(bench.keep(_connected()))
    small_queries, large_queries = (SMALL_QUERIES, LARGE_QUERIES) if bench.settings.warm_seconds else (1, 1)
    source, more, small = (Source(bench.settings.at_most(rows)) for rows in (MOST_ROWS, MORE_ROWS, SMALL_ROWS))
    for each in {source, more, small}:
        server.register(each)
    return [
        *(_fresh(server, placement, source) for placement in PLACEMENTS),
        *(
            _warm(server, placement, each, "warm server", small, small_queries)
            for each in dict.fromkeys((source, more))
            for placement in PLACEMENTS
        ),
        # beside the others, which missed the bar: the JVM has compiled what it runs
        *(_warm(server, placement, source, "server in use", source, large_queries) for placement in PLACEMENTS),
    ]


def _fresh(server: Server, placement: hr.Placement, source: Source) -> Case:
    return Case(
        f"connect: four columns, {placement.name}",
        [
            server.contender(HEADRACE, placement.name, source),
            server.contender(DATA_SOURCE, DATA_SOURCE, source),
        ],
        {DATA_SOURCE: 5.0},
        rows=source.rows,
        most_rounds=3,
    )


def _warm(
    server: Server, placement: hr.Placement, source: Source, kind: str, warmed_with: Source, queries: int
) -> Case:
    def nothing() -> None:
        server.answer(NOTHING)

    return Case(
        f"connect: {source.rows / 1e6:g} M rows, {placement.name}, {kind}",
        [
            server.contender(HEADRACE, placement.name, source),
            server.contender(DATA_SOURCE, DATA_SOURCE, source),
            Contender(NO_ROWS, nothing, limit=True),
        ],
        {DATA_SOURCE: 5.0},
        rows=source.rows,
        prepare=lambda: server.warm(warmed_with, queries),
    )


def _name(way: str, source: Source) -> str:
    return f"connect_{way.lower()}_{source.rows}"


@contextmanager
def _connected() -> Iterator[hr.SessionContext]:
    """A context on a server of its own, whose Python has Headrace and this package: the data source needs both."""
    root = Path(__file__).parent.parent
    sys.path.append(str(root / "tests" / "support"))
    from pyspark.sql.connect.session import SparkSession

    from connect_server import ConnectServer

    with ConnectServer(python_path=os.pathsep.join([str(root), str(root / "src")])) as server:
        spark: Any = SparkSession.builder.remote(server.url).create()
        try:
            with hr.SessionContext(spark) as ctx:
                yield ctx
        finally:
            spark.stop()
