"""One existing DataSource, unchanged: through ``from_data_source`` and through Spark's own path."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

import headrace as hr
from benchmarks.data import SPARK_SCHEMA, base_batch, batches
from benchmarks.harness import Case, Contender

PARTITIONS = 2
MOST_TUPLES = 2_000_000  # a Python object for each value
SPARK = "spark.read.format"
FOUR = "SELECT sum(id), sum(v), sum(k), sum(octet_length(s)) FROM {t}"
ONE = "SELECT sum(id) FROM {t}"


class Reader(DataSourceReader):
    def __init__(self, rows: int, arrow: bool) -> None:
        self.rows = rows
        self.arrow = arrow

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(i) for i in range(PARTITIONS)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        rows = self.rows // PARTITIONS
        return batches(rows) if self.arrow else _tuples(rows)


class Existing(DataSource):
    @classmethod
    def name(cls) -> str:
        return "existing"

    def schema(self) -> str:
        return SPARK_SCHEMA

    def reader(self, schema: Any) -> DataSourceReader:
        return Reader(int(self.options["rows"]), self.options["kind"] == "arrow")


def cases(ctx: hr.SessionContext, rows: int) -> list[Case]:
    ctx.spark.dataSource.register(Existing)
    counts = {"tuples": min(rows, MOST_TUPLES), "arrow": rows}
    for kind, count in counts.items():
        options = {"rows": str(count), "kind": kind}
        ctx.register_table(f"source_{kind}", hr.from_data_source(Existing, options), replace=True)
        frame = ctx.spark.read.format("existing").options(**options).load()
        frame.createOrReplaceTempView(f"spark_source_{kind}")

    def run(query: str, table: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in ctx.sql(query.format(t=table)).collect()]

    return [
        Case(
            f"data_source: {kind}, {name}",
            [
                Contender("headrace", lambda q=query, t=kind: run(q, f"source_{t}")),
                Contender(SPARK, lambda q=query, t=kind: run(q, f"spark_source_{t}")),
            ],
            {SPARK: bar},
        )
        for kind, bar in (("tuples", 1.0), ("arrow", 3.0))
        for name, query in (("four columns", FOUR), ("one column", ONE))
    ]


def _tuples(rows: int) -> Iterator[tuple[Any, ...]]:
    """Made once and handed out again and again: what is measured is the way to Spark."""
    columns = [column.to_pylist() for column in base_batch(10_000).columns]
    made = list(zip(*columns, strict=True))
    while rows > 0:
        yield from made[:rows]
        rows -= len(made)
