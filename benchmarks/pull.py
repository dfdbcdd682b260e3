"""Pull: the same Arrow batches through Headrace and through Spark's own Python Data Source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

import headrace as hr
from benchmarks.data import SCHEMA, SPARK_SCHEMA, batches
from benchmarks.harness import Case, Contender

PARTITIONS = 2
RIVAL = "Python Data Source"
QUERIES = {
    "count(*)": ("SELECT count(*) FROM {t}", 12.0),
    "sum of one column": ("SELECT sum(id) FROM {t}", 10.0),
    "four columns": ("SELECT sum(id), sum(v), sum(k), sum(octet_length(s)) FROM {t}", 5.0),
    "full-row filter": (
        "SELECT count(*) FROM {t} WHERE v > 0.5 AND s <> 'name3' AND k >= 0 AND id >= 0",
        5.0,
    ),
    "group by string": ("SELECT s, count(*), sum(v) FROM {t} GROUP BY s", 3.0),
}


class BatchesPlan(hr.ExecutionPlan):
    schema = SCHEMA
    partitioning = hr.UnknownPartitioning(PARTITIONS)

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
        return batches(self.rows // PARTITIONS)


class BatchesTable(hr.TableProvider):
    """Hands out the same whole batches as the rival: the only help Spark gets is Headrace's own column selection."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def schema(self) -> pa.Schema:
        return SCHEMA

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        return BatchesPlan(self.rows)


class RivalReader(DataSourceReader):
    def __init__(self, rows: int) -> None:
        self.rows = rows

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(i) for i in range(PARTITIONS)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return batches(self.rows // PARTITIONS)


class Rival(DataSource):
    @classmethod
    def name(cls) -> str:
        return "rival"

    def schema(self) -> str:
        return SPARK_SCHEMA

    def reader(self, schema: Any) -> DataSourceReader:
        return RivalReader(int(self.options["rows"]))


def cases(ctx: hr.SessionContext, rows: int) -> list[Case]:
    ctx.register_table("pull_headrace", BatchesTable(rows), replace=True)
    ctx.spark.dataSource.register(Rival)
    ctx.spark.read.format("rival").option("rows", str(rows)).load().createOrReplaceTempView("pull_rival")

    def run(query: str, table: str) -> list[tuple[Any, ...]]:
        return sorted(tuple(row) for row in ctx.sql(query.format(t=table)).collect())

    return [
        Case(
            f"pull: {name}",
            [
                Contender("headrace", lambda q=query: run(q, "pull_headrace")),
                Contender(RIVAL, lambda q=query: run(q, "pull_rival")),
            ],
            {RIVAL: bar},
            warmups=3,  # the JVM compiles each query's code while it runs
        )
        for name, (query, bar) in QUERIES.items()
    ]
