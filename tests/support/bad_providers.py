"""An honest provider, and for each promise ones that differ from it in one thing and break it; for the tests."""

from __future__ import annotations

import dataclasses
import functools
import math
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import headrace as hr
from headrace import FilterPushdown

CITIES = ("bonn", "kiel", "ulm")
PLACE = pa.struct([("x", pa.int32()), ("label", pa.string())])
SCHEMA = pa.schema(
    [
        pa.field("city", pa.string(), nullable=False),
        ("value", pa.int64()),
        ("weight", pa.int64()),
        ("name", pa.string()),
        ("score", pa.float64()),
        ("place", PLACE),
    ]
)
ROWS = pa.Table.from_pylist(
    [
        {
            "city": CITIES[0 if i % 5 < 3 else 1 if i % 5 == 3 else 2],  # 18, 6 and 6 rows
            "value": None if i % 7 == 0 else (i * 11) % 17,
            "weight": i,
            "name": None if i % 6 == 1 else ["ada", "Ada", "ad%", "", "bea", "é"][i % 6],
            "score": None if i % 8 == 5 else math.nan if i % 8 == 2 else i / 4 - 3,
            "place": None if i % 9 == 4 else {"x": i % 4, "label": None if i % 5 == 0 else f"p{i % 3}"},
        }
        for i in range(30)
    ],
    SCHEMA,
)


@functools.cache
def sorted_rows(city: str) -> pa.Table:
    rows = ROWS.filter(pc.equal(ROWS["city"], city)).sort_by("value")
    null = pc.is_null(rows["value"])
    return pa.concat_tables([rows.filter(null), rows.filter(pc.invert(null))]).combine_chunks()


class Plan(hr.ExecutionPlan):
    """One city a partition, sorted by value. Each step of ``execute`` is a method, for others to get wrong."""

    def __init__(self, request: hr.ScanRequest) -> None:
        self.request = request
        self.schema = pa.schema([SCHEMA.field(name) for name in request.projection])
        self.partitioning: hr.Partitioning = hr.KeyPartitioning("city", CITIES)
        self.ordering: Sequence[hr.SortKey] = [hr.SortKey("value")]

    def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
        rows = self.projected(self.limited(self.matching(self.rows(partition))))
        yield from rows.to_batches(max_chunksize=2)

    def rows(self, partition: int) -> pa.Table:
        return sorted_rows(CITIES[partition])

    def matching(self, rows: pa.Table) -> pa.Table:
        for expr in self.request.filters:
            if not isinstance(expr, hr.StringMatch):
                rows = rows.filter(self.keep(expr, one_batch(rows)))
        return rows

    def keep(self, expr: hr.Expr, batch: pa.RecordBatch) -> pa.Array:
        return expr.evaluate(batch)

    def limited(self, rows: pa.Table) -> pa.Table:
        return rows if self.request.limit is None else rows.slice(0, self.request.limit)

    def projected(self, rows: pa.Table) -> pa.Table:
        return rows.select(list(self.request.projection))


class HonestTable(hr.TableProvider):
    """EXACT for all but matches of strings (INEXACT, and not used) and what is made of several filters."""

    OwnPlan: type[hr.ExecutionPlan] = Plan

    def schema(self) -> pa.Schema:
        return SCHEMA

    def supports_filters_pushdown(self, filters: Sequence[hr.Expr]) -> Sequence[FilterPushdown]:
        return [self.answer(expr) for expr in filters]

    def answer(self, expr: hr.Expr) -> FilterPushdown:
        if isinstance(expr, hr.StringMatch):
            return FilterPushdown.INEXACT
        return FilterPushdown.UNSUPPORTED if isinstance(expr, (hr.And, hr.Or)) else FilterPushdown.EXACT

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        return self.OwnPlan(request)  # type: ignore[call-arg]

    def statistics(self) -> hr.Statistics | None:
        return hr.Statistics(num_rows=30)


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


def one_batch(rows: pa.Table) -> pa.RecordBatch:
    batches = rows.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], rows.schema)


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


class ExecuteYieldsTables(HonestTable):
    class OwnPlan(Plan):
        def execute(self, partition: int) -> Any:
            yield self.projected(self.rows(partition))


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


# Schema, batches, projection


class SchemaIsAList(HonestTable):
    def schema(self) -> Any:
        return ["city", "value"]


class SchemaChanges(HonestTable):
    calls = 0

    def schema(self) -> pa.Schema:
        self.calls += 1
        return SCHEMA if self.calls == 1 else SCHEMA.remove(1)


class SchemaSparkHasNoTypesFor(HonestTable):
    def schema(self) -> pa.Schema:
        return SCHEMA.append(pa.field("at", pa.month_day_nano_interval()))


class WrongNames(HonestTable):
    class OwnPlan(Plan):
        def projected(self, rows: pa.Table) -> pa.Table:
            rows = super().projected(rows)
            return rows.rename_columns([name.upper() for name in rows.column_names])


class WrongTypes(HonestTable):
    class OwnPlan(Plan):
        def projected(self, rows: pa.Table) -> pa.Table:
            rows = rows.set_column(1, "value", rows["value"].cast(pa.int32()))
            return super().projected(rows)


class WrongPlanSchema(HonestTable):
    class OwnPlan(Plan):
        def __init__(self, request: hr.ScanRequest) -> None:
            super().__init__(request)
            self.schema = pa.schema([("other", pa.int64())])


class NullsWhereNoneAreDeclared(HonestTable):
    class OwnPlan(Plan):
        def rows(self, partition: int) -> pa.Table:
            rows = super().rows(partition)
            return rows.set_column(0, "city", pa.array([None] * rows.num_rows, pa.string()))


class IgnoresProjectionOrder(HonestTable):
    class OwnPlan(Plan):
        def __init__(self, request: hr.ScanRequest) -> None:
            super().__init__(request)
            self.schema = pa.schema([field for field in SCHEMA if field.name in request.projection])

        def projected(self, rows: pa.Table) -> pa.Table:
            return rows.select(self.schema.names)


class RenamesInTableOrder(HonestTable):
    """The worst kind: two columns of one type, with the requested names on the wrong values."""

    def schema(self) -> pa.Schema:
        return pa.schema([("value", pa.int64()), ("weight", pa.int64())])

    class OwnPlan(Plan):
        def __init__(self, request: hr.ScanRequest) -> None:
            super().__init__(request)
            self.partitioning, self.ordering = hr.UnknownPartitioning(3), ()

        def projected(self, rows: pa.Table) -> pa.Table:
            in_table_order = [name for name in SCHEMA.names if name in self.request.projection]
            return rows.select(in_table_order).rename_columns(list(self.request.projection))


class FailsWithoutColumns(HonestTable):
    class OwnPlan(Plan):
        def projected(self, rows: pa.Table) -> pa.Table:
            rows = super().projected(rows)
            return rows if rows.num_columns else rows.slice(0, 0)


class PrunesNestedFieldsWrongly(HonestTable):
    class OwnPlan(Plan):
        def __init__(self, request: hr.ScanRequest) -> None:
            super().__init__(request)
            self.schema = request.schema

        def projected(self, rows: pa.Table) -> pa.Table:
            rows = super().projected(rows)
            if rows.schema.types == self.schema.types:
                return rows
            children = self.schema.field("place").type
            nulls = pa.array([{field.name: None for field in children}] * rows.num_rows, children)
            return rows.set_column(rows.column_names.index("place"), self.schema.field("place"), nulls)


class StatisticsFarOff(HonestTable):
    def statistics(self) -> hr.Statistics:
        return hr.Statistics(num_rows=3_000_000)


class StatisticsNegative(HonestTable):
    def statistics(self) -> hr.Statistics:
        return hr.Statistics(num_rows=-1)
