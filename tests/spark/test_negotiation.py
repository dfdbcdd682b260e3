"""Columns, limits, statistics and the contract's call counts, each seen in Spark's own plan."""

from __future__ import annotations

import gc
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import headrace as hr
from producing import wait_until
from recording import Batches, Recorder, exact, executed_nodes, plan_text, table_of

pytestmark = pytest.mark.core

PERSON = pa.struct([("name", pa.string()), ("home", pa.struct([("city", pa.string()), ("zip", pa.int32())]))])
PEOPLE = [
    {"name": "Ann", "home": {"city": "Bern", "zip": 3000}},
    {"name": None, "home": None},
    None,
    {"name": "Zoe", "home": {"city": None, "zip": 1}},
]
CITY = pa.struct([("home", pa.struct([("city", pa.string())]))])
CITIES = ["Bern", None, None, None]


def planned(frame: DataFrame) -> DataFrame:
    """Have Spark plan the query; nothing runs."""
    frame._jdf.queryExecution().executedPlan()
    return frame


def registered(ctx: hr.SessionContext, provider: Recorder, name: str = "t") -> Recorder:
    ctx.register_table(name, provider)
    return provider


ABC = pa.table({"a": [1, 2, 3, 4], "b": ["w", "x", "y", "z"], "c": [0.5, 1.5, 2.5, 3.5]})


@pytest.mark.parametrize("whole", [True, False], ids=["table schema", "request schema"])
def test_projection_some_columns_are_asked_for_in_order(ctx: hr.SessionContext, whole: bool) -> None:
    provider = registered(ctx, table_of(ABC, 2, whole=whole))
    frame = ctx.sql("SELECT c, a FROM t")
    assert Counter(frame.collect()) == Counter(zip(ABC["c"].to_pylist(), ABC["a"].to_pylist(), strict=True))
    assert sorted(provider.request().projection) == ["a", "c"]
    assert tuple(provider.request().schema.names) == provider.request().projection
    assert f"columns=[{', '.join(provider.request().projection)}]" in plan_text(frame)


@pytest.mark.parametrize("whole", [True, False], ids=["table schema", "request schema"])
@pytest.mark.parametrize("placement", list(hr.Placement))
def test_projection_count_star_asks_for_the_cheapest_column(
    ctx: hr.SessionContext, whole: bool, placement: hr.Placement
) -> None:
    provider = registered(ctx, table_of(ABC, 2, whole=whole, placement=placement))
    frame = ctx.sql("SELECT count(*) FROM t")
    assert frame.collect()[0][0] == 4
    assert provider.request().projection == ("a",)
    assert provider.request().schema == pa.schema([("a", pa.int64())])
    assert "columns=[a]" in plan_text(frame)


def coded(values: pa.Array) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(range(len(values)), pa.int8()), values)


NESTED: dict[str, tuple[pa.Array, str, pa.DataType, list[Any]]] = {
    "struct": (pa.array(PEOPLE, PERSON), "v.home.city", CITY, CITIES),
    "list": (
        pa.array([PEOPLE, None, [], PEOPLE[:1]], pa.list_(PERSON)),
        "v.home.city",
        pa.list_(CITY),
        [CITIES, None, [], ["Bern"]],
    ),
    "list_view": (
        pa.array([PEOPLE, None, [], PEOPLE[:1]], pa.list_view(PERSON)),
        "v.home.city",
        pa.list_view(CITY),
        [CITIES, None, [], ["Bern"]],
    ),
    "fixed_size_list": (
        pa.array([PEOPLE[:1], None, PEOPLE[1:2], PEOPLE[:1]], pa.list_(PERSON, 1)),
        "v.home.city",
        pa.list_(CITY, 1),
        [["Bern"], None, [None], ["Bern"]],
    ),
    "map_value": (
        pa.array([[("k", PEOPLE[0])], None, [], [("k", None)]], pa.map_(pa.string(), PERSON)),
        "v['k'].home.city",
        pa.map_(pa.string(), CITY),
        ["Bern", None, None, None],
    ),
    "map_key": (
        pa.array([[(PEOPLE[0], 1)], None, [], [(PEOPLE[3], 2)]], pa.map_(PERSON, pa.int32())),
        "map_keys(v).home.city",
        pa.map_(CITY, pa.int32()),
        [["Bern"], None, [], [None]],
    ),
    "dictionary": (coded(pa.array(PEOPLE, PERSON)), "v.home.city", pa.dictionary(pa.int8(), CITY), CITIES),
}


@pytest.mark.parametrize("case", NESTED)
def test_projection_nested_fields_are_pruned(ctx: hr.SessionContext, case: str) -> None:
    array, expression, pruned, expected = NESTED[case]
    provider = registered(ctx, table_of(pa.table({"other": range(4), "v": array})))
    rows = ctx.collect(f"SELECT {expression} AS x FROM t")
    assert provider.request().schema.field("v").type == pruned
    assert provider.request().projection == ("v",)
    assert rows.column("x").to_pylist() == expected


def test_scan_plan_is_columnar(ctx: hr.SessionContext) -> None:
    registered(ctx, table_of(ABC))
    nodes = executed_nodes(planned(ctx.sql("SELECT a + 1 FROM t")))
    assert nodes[-3:] == ["ColumnarToRowExec", "InputAdapter", "BatchScanExec"] or nodes[-2:] == [
        "ColumnarToRowExec",
        "BatchScanExec",
    ]


@pytest.mark.parametrize("placement", list(hr.Placement))
def test_limit_is_pushed_for_the_whole_scan(ctx: hr.SessionContext, placement: hr.Placement) -> None:
    provider = registered(ctx, table_of(ABC, 4, placement=placement))
    frame = ctx.sql("SELECT a FROM t LIMIT 2")
    assert len(frame.collect()) == 2
    assert provider.request().limit == 2
    assert "limit=2" in plan_text(frame)


def test_limit_of_show_is_pushed_plus_one(ctx: hr.SessionContext, capsys: pytest.CaptureFixture[str]) -> None:
    provider = registered(ctx, table_of(ABC))
    ctx.table("t").show(3)
    assert provider.request().limit == 4
    assert "only showing top 3 rows" in capsys.readouterr().out


def greater_than_two(batch: pa.RecordBatch, request: hr.ScanRequest) -> pa.RecordBatch:
    return batch.filter(pa.compute.greater(batch["a"], 2)) if request.filters else batch


@pytest.mark.parametrize(
    ("query", "pushed", "rows"),
    [
        ("SELECT a FROM t WHERE a > 2 LIMIT 1", None, 1),
        ("SELECT a FROM t WHERE b RLIKE 'y' LIMIT 1", None, 1),
        ("SELECT a FROM t ORDER BY c DESC LIMIT 2", None, 2),
        ("SELECT DISTINCT b FROM t LIMIT 3", None, 3),
        ("SELECT a FROM t LIMIT 2 OFFSET 1", 3, 2),
    ],
)
def test_limit_with_something_between_is_not_pushed(
    ctx: hr.SessionContext, query: str, pushed: int | None, rows: int
) -> None:
    provider = registered(ctx, table_of(ABC, 2))
    assert len(ctx.sql(query).collect()) == rows
    assert provider.request().limit == pushed


def test_limit_above_an_exact_filter_is_pushed_and_right(ctx: hr.SessionContext) -> None:
    provider = registered(ctx, table_of(ABC, 2, answer=exact, keep=greater_than_two))
    assert len(ctx.sql("SELECT b FROM t WHERE a > 2 LIMIT 1").collect()) == 1
    assert provider.request().limit == 1
    assert [row.a for row in ctx.sql("SELECT a FROM t WHERE a > 2 LIMIT 9").collect()] == [3, 4]


def test_statistics_small_table_is_broadcast(ctx: hr.SessionContext) -> None:
    registered(ctx, table_of(ABC, table_statistics=hr.Statistics(num_rows=4)), "small")
    registered(ctx, table_of(ABC), "unknown")
    registered(ctx, table_of(ABC, table_statistics=hr.Statistics(num_rows=10**9)), "large")
    broadcast = planned(ctx.sql("SELECT * FROM large JOIN small USING (a)"))
    assert "BroadcastHashJoinExec" in executed_nodes(broadcast)
    for name in ("unknown", "large"):
        frame = planned(ctx.sql(f"SELECT * FROM large x JOIN {name} y USING (a)"))
        assert "SortMergeJoinExec" in executed_nodes(frame), name


def test_statistics_of_the_plan_win_over_the_tables(ctx: hr.SessionContext) -> None:
    class Plan(Batches):
        def statistics(self) -> hr.Statistics:
            return hr.Statistics(num_rows=np.int64(3), size_in_bytes=np.int32(77))

    class Provider(Recorder):
        def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
            return Plan(self.table_schema, self.partitions)

    registered(ctx, Provider(ABC.schema, [ABC.to_batches()], table_statistics=hr.Statistics(10**9, 10**12)))
    stats: Any = ctx.table("t")._jdf.queryExecution().optimizedPlan().stats()
    assert int(stats.sizeInBytes()) == 77


@pytest.mark.parametrize("statistics", [hr.Statistics(num_rows=-1), hr.Statistics(size_in_bytes=-1)])
def test_statistics_that_are_no_counts_fail_by_name(ctx: hr.SessionContext, statistics: hr.Statistics) -> None:
    registered(ctx, table_of(ABC, table_statistics=statistics))
    with pytest.raises(hr.PlanError, match="gave the statistic"):
        ctx.collect("SELECT a FROM t")


class Live(hr.ExecutionPlan):
    """Remembers what was executed; DRIVER, so that the test can see it."""

    placement = hr.Placement.DRIVER

    def __init__(self, schema: pa.Schema, executed: list[int]) -> None:
        self.schema = schema
        self.partitioning = hr.UnknownPartitioning(2)
        self._executed = executed

    def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
        self._executed.append(partition)
        yield pa.record_batch({"a": [partition]})


class LiveTable(Recorder):
    executed: list[int]

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        super().scan(request)
        return Live(self.table_schema, self.executed)


@pytest.fixture
def live(ctx: hr.SessionContext) -> LiveTable:
    table = LiveTable(pa.schema([("a", pa.int64())]), [])
    table.executed = []
    ctx.register_table("live", table)
    return table


def counts(provider: Recorder) -> dict[str, int]:
    return dict(Counter(name for name, _ in provider.calls))


def test_calls_registration_asks_for_the_schema_once_on_this_thread(live: LiveTable) -> None:
    assert counts(live) == {"schema": 1}
    assert live.threads == [threading.get_ident()]


def test_calls_building_a_dataframe_plans_nothing(ctx: hr.SessionContext, live: LiveTable) -> None:
    frame = ctx.sql("SELECT a FROM live WHERE a > 5")
    assert frame.columns == ["a"]
    frame.printSchema()
    assert counts(live) == {"schema": 1}


PLANNERS: dict[str, Callable[[hr.SessionContext, DataFrame], object]] = {
    "explain": lambda _, frame: frame.explain(),
    "EXPLAIN": lambda ctx, _: ctx.sql("EXPLAIN SELECT a FROM live WHERE a >= 0").collect(),
    "EXPLAIN FORMATTED": lambda ctx, _: ctx.sql("EXPLAIN FORMATTED SELECT a FROM live WHERE a >= 0").collect(),
    "ctx.explain": lambda ctx, frame: ctx.explain(frame),
}


@pytest.mark.parametrize("planner", PLANNERS)
def test_calls_explain_plans_once_and_executes_nothing(
    ctx: hr.SessionContext, live: LiveTable, planner: str, capsys: pytest.CaptureFixture[str]
) -> None:
    PLANNERS[planner](ctx, ctx.sql("SELECT a FROM live WHERE a >= 0"))
    assert counts(live) == {"schema": 1, "filters": 1, "scan": 1, "statistics": 1}
    assert live.executed == []


def test_calls_second_collect_plans_nothing_again(ctx: hr.SessionContext, live: LiveTable) -> None:
    frame = ctx.sql("SELECT a FROM live WHERE a >= 0 AND a < 9")
    assert sorted(frame.collect()) == sorted(frame.collect()) == [(0,), (1,)]
    assert counts(live) == {"schema": 1, "filters": 1, "scan": 1, "statistics": 1}
    assert list(map(repr, live.conjuncts())) == ["a IS NOT NULL", "a >= 0", "a < 9"]
    assert sorted(live.executed) == [0, 0, 1, 1]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT x.a FROM live x JOIN live y ON x.a = y.a",
        "SELECT a FROM live UNION ALL SELECT a FROM live",
        "SELECT a FROM live WHERE a = (SELECT max(a) FROM live)",
    ],
)
def test_calls_each_table_reference_is_one_scan(ctx: hr.SessionContext, live: LiveTable, query: str) -> None:
    rows = ctx.sql(query).collect()
    assert {row.a for row in rows} <= {0, 1}
    assert counts(live)["scan"] == 2
    assert counts(live)["schema"] == 1


def test_calls_query_without_filters_asks_about_none(ctx: hr.SessionContext, live: LiveTable) -> None:
    ctx.sql("SELECT a FROM live").collect()
    assert live.asked("filters") == []
    assert live.request().filters == ()


def test_calls_from_several_threads_each_get_their_own_scan(ctx: hr.SessionContext, live: LiveTable) -> None:
    results: list[list[int]] = []

    def query() -> None:
        results.append(sorted(row.a for row in ctx.sql("SELECT a FROM live").collect()))

    threads = [threading.Thread(target=query) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == [[0, 1]] * 4
    assert counts(live)["scan"] == 4


# --- who keeps a negotiation ---------------------------------------------------------------------------------


def collect_garbage(ctx: hr.SessionContext) -> None:
    gc.collect()  # Python's handles of the JVM's objects
    jvm: Any = ctx.spark.sparkContext._jvm
    jvm.java.lang.System.gc()


def negotiated(ctx: hr.SessionContext) -> int:
    """How many scans Python keeps something of."""
    collect_garbage(ctx)
    return len(ctx._attached.planner.scans)


def scan_builder(ctx: hr.SessionContext, name: str) -> Any:
    """As Spark makes one."""
    jvm: Any = ctx.spark.sparkContext._jvm
    table = ctx._registry.find(name)
    assert table is not None
    schema = ctx.table(name)._jdf.schema()
    return jvm.org.headrace.spark.scan.HeadraceScanBuilder(ctx._context_id, table.id, name, schema)


def predicates(ctx: hr.SessionContext, name: str, *values: int) -> Any:
    """One that is about the column ``a``, in an array of Spark's."""
    jvm: Any = ctx.spark.sparkContext._jvm
    gateway: Any = ctx.spark.sparkContext._gateway
    connector = jvm.org.apache.spark.sql.connector.expressions
    children = gateway.new_array(connector.Expression, 1 + len(values))
    children[0] = connector.Expressions.column("a")
    for index, value in enumerate(values):
        children[1 + index] = connector.Expressions.literal(value)
    found = gateway.new_array(connector.filter.Predicate, 1)
    found[0] = connector.filter.Predicate(name, children)
    return found


def builder_with_a_filter(ctx: hr.SessionContext, name: str) -> Any:
    """A scan builder that was offered ``a IS NOT NULL`` and is never built."""
    builder = scan_builder(ctx, name)
    assert len(builder.pushPredicates(predicates(ctx, "IS_NOT_NULL"))) == 0
    return builder


def tickets(ctx: hr.SessionContext) -> int:
    collect_garbage(ctx)
    return len(ctx._attached.endpoint._tickets)


def test_scan_that_runtime_filters_narrow_again_and_again_keeps_its_last_plan_alone(ctx: hr.SessionContext) -> None:
    ctx.register_table("t", table_of(ABC, placement=hr.Placement.DRIVER))
    before = tickets(ctx)
    scan = scan_builder(ctx, "t").build()
    first = scan.toBatch()
    for number in range(50):
        scan.filter(predicates(ctx, "=", number))
    wait_until(lambda: tickets(ctx) == before + 2)  # that of the batch that is held, and the last one
    planner: Any = ctx._attached.planner
    assert [plan.id.rpartition(".")[2] for plan in planner.scans.plans()] == ["1", "51"]
    assert len(planner.scans.find(scan.planId()).learnt) == 50
    assert first.createReaderFactory().equals(scan.toBatch().createReaderFactory())
    del first
    wait_until(lambda: tickets(ctx) == before + 1)
    assert [plan.id for plan in planner.scans.plans()] == [scan.planId()]
    del scan
    wait_until(lambda: tickets(ctx) == before)
    assert negotiated(ctx) == 0


def test_negotiation_whose_builder_is_dropped_is_forgotten(ctx: hr.SessionContext) -> None:
    provider = registered(ctx, table_of(ABC, answer=exact))
    builders = [builder_with_a_filter(ctx, "t") for _ in range(5)]
    assert negotiated(ctx) == 5
    builders.clear()
    wait_until(lambda: negotiated(ctx) == 0)
    assert [name for name, _ in provider.calls if name == "scan"] == []


def test_negotiation_whose_provider_refuses_to_scan_is_forgotten(ctx: hr.SessionContext) -> None:
    class Refusing(Recorder):
        def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
            raise RuntimeError("not today")

    ctx.register_table("t", Refusing(ABC.schema, [], answer=exact))
    with pytest.raises(Exception, match="not today"):
        ctx.sql("SELECT a FROM t WHERE a > 1").collect()
    wait_until(lambda: negotiated(ctx) == 0)


def test_negotiation_filters_are_offered_once_and_only_their_answers_come_back(
    ctx: hr.SessionContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = registered(ctx, table_of(ABC, answer=exact))
    asked: list[tuple[str, dict[str, Any]]] = []
    planner: Any = ctx._attached.planner

    def recorded(operation: str) -> Any:
        answer = planner._operations[operation]
        return lambda question: asked.append((operation, question)) or answer(question)

    monkeypatch.setattr(
        planner, "_operations", {**planner._operations, **{name: recorded(name) for name in ("offer", "plan")}}
    )
    planned(ctx.sql("SELECT a FROM t WHERE a > 1 LIMIT 2"))
    assert [operation for operation, _ in asked] == ["offer", "plan"]
    (_, offer), (_, plan) = asked
    assert list(offer["offers"]) == ["settings", "filters"]
    assert sorted(plan["offers"]) == ["columns", "limit"]
    assert offer["scan"] == plan["scan"]
    assert provider.request().limit == 2
    assert len(provider.request().filters) == 2


def test_connector_of_another_release_is_refused(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.spark.classic.session.PLANNER_VERSION", 99)
    with pytest.raises(hr.TransportError, match=r"this package speaks \(99, \d+\)"):
        hr.SessionContext(spark)
