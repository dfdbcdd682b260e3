"""Writes: a query's rows into Python code, against Spark's own Python data source and a sink that drops them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

import headrace as hr
from benchmarks.bench import Bench
from benchmarks.harness import Case, Contender
from benchmarks.rivals import HEADRACE

ARROW_WRITER = "DataSourceArrowWriter"
NOOP = "Spark's noop sink"
QUERY = (
    "SELECT id, id * 2 AS twice, CAST(id AS double) AS d, concat('row ', id % 1000) AS s FROM range(0, {rows}, 1, 2)"
)
SCHEMA = pa.schema([("id", pa.int64()), ("twice", pa.int64()), ("d", pa.float64()), ("s", pa.string())])
BATCH_ROWS = 64 * 1024  # of Spark's own writer too, whose default is 10,000
BATCH_SETTING = "spark.sql.execution.arrow.maxRecordsPerBatch"


def cases(bench: Bench) -> list[Case]:
    ctx, rows = bench.ctx, bench.rows
    path = str(bench.directory / "written.parquet")

    def store() -> None:
        ctx.sql(QUERY.format(rows=rows)).write.mode("overwrite").parquet(path)

    return [
        _case(bench, "write: rows", lambda: ctx.sql(QUERY.format(rows=rows)), noop_bar=1.4),
        _case(bench, "write: columns of a Parquet file", lambda: ctx.spark.read.parquet(path), store, noop_bar=1.0),
    ]


def _case(
    bench: Bench,
    name: str,
    frame: Callable[[], DataFrame],
    prepare: Callable[[], object] | None = None,
    *,
    noop_bar: float,
) -> Case:
    table = Counted()

    def prepare_all() -> None:
        if prepare is not None:
            prepare()
        bench.ctx.register_table("counted", table, replace=True)
        bench.ctx.spark.dataSource.register(CountedSource)
        bench.ctx.spark.conf.set(BATCH_SETTING, BATCH_ROWS)

    def written() -> list[int]:
        frame().writeTo("counted").append()
        return table.totals

    def rival() -> list[int]:
        path = bench.directory / "totals"
        frame().write.format("counted_source").mode("append").option("path", str(path)).save()
        return [int(number) for number in path.read_text().split()]

    return Case(
        name,
        [
            Contender(HEADRACE, written),
            Contender(ARROW_WRITER, rival),
            Contender(NOOP, lambda: frame().write.format("noop").mode("append").save(), limit=True),
        ],
        {ARROW_WRITER: 2.0},
        cpu_bars={ARROW_WRITER: 1 / 3.5, NOOP: noop_bar},
        rows=bench.rows,
        prepare=prepare_all,
        finish=lambda: bench.ctx.spark.conf.unset(BATCH_SETTING),
    )


def _totals(batches: Iterator[pa.RecordBatch]) -> list[int]:
    """Little work, on one column: what is measured is how the rows come."""
    rows = total = 0
    for batch in batches:
        rows += batch.num_rows
        total += pc.sum(batch.column(0)).as_py() or 0
    return [rows, total]


class Counted(hr.WritableProvider):
    """Counts the rows that are written to it; ``totals`` are those of the last write."""

    def __init__(self) -> None:
        self.totals: list[int] = []

    def schema(self) -> pa.Schema:
        return SCHEMA

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        raise NotImplementedError("it is written to")

    def insert(self, request: hr.WriteRequest) -> hr.WritePlan:
        return CountedPlan(self.totals)


class CountedPlan(hr.WritePlan):
    def __init__(self, totals: list[int]) -> None:
        self.totals = totals

    def write(self, task: hr.WriteTask, batches: Iterator[pa.RecordBatch]) -> hr.Message:
        return _totals(batches)

    def commit(self, messages: Sequence[hr.Message]) -> None:
        self.totals[:] = [sum(numbers) for numbers in zip(*messages, strict=True)]


@dataclass
class CountedMessage(WriterCommitMessage):
    totals: list[int]


class CountedWriter(DataSourceArrowWriter):
    def __init__(self, path: str) -> None:
        self.path = path

    def write(self, iterator: Iterator[pa.RecordBatch]) -> CountedMessage:
        return CountedMessage(_totals(iterator))

    def commit(self, messages: list[Any]) -> None:
        totals = [sum(numbers) for numbers in zip(*(message.totals for message in messages), strict=True)]
        with open(self.path, "w") as file:
            file.write(" ".join(map(str, totals)))


class CountedSource(DataSource):
    """The same sink as Spark's own Python data source."""

    @classmethod
    def name(cls) -> str:
        return "counted_source"

    def writer(self, schema: Any, overwrite: bool) -> CountedWriter:
        return CountedWriter(self.options["path"])
