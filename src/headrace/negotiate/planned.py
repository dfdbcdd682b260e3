"""Planned scans: what was negotiated for one scan and how it is arranged, also as text; driver Python."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from headrace.execute.partition_stream import ScanTask
from headrace.negotiate.aggregates import OfferedAggregation
from headrace.negotiate.filters import OfferedFilter
from headrace.negotiate.joins import OfferedJoin
from headrace.negotiate.registry import RegisteredTable
from headrace.negotiate.top_n import OfferedOffset, OfferedTopN
from headrace.plan import (
    ExecutionPlan,
    HashPartitioning,
    KeyPartitioning,
    Partitioning,
    ScanRequest,
    SortKey,
    Statistics,
    UnknownPartitioning,
)
from headrace.promises.checks import Promises
from headrace.provider import Pushdown


@dataclass(frozen=True)
class PlannedScan:
    """One plan of a negotiated scan: the record that EXPLAIN reads and that DRIVER placement serves from.

    A negotiation may have several, each with an ``id`` of its own and a release of its own. ``filters_come_back``:
    Spark filters again what the provider filters exactly, and reads ``added_columns`` for that.
    """

    id: str
    table: RegisteredTable
    request: ScanRequest
    filters: tuple[OfferedFilter, ...]
    plan: ExecutionPlan
    plan_schema: pa.Schema
    plan_text: str
    partitioning: Partitioning
    partitioning_unused: str | None
    ordering: tuple[SortKey, ...]
    statistics: Statistics
    filters_come_back: bool = False
    added_columns: tuple[str, ...] = ()
    joins: tuple[OfferedJoin, ...] = ()
    top_n: OfferedTopN | None = None
    offset: OfferedOffset | None = None
    aggregation: OfferedAggregation | None = None
    runtime_filter_columns: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    """Runtime filters that were not passed on, and why, where EXPLAIN reads it."""
    promises: Promises | None = None

    @property
    def is_joined(self) -> bool:
        """Whether it yields the rows of a join."""
        return any(join.joined is not None for join in self.joins)

    def task(self) -> ScanTask:
        """What is needed to produce any of its partitions."""
        # Of an INEXACT top-n each partition yields its own first rows, which need not come first.
        inexact = self.top_n is not None and self.top_n.answer is Pushdown.INEXACT
        limit = None if inexact else self.request.limit
        return ScanTask(self.table.name, self.plan, self.plan_schema, self.request.schema, limit, self.promises)

    def release(self) -> None:
        """Nobody will run the plan any more. Called once."""
        live = self.task().live
        if live is not None:
            live.released()

    def description(self) -> str:
        """One line, for Spark's EXPLAIN."""
        parts = [
            f"{self.table.provider_name}({self.plan_text})",
            f"placement={self.plan.placement.name}",
            f"partitions={self.partitioning.n}",
            f"columns=[{', '.join(self.request.projection)}]",
            f"filters=[{', '.join(self.filter_texts())}]",
        ]
        taken = [one for one in self.joins if one.joined is not None]
        if taken:
            parts.append(f"joins=[{', '.join(map(repr, taken))}]")
        if self.request.aggregation is not None:
            answer = "" if self.aggregation is None else f": {self.aggregation.answer.name}"
            parts.append(f"aggregation=[{self.request.aggregation!r}{answer}]")
        if self.request.order and self.top_n is not None:
            parts.append(f"order=[{', '.join(map(sort_key_text, self.request.order))}: {self.top_n.answer.name}]")
        if self.request.limit is not None:
            parts.append(f"limit={self.request.limit}")
        if self.request.offset:
            parts.append(f"offset={self.request.offset}")
        if self.request.runtime_filters:
            parts.append(f"runtime_filters=[{', '.join(map(repr, self.request.runtime_filters))}]")
        if not isinstance(self.partitioning, UnknownPartitioning):
            parts.append(f"partitioning={partitioning_text(self.partitioning)}")
        if self.ordering:
            parts.append(f"ordering=[{', '.join(map(sort_key_text, self.ordering))}]")
        if self.table.verify is not None:
            parts.append(f"verify={self.table.verify}")
        return " ".join(parts)

    def filter_texts(self) -> list[str]:
        return [f"{one.expr!r}: {one.word.upper()}" for one in self.filters if one.expr is not None]


def partitioning_text(partitioning: Partitioning) -> str:
    if isinstance(partitioning, KeyPartitioning):
        return f"KEY({', '.join(partitioning.columns)}; {partitioning.n} keys)"
    if isinstance(partitioning, HashPartitioning):
        return f"HASH({', '.join(partitioning.columns)}; {partitioning.n} by {partitioning.function})"
    return f"UNKNOWN({partitioning.n})"


def sort_key_text(key: SortKey) -> str:
    return f"{key.column} {'DESC' if key.descending else 'ASC'} NULLS {'FIRST' if key.nulls_first else 'LAST'}"
