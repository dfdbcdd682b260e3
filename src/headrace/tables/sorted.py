"""SortedTable: the promise that another provider's partitions are sorted; runs in the driver."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from headrace.arrow.sources import BatchSource
from headrace.display import names_text
from headrace.errors import RegistrationError
from headrace.expr.nodes import Expr
from headrace.plan import ExecutionPlan, ScanRequest, SortKey, Statistics
from headrace.provider import FilterPushdown, PerScanProvider, TableProvider, for_scan


class SortedTable(PerScanProvider):
    """``inner``, with the promise that each partition is sorted by ``keys``; Spark then sorts less.

    The promise is about each partition as ``inner`` has them, not about the table as a whole, and it is relied on:
    if it is broken, Spark's results are wrong. In every other way the table is ``inner``.

    Raises TypeError for an inner that is not a provider or keys that are not SortKeys, ValueError for an empty list
    of keys; when it is registered, RegistrationError for a key that is not a column.
    """

    def __init__(self, inner: TableProvider, keys: Iterable[SortKey]) -> None:
        if not isinstance(inner, TableProvider):
            raise TypeError(f"SortedTable wraps a TableProvider, not {type(inner).__name__}")
        if isinstance(keys, (SortKey, str)):
            raise TypeError("SortedTable takes a list of sort keys: [SortKey('ts')]")
        self._inner = inner
        self._keys = tuple(keys)
        for key in self._keys:
            if not isinstance(key, SortKey):
                raise TypeError(f"SortedTable takes SortKeys, not {key!r}: write SortKey({str(key)!r})")
        if not self._keys:
            raise ValueError("SortedTable needs at least one SortKey")

    def __repr__(self) -> str:
        return f"<SortedTable: {self._inner!r} by {names_text([key.column for key in self._keys])}>"

    def schema(self) -> pa.Schema:
        schema = self._inner.schema()
        for key in self._keys:
            if key.column not in schema.names:
                raise RegistrationError(
                    f"the table is said to be sorted by {key.column!r}, which is no column of it "
                    f"({', '.join(schema.names)})"
                )
        return schema

    def for_scan(self) -> TableProvider:
        return SortedTable(for_scan(self._inner), self._keys)

    def supports_filters_pushdown(self, filters: Sequence[Expr]) -> Sequence[FilterPushdown]:
        return self._inner.supports_filters_pushdown(filters)

    def scan(self, request: ScanRequest) -> ExecutionPlan:
        plan = self._inner.scan(request)
        # What is no plan is passed on for the planner to name.
        return SortedPlan(plan, self._keys) if isinstance(plan, ExecutionPlan) else plan

    def statistics(self) -> Statistics | None:
        return self._inner.statistics()


class SortedPlan(ExecutionPlan):
    """The inner provider's plan with an ordering."""

    def __init__(self, inner: ExecutionPlan, keys: tuple[SortKey, ...]) -> None:
        self._inner = inner
        self.schema = inner.schema
        self.partitioning = inner.partitioning
        self.placement = inner.placement
        self.ordering = keys

    def execute(self, partition: int) -> BatchSource:
        return self._inner.execute(partition)

    def describe(self) -> str:
        return f"sorted {self._inner.describe()}"

    def statistics(self) -> Statistics | None:
        return self._inner.statistics()
