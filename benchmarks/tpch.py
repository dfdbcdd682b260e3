"""TPC-H's 22 queries over Headrace's tables, over Spark's own Parquet reader and over its Python Data Source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema

import headrace as hr
from benchmarks.harness import Case, Contender, Result, total
from benchmarks.tpch_data import TABLES, DuckDB, Rows, dataset, for_spark, generated, is_answer, queries

PARTITIONS = 2
BATCH_ROWS = 65_536
MOST_ROUNDS = 2  # there are 22 queries, and one contender takes minutes for all of them
MEMORY = "MemTable"
PARQUET = "Spark's Parquet reader"
DATA_SOURCE = "Python Data Source"
PREFIXES = {"headrace": "tpch_dataset_", MEMORY: "tpch_memory_", PARQUET: "tpch_parquet_", DATA_SOURCE: "tpch_source_"}
TOTAL_BARS = {PARQUET: 1 / 1.3, DATA_SOURCE: 3.0}


class FilesReader(DataSourceReader):
    def __init__(self, directory: Path, table: str) -> None:
        self.directory = directory
        self.table = table

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(i) for i in range(len(dataset(self.directory, self.table).files))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        found = dataset(self.directory, self.table)
        file = list(found.get_fragments())[partition.value]
        yield from file.to_batches(schema=found.schema, batch_size=BATCH_ROWS, use_threads=False)


class Files(DataSource):
    """The same files, as Arrow batches with all columns: which ones a query needs is not told."""

    @classmethod
    def name(cls) -> str:
        return "tpch"

    def schema(self) -> Any:
        return from_arrow_schema(dataset(*self._place()).schema)

    def reader(self, schema: Any) -> DataSourceReader:
        return FilesReader(*self._place())

    def _place(self) -> tuple[Path, str]:
        return Path(self.options["directory"]), self.options["table"]


class Answer:
    """A query's rows. Two are equal when both are DuckDB's: compared after the clock was stopped."""

    def __init__(self, query: str, rows: Rows, duck: DuckDB) -> None:
        self.query = query
        self.rows = rows
        self.duck = duck

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Answer) and self._is_right() and other._is_right()

    def __repr__(self) -> str:
        return f"{self.rows[:5]!r} of {len(self.rows)} rows ({'right' if self._is_right() else 'not as DuckDB'})"

    def _is_right(self) -> bool:
        return is_answer(self.query, self.rows, self.duck.answer(self.query))


def register(ctx: hr.SessionContext, directory: Path, contenders: Sequence[str] = tuple(PREFIXES)) -> None:
    """Makes the tables of each contender, with its prefix before their names."""
    ctx.spark.dataSource.register(Files)
    options = {"directory": str(directory)}
    for contender in contenders:
        for table in TABLES:
            name = PREFIXES[contender] + table
            if contender == "headrace":
                ctx.register_table(name, hr.DatasetTable(directory / table), replace=True)
            elif contender == MEMORY:
                data = dataset(directory, table).to_table()
                ctx.register_table(name, hr.MemTable(data, partitions=PARTITIONS), replace=True)
            elif contender == PARQUET:
                ctx.spark.read.parquet(str(directory / table)).createOrReplaceTempView(name)
            else:
                frame = ctx.spark.read.format("tpch").options(**options, table=table).load()
                frame.createOrReplaceTempView(name)


def cases(ctx: hr.SessionContext, scale_factor: float) -> list[Case]:
    directory = generated(scale_factor)
    register(ctx, directory)
    duck = DuckDB(directory)

    def run(query: str, text: str) -> Answer:
        return Answer(query, [tuple(row) for row in ctx.sql(text).collect()], duck)

    return [
        Case(
            f"tpch: {name}",
            [
                Contender(contender, partial(run, query, for_spark(query, prefix)))
                for contender, prefix in PREFIXES.items()
            ],
            warmups=0,  # the first of the rounds is the cold one; the best counts
            most_rounds=MOST_ROUNDS,
        )
        for name, query in queries().items()
    ]


def totals(results: Sequence[Result]) -> Result:
    return total(f"tpch: all {len(results)} queries", results, PREFIXES, TOTAL_BARS)
