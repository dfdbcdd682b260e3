"""Planned scans: what was negotiated for one scan and how it is arranged, also as text; driver Python."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from headrace.execute.partition_stream import ScanTask
from headrace.negotiate.filters import OfferedFilter
from headrace.negotiate.registry import RegisteredTable
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


@dataclass(frozen=True)
class PlannedScan:
    """One negotiated scan: the record that EXPLAIN reads and that DRIVER placement serves from."""

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

    def task(self) -> ScanTask:
        """What is needed to produce any of its partitions."""
        return ScanTask(self.table.name, self.plan, self.plan_schema, self.request.schema, self.request.limit)

    def description(self) -> str:
        """One line, for Spark's EXPLAIN."""
        parts = [
            f"{self.table.provider_name}({self.plan_text})",
            f"placement={self.plan.placement.name}",
            f"partitions={self.partitioning.n}",
            f"columns=[{', '.join(self.request.projection)}]",
            f"filters=[{', '.join(self.filter_texts())}]",
        ]
        if self.request.limit is not None:
            parts.append(f"limit={self.request.limit}")
        if not isinstance(self.partitioning, UnknownPartitioning):
            parts.append(f"partitioning={partitioning_text(self.partitioning)}")
        if self.ordering:
            parts.append(f"ordering=[{', '.join(map(sort_key_text, self.ordering))}]")
        return " ".join(parts)

    def filter_texts(self) -> list[str]:
        return [f"{offered.expr!r}: {offered.word.upper()}" for offered in self.filters if offered.expr is not None]


def partitioning_text(partitioning: Partitioning) -> str:
    if isinstance(partitioning, KeyPartitioning):
        return f"KEY({', '.join(partitioning.columns)}; {partitioning.n} keys)"
    if isinstance(partitioning, HashPartitioning):
        return f"HASH({', '.join(partitioning.columns)}; {partitioning.n} by {partitioning.function})"
    return f"UNKNOWN({partitioning.n})"


def sort_key_text(key: SortKey) -> str:
    return f"{key.column} {'DESC' if key.descending else 'ASC'} NULLS {'FIRST' if key.nulls_first else 'LAST'}"
