"""Top-n, offset, aggregates and runtime filters, negotiated with a real Spark, adaptive execution on and off."""

from __future__ import annotations

import decimal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from leaking import at_rest
from producing import wait_until
from session_settings import session_settings
from versions import has

pytestmark = [  # as most sessions are; tests say which they try without, too
    pytest.mark.daily("adaptive*"),
    pytest.mark.usefixtures("adaptive"),
]

SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64()), ("d", pa.decimal128(10, 2)), ("x", pa.float32())])
ROWS = [
    {"k": None if n % 11 == 3 else "abc"[n % 3], "n": n, "d": decimal.Decimal(n) / 4, "x": n / 8} for n in range(60)
]
PARTS = 4


class Answers:
    """How a Recording provider answers, and what it was asked."""

    def __init__(self) -> None:
        self.top_n = hr.Pushdown.UNSUPPORTED
        self.offset = False
        self.aggregate = hr.AggregatePushdown.UNSUPPORTED
        self.runtime_columns: tuple[str, ...] = ()
        self.partitioning: hr.Partitioning = hr.UnknownPartitioning(PARTS)
        self.asked: list[Any] = []
        self.requests: list[hr.ScanRequest] = []


class Recording(hr.TableProvider):
    """Rows of a list, over four partitions; does just what the answers promise."""

    def __init__(self, answers: Answers, rows: Sequence[dict[str, Any]] = ROWS) -> None:
        self.answers = answers
        self.rows = rows

    def schema(self) -> pa.Schema:
        return SCHEMA

    def supports_filters_pushdown(self, filters: Sequence[hr.Expr]) -> Sequence[hr.Pushdown]:
        return hr.pushdown_exact_where_possible(filters, schema=SCHEMA)

    def supports_top_n_pushdown(self, order: Sequence[hr.SortKey], limit: int) -> hr.Pushdown:
        self.answers.asked.append(("top-n", tuple(order), limit))
        return self.answers.top_n

    def supports_offset_pushdown(self, offset: int, limit: int | None) -> bool:
        self.answers.asked.append(("offset", offset, limit))
        return self.answers.offset

    def supports_aggregate_pushdown(self, aggregation: hr.Aggregation) -> hr.AggregatePushdown:
        self.answers.asked.append(("aggregate", repr(aggregation)))
        return self.answers.aggregate

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        self.answers.requests.append(request)
        return RecordingPlan(self, request)


class RecordingPlan(hr.ExecutionPlan):
    placement = hr.Placement.DRIVER

    def __init__(self, provider: Recording, request: hr.ScanRequest) -> None:
        self.schema = request.schema
        self.runtime_filter_columns = provider.answers.runtime_columns
        self._request = request
        table = pa.Table.from_pylist(list(provider.rows), SCHEMA)
        for expr in (*request.filters, *request.runtime_filters):
            batch = table.combine_chunks().to_batches()[0] if table.num_rows else None
            table = table if batch is None else table.filter(expr.evaluate(batch))
        rows = table.to_pylist()
        one = provider.answers.top_n is hr.Pushdown.EXACT or provider.answers.aggregate is hr.AggregatePushdown.COMPLETE
        if isinstance(provider.answers.partitioning, hr.KeyPartitioning):
            keys = sorted({row["k"] or "" for row in rows})
            self.partitioning: hr.Partitioning = hr.KeyPartitioning("k", [key or None for key in keys])
            self._parts = [[row for row in rows if (row["k"] or "") == key] for key in keys]
            return
        self.partitioning = hr.UnknownPartitioning(1 if one or request.offset else PARTS)
        self._parts = [rows[index :: self.partitioning.n] for index in range(self.partitioning.n)]

    def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
        rows, request = self._parts[partition], self._request
        for key in reversed(request.order):
            rows = _sorted(rows, key)
        end = None if request.limit is None else request.offset + request.limit
        rows = rows[request.offset : end]
        if request.aggregation is not None:
            rows = _aggregated(rows, request.aggregation)
        yield pa.RecordBatch.from_pylist(rows, request.schema)


def _sorted(rows: list[dict[str, Any]], key: hr.SortKey) -> list[dict[str, Any]]:
    nulls = [row for row in rows if row[key.column] is None]
    others = [row for row in rows if row[key.column] is not None]
    others.sort(key=lambda row: row[key.column], reverse=key.descending)
    return nulls + others if key.nulls_first else others + nulls


def _aggregated(rows: list[dict[str, Any]], aggregation: hr.Aggregation) -> list[dict[str, Any]]:
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {} if aggregation.group_by else {(): []}
    for row in rows:
        groups.setdefault(tuple(row[column.name] for column in aggregation.group_by), []).append(row)
    names = aggregation.schema.names
    return [
        dict(zip(names, [*key, *(_value(members, one) for one in aggregation.functions)], strict=True))
        for key, members in groups.items()
    ]


def _value(rows: list[dict[str, Any]], function: hr.AggregateFunction) -> Any:
    if function.operand is None:
        return len(rows)
    values = [row[function.operand.name] for row in rows if row[function.operand.name] is not None]
    values = list(dict.fromkeys(values)) if function.distinct else values
    if function.name == "count":
        return len(values)
    if not values:
        return None
    total: Callable[[list[Any]], Any] = {
        "min": min,
        "max": max,
        "sum": sum,
        "avg": lambda found: sum(found) / len(found),
    }[function.name]
    if not pa.types.is_decimal(function.type):
        return total(values)
    unit = decimal.Decimal(1).scaleb(-function.type.scale)
    return decimal.Decimal(total(values)).quantize(unit, decimal.ROUND_HALF_UP)


@pytest.fixture
def answers(ctx: hr.SessionContext) -> Answers:
    given = Answers()
    ctx.register_table("t", Recording(given))
    ctx.spark.createDataFrame(pa.Table.from_pylist(ROWS, SCHEMA)).createOrReplaceTempView("truth")
    return given


def same(ctx: hr.SessionContext, query: str, *, ordered: bool = False) -> list[dict[str, Any]]:
    """What ``query`` gives over ``t``, after it was found to be what Spark gives over its own copy."""
    found = ctx.collect(query).to_pylist()
    expected = ctx.collect(query.replace("FROM t", "FROM truth")).to_pylist()
    assert found == expected if ordered else sorted(map(str, found)) == sorted(map(str, expected))
    return found


def plan_of(ctx: hr.SessionContext, query: str) -> str:
    return str(ctx.sql(query)._jdf.queryExecution().executedPlan().toString())


ORDERS = ["n DESC", "k, n", "k DESC NULLS FIRST, n DESC", "k NULLS LAST, n"]


@pytest.mark.daily("adaptive-*", "not adaptive-k, n")
@pytest.mark.parametrize("order", ORDERS)
def test_exact_top_n_needs_no_sort_of_sparks(ctx: hr.SessionContext, answers: Answers, order: str) -> None:
    answers.top_n = hr.Pushdown.EXACT
    query = f"SELECT k, n FROM t ORDER BY {order} LIMIT 7"
    same(ctx, query, ordered=True)
    assert "Sort" not in (plan := plan_of(ctx, query))
    assert "TakeOrdered" not in plan
    assert answers.requests[-1].limit == 7
    assert len(answers.requests[-1].order) == len(order.split(","))


@pytest.mark.daily("adaptive-n DESC", "not adaptive-k NULLS LAST, n")
@pytest.mark.parametrize("order", ORDERS)
def test_inexact_top_n_is_sorted_again_by_spark(ctx: hr.SessionContext, answers: Answers, order: str) -> None:
    answers.top_n = hr.Pushdown.INEXACT
    query = f"SELECT k, n FROM t ORDER BY {order} LIMIT 7"
    same(ctx, query, ordered=True)
    assert "TakeOrdered" in plan_of(ctx, query)
    assert answers.requests[-1].order


def test_top_n_by_an_expression_is_not_offered(ctx: hr.SessionContext, answers: Answers) -> None:
    answers.top_n = hr.Pushdown.EXACT
    same(ctx, "SELECT n FROM t ORDER BY n % 7, n LIMIT 5", ordered=True)
    assert not answers.requests[-1].order


def test_top_n_that_is_not_supported_leaves_the_request_as_it_was(ctx: hr.SessionContext, answers: Answers) -> None:
    same(ctx, "SELECT n FROM t ORDER BY n LIMIT 5", ordered=True)
    assert answers.asked == [("top-n", (hr.SortKey("n"),), 5)]
    assert answers.requests[-1] == replace(answers.requests[-1], order=(), limit=None)


def test_exact_top_n_of_several_partitions_is_refused(ctx: hr.SessionContext, answers: Answers) -> None:
    answers.top_n = hr.Pushdown.EXACT
    answers.partitioning = hr.KeyPartitioning("k", ["a"])
    with pytest.raises(hr.PlanError, match="expected one"):
        ctx.collect("SELECT k, n FROM t ORDER BY n LIMIT 5")


@pytest.mark.daily("adaptive-2", "adaptive-100", "not adaptive-7")
@pytest.mark.parametrize("offset", [0, 2, 7, 100])
def test_offset_after_an_exact_top_n_is_pushed(ctx: hr.SessionContext, answers: Answers, offset: int) -> None:
    answers.top_n, answers.offset = hr.Pushdown.EXACT, True
    query = f"SELECT k, n FROM t ORDER BY n DESC LIMIT 5 OFFSET {offset}"
    same(ctx, query, ordered=True)
    assert "Offset" not in plan_of(ctx, query)
    assert (answers.requests[-1].offset, answers.requests[-1].limit) == (offset, 5)


def test_offset_after_a_mere_limit_stays_with_spark(ctx: hr.SessionContext, answers: Answers) -> None:
    answers.offset = True
    assert len(ctx.collect("SELECT n FROM t LIMIT 5 OFFSET 3")) == 5
    assert answers.requests[-1].offset == 0


def test_offset_alone_is_pushed(ctx: hr.SessionContext, answers: Answers) -> None:
    answers.offset = True
    assert len(ctx.collect("SELECT n FROM t OFFSET 50")) == 10
    assert answers.requests[-1].offset == 50


AGGREGATES = [
    "SELECT count(*) FROM t",
    "SELECT count(*), count(k), min(n), max(n), sum(n) FROM t WHERE n > 5",
    "SELECT count(*), sum(n), min(k), max(x) FROM t WHERE n < 0",
    "SELECT k, count(*), sum(n), min(d), max(d), sum(x) FROM t GROUP BY k",
    "SELECT k, count(*) FROM t GROUP BY k HAVING count(*) > 18",
    "SELECT DISTINCT k FROM t",
    "SELECT k, avg(n), avg(x) FROM t GROUP BY k",
    "SELECT k, sum(n) FROM t GROUP BY k ORDER BY sum(n) DESC LIMIT 2",
]
COMPLETE_ONLY = [
    "SELECT k, sum(d), avg(d) FROM t GROUP BY k",
    "SELECT count(DISTINCT k), sum(DISTINCT n) FROM t",
]


@pytest.mark.daily("adaptive-SELECT count*", "not adaptive-SELECT k, avg*")
@pytest.mark.parametrize("query", [*AGGREGATES, *COMPLETE_ONLY])
def test_complete_aggregates_are_not_aggregated_again(ctx: hr.SessionContext, answers: Answers, query: str) -> None:
    answers.aggregate = hr.AggregatePushdown.COMPLETE
    same(ctx, query)
    assert "Aggregate" not in plan_of(ctx, query)
    assert answers.requests[-1].aggregation is not None


@pytest.mark.daily("adaptive-SELECT k, *", "not adaptive-SELECT k, avg*")
@pytest.mark.parametrize("query", AGGREGATES)
def test_partial_aggregates_are_merged_by_spark(ctx: hr.SessionContext, answers: Answers, query: str) -> None:
    answers.aggregate = hr.AggregatePushdown.PARTIAL
    same(ctx, query)
    assert "Aggregate" in plan_of(ctx, query)
    assert answers.requests[-1].aggregation is not None


@pytest.mark.parametrize("query", COMPLETE_ONLY)
def test_partial_aggregates_that_spark_would_merge_wrongly_are_refused(
    ctx: hr.SessionContext, answers: Answers, query: str
) -> None:
    answers.aggregate = hr.AggregatePushdown.PARTIAL
    same(ctx, query)
    assert answers.requests[-1].aggregation is None


@pytest.mark.parametrize("answer", [hr.AggregatePushdown.PARTIAL, hr.AggregatePushdown.UNSUPPORTED])
@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(DISTINCT 1), sum(n) FROM t",
        "SELECT count(DISTINCT 'a') FROM t WHERE n < 0",
        "SELECT k, count(DISTINCT 1) + count(DISTINCT 2), count(*) FROM t GROUP BY k",
        "SELECT sum(DISTINCT c) FROM (SELECT k, count(*) AS c FROM t GROUP BY k)",
    ],
)
def test_distinct_count_of_a_literal_is_one_where_partial_results_are_merged(
    ctx: hr.SessionContext, answers: Answers, answer: hr.AggregatePushdown, query: str
) -> None:
    answers.aggregate = answer  # Spark offers the count as count(*), also to Headrace's stage
    same(ctx, query)


def test_aggregates_over_a_filter_that_spark_keeps_are_not_offered(ctx: hr.SessionContext, answers: Answers) -> None:
    answers.aggregate = hr.AggregatePushdown.COMPLETE
    same(ctx, "SELECT count(*) FROM t WHERE k RLIKE 'a|b'")
    assert answers.requests[-1].aggregation is None


def test_aggregation_whose_plan_has_another_schema_is_a_mismatch(ctx: hr.SessionContext) -> None:
    class Wrong(Recording):
        def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
            plan = super().scan(request)
            plan.schema = SCHEMA
            return plan

    given = Answers()
    given.aggregate = hr.AggregatePushdown.COMPLETE
    ctx.register_table("wrong", Wrong(given))
    with pytest.raises(hr.SchemaMismatchError, match="aggregation's"):
        ctx.collect("SELECT k, count(*) FROM wrong GROUP BY k")


class Dimension(hr.MemTable):
    """Small enough to be broadcast, and its filters stay with Spark: where they are, it looks for runtime filters."""

    def supports_filters_pushdown(self, filters: Sequence[hr.Expr]) -> Sequence[hr.Pushdown]:
        return [hr.Pushdown.UNSUPPORTED] * len(filters)


@pytest.fixture
def dimension(ctx: hr.SessionContext) -> None:
    rows = {"k": ["a", "b", "c"], "colour": ["red", "green", "blue"]}
    ctx.register_table("d", Dimension(pa.table(rows)))


STAR = "SELECT count(*), sum(f.n) FROM t AS f JOIN d ON f.k = d.k WHERE d.colour = 'red'"


@pytest.mark.daily("*")
@pytest.mark.usefixtures("dimension")
@pytest.mark.parametrize("by_key", [False, True], ids=["unknown", "keys"])
def test_star_join_narrows_the_fact_table_before_it_is_read(
    ctx: hr.SessionContext, answers: Answers, by_key: bool
) -> None:
    answers.runtime_columns = ("k",)
    if by_key:
        answers.partitioning = hr.KeyPartitioning("k", ["a"])
    same(ctx, STAR)
    narrowed = answers.requests[-1].runtime_filters
    assert [repr(expr) for expr in narrowed] == ["k IN ('a')"] or "k = 'a'" in repr(narrowed)


@pytest.mark.usefixtures("dimension")
def test_plans_that_runtime_filters_replaced_leave_no_ticket_behind(ctx: hr.SessionContext, answers: Answers) -> None:
    answers.runtime_columns = ("k",)
    answers.partitioning = hr.KeyPartitioning("k", ["a"])
    before = at_rest(ctx)
    for _ in range(10):
        same(ctx, STAR)
    planner: Any = ctx._attached.planner
    assert len(answers.requests) >= 20  # each query planned twice
    wait_until(lambda: at_rest(ctx).tickets <= before.tickets)
    assert len(planner.scans.plans()) <= len(planner.scans) <= 4


@pytest.mark.parametrize("keys", [10_000, 10_001])
def test_long_list_of_keys_is_told_up_to_the_cap(ctx: hr.SessionContext, answers: Answers, keys: int) -> None:
    ctx.register_table("many", Dimension(pa.table({"n": range(keys), "wanted": [1] * keys})))
    answers.runtime_columns = ("n",)
    query = "SELECT count(*), sum(f.n) FROM t AS f JOIN many ON f.n = many.n WHERE many.wanted = 1"
    same(ctx, query)
    learnt = [expr for request in answers.requests for expr in request.runtime_filters]
    assert [len(expr.children()) - 1 for expr in learnt] == ([keys] if keys == 10_000 else [])
    frame = ctx.sql(query)
    frame.collect()
    why = "filters on n: not used: a list of 10,001 values, more than 10,000"
    assert (why in ctx.explain(frame)) is (keys > 10_000)


@pytest.mark.usefixtures("dimension")
def test_explain_of_a_query_that_ran_shows_what_it_learnt(ctx: hr.SessionContext, answers: Answers) -> None:
    answers.runtime_columns = ("k",)
    frame = ctx.sql(STAR)
    assert "filters on k: none learnt yet" in ctx.explain(frame)
    frame.collect()
    shown = ctx.explain(frame)
    assert "filters on k: k IN ('a')" in shown or "filters on k: k = 'a'" in shown


def test_scalar_subquery_narrows_the_table(ctx: hr.SessionContext, answers: Answers) -> None:
    answers.runtime_columns = ("n",)
    same(ctx, "SELECT count(*) FROM t WHERE n >= (SELECT max(id) - 3 FROM range(50))")
    assert ("n >= 46" in repr(answers.requests[-1].runtime_filters)) is has("scalar subqueries")


@pytest.mark.usefixtures("dimension")
def test_plan_that_grows_under_runtime_filters_is_refused(ctx: hr.SessionContext, answers: Answers) -> None:
    class Growing(Recording):
        def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
            plan = super().scan(request)
            if request.runtime_filters:
                plan.partitioning = hr.UnknownPartitioning(PARTS + 1)
            return plan

    answers.runtime_columns = ("k",)
    ctx.register_table("growing", Growing(answers))
    with pytest.raises(hr.PlanError, match="not a part"):
        ctx.collect(STAR.replace("FROM t ", "FROM growing "))


def test_explain_tells_what_was_offered_and_answered(ctx: hr.SessionContext, answers: Answers) -> None:
    with session_settings(ctx.spark, {"spark.headrace.workAtSource": "false"}):
        text = ctx.explain("SELECT n FROM t ORDER BY n LIMIT 5")
    assert "n ASC NULLS FIRST  UNSUPPORTED: the provider does not order" in text
    assert "(not Headrace: spark.headrace.workAtSource is off)" in text
    answers.top_n = hr.Pushdown.INEXACT
    assert "top-n         first 5 by n ASC NULLS FIRST  INEXACT: each" in ctx.explain(
        "SELECT n FROM t ORDER BY n LIMIT 5"
    )
    answers.aggregate = hr.AggregatePushdown.PARTIAL
    text = ctx.explain("SELECT k, count(*) FROM t GROUP BY k")
    assert "aggregation   count(*) GROUP BY k  PARTIAL: Spark merges" in text
    text = ctx.explain("SELECT k, sum(d) FROM t GROUP BY k")
    assert "UNSUPPORTED: Spark casts a partial sum(d) of decimals back" in text
    answers.runtime_columns = ("k",)
    assert "runtime       filters on k: none learnt yet" in ctx.explain("SELECT k, n FROM t WHERE n > 3")


def test_explain_tells_what_became_of_an_offset(ctx: hr.SessionContext, answers: Answers) -> None:
    alone, after_a_limit = "SELECT n FROM t OFFSET 50", "SELECT n FROM t LIMIT 5 OFFSET 3"
    assert "offset" not in ctx.explain("SELECT n FROM t LIMIT 5")
    text = ctx.explain(alone)
    assert "offset        the first 50 rows, not pushed: the provider leaves out no rows" in text
    assert "limit         none in the query" in text
    answers.offset = True
    assert "offset        the first 50 rows are left out" in ctx.explain(alone)
    text = ctx.explain(after_a_limit)
    assert "offset        the first 3 rows, not pushed: Spark cuts to the limit itself, and would cut too much" in text
