"""check_provider on top-n, offset, aggregates and runtime filters: an honest provider passes, each lie is found."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import headrace as hr
import headrace.testing
from effort import cases
from headrace.testing import Promise, Report, Severity
from headrace.testing.aggregated import Undecided, aggregated

SCHEMA = pa.schema(
    [("k", pa.string()), ("n", pa.int64()), ("x", pa.float64()), ("d", pa.decimal128(8, 2)), ("day", pa.date32())]
)
ROWS = pa.Table.from_pylist(
    [
        {
            "k": None if i % 7 == 3 else "abc"[i % 3],
            "n": None if i % 5 == 4 else i * 7 % 11,
            "x": None if i % 6 == 5 else math.nan if i % 8 == 6 else i / 4,
            "d": None if i % 9 == 1 else Decimal(i) / 4,
            "day": None if i == 8 else pa.scalar(i // 6, pa.date32()).as_py(),
        }
        for i in range(24)
    ],
    SCHEMA,
)
PARTS = 3
check_provider = functools.partial(headrace.testing.check_provider, planning_budget_s=60, samples=cases(2))


class Honest(hr.TableProvider):
    """Sorts, cuts and aggregates with Python; each step is a method, for others to get wrong."""

    top_n = hr.Pushdown.EXACT
    aggregates = hr.AggregatePushdown.COMPLETE

    def schema(self) -> pa.Schema:
        return SCHEMA

    def supports_filters_pushdown(self, filters: Sequence[hr.Expr]) -> Sequence[hr.Pushdown]:
        exact = [isinstance(expr, hr.Comparison) and expr.columns() == {"n"} for expr in filters]
        return [hr.Pushdown.EXACT if known else hr.Pushdown.UNSUPPORTED for known in exact]

    def supports_top_n_pushdown(self, order: Sequence[hr.SortKey], limit: int) -> hr.Pushdown:
        return self.top_n

    def supports_offset_pushdown(self, offset: int, limit: int | None) -> bool:
        return True

    def supports_aggregate_pushdown(self, aggregation: hr.Aggregation) -> hr.AggregatePushdown:
        return self.aggregates

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        return HonestPlan(self, request)

    def kept(self, rows: pa.Table, request: hr.ScanRequest) -> pa.Table:
        for expr in request.runtime_filters:
            rows = matching(rows, expr)
        return rows

    def ordered(self, rows: pa.Table, order: Sequence[hr.SortKey]) -> pa.Table:
        for key in reversed(order):
            rows = sorted_by(rows, key)
        return rows

    def cut(self, rows: pa.Table, request: hr.ScanRequest) -> pa.Table:
        return rows.slice(request.offset, request.limit)

    def aggregated(self, rows: pa.Table, aggregation: hr.Aggregation) -> list[tuple[Any, ...]]:
        return [(*key, *values) for key, values in aggregated(rows, aggregation).items()]


class HonestPlan(hr.ExecutionPlan):
    runtime_filter_columns = ("k", "n", "day")

    def __init__(self, provider: Honest, request: hr.ScanRequest) -> None:
        self.provider, self.request, self.schema = provider, request, request.schema
        one = request.offset or (provider.top_n is hr.Pushdown.EXACT and request.order)
        one = one or (request.aggregation is not None and provider.aggregates is hr.AggregatePushdown.COMPLETE)
        self.partitioning = hr.UnknownPartitioning(1 if one else PARTS)

    def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
        rows = ROWS.take(list(range(partition, ROWS.num_rows, self.partitioning.n))).combine_chunks()
        for expr in self.request.filters:
            rows = matching(rows, expr)
        rows = self.provider.kept(rows, self.request)
        rows = self.provider.cut(self.provider.ordered(rows, self.request.order), self.request)
        if self.request.aggregation is None:
            yield from rows.select(list(self.request.projection)).combine_chunks().to_batches()
            return
        found = self.provider.aggregated(rows, self.request.aggregation)
        columns = list(zip(*found, strict=True)) or [()] * len(self.schema)
        arrays = [
            pa.array([math.nan if value == ("NaN",) else value for value in column], field.type)
            for column, field in zip(columns, self.schema, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def matching(rows: pa.Table, expr: hr.Expr) -> pa.Table:
    batches = rows.combine_chunks().to_batches()
    return rows.filter(expr.evaluate(batches[0])) if batches else rows


def sorted_by(rows: pa.Table, key: hr.SortKey) -> pa.Table:
    values = rows[key.column].to_pylist()
    nulls = [i for i, value in enumerate(values) if value is None]
    others = [i for i, value in enumerate(values) if value is not None]
    others.sort(key=lambda i: (True, 0) if values[i] != values[i] else (False, values[i]), reverse=key.descending)
    return rows.take(pa.array(nulls + others if key.nulls_first else others + nulls, pa.int64()))


class Inexact(Honest):
    top_n = hr.Pushdown.INEXACT

    def supports_offset_pushdown(self, offset: int, limit: int | None) -> bool:
        return False


class Partial(Honest):
    aggregates = hr.AggregatePushdown.PARTIAL


@pytest.mark.parametrize("provider", [Honest, Inexact, Partial])
def test_honest_provider_keeps_all_promises(provider: type[Honest]) -> None:
    report = check_provider(provider())
    assert report.ok, str(report)
    assert not report.of(Severity.UNCHECKED)
    assert report.scans > 150


class IgnoresOrder(Honest):
    def ordered(self, rows: pa.Table, order: Sequence[hr.SortKey]) -> pa.Table:
        return rows


class IgnoresSecondKey(Honest):
    def ordered(self, rows: pa.Table, order: Sequence[hr.SortKey]) -> pa.Table:
        return super().ordered(rows, order[:1])


class NullsAlwaysLast(Honest):
    def ordered(self, rows: pa.Table, order: Sequence[hr.SortKey]) -> pa.Table:
        return super().ordered(rows, [replace(key, nulls_first=False) for key in order])


class CutsBeforeTheOffset(Honest):
    def cut(self, rows: pa.Table, request: hr.ScanRequest) -> pa.Table:
        rows = rows.slice(0, request.limit)
        return rows.slice(request.offset)


class ForgetsTheOffset(Honest):
    def cut(self, rows: pa.Table, request: hr.ScanRequest) -> pa.Table:
        return rows.slice(0, request.limit)


class OffsetAloneIsForgotten(Honest):
    top_n = hr.Pushdown.UNSUPPORTED

    def cut(self, rows: pa.Table, request: hr.ScanRequest) -> pa.Table:
        return rows.slice(0, request.limit)


class CutsAnyRows(Inexact):
    def ordered(self, rows: pa.Table, order: Sequence[hr.SortKey]) -> pa.Table:
        return rows


class InventsRows(Honest):
    def cut(self, rows: pa.Table, request: hr.ScanRequest) -> pa.Table:
        cut = super().cut(rows, request)
        return pa.concat_tables([cut, cut]) if request.order else cut


class CountsNulls(Honest):
    def aggregated(self, rows: pa.Table, aggregation: hr.Aggregation) -> list[tuple[Any, ...]]:
        functions = [replace(f, operand=None) if f.name == "count" else f for f in aggregation.functions]
        return super().aggregated(rows, replace(aggregation, functions=tuple(functions)))


class IgnoresDistinct(Honest):
    def aggregated(self, rows: pa.Table, aggregation: hr.Aggregation) -> list[tuple[Any, ...]]:
        functions = [replace(f, distinct=False) for f in aggregation.functions]
        return super().aggregated(rows, replace(aggregation, functions=tuple(functions)))


class DropsTheNullGroup(Honest):
    def aggregated(self, rows: pa.Table, aggregation: hr.Aggregation) -> list[tuple[Any, ...]]:
        width = len(aggregation.group_by)
        return [row for row in super().aggregated(rows, aggregation) if None not in row[:width]]


class NothingOverNoRows(Honest):
    def aggregated(self, rows: pa.Table, aggregation: hr.Aggregation) -> list[tuple[Any, ...]]:
        return super().aggregated(rows, aggregation) if rows.num_rows else []


class MaxIsNeverNaN(Honest):
    def aggregated(self, rows: pa.Table, aggregation: hr.Aggregation) -> list[tuple[Any, ...]]:
        return [
            tuple(-1.0 if isinstance(value, float) and math.isnan(value) else value for value in row)
            for row in super().aggregated(rows, aggregation)
        ]


class SaysCompleteForParts(Partial):
    def supports_aggregate_pushdown(self, aggregation: hr.Aggregation) -> hr.AggregatePushdown:
        return hr.AggregatePushdown.COMPLETE


class IgnoresFiltersWhenItCounts(Honest):
    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        return super().scan(replace(request, filters=()) if request.aggregation is not None else request)


class PartialWithoutARow(Partial):
    def aggregated(self, rows: pa.Table, aggregation: hr.Aggregation) -> list[tuple[Any, ...]]:
        return super().aggregated(rows, aggregation) if rows.num_rows else []


class AnswersTrue(Honest):
    def supports_aggregate_pushdown(self, aggregation: hr.Aggregation) -> Any:
        return True


class DropsByRange(Honest):
    """Takes the greatest value of a list for one that is not in it."""

    def kept(self, rows: pa.Table, request: hr.ScanRequest) -> pa.Table:
        for expr in request.runtime_filters:
            if isinstance(expr, hr.InList):
                most = max(value.value for value in expr.values)  # type: ignore[attr-defined]
                rows = rows.filter(pc.less(rows[next(iter(expr.columns()))], pa.scalar(most)))
        return rows


class GrowsWhenNarrowed(Honest):
    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        plan = super().scan(request)
        if request.runtime_filters:
            plan.partitioning = hr.UnknownPartitioning(PARTS + 1)
        return plan


LIARS: list[tuple[type[Honest], Promise, str]] = [
    (
        IgnoresOrder,
        Promise.TOP_N,
        r"EXACT for the first rows by .*, but \{.*\} comes before \{.*\}, in the scan with",
    ),
    (IgnoresSecondKey, Promise.TOP_N, r"by \w+ .*, \w+ .*, but \{.*\} comes before"),
    (NullsAlwaysLast, Promise.TOP_N, r"NULLS FIRST.* but row 0 has .*, expected .*None"),
    (CutsBeforeTheOffset, Promise.TOP_N, r"offset 1.* but returned \d+ rows?, expected \d+"),
    (ForgetsTheOffset, Promise.TOP_N, r"EXACT for the first \d+ by .*, offset 1 but row \d+ has"),
    (OffsetAloneIsForgotten, Promise.TOP_N, r"leave out the first row of 24 but returned 24 rows, expected 23"),
    (CutsAnyRows, Promise.TOP_N, r"answered INEXACT for the first \d+ by .* but"),
    (InventsRows, Promise.TOP_N, r"rows? that a plain scan does not have, or not as often: \{"),
    (CountsNulls, Promise.AGGREGATES, r"answered COMPLETE for count\(\w+\) but returned count\(\w+\) = 24, expected"),
    (IgnoresDistinct, Promise.AGGREGATES, r"count\(DISTINCT k\) = 2\d, expected 3"),
    (DropsTheNullGroup, Promise.AGGREGATES, r"GROUP BY .* but left out the group \(.*None"),
    (NothingOverNoRows, Promise.AGGREGATES, r"returned 0 rows; without groups it is exactly one, even over no rows"),
    (MaxIsNeverNaN, Promise.AGGREGATES, r"max\(x\) = -1.0, expected nan"),
    (SaysCompleteForParts, Promise.AGGREGATES, r"more than once|returned 3 rows; without groups it is exactly one"),
    (IgnoresFiltersWhenItCounts, Promise.AGGREGATES, r"with the EXACT filters .* but returned .* = \d+"),
    (PartialWithoutARow, Promise.AGGREGATES, r"count\(\*\) = None, expected 0"),
    (AnswersTrue, Promise.AGGREGATES, r"supports_aggregate_pushdown returned True, expected an AggregatePushdown"),
    (DropsByRange, Promise.RUNTIME_FILTERS, r"planned again for `\w+ IN \(.*\)` but dropped \d+ rows? that pass"),
    (GrowsWhenNarrowed, Promise.RUNTIME_FILTERS, r"which is not a part of the first one"),
]


@pytest.mark.daily(every=2)
@pytest.mark.parametrize(("provider", "promise", "message"), LIARS, ids=[case[0].__name__ for case in LIARS])
def test_liar_is_found_with_its_promise_and_message(provider: type[Honest], promise: Promise, message: str) -> None:
    report = check_provider(provider())
    broken = {finding.promise for finding in report.of(Severity.ERROR)}
    assert broken == {promise}, str(report)
    assert any(re.search(message, finding.message) for finding in report.of(Severity.ERROR)), str(report)


@pytest.mark.daily
@pytest.mark.parametrize("provider", [IgnoresOrder, CountsNulls, DropsByRange])
def test_few_samples_with_another_seed_suffice_for_common_lies(provider: type[Honest]) -> None:
    assert not check_provider(provider(), samples=1, seed=7).ok


def test_table_that_is_cut_short_says_what_was_not_checked() -> None:
    report: Report = check_provider(Honest(), max_rows=10)
    notes = {finding.promise for finding in report.of(Severity.NOTE) if "max_rows=10" in finding.message}
    assert {Promise.TOP_N, Promise.AGGREGATES, Promise.RUNTIME_FILTERS} <= notes


def sum_of(values: list[Any], type_: pa.DataType, result: pa.DataType, name: Any = "sum") -> Any:
    function = hr.AggregateFunction(name, hr.Column("a"), False, result)
    rows = pa.table({"a": pa.array(values, type_)})
    return aggregated(rows, hr.Aggregation((), (function,), pa.schema([("s", result)])))[()][0]


def test_reference_sums_are_undecided_where_spark_overflows() -> None:
    with pytest.raises(Undecided):
        sum_of([2**63 - 1, 1], pa.int64(), pa.int64())
    with pytest.raises(Undecided):
        sum_of([Decimal("9" * 38), Decimal(1)], pa.decimal128(38, 0), pa.decimal128(38, 0))
    assert sum_of([2**63 - 1, -1], pa.int64(), pa.int64()) == 2**63 - 2


def test_reference_average_of_decimals_rounds_half_up() -> None:
    found = sum_of([Decimal("0.01"), Decimal("0.00"), Decimal("0.01")], pa.decimal128(4, 2), pa.decimal128(8, 6), "avg")
    assert found == Decimal("0.006667")


@pytest.mark.daily
def test_random_tables_of_an_honest_provider_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Random(11)
    for seed in range(cases(3)):
        rows = ROWS.take([rng.randrange(ROWS.num_rows) for _ in range(rng.randrange(1, 20))])
        monkeypatch.setitem(globals(), "ROWS", rows.combine_chunks())
        report = check_provider(rng.choice([Honest, Inexact, Partial])(), samples=1, seed=seed)
        assert report.ok, str(report)
