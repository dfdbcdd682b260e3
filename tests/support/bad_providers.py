"""For each promise, providers that differ from the honest one in one thing and break it; for the tests."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import headrace as hr
from headrace import FilterPushdown
from honest_provider import ROWS, SCHEMA, HonestTable, Plan, one_batch

SOME_COLUMNS = ("city", "value", "name", "score")


def with_some_columns(provider: type[hr.TableProvider]) -> type[hr.TableProvider]:
    """The same, with fewer columns: there are fewer filters for the kit to try."""

    class Narrow(provider):  # type: ignore[misc, valid-type]
        def schema(self) -> pa.Schema:
            return pa.schema([SCHEMA.field(name) for name in SOME_COLUMNS])

    Narrow.__name__ = provider.__name__
    return Narrow


def without_filters(provider: type[hr.TableProvider]) -> type[hr.TableProvider]:
    """The same, leaving filters to Spark: the kit has much less to try."""

    class Plain(provider):  # type: ignore[misc, valid-type]
        def supports_filters_pushdown(self, filters: Sequence[hr.Expr]) -> Sequence[FilterPushdown]:
            super().supports_filters_pushdown(filters)
            return [FilterPushdown.UNSUPPORTED] * len(filters)

    Plain.__name__ = provider.__name__
    return Plain


# Filters


class WrongExact(HonestTable):
    class OwnPlan(Plan):
        def keep(self, expr: hr.Expr, batch: pa.RecordBatch) -> pa.Array:
            if isinstance(expr, hr.Comparison) and expr.op == ">":
                expr = dataclasses.replace(expr, op=">=")
            return expr.evaluate(batch)


class ExactKeepsNulls(HonestTable):
    class OwnPlan(Plan):
        def keep(self, expr: hr.Expr, batch: pa.RecordBatch) -> pa.Array:
            return pc.fill_null(expr.evaluate(batch), True)


class ExactDropsNaN(HonestTable):
    class OwnPlan(Plan):
        def matching(self, rows: pa.Table) -> pa.Table:
            rows = super().matching(rows)
            nan = pc.fill_null(pc.is_nan(rows["score"]), False)
            return rows.filter(pc.invert(nan)) if self.request.filters else rows


class InexactDropsRows(HonestTable):
    class OwnPlan(Plan):
        def matching(self, rows: pa.Table) -> pa.Table:
            rows = super().matching(rows)
            for expr in self.request.filters:
                if isinstance(expr, hr.StringMatch):
                    at_start = hr.StringMatch("STARTS_WITH", expr.operand, expr.pattern)
                    rows = rows.filter(at_start.evaluate(one_batch(rows)))
            return rows


class DuplicatesFilteredRows(HonestTable):
    class OwnPlan(Plan):
        def matching(self, rows: pa.Table) -> pa.Table:
            matching = super().matching(rows)
            return pa.concat_tables([matching, matching]).sort_by("weight") if self.request.filters else rows

        def __init__(self, request: hr.ScanRequest) -> None:
            super().__init__(request)
            self.ordering = ()


class FiltersOnlyReadColumns(HonestTable):
    class OwnPlan(Plan):
        def keep(self, expr: hr.Expr, batch: pa.RecordBatch) -> pa.Array:
            if expr.columns() <= set(self.request.projection):
                return expr.evaluate(batch)
            return pa.repeat(pa.scalar(True), batch.num_rows)


class UsesOneFilterOnly(HonestTable):
    class OwnPlan(Plan):
        def __init__(self, request: hr.ScanRequest) -> None:
            super().__init__(dataclasses.replace(request, filters=request.filters[:1]))


class TooFewAnswers(HonestTable):
    def supports_filters_pushdown(self, filters: Sequence[hr.Expr]) -> Sequence[FilterPushdown]:
        return [FilterPushdown.UNSUPPORTED]


class AnswersWithBooleans(HonestTable):
    def supports_filters_pushdown(self, filters: Sequence[hr.Expr]) -> Any:
        return [True for _ in filters]


class AnswersRaise(HonestTable):
    def supports_filters_pushdown(self, filters: Sequence[hr.Expr]) -> Sequence[FilterPushdown]:
        raise LookupError("no such operator")


# Limit


class LimitTooSmall(HonestTable):
    class OwnPlan(Plan):
        def limited(self, rows: pa.Table) -> pa.Table:
            return rows if self.request.limit is None else rows.slice(0, self.request.limit // 3)


class LimitSplitEvenly(HonestTable):
    class OwnPlan(Plan):
        def limited(self, rows: pa.Table) -> pa.Table:
            return rows if self.request.limit is None else rows.slice(0, -(-self.request.limit // 3))


class LimitBeforeFilters(HonestTable):
    class OwnPlan(Plan):
        def rows(self, partition: int) -> pa.Table:
            return super().limited(super().rows(partition))


# Partitioning and ordering


class LyingKeys(HonestTable):
    class OwnPlan(Plan):
        def __init__(self, request: hr.ScanRequest) -> None:
            super().__init__(request)
            self.partitioning = hr.KeyPartitioning("city", ("bonn", "ulm", "kiel"))


class SameKeyTwice(HonestTable):
    class OwnPlan(Plan):
        def __init__(self, request: hr.ScanRequest) -> None:
            super().__init__(request)
            self.partitioning = hr.KeyPartitioning("city", ("bonn", "kiel", "kiel"))


class KeyOfAnotherType(HonestTable):
    class OwnPlan(Plan):
        def __init__(self, request: hr.ScanRequest) -> None:
            super().__init__(request)
            self.partitioning = hr.KeyPartitioning("city", (1, 2, 3))


class LyingHash(HonestTable):
    class OwnPlan(Plan):
        def __init__(self, request: hr.ScanRequest) -> None:
            super().__init__(request)
            self.partitioning = hr.HashPartitioning("value", 3, "md5")


class LyingOrder(HonestTable):
    class OwnPlan(Plan):
        def __init__(self, request: hr.ScanRequest) -> None:
            super().__init__(request)
            self.ordering = [hr.SortKey("value", descending=True)]


class LyingNullsOrder(HonestTable):
    class OwnPlan(Plan):
        def __init__(self, request: hr.ScanRequest) -> None:
            super().__init__(request)
            self.ordering = [hr.SortKey("value", nulls_first=False)]


class LyingSecondKey(HonestTable):
    class OwnPlan(Plan):
        def __init__(self, request: hr.ScanRequest) -> None:
            super().__init__(request)
            self.ordering = [hr.SortKey("city"), hr.SortKey("score")]


# Execute and scans


class UnstableExecute(HonestTable):
    class OwnPlan(Plan):
        runs = 0

        def rows(self, partition: int) -> pa.Table:
            self.runs += 1
            rows = super().rows(partition)
            return rows if self.runs <= 3 else rows.slice(1)


class SharedIterator(HonestTable):
    def __init__(self) -> None:
        self.batches = iter(ROWS.to_batches(max_chunksize=7))

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        batches = self.batches

        class SharedPlan(hr.ExecutionPlan):
            schema = SCHEMA
            placement = hr.Placement.DRIVER

            def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
                return batches

        return SharedPlan()


class IteratorUsedUpByScan(HonestTable):
    def __init__(self) -> None:
        self.batches = iter(ROWS.to_batches(max_chunksize=7))
        self.scans = 0

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        self.scans += 1
        return FixedPlan(list(self.batches) if self.scans != 2 else [])


class FixedPlan(hr.ExecutionPlan):
    schema = SCHEMA

    def __init__(self, batches: Sequence[pa.RecordBatch]) -> None:
        self.batches = batches

    def execute(self, partition: int) -> Any:
        return iter(self.batches)


class ExecuteReturnsNone(HonestTable):
    class OwnPlan(Plan):
        def execute(self, partition: int) -> Any:
            return None


class ExecuteYieldsSingleRows(HonestTable):
    class OwnPlan(Plan):
        def execute(self, partition: int) -> Any:
            yield from self.projected(self.rows(partition)).to_pylist()


class LastPartitionFails(HonestTable):
    class OwnPlan(Plan):
        def rows(self, partition: int) -> pa.Table:
            if partition == 2:
                raise ConnectionError("shard 2 is down")
            return super().rows(partition)


class BoundToOneThread(HonestTable):
    class OwnPlan(Plan):
        placement = hr.Placement.DRIVER

        def __init__(self, request: hr.ScanRequest) -> None:
            super().__init__(request)
            self.thread = threading.get_ident()

        def rows(self, partition: int) -> pa.Table:
            if threading.get_ident() != self.thread:
                raise RuntimeError("used on another thread than the one that made it")
            return super().rows(partition)


class RefusesToStop(HonestTable):
    class OwnPlan(Plan):
        def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
            for batch in super().execute(partition):
                try:
                    yield batch
                except GeneratorExit:
                    yield batch


# Planning


class ReadsAFile(HonestTable):
    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        Path(__file__).read_text()
        return Plan(request)


class ReadsAFileWhenAsked(HonestTable):
    def answer(self, expr: hr.Expr) -> FilterPushdown:
        with open(__file__):
            return super().answer(expr)


class Sleeps(HonestTable):
    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        time.sleep(0.001)
        return Plan(request)


class WorksHard(HonestTable):
    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        end = time.perf_counter() + 0.06
        while time.perf_counter() < end:
            pass
        return Plan(request)


class ExecutesInScan(HonestTable):
    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        plan = Plan(request)
        list(plan.execute(0))
        return plan


class PlansOnOneThread(HonestTable):
    def __init__(self) -> None:
        self.thread = threading.get_ident()

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        if threading.get_ident() != self.thread:
            raise RuntimeError("objects created in a thread can only be used in that same thread")
        return Plan(request)


class ScanReturnsNone(HonestTable):
    def scan(self, request: hr.ScanRequest) -> Any:
        return None


class ScanRaises(HonestTable):
    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        raise ValueError("no such shard")


class Unpicklable(HonestTable):
    class OwnPlan(Plan):
        def __init__(self, request: hr.ScanRequest) -> None:
            super().__init__(request)
            self.lock = threading.Lock()


class UnpicklableWithFilters(HonestTable):
    class OwnPlan(Plan):
        def __init__(self, request: hr.ScanRequest) -> None:
            super().__init__(request)
            self.lock = threading.Lock() if request.filters else None


class PickledWithoutItsState(HonestTable):
    class OwnPlan(Plan):
        empty = False

        def __getstate__(self) -> dict[str, Any]:
            return {**self.__dict__, "empty": True}

        def rows(self, partition: int) -> pa.Table:
            return super().rows(partition).slice(0, 0 if self.empty else None)


class StatisticsFarOff(HonestTable):
    def statistics(self) -> hr.Statistics:
        return hr.Statistics(num_rows=3_000_000)


class StatisticsNegative(HonestTable):
    def statistics(self) -> hr.Statistics:
        return hr.Statistics(num_rows=-1)
