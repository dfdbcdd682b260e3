"""What of a scan Headrace's own stage takes over, what the provider is then asked for, and what Spark is told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from headrace.arrow.types import wire_schema
from headrace.execute.stage.work import StageWork
from headrace.negotiate.aggregates import OfferedFunction
from headrace.negotiate.negotiation import Negotiation
from headrace.negotiate.partitioning import ScanSettings
from headrace.negotiate.registry import RegisteredTable
from headrace.negotiate.stage import NoRows
from headrace.provider import Join, JoiningProvider

SCHEMA = pa.schema(
    [
        ("a", pa.int64()),
        ("b", pa.string()),
        ("c", pa.float64()),
        ("i", pa.int32()),
        ("s", pa.struct([("x", pa.int32()), ("y", pa.struct([("z", pa.string()), ("w", pa.int32())]))])),
    ]
)
EXACT, INEXACT, UNSUPPORTED = hr.FilterPushdown.EXACT, hr.FilterPushdown.INEXACT, hr.FilterPushdown.UNSUPPORTED
COMPLETE, PARTIAL = hr.AggregatePushdown.COMPLETE, hr.AggregatePushdown.PARTIAL
A, B, C, I = hr.Column("a"), hr.Column("b"), hr.Column("c"), hr.Column("i")  # noqa: E741
ON = ScanSettings(work_at_source=True)


def greater(column: hr.Column, value: int) -> hr.Expr:
    return hr.Comparison(">", column, hr.Literal(value, pa.int64()))


def equals(column: hr.Column, value: str) -> hr.Expr:
    return hr.Comparison("=", column, hr.Literal(value, pa.string()))


def not_null(column: hr.Column) -> hr.Expr:
    return hr.Not(hr.IsNull(column))


def is_among(column: hr.Column, *values: int) -> hr.Expr:
    return hr.InList(column, tuple(hr.Literal(value, pa.int64()) for value in values))


class Plan(hr.ExecutionPlan):
    def __init__(self, schema: pa.Schema, **said: Any) -> None:
        self.schema = schema
        for name, value in said.items():
            setattr(self, name, value)

    def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
        raise AssertionError("planning does not execute")


class Able(JoiningProvider):
    """Answers filters by their text, and takes all else; records what it is asked."""

    def __init__(self, answers: dict[str, hr.FilterPushdown] | None = None, **said: Any) -> None:
        self.answers = answers or {}
        self.size: hr.Statistics | None = said.pop("size", None)
        self.said = said
        self.asked: list[str] = []
        self.requests: list[hr.ScanRequest] = []

    def schema(self) -> pa.Schema:
        return SCHEMA

    def statistics(self) -> hr.Statistics | None:
        return self.size

    def supports_filters_pushdown(self, filters: Sequence[hr.Expr]) -> Sequence[hr.FilterPushdown]:
        return [self.answers.get(repr(expr), UNSUPPORTED) for expr in filters]

    def supports_top_n_pushdown(self, order: Sequence[hr.SortKey], limit: int) -> hr.Pushdown:
        self.asked.append("top-n")
        return hr.Pushdown.EXACT

    def supports_offset_pushdown(self, offset: int, limit: int | None) -> bool:
        self.asked.append("offset")
        return True

    def supports_aggregate_pushdown(self, aggregation: hr.Aggregation) -> hr.AggregatePushdown:
        self.asked.append("aggregation")
        return COMPLETE

    def joined(self, join: Join) -> hr.TableProvider | str:
        self.asked.append("join")
        return "no"

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        self.requests.append(request)
        return Plan(request.schema, **self.said)


class Plain(hr.TableProvider):
    """Knows no pushdown."""

    def __init__(self, **said: Any) -> None:
        self.said = said
        self.requests: list[hr.ScanRequest] = []

    def schema(self) -> pa.Schema:
        return SCHEMA

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        self.requests.append(request)
        return Plan(request.schema, **self.said)


def negotiation_of(provider: hr.TableProvider, settings: ScanSettings = ON) -> Negotiation:
    negotiation = Negotiation(RegisteredTable("t", provider, SCHEMA, wire_schema(SCHEMA)))
    negotiation.settings = settings
    return negotiation


def work_of(negotiation: Negotiation) -> StageWork:
    work = negotiation.plan().work
    assert work is not None
    return work


def test_filter_of_a_plain_provider_is_done_here_and_spark_does_not_filter() -> None:
    provider = Plain()
    negotiation = negotiation_of(provider)
    offered = negotiation.offer_filters([greater(A, 5), not_null(A)])
    assert [one.word for one in offered] == ["exact", "implied"]
    assert [one.who for one in offered] == ["HEADRACE", "IMPLIED"]
    negotiation.offer_columns(pa.schema([SCHEMA.field("b")]))
    scan = negotiation.plan()
    assert provider.requests == [hr.ScanRequest(pa.schema([SCHEMA.field("b"), SCHEMA.field("a")]), ("b", "a"))]
    assert scan.schema.names == ["b"]
    assert scan.work == StageWork(filters=(greater(A, 5),))
    task = scan.task()
    assert (task.request_schema.names, task.work) == (["b"], scan.work)


def test_filter_answered_inexact_is_given_to_the_provider_and_done_here() -> None:
    provider = Able({repr(greater(A, 5)): INEXACT, repr(equals(B, "x")): EXACT})
    negotiation = negotiation_of(provider)
    offered = negotiation.offer_filters([greater(A, 5), equals(B, "x"), not_null(A), not_null(B)])
    assert [one.word for one in offered] == ["exact", "exact", "implied", "implied"]
    assert [one.who for one in offered] == ["INEXACT, HEADRACE", "EXACT", "IMPLIED", "IMPLIED"]
    assert work_of(negotiation).filters == (greater(A, 5),)
    assert provider.requests[0].filters == (greater(A, 5), equals(B, "x"))


def test_filter_is_not_null_alone_is_done_here() -> None:
    negotiation = negotiation_of(Plain())
    assert [one.word for one in negotiation.offer_filters([not_null(A)])] == ["exact"]
    assert work_of(negotiation).filters == (not_null(A),)


def test_filter_that_may_raise_is_left_to_spark_with_the_reason() -> None:
    negotiation = negotiation_of(Plain())
    quotient = hr.Comparison(">", hr.Call("/", (C, C)), hr.Literal(1.0, pa.float64()))
    (offered,) = negotiation.offer_filters([quotient])
    assert (offered.word, offered.here) == ("unsupported", False)
    assert offered.why_not_here
    assert negotiation.plan().work is None


def test_switched_off_everything_stays_as_the_provider_answered() -> None:
    negotiation = negotiation_of(Plain(), ScanSettings())
    (offered,) = negotiation.offer_filters([greater(A, 5)])
    assert (offered.word, offered.why_not_here) == ("unsupported", "spark.headrace.workAtSource is off")
    answered = negotiation.offer_aggregation([B], [OfferedFunction("count", None)])
    assert (answered.answer, answered.why_not_here) == (
        hr.AggregatePushdown.UNSUPPORTED,
        "spark.headrace.workAtSource is off",
    )
    assert negotiation.offer_top_n([hr.SortKey("a")], 3).answer is UNSUPPORTED
    scan = negotiation.plan()
    assert (scan.work, scan.runtime_filter_columns) == (None, ())


def test_filtered_here_the_provider_is_neither_asked_nor_told_to_cut() -> None:
    provider = Able()
    negotiation = negotiation_of(provider)
    negotiation.offer_filters([greater(A, 5)])
    assert negotiation.offer_top_n([hr.SortKey("b")], 3).answer is INEXACT
    assert not negotiation.offer_offset(2)
    scan = negotiation.plan()
    assert provider.asked == []
    (request,) = provider.requests
    assert (request.limit, request.order, request.offset, request.aggregation) == (None, (), 0, None)
    assert scan.work == StageWork(filters=(greater(A, 5),), order=(hr.SortKey("b"),), limit=3)


def test_filtered_here_a_limit_cuts_after_the_filter() -> None:
    provider = Able()
    negotiation = negotiation_of(provider)
    negotiation.offer_filters([greater(A, 5)])
    negotiation.offer_limit(7)
    scan = negotiation.plan()
    assert provider.requests[0].limit is None
    assert (scan.limit, scan.task().limit, scan.first_rows) == (7, 7, 7)


def test_filtered_here_no_join_is_taken() -> None:
    left, right = Able(), Able()
    one, other = negotiation_of(left), negotiation_of(right)
    other.offer_filters([greater(A, 5)])
    condition = hr.Comparison("=", A, hr.Column("a_1"))
    offered = one.offer_join(other, "inner", ((("a", "a"),), (("a", "a_1"),)), condition)
    assert (offered.joined, offered.why_not, left.asked) == (None, "Headrace filters t", [])


def test_aggregation_the_provider_is_asked_first() -> None:
    provider = Able()
    negotiation = negotiation_of(provider)
    offered = negotiation.offer_aggregation([B], [OfferedFunction("count", None)])
    assert (offered.answer, offered.here, provider.asked) == (COMPLETE, False, ["aggregation"])
    scan = negotiation.plan()
    assert scan.work is None
    assert provider.requests[0].aggregation == offered.aggregation


def test_aggregation_filtered_here_is_done_here_over_the_columns_it_needs() -> None:
    provider = Able()
    negotiation = negotiation_of(provider)
    negotiation.offer_filters([greater(A, 5)])
    offered = negotiation.offer_aggregation([B], [OfferedFunction("sum", C), OfferedFunction("count", None)])
    assert (offered.answer, offered.here, provider.asked) == (PARTIAL, True, [])
    scan = negotiation.plan()
    assert provider.requests[0].projection == ("a", "b", "c")
    assert scan.schema.names == ["group_0", "sum_0", "count_1"]
    assert scan.work == StageWork(filters=(greater(A, 5),), aggregation=offered.aggregation)
    assert negotiation.offer_top_n([hr.SortKey("group_0")], 3).answer is UNSUPPORTED
    negotiation.offer_limit(3)
    assert negotiation.plan().limit is None


def test_aggregation_count_of_all_rows_asks_for_the_cheapest_column() -> None:
    provider = Plain()
    negotiation = negotiation_of(provider)
    assert negotiation.offer_aggregation([], [OfferedFunction("count", None)]).answer is PARTIAL
    assert negotiation.plan().request.projection == ("i",)
    assert provider.requests[0].projection == ("i",)


def test_aggregation_of_a_table_without_partitions_has_one_that_says_zero() -> None:
    negotiation = negotiation_of(Plain(partitioning=hr.UnknownPartitioning(0)))
    negotiation.offer_aggregation([], [OfferedFunction("count", None)])
    scan = negotiation.plan()
    assert scan.partitioning.n == 1
    assert isinstance(scan.plan, NoRows)
    assert list(scan.plan.execute(0)) == []
    grouped = negotiation_of(Plain(partitioning=hr.UnknownPartitioning(0)))
    grouped.offer_aggregation([B], [OfferedFunction("count", None)])
    assert grouped.plan().partitioning.n == 0


def test_aggregation_sum_that_stands_for_an_average_of_bigints_is_left_to_spark() -> None:
    negotiation = negotiation_of(Plain())
    asked = negotiation.ask_aggregation([], [OfferedFunction("avg", A), OfferedFunction("avg", I)])
    assert asked.answer is hr.AggregatePushdown.UNSUPPORTED
    ints = [OfferedFunction("sum", I), OfferedFunction("count", I)]
    refused = negotiation.offer_aggregation([], [OfferedFunction("sum", A), OfferedFunction("count", A), *ints])
    assert refused.answer is hr.AggregatePushdown.UNSUPPORTED
    assert "may overflow" in refused.why_not_here
    assert negotiation.offer_aggregation([], ints).answer is PARTIAL
    assert negotiation_of(Plain()).offer_aggregation([], [OfferedFunction("sum", A)]).answer is PARTIAL


KEYS = hr.KeyPartitioning(("a",), [(1,), (2,)])


@pytest.mark.parametrize(
    ("partitioning", "group_by", "told"),
    [
        (KEYS, [A], ("group_0",)),
        (KEYS, [B, A], ("group_1",)),
        (KEYS, [B], None),
        (KEYS, [hr.Call("%", (A, hr.Literal(2, pa.int64())))], None),
        (hr.HashPartitioning(("a", "b"), 4, "crc32"), [B, A, I], ("group_1", "group_0")),
        (hr.HashPartitioning(("a", "b"), 4, "crc32"), [B], None),
        (hr.KeyPartitioning(("b", "a"), [("x", 1), ("y", 1)]), [I, A], ("group_1",)),
        (hr.HashPartitioning(("a", "b"), 1, "crc32"), [B], ("group_0",)),
    ],
    ids=["key", "second", "another", "computed", "hash", "part of a hash", "part of a key", "one partition"],
)
def test_aggregation_partitions_are_told_under_the_names_of_the_groups(
    partitioning: hr.Partitioning, group_by: list[hr.Expr], told: tuple[str, ...] | None
) -> None:
    negotiation = negotiation_of(Plain(partitioning=partitioning))
    negotiation.offer_aggregation(group_by, [OfferedFunction("count", None)])
    scan = negotiation.plan()
    assert scan.aggregation is not None
    assert scan.aggregation.here
    assert (scan.partitioning_unused is None) is (told is not None)
    if told is not None:
        assert isinstance(scan.partitioning, (hr.KeyPartitioning, hr.HashPartitioning))
        assert tuple(map(scan.name_in_rows, scan.partitioning.columns)) == told
        assert scan.partitioning.n == partitioning.n


def test_aggregation_ordering_holds_as_far_as_its_columns_are_groups() -> None:
    ordering = (hr.SortKey("b"), hr.SortKey("i"), hr.SortKey("a"))
    negotiation = negotiation_of(Plain(ordering=ordering))
    negotiation.offer_aggregation([A, B], [OfferedFunction("count", None)])
    assert negotiation.plan().ordering == (hr.SortKey("b"),)


def test_top_n_of_a_plain_provider_is_done_here_and_not_in_any_order() -> None:
    provider = Plain(ordering=(hr.SortKey("b"),))
    negotiation = negotiation_of(provider)
    assert negotiation.offer_top_n([hr.SortKey("a", descending=True)], 3).answer is INEXACT
    negotiation.offer_columns(pa.schema([SCHEMA.field("b")]))
    assert not negotiation.offer_offset(1)
    scan = negotiation.plan()
    assert scan.work == StageWork(order=(hr.SortKey("a", descending=True),), limit=3)
    assert (scan.limit, scan.ordering, scan.schema.names) == (None, (), ["b"])
    assert provider.requests[0].projection == ("b", "a")
    assert provider.requests[0].order == ()


def test_filter_of_a_nested_field_is_left_to_spark() -> None:
    (offered,) = negotiation_of(Plain()).offer_filters([equals(hr.Column("s", ("y", "z")), "x")])
    assert (offered.word, offered.why_not_here) == ("unsupported", "s.y.z is nested")


SMALL = hr.Statistics(10, 1000)


def test_small_table_spark_filters_again_before_4_3() -> None:
    provider = Able(size=SMALL)
    settings = ScanSettings(work_at_source=True, broadcast_bytes=10_000)
    negotiation = negotiation_of(provider, settings)
    (offered,) = negotiation.offer_filters([greater(A, 5)])
    assert (offered.word, offered.here) == ("inexact", True)
    scan = negotiation.plan()
    assert scan.work == StageWork(filters=(greater(A, 5),))
    assert not scan.filters_come_back


def test_small_table_filters_come_back_from_4_3_on() -> None:
    settings = ScanSettings(work_at_source=True, broadcast_bytes=10_000, filters_back_bytes=10_000)
    negotiation = negotiation_of(Able(size=SMALL), settings)
    (offered,) = negotiation.offer_filters([greater(A, 5)])
    assert offered.word == "exact"
    negotiation.offer_columns(pa.schema([SCHEMA.field("b")]))
    scan = negotiation.plan()
    assert scan.filters_come_back
    assert (scan.added_columns, scan.schema.names) == (("a",), ["b", "a"])


def test_small_table_learns_nothing_from_others() -> None:
    settings = ScanSettings(work_at_source=True, broadcast_bytes=10_000)
    assert negotiation_of(Able(size=SMALL), settings).plan().runtime_filter_columns == ()
    assert negotiation_of(Able(), settings).plan().runtime_filter_columns == ("a", "b", "i")


def test_runtime_filters_are_looked_up_without_another_scan() -> None:
    provider = Plain()
    negotiation = negotiation_of(provider)
    first = negotiation.plan()
    assert first.runtime_filter_columns == ("a", "b", "i")
    second = negotiation.narrow(first, [is_among(A, 1, 2)])
    third = negotiation.narrow(second, [is_among(I, 3), is_among(A, 1, 2)])
    assert len(provider.requests) == 1
    assert second.plan is first.plan
    assert third.work is not None
    assert third.work.runtime_filters == (is_among(A, 1, 2), is_among(I, 3))
    assert third.learnt == third.work.runtime_filters
    assert len({first.id, second.id, third.id}) == 3
    assert first.work is None


def test_runtime_filters_on_columns_of_the_provider_are_planned_again() -> None:
    provider = Able(runtime_filter_columns=("i",), partitioning=hr.KeyPartitioning(("i",), [(1,), (2,)]))
    negotiation = negotiation_of(provider)
    first = negotiation.plan()
    assert first.runtime_filter_columns == ("i", "a", "b")
    second = negotiation.narrow(first, [is_among(I, 1), is_among(A, 2)])
    assert [request.runtime_filters for request in provider.requests] == [(), (is_among(I, 1),)]
    assert second.work == StageWork(runtime_filters=(is_among(A, 2),))  # of i whole partitions were chosen


@pytest.mark.parametrize("cut", ["limit", "top-n", "aggregation"])
def test_runtime_filters_are_not_for_a_scan_that_is_cut(cut: str) -> None:
    negotiation = negotiation_of(Plain())
    if cut == "limit":
        negotiation.offer_limit(3)
    elif cut == "top-n":
        negotiation.offer_top_n([hr.SortKey("a")], 3)
    else:
        negotiation.offer_aggregation([A], [OfferedFunction("count", None)])
    assert negotiation.plan().runtime_filter_columns == ()


def test_verified_promises_are_those_of_the_provider_alone() -> None:
    provider = Able({repr(equals(B, "x")): EXACT})
    table = RegisteredTable("t", provider, SCHEMA, wire_schema(SCHEMA), verify="all")
    negotiation = Negotiation(table)
    negotiation.settings = ON
    negotiation.offer_filters([equals(B, "x"), greater(A, 5)])
    negotiation.offer_aggregation([I], [OfferedFunction("count", None)])
    scan = negotiation.plan()
    assert scan.promises is not None
    assert scan.promises.filters == (equals(B, "x"),)
    assert provider.requests[0].projection == ("a", "i", "b")
