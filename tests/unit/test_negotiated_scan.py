"""Negotiation: offers, answers and plans of one scan, without an engine and without JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as hr
from headrace.arrow.types import wire_schema
from headrace.negotiate.aggregates import OfferedFunction
from headrace.negotiate.asking import ProviderRaised
from headrace.negotiate.filters import OfferedFilter
from headrace.negotiate.negotiation import Negotiation
from headrace.negotiate.partitioning import ScanSettings
from headrace.negotiate.registry import RegisteredTable
from headrace.provider import PerScanProvider

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.float64())])
EXACT, INEXACT, UNSUPPORTED = hr.FilterPushdown.EXACT, hr.FilterPushdown.INEXACT, hr.FilterPushdown.UNSUPPORTED
A, B = hr.Column("a"), hr.Column("b")


def is_five(column: hr.Column) -> hr.Expr:
    return hr.Comparison("=", column, hr.Literal(5, pa.int64()))


def not_null(column: hr.Column) -> hr.Expr:
    return hr.Not(hr.IsNull(column))


class Plan(hr.ExecutionPlan):
    def __init__(self, schema: pa.Schema, **said: Any) -> None:
        self.schema = schema
        for name, value in said.items():
            setattr(self, name, value)

    def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
        raise AssertionError("planning does not execute")


class Table(hr.TableProvider):
    """Answers by the text of a filter's first column, and records its calls."""

    def __init__(self, answers: dict[str, hr.FilterPushdown] | None = None, **said: Any) -> None:
        self.answers = answers or {}
        self.said = said
        self.asked: list[tuple[hr.Expr, ...]] = []
        self.requests: list[hr.ScanRequest] = []

    def schema(self) -> pa.Schema:
        return SCHEMA

    def supports_filters_pushdown(self, filters: Sequence[hr.Expr]) -> Sequence[hr.FilterPushdown]:
        self.asked.append(tuple(filters))
        return [self.answers.get(repr(expr), UNSUPPORTED) for expr in filters]

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        self.requests.append(request)
        return Plan(request.schema, **self.said)


def negotiation_of(provider: hr.TableProvider) -> Negotiation:
    return Negotiation(RegisteredTable("t", provider, SCHEMA, wire_schema(SCHEMA)))


def test_plan_nothing_offered_asks_for_all_columns_and_no_filters() -> None:
    provider = Table()
    scan = negotiation_of(provider).plan()
    assert provider.asked == []
    assert provider.requests == [hr.ScanRequest(SCHEMA, ("a", "b", "c"))]
    assert (scan.request, scan.filters, scan.plan_schema) == (provider.requests[0], (), SCHEMA)


def test_offers_all_kinds_are_in_the_request() -> None:
    provider = Table({repr(is_five(A)): EXACT, repr(not_null(B)): INEXACT})
    negotiation = negotiation_of(provider)
    negotiation.offer_filters([is_five(A), not_null(B)])
    negotiation.offer_limit(3)
    pruned = pa.schema([("c", pa.float64()), ("a", pa.int64())])
    negotiation.offer_columns(pruned)
    scan = negotiation.plan()
    assert provider.asked == [(is_five(A), not_null(B))]
    assert provider.requests == [hr.ScanRequest(pruned, ("c", "a"), (is_five(A), not_null(B)), 3)]
    assert scan.id == f"{negotiation.id}.1"


def test_offer_filters_each_answer_says_who_filters() -> None:
    provider = Table({repr(is_five(A)): EXACT, repr(not_null(A)): INEXACT, repr(is_five(B)): INEXACT})
    negotiation = negotiation_of(provider)
    offered = negotiation.offer_filters([not_null(A), None, is_five(A), is_five(B), not_null(B)])
    assert provider.asked == [(not_null(A), is_five(A), is_five(B), not_null(B))]
    off = "spark.headrace.workAtSource is off"
    assert offered == (
        OfferedFilter(not_null(A), INEXACT, implied=True),
        OfferedFilter(None, UNSUPPORTED),
        OfferedFilter(is_five(A), EXACT),
        OfferedFilter(is_five(B), INEXACT, why_not_here=off),
        OfferedFilter(not_null(B), UNSUPPORTED, why_not_here=off),
    )
    assert [one.word for one in offered] == ["implied", "unsupported", "exact", "inexact", "unsupported"]
    assert negotiation.plan().request.filters == (is_five(A), is_five(B))


class Counted(hr.TableProvider):
    """Remembers what it was asked for, and has all columns of ``declared``."""

    def __init__(self, declared: pa.Schema) -> None:
        self.declared = declared
        self.requests: list[hr.ScanRequest] = []

    def schema(self) -> pa.Schema:
        return self.declared

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        self.requests.append(request)
        return Plan(request.schema)


def counting(provider: hr.TableProvider) -> Negotiation:
    negotiation = Negotiation(RegisteredTable.of("t", provider))
    negotiation.offer_columns(pa.schema([]))
    return negotiation


@pytest.mark.parametrize(
    ("types", "cheapest"),
    [
        ([pa.int64(), pa.string(), pa.int32(), pa.float32()], "c2"),
        ([pa.string(), pa.int64(), pa.bool_(), pa.int8()], "c2"),
        ([pa.decimal128(9, 2), pa.timestamp("us"), pa.date32()], "c2"),
        ([pa.string(), pa.binary()], "c0"),
        ([pa.struct([("x", pa.int8())]), pa.list_(pa.int8())], "c0"),
        ([pa.dictionary(pa.int8(), pa.string()), pa.int64()], "c1"),
        ([pa.null(), pa.int64()], "c1"),
    ],
    ids=str,
)
def test_request_without_columns_has_the_cheapest_one_and_spark_gets_none(
    types: list[pa.DataType], cheapest: str
) -> None:
    provider = Counted(pa.schema([(f"c{i}", type_) for i, type_ in enumerate(types)]))
    scan = counting(provider).plan()
    assert provider.requests[0].projection == (cheapest,)
    assert provider.requests[0].schema == pa.schema([provider.declared.field(cheapest)])
    assert scan.schema == pa.schema([])
    assert scan.only_counts


def test_request_of_a_table_without_columns_stays_without() -> None:
    provider = Counted(pa.schema([]))
    assert counting(provider).plan().request.projection == ()
    assert provider.requests[0].schema == pa.schema([])


class ScansItself(hr.DatasetTable):
    requests: ClassVar[list[hr.ScanRequest]] = []

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        self.requests.append(request)
        return super().scan(request)


def test_tables_that_count_rows_without_a_column_are_asked_for_none(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1, 2], "b": pa.array([1, 2], pa.int8())}), tmp_path / "rows.parquet")
    for table in (hr.DatasetTable(tmp_path), hr.SortedTable(hr.DatasetTable(tmp_path), [hr.SortKey("a")])):
        scan = counting(table).plan()
        assert scan.request.projection == ()
        assert sum(batch.num_rows for batch in scan.plan.execute(0)) == 2
    counting(ScansItself(tmp_path)).plan()
    assert [request.projection for request in ScansItself.requests] == [("b",)]


def test_offer_filters_none_that_is_known_does_not_ask_the_provider() -> None:
    provider = Table()
    assert negotiation_of(provider).offer_filters([None]) == (OfferedFilter(None, UNSUPPORTED),)
    assert provider.asked == []


def test_negotiations_of_one_table_do_not_see_each_other() -> None:
    provider = Table({repr(is_five(A)): EXACT})
    first, second = negotiation_of(provider), negotiation_of(provider)
    first.offer_filters([is_five(A)])
    first.offer_limit(1)
    assert second.plan().request == hr.ScanRequest(SCHEMA, ("a", "b", "c"))
    assert first.plan().request.limit == 1
    assert first.id != second.id


def test_plan_again_after_another_offer_both_plans_stay_as_they_are() -> None:
    negotiation = negotiation_of(Table())
    first = negotiation.plan()
    negotiation.offer_limit(7)
    second = negotiation.plan()
    assert (first.request.limit, second.request.limit) == (None, 7)
    assert first.id != second.id


def in_list(column: hr.Column, *values: int) -> hr.Expr:
    return hr.InList(column, tuple(hr.Literal(value, pa.int64()) for value in values))


def test_narrow_adds_what_was_learnt_and_leaves_the_plan_before_as_it_was() -> None:
    negotiation = negotiation_of(Table(partitioning=hr.UnknownPartitioning(3), runtime_filter_columns=("a",)))
    first = negotiation.plan()
    second = negotiation.narrow(first, [in_list(A, 1, 2)])
    third = negotiation.narrow(second, [in_list(A, 1, 2), in_list(A, 2)])
    assert [len(plan.request.runtime_filters) for plan in (first, second, third)] == [0, 1, 2]
    assert len({first.id, second.id, third.id}) == 3


def test_narrow_to_more_partitions_is_refused_and_planning_anew_is_not() -> None:
    table = Table(partitioning=hr.UnknownPartitioning(2), runtime_filter_columns=("a",))
    negotiation = negotiation_of(table)
    first = negotiation.plan()
    table.said = {"partitioning": hr.UnknownPartitioning(5)}
    with pytest.raises(hr.PlanError, match="planned again for runtime filters"):
        negotiation.narrow(first, [in_list(A, 1)])
    assert negotiation.plan().partitioning.n == 5


SMALL = hr.Statistics(10, 1000)


@pytest.mark.parametrize(
    ("statistics", "settings", "limit", "filters", "added"),
    [
        (SMALL, ScanSettings(filters_back_bytes=1000), None, [is_five(A), not_null(A)], ("a",)),
        (SMALL, ScanSettings(), None, [is_five(A)], None),
        (SMALL, ScanSettings(filters_back_bytes=100), None, [is_five(A)], None),
        (None, ScanSettings(filters_back_bytes=1000), None, [is_five(A)], None),
        (SMALL, ScanSettings(filters_back_bytes=1000), 5, [is_five(A)], None),
        (SMALL, ScanSettings(filters_back_bytes=1000), None, [is_five(hr.Column("a", ("x",)))], None),
        (SMALL, ScanSettings(filters_back_bytes=1000), None, [not_null(A)], None),
    ],
    ids=["small", "off", "large", "unknown", "limited", "nested", "nothing exact"],
)
def test_filters_come_back_for_small_tables_with_the_columns_that_they_need(
    statistics: hr.Statistics | None,
    settings: ScanSettings,
    limit: int | None,
    filters: list[hr.Expr],
    added: tuple[str, ...] | None,
) -> None:
    class Small(Table):
        def statistics(self) -> hr.Statistics | None:
            return statistics

    answers = {repr(is_five(A)): EXACT, repr(is_five(hr.Column("a", ("x",)))): EXACT}
    negotiation = negotiation_of(Small(answers, runtime_filter_columns=("a",)))
    negotiation.offer_filters(filters)
    negotiation.offer_columns(pa.schema([SCHEMA.field("b")]))
    negotiation.settings = settings
    if limit is not None:
        negotiation.offer_limit(limit)
    plan = negotiation.plan()
    assert plan.filters_come_back is (added is not None)
    assert plan.added_columns == (added or ())
    assert plan.request.projection == ("b", *(added or ()))
    negotiation.settings = ScanSettings()  # what Spark reads was settled by the first plan
    assert negotiation.narrow(plan, [in_list(A, 5)]).request.projection == plan.request.projection


class Remembering(PerScanProvider):
    """Each scan gets an object that knows what it was asked."""

    def __init__(self) -> None:
        self.scans: list[Table] = []

    def schema(self) -> pa.Schema:
        return SCHEMA

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        raise AssertionError("the scan's own object is asked")

    def for_scan(self) -> hr.TableProvider:
        self.scans.append(Table({repr(is_five(A)): EXACT}))
        return self.scans[-1]


def test_per_scan_provider_every_question_goes_to_the_scans_own_object() -> None:
    provider = Remembering()
    first, second = negotiation_of(provider), negotiation_of(provider)
    second.offer_filters([is_five(B)])
    first.offer_filters([is_five(A)])
    first.plan()
    one, two = provider.scans
    assert (one.asked, two.asked) == ([(is_five(A),)], [(is_five(B),)])
    assert (len(one.requests), len(two.requests)) == (1, 0)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (ScanSettings(), None),
        (ScanSettings(bucketing=False), "spark.sql.sources.v2.bucketing.enabled is off"),
        (ScanSettings(shuffle_one_side=True), "spark.sql.sources.v2.bucketing.shuffle.enabled is on"),
        (
            ScanSettings(compatible_transforms=True),
            "spark.sql.sources.v2.bucketing.allowCompatibleTransforms.enabled is on",
        ),
        (ScanSettings(subset_of_keys=True), "a hash of several columns says nothing of one"),
    ],
    ids=str,
)
def test_settings_decide_whether_a_hash_partitioning_is_used(settings: ScanSettings, reason: str | None) -> None:
    negotiation = negotiation_of(Table(partitioning=hr.HashPartitioning(["a", "b"], 8, "f")))
    negotiation.settings = settings
    unused = negotiation.plan().partitioning_unused
    assert (unused is None) if reason is None else (unused is not None and reason in unused)


def test_provider_raises_the_failure_names_method_and_table() -> None:
    class Raising(Table):
        def supports_filters_pushdown(self, filters: Sequence[hr.Expr]) -> Sequence[hr.FilterPushdown]:
            raise LookupError("no index")

        def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
            raise SystemExit(3)

    negotiation = negotiation_of(Raising())
    with pytest.raises(ProviderRaised) as filters:
        negotiation.offer_filters([is_five(A)])
    assert filters.value.failure.where == "Raising.supports_filters_pushdown"
    assert (filters.value.failure.exception_type, filters.value.failure.table) == ("builtins.LookupError", "t")
    assert negotiation.filters == ()
    with pytest.raises(ProviderRaised) as scan:
        negotiation.plan()
    assert isinstance(scan.value.__cause__, SystemExit)


def test_limit_above_an_aggregation_is_not_passed_on() -> None:
    class Counting(Table):
        def supports_aggregate_pushdown(self, aggregation: hr.Aggregation) -> hr.AggregatePushdown:
            return hr.AggregatePushdown.COMPLETE

    negotiation = Negotiation(RegisteredTable("t", Counting(), SCHEMA, wire_schema(SCHEMA)))
    negotiation.offer_aggregation([B], [OfferedFunction("count", None)])
    negotiation.offer_limit(2)
    assert negotiation.request().aggregation is not None
    assert negotiation.request().limit is None
