"""DatasetScan: one scan of a DatasetTable, which knows its filters when asked for aggregates; runs in the driver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.expr.nodes import Expr
from headrace.plan import Aggregation, ExecutionPlan, ScanRequest, Statistics
from headrace.provider import AggregatePushdown, CountingProvider, FilterPushdown
from headrace.stream import Offset, ReadLimit, StreamProvider
from headrace.tables.dataset.aggregate import DatasetAggregatePlan
from headrace.tables.wrapping import passes_on

if TYPE_CHECKING:
    from headrace.tables.dataset.table import DatasetTable


@passes_on(StreamProvider)
class DatasetScan(CountingProvider, StreamProvider):
    """Puts all questions to the table, and answers COMPLETE where one task is to read all footers.

    Spark then neither merges nor shuffles, which takes longer than 200 footers.
    """

    def __init__(self, table: DatasetTable) -> None:
        self.inner = table
        self._filters: tuple[Expr, ...] = ()
        self._exact: tuple[Expr, ...] = ()
        self._complete: list[Aggregation] = []

    def schema(self) -> pa.Schema:
        return self.inner.schema()

    def counts_rows(self) -> bool:
        return self.inner.counts_rows()

    def supports_filters_pushdown(self, filters: Sequence[Expr]) -> Sequence[FilterPushdown]:
        answers = self.inner.supports_filters_pushdown(filters)
        self._filters += tuple(filters)
        exact = FilterPushdown.EXACT
        self._exact += tuple(one for one, answer in zip(filters, answers, strict=True) if answer is exact)
        return answers

    def supports_aggregate_pushdown(self, aggregation: Aggregation) -> AggregatePushdown:
        answer = self.inner.supports_aggregate_pushdown(aggregation)
        if answer is AggregatePushdown.PARTIAL and not self.inner.may_be_told(self._filters):
            return AggregatePushdown.UNSUPPORTED
        if answer is AggregatePushdown.PARTIAL and self.inner.is_one_task(aggregation, self._filters):
            self._complete.append(aggregation)
            return AggregatePushdown.COMPLETE
        return answer

    def scan(self, request: ScanRequest) -> ExecutionPlan:
        plan = self.inner.scan(request)
        if request.aggregation in self._complete:
            assert isinstance(plan, DatasetAggregatePlan)
            return plan.complete()
        return plan

    def initial_offset(self) -> Offset:
        return self.inner.initial_offset()

    def latest_offset(self, start: Offset, limit: ReadLimit) -> Offset:
        return self.inner.latest_offset(start, limit)

    def scan_between(self, start: Offset, end: Offset, request: ScanRequest) -> ExecutionPlan:
        return self.inner.scan_between(start, end, request)

    def statistics(self) -> Statistics | None:
        return self.inner.estimated(self._exact)
