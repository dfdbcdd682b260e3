"""SortedTable: the promise that another provider's partitions are sorted; runs in the driver."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from headrace.arrow.sources import BatchSource, batch_iterator, batches_within, close_sources
from headrace.display import names_text
from headrace.errors import RegistrationError
from headrace.plan import ExecutionPlan, ScanRequest, SortKey
from headrace.provider import Pushdown, TableProvider, declared_schema
from headrace.tables.wrapping import WrappingTable, passes_on


class SortedTable(WrappingTable):
    """``inner``, with the promise that each partition is sorted by ``keys``; Spark then sorts less.

    The promise is about each partition as ``inner`` has them, not about the table as a whole, and it is relied on:
    if it is broken, Spark's results are wrong. For the first rows in that order (ORDER BY ... LIMIT) no more rows of a
    partition are read than the limit says. In every other way the table is ``inner``.

    Raises TypeError for an inner that is not a provider or keys that are not SortKeys, ValueError for an empty list
    of keys; when it is registered, RegistrationError for a key that is not a column.
    """

    def __init__(self, inner: TableProvider, keys: Iterable[SortKey]) -> None:
        if not isinstance(inner, TableProvider):
            raise TypeError(f"SortedTable wraps a TableProvider, not {type(inner).__name__}")
        if isinstance(keys, str) or not isinstance(keys, Iterable):
            raise TypeError("SortedTable takes a list of sort keys: [SortKey('ts')]")
        self.inner = inner
        self._keys = tuple(keys)
        for key in self._keys:
            if not isinstance(key, SortKey):
                raise TypeError(f"SortedTable takes SortKeys, not {key!r}: write SortKey({str(key)!r})")
        if not self._keys:
            raise ValueError("SortedTable needs at least one SortKey")
        self._inner_orders = False

    def __repr__(self) -> str:
        return f"<SortedTable: {self.inner!r} by {names_text([key.column for key in self._keys])}>"

    def schema(self) -> pa.Schema:
        schema = declared_schema(self.inner)
        for key in self._keys:
            if key.column not in schema.names:
                raise RegistrationError(
                    f"the table is said to be sorted by {key.column!r}, which is no column of it "
                    f"({', '.join(schema.names)})"
                )
        return schema

    def supports_top_n_pushdown(self, order: Sequence[SortKey], limit: int) -> Pushdown:
        """INEXACT where each partition has its first rows first, unless the inner table does better."""
        inner = self.inner.supports_top_n_pushdown(order, limit)
        self._inner_orders = inner is not Pushdown.UNSUPPORTED
        return inner if self._inner_orders else Pushdown.INEXACT if self._begins_with(order) else inner

    def scan(self, request: ScanRequest) -> ExecutionPlan:
        if request.aggregation is not None or (request.order and self._inner_orders):
            return self.inner.scan(request)  # what comes then is not sorted by the keys
        most = None
        if request.order:
            request, most = dataclasses.replace(request, order=(), limit=None), request.limit
        plan = self.inner.scan(request)
        # What is no plan is passed on for the planner to name.
        return SortedPlan(plan, self._keys, most) if isinstance(plan, ExecutionPlan) else plan

    def _begins_with(self, order: Sequence[SortKey]) -> bool:
        return self._keys[: len(order)] == tuple(order)


@passes_on(ExecutionPlan)
class SortedPlan(ExecutionPlan):
    """The inner provider's plan with an ordering. ``most``: so many rows of each partition are wanted; None: all."""

    ordering: Sequence[SortKey] = ()

    def __init__(self, inner: ExecutionPlan, keys: tuple[SortKey, ...], most: int | None = None) -> None:
        self.inner = inner
        self.ordering = keys
        self._most = most

    def execute(self, partition: int) -> BatchSource:
        source = self.inner.execute(partition)
        return source if self._most is None else self._first(source, self._most)

    def describe(self) -> str:
        first = "" if self._most is None else f"first {self._most:,} of each partition, "
        return f"{first}sorted {self.inner.describe()}"

    def _first(self, source: BatchSource, missing: int) -> Iterator[pa.RecordBatch]:
        batches = batch_iterator(source, f"{type(self.inner).__name__}.execute")
        try:
            while missing > 0 and (item := next(batches, None)) is not None:
                for batch in batches_within(item, self.inner.schema):
                    if missing > 0 and isinstance(batch, pa.RecordBatch):
                        yield batch.slice(0, missing)
                        missing -= batch.num_rows
                    elif missing > 0:
                        yield batch  # Headrace's own check names what is no batch
        finally:
            close_sources(batches, source)
