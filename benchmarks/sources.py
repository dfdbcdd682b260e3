"""One source, two ways to Spark: a Headrace provider and a Python Data Source over the same batches."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema

import headrace as hr
from benchmarks.data import BATCH_ROWS, SCHEMAS, base_batch, batches

PARTITIONS = 2
MOST_TUPLES = 10_000


@dataclass(frozen=True)
class Source:
    """Whole batches of a shape, and how long each takes to make. Both sides hand out exactly these."""

    rows: int
    shape: str = "narrow"
    batch_rows: int = BATCH_ROWS
    partitions: int = PARTITIONS
    seconds_per_batch: float = 0.0

    @property
    def schema(self) -> pa.Schema:
        return SCHEMAS[self.shape]

    @property
    def label(self) -> str:
        """What tells it from others, as a part of a table's name."""
        slow = "slow" if self.seconds_per_batch else "fast"
        return f"{self.shape}_{self.rows}_{self.batch_rows}_{self.partitions}_{slow}"

    def rows_of(self, partition: int) -> int:
        return self.rows // self.partitions + (partition < self.rows % self.partitions)

    def batches(self, partition: int) -> Iterator[pa.RecordBatch]:
        first = sum(map(self.rows_of, range(partition)))
        for batch in batches(self.rows_of(partition), self.batch_rows, self.shape, first):
            if self.seconds_per_batch:
                time.sleep(self.seconds_per_batch)
            yield batch

    def tuples(self, partition: int) -> Iterator[tuple[Any, ...]]:
        """Made once and handed out again and again: what is measured is the way to Spark."""
        columns = [column.to_pylist() for column in base_batch(min(self.batch_rows, MOST_TUPLES), self.shape).columns]
        made = list(zip(*columns, strict=True))
        rows = self.rows_of(partition)
        while rows > 0:
            yield from made[:rows]
            rows -= len(made)

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Source:
        """What a Python Data Source is told, as text."""
        types = {"shape": str, "seconds_per_batch": float}
        names = [field.name for field in fields(cls)]
        return cls(**{name: types.get(name, int)(options[name]) for name in names})


class SourcePlan(hr.ExecutionPlan):
    def __init__(self, source: Source, placement: hr.Placement, filters: tuple[hr.Expr, ...] = ()) -> None:
        self.schema = source.schema
        self.partitioning = hr.UnknownPartitioning(source.partitions)
        self.placement = placement
        self.source = source
        self.filters = filters

    def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
        made = self.source.batches(partition)
        return self._filtered(made) if self.filters else made

    def _filtered(self, made: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in made:
            for condition in self.filters:
                batch = batch.filter(condition.to_pyarrow(schema=self.schema))
            yield batch


class SourceTable(hr.TableProvider):
    """Hands out the same whole batches as the rival: the only help Spark gets is Headrace's own column selection.

    ``exact``: it also applies filters itself, row by row, as a source that has no index would.
    """

    def __init__(
        self, source: Source, placement: hr.Placement = hr.Placement.EXECUTORS, *, exact: bool = False
    ) -> None:
        self.source = source
        self.placement = placement
        self.exact = exact

    def schema(self) -> pa.Schema:
        return self.source.schema

    def supports_filters_pushdown(self, filters: Sequence[hr.Expr]) -> Sequence[hr.FilterPushdown]:
        if self.exact:
            return hr.pushdown_exact_where_possible(filters, schema=self.source.schema)
        return super().supports_filters_pushdown(filters)

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        return SourcePlan(self.source, self.placement, request.filters)


class OneRowEach(hr.TableProvider):
    """Partition *i* is the row ``id = i``, as in ``range(0, partitions, 1, partitions)``."""

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions

    def schema(self) -> pa.Schema:
        return pa.schema([("id", pa.int64())])

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        return OneRowPlan(self.schema(), self.partitions)


class OneRowPlan(hr.ExecutionPlan):
    def __init__(self, schema: pa.Schema, partitions: int) -> None:
        self.schema = schema
        self.partitioning = hr.UnknownPartitioning(partitions)

    def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([pa.array([partition], pa.int64())], schema=self.schema)


class RivalReader(DataSourceReader):
    def __init__(self, source: Source, arrow: bool) -> None:
        self.source = source
        self.arrow = arrow

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(i) for i in range(self.source.partitions)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return self.source.batches(partition.value) if self.arrow else self.source.tuples(partition.value)


class Rival(DataSource):
    """Spark's own way: the same source as a Python Data Source, of Arrow batches or of tuples."""

    @classmethod
    def name(cls) -> str:
        return "rival"

    def schema(self) -> Any:
        return from_arrow_schema(Source.from_options(self.options).schema)

    def reader(self, schema: Any) -> DataSourceReader:
        return RivalReader(Source.from_options(self.options), self.options["kind"] == "arrow")


def options_of(source: Source, *, arrow: bool = True) -> dict[str, str]:
    return {**{name: str(value) for name, value in asdict(source).items()}, "kind": "arrow" if arrow else "tuples"}


def rival_frame(ctx: hr.SessionContext, source: Source, *, arrow: bool = True) -> DataFrame:
    """The source as a DataFrame over the Python Data Source."""
    ctx.spark.dataSource.register(Rival)
    return ctx.spark.read.format("rival").options(**options_of(source, arrow=arrow)).load()
