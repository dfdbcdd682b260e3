"""A Spark Connect server: a live provider, against the same one as a data source of PySpark's own."""

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
DATA_SOURCE = "as_data_source"


def cases(bench: Bench) -> list[Case]:
    rows = bench.settings.at_most(MOST_ROWS)
    source = Source(rows)
    ctx = bench.keep(_connected())
    ctx.spark.dataSource.register(hr.as_data_source(SourceTable(source), "connect_rival"))
    ctx.spark.read.format("connect_rival").load().createOrReplaceTempView("connect_rival")

    def queried(table: str) -> Rows:
        return sorted_rows(ctx.spark.sql(FOUR.format(t=table)).collect())

    found = []
    for placement in (hr.Placement.EXECUTORS, hr.Placement.DRIVER):
        table = f"connect_{placement.name.lower()}"
        ctx.register_table(table, SourceTable(source, placement))
        found.append(
            Case(
                f"connect: four columns, {placement.name}",
                [
                    Contender(HEADRACE, lambda table=table: queried(table)),  # type: ignore[misc]
                    Contender(DATA_SOURCE, lambda: queried("connect_rival")),
                ],
                {DATA_SOURCE: 5.0},
                rows=rows,
                most_rounds=3,
            )
        )
    return found


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
