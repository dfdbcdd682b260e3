"""A provider for tests that remembers what it was asked, and how to read Spark's plans."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import headrace as hr

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Answer = Callable[[hr.Expr], hr.FilterPushdown]


class Batches(hr.ExecutionPlan):
    """Partitions of ready-made batches; ``projected`` plans answer with the request's columns."""

    def __init__(
        self,
        schema: pa.Schema,
        partitions: Sequence[Sequence[pa.RecordBatch]],
        *,
        partitioning: hr.Partitioning | None = None,
        ordering: Sequence[hr.SortKey] = (),
        placement: hr.Placement = hr.Placement.EXECUTORS,
        text: str = "Batches",
        statistics: hr.Statistics | None = None,
    ) -> None:
        self.schema = schema
        self.partitioning = partitioning or hr.UnknownPartitioning(len(partitions))
        self.ordering = ordering
        self.placement = placement
        self._partitions = partitions
        self._text = text
        self._statistics = statistics

    def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
        yield from self._partitions[partition]

    def describe(self) -> str:
        return self._text

    def statistics(self) -> hr.Statistics | None:
        return self._statistics


@dataclass
class Recorder(hr.TableProvider):
    """A table of batches that records every call. ``partitions`` is rows per partition, as batches."""

    table_schema: pa.Schema
    partitions: Sequence[Sequence[pa.RecordBatch]]
    answer: Answer = lambda _: hr.FilterPushdown.UNSUPPORTED
    keep: Callable[[pa.RecordBatch, hr.ScanRequest], pa.RecordBatch] | None = None
    partitioning: hr.Partitioning | None = None
    ordering: Sequence[hr.SortKey] = ()
    placement: hr.Placement = hr.Placement.EXECUTORS
    table_statistics: hr.Statistics | None = None
    whole: bool = True
    calls: list[tuple[str, Any]] = field(default_factory=list)
    threads: list[int] = field(default_factory=list)

    def schema(self) -> pa.Schema:
        self._record("schema", None)
        return self.table_schema

    def supports_filters_pushdown(self, filters: Sequence[hr.Expr]) -> Sequence[hr.FilterPushdown]:
        self._record("filters", tuple(filters))
        return [self.answer(expr) for expr in filters]

    def statistics(self) -> hr.Statistics | None:
        self._record("statistics", None)
        return self.table_statistics

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        self._record("scan", request)
        partitions = self.partitions
        if self.keep is not None:
            partitions = [[self.keep(batch, request) for batch in batches] for batches in partitions]
        schema = self.table_schema
        if not self.whole:
            schema = request.schema
            partitions = [[batch.select(list(request.projection)) for batch in batches] for batches in partitions]
        return Batches(
            schema, partitions, partitioning=self.partitioning, ordering=self.ordering, placement=self.placement
        )

    def asked(self, method: str) -> list[Any]:
        return [argument for name, argument in self.calls if name == method]

    def request(self) -> hr.ScanRequest:
        """The one scan's request."""
        (request,) = self.asked("scan")
        return request

    def conjuncts(self) -> tuple[hr.Expr, ...]:
        """All filters Spark offered to the one scan."""
        (filters,) = self.asked("filters")
        return filters

    def _record(self, method: str, argument: Any) -> None:
        self.threads.append(threading.get_ident())
        self.calls.append((method, argument))


def table_of(data: pa.Table, partitions: int = 1, **options: Any) -> Recorder:
    """``data`` in ``partitions`` partitions of about the same size, one batch each."""
    size = -(-data.num_rows // partitions) if partitions else 0
    parts = [data.slice(i * size, size).combine_chunks().to_batches() for i in range(partitions)]
    return Recorder(data.schema, parts, **options)


def exact(_: hr.Expr) -> hr.FilterPushdown:
    return hr.FilterPushdown.EXACT


def inexact(_: hr.Expr) -> hr.FilterPushdown:
    return hr.FilterPushdown.INEXACT


def executed_nodes(frame: DataFrame) -> list[str]:
    """Class names of the physical operators, query stages looked into, in the plan as it is now."""
    names: list[str] = []
    _collect(frame._jdf.queryExecution().executedPlan(), names)
    return names


def _collect(node: Any, names: list[str]) -> None:
    name = node.getClass().getSimpleName()
    names.append(name)
    if name == "AdaptiveSparkPlanExec":
        _collect(node.executedPlan(), names)
    elif name.endswith("QueryStageExec"):
        _collect(node.plan(), names)
    for index in range(node.children().size()):
        _collect(node.children().apply(index), names)


def plan_text(frame: DataFrame) -> str:
    """What ``df.explain()`` prints."""
    return str(frame._jdf.queryExecution().toString())
