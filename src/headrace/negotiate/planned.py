"""Planned scans: what was negotiated for one scan and how it is arranged, also as text; driver Python."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from headrace.arrow.rows import counted
from headrace.execute.partition_stream import ScanTask
from headrace.execute.stage.work import StageWork
from headrace.expr.nodes import Expr
from headrace.negotiate.aggregates import OfferedAggregation
from headrace.negotiate.filters import OfferedFilter
from headrace.negotiate.joins import OfferedJoin
from headrace.negotiate.offsets import offset_text
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
from headrace.provider import AggregatePushdown, Pushdown
from headrace.stream import Offset


@dataclass(frozen=True)
class PlannedScan:
    """One plan of a negotiated scan: the record that EXPLAIN reads and that DRIVER placement serves from.

    A negotiation may have several, each with an ``id`` of its own and a release of its own. ``request`` is what the
    provider was asked for; ``schema`` and ``limit`` are those of the rows that Spark gets, after ``work``, which
    Headrace's stage does. ``filters_come_back``: Spark filters again what is filtered exactly, and reads
    ``added_columns`` for that.
    """

    id: str
    table: RegisteredTable
    request: ScanRequest
    schema: pa.Schema
    filters: tuple[OfferedFilter, ...]
    plan: ExecutionPlan
    plan_schema: pa.Schema
    plan_text: str
    partitioning: Partitioning
    partitioning_unused: str | None
    ordering: tuple[SortKey, ...]
    statistics: Statistics
    limit: int | None = None
    work: StageWork | None = None
    filters_come_back: bool = False
    added_columns: tuple[str, ...] = ()
    joins: tuple[OfferedJoin, ...] = ()
    top_n: OfferedTopN | None = None
    offset: OfferedOffset | None = None
    aggregation: OfferedAggregation | None = None
    group_names: dict[str, str] | None = None
    """Where Headrace's stage aggregates: the columns that are groups, each with its name among the rows."""
    runtime_filter_columns: tuple[str, ...] = ()
    provider_filter_columns: tuple[str, ...] = ()
    """Those of them for which the provider plans again."""
    left_out: tuple[str, ...] = ()
    """Runtime filters that were not passed on, and why, where EXPLAIN reads it."""
    promises: Promises | None = None
    between: tuple[Offset, Offset] | None = None
    """Of a stream: where the range that is read begins and ends."""

    @property
    def is_joined(self) -> bool:
        """Whether it yields the rows of a join."""
        return any(join.joined is not None for join in self.joins)

    @property
    def only_counts(self) -> bool:
        """Whether neither Spark nor Headrace's stage needs a value: a column of ``request`` is there to count rows."""
        sent = self.schema.names if self.group_names is None else ()
        needed = {*sent, *(() if self.work is None else self.work.columns())}
        return self.request.aggregation is None and needed.isdisjoint(self.request.projection)

    def name_in_rows(self, column: str) -> str:
        """What a column of the table is called among the rows that Spark gets."""
        return column if self.group_names is None else self.group_names[column]

    @property
    def first_rows(self) -> int | None:
        """So many rows are enough, of the scan or, for a top-n that Headrace does, of each partition."""
        return self.work.limit if self.work is not None and self.work.limit is not None else self.limit

    @property
    def learnt(self) -> tuple[Expr, ...]:
        """The runtime filters in use, the provider's or Headrace's own."""
        here = () if self.work is None else self.work.runtime_filters
        return tuple(dict.fromkeys((*self.request.runtime_filters, *here)))

    def task(self) -> ScanTask:
        """What is needed to produce any of its partitions."""
        # Of an INEXACT top-n each partition yields its own first rows, which need not come first.
        inexact = self.top_n is not None and self.top_n.answer is Pushdown.INEXACT
        limit = None if inexact else self.limit
        work = self.work
        if work is not None and work.aggregation is not None and self.ordering:
            named = (replace(key, column=self.name_in_rows(key.column)) for key in self.ordering)
            work = replace(work, group_order=tuple(named))
        return ScanTask(self.table.name, self.plan, self.plan_schema, self.schema, limit, self.promises, work)

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
        if self.between is not None:
            parts.append(f"range={range_text(self.between)}")
        taken = [one for one in self.joins if one.joined is not None]
        if taken:
            parts.append(f"joins=[{', '.join(map(repr, taken))}]")
        if self.aggregation is not None and self.aggregation.answer is not AggregatePushdown.UNSUPPORTED:
            who = "HEADRACE" if self.aggregation.here else self.aggregation.answer.name
            parts.append(f"aggregation=[{self.aggregation.aggregation!r}: {who}]")
        if self.top_n is not None and self.top_n.answer is not Pushdown.UNSUPPORTED:
            who = "HEADRACE" if self.top_n.here else self.top_n.answer.name
            parts.append(f"order=[{', '.join(map(sort_key_text, self.top_n.order))}: {who}]")
        if self.first_rows is not None:
            parts.append(f"limit={self.first_rows}")
        if self.request.offset:
            parts.append(f"offset={self.request.offset}")
        if self.learnt:
            parts.append(f"runtime_filters=[{', '.join(map(repr, self.learnt))}]")
        if not isinstance(self.partitioning, UnknownPartitioning):
            parts.append(f"partitioning={partitioning_text(self.partitioning)}")
        if self.ordering:
            parts.append(f"ordering=[{', '.join(map(sort_key_text, self.ordering))}]")
        if self.table.verify is not None:
            parts.append(f"verify={self.table.verify}")
        return " ".join(parts)

    def filter_texts(self) -> list[str]:
        return [f"{one.expr!r}: {one.who}" for one in self.filters if one.expr is not None]


def range_text(between: tuple[Offset, Offset]) -> str:
    """A range of a stream, from after its start up to its end."""
    return f"({offset_text(between[0])}, {offset_text(between[1])}]"


def partitioning_text(partitioning: Partitioning) -> str:
    if isinstance(partitioning, KeyPartitioning):
        return f"KEY({', '.join(partitioning.columns)}; {counted(partitioning.n, 'key')})"
    if isinstance(partitioning, HashPartitioning):
        return f"HASH({', '.join(partitioning.columns)}; {partitioning.n} by {partitioning.function})"
    return f"UNKNOWN({partitioning.n})"


def sort_key_text(key: SortKey) -> str:
    return f"{key.column} {'DESC' if key.descending else 'ASC'} NULLS {'FIRST' if key.nulls_first else 'LAST'}"
