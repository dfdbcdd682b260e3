"""DatasetScan: one scan of a DatasetTable, which knows its filters when asked for aggregates; runs in the driver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.expr.nodes import Expr
from headrace.plan import Aggregation, ExecutionPlan, ScanRequest, SortKey, Statistics
from headrace.provider import AggregatePushdown, FilterPushdown, Pushdown, TableProvider
from headrace.tables.dataset.aggregate import DatasetAggregatePlan

if TYPE_CHECKING:
    from headrace.tables.dataset.table import DatasetTable


class DatasetScan(TableProvider):
    """Puts all questions to the table, and answers COMPLETE where one task is to read all footers.

    Spark then neither merges nor shuffles, which takes longer than 200 footers.
    """

    def __init__(self, table: DatasetTable) -> None:
        self._table = table
        self._filters: tuple[Expr, ...] = ()
        self._exact: tuple[Expr, ...] = ()
        self._complete: list[Aggregation] = []

    def schema(self) -> pa.Schema:
        return self._table.schema()

    def supports_filters_pushdown(self, filters: Sequence[Expr]) -> Sequence[FilterPushdown]:
        answers = self._table.supports_filters_pushdown(filters)
        self._filters += tuple(filters)
        exact = FilterPushdown.EXACT
        self._exact += tuple(one for one, answer in zip(filters, answers, strict=True) if answer is exact)
        return answers

    def supports_top_n_pushdown(self, order: Sequence[SortKey], limit: int) -> Pushdown:
        return self._table.supports_top_n_pushdown(order, limit)

    def supports_offset_pushdown(self, offset: int, limit: int | None) -> bool:
        return self._table.supports_offset_pushdown(offset, limit)

    def supports_aggregate_pushdown(self, aggregation: Aggregation) -> AggregatePushdown:
        answer = self._table.supports_aggregate_pushdown(aggregation)
        if answer is AggregatePushdown.PARTIAL and self._table.is_one_task(aggregation, self._filters):
            self._complete.append(aggregation)
            return AggregatePushdown.COMPLETE
        return answer

    def scan(self, request: ScanRequest) -> ExecutionPlan:
        plan = self._table.scan(request)
        if request.aggregation in self._complete:
            assert isinstance(plan, DatasetAggregatePlan)
            return plan.complete()
        return plan

    def statistics(self) -> Statistics | None:
        return self._table.estimated(self._exact)
