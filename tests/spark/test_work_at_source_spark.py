"""Work at the source on Spark: who does what in plans of every kind, what is sent, and what no query may gain."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import headrace as hr
from recording import Recorder, executed_nodes, plan_text, table_of
from session_settings import session_settings
from versions import has

pytestmark = [pytest.mark.core, pytest.mark.usefixtures("drops_views")]

ROWS = [{"k": n % 4, "s": f"s{n % 3}", "v": n, "x": n / 2} for n in range(400)]
DATA = pa.Table.from_pylist(
    ROWS, pa.schema([("k", pa.int64()), ("s", pa.string()), ("v", pa.int32()), ("x", pa.float64())])
)
OFF = {"spark.headrace.workAtSource": "false"}
WITHOUT_BROADCAST = {"spark.sql.autoBroadcastJoinThreshold": "-1"}


def keyed(order: tuple[int, ...] = (2, 0, 3, 1)) -> Recorder:
    """A partition for each k, sorted by s and v."""
    rows = [sorted((row for row in ROWS if row["k"] == k), key=lambda row: (row["s"], row["v"])) for k in order]
    parts = [pa.Table.from_pylist(part, DATA.schema).to_batches(max_chunksize=30) for part in rows]
    partitioning = hr.KeyPartitioning(("k",), [(k,) for k in order])
    return Recorder(DATA.schema, parts, partitioning=partitioning, ordering=(hr.SortKey("s"), hr.SortKey("v")))


def hashed() -> Recorder:
    rows = [[row for row in ROWS if hash((row["k"], row["s"])) % 3 == part] for part in range(3)]
    parts = [pa.Table.from_pylist(part, DATA.schema).to_batches(max_chunksize=30) for part in rows]
    return Recorder(DATA.schema, parts, partitioning=hr.HashPartitioning(("k", "s"), 3, "python"))


def gained(spark: SparkSession, query: str) -> Counter[str]:
    """The shuffles and sorts that the query has with the stage and not without; its rows are the same."""

    def run() -> tuple[Counter[Any], Counter[str]]:
        frame = spark.sql(query)
        rows = Counter(frame.collect())
        return rows, Counter(name for name in executed_nodes(frame) if name in ("ShuffleExchangeExec", "SortExec"))

    rows, nodes = run()
    with session_settings(spark, OFF):
        expected, before = run()
    assert rows == expected
    return nodes - before


QUERIES = [
    "SELECT k, count(*), sum(v) FROM t GROUP BY k",
    "SELECT k, max(s), min(s) FROM t GROUP BY k",  # Spark sorts for extremes of strings
    "SELECT s, max(s) FROM t GROUP BY s",
    "SELECT k, s, max(s), count(*) FROM t WHERE v > 5 GROUP BY k, s",
    "SELECT s, k, max(s) FROM t GROUP BY s, k",
    "SELECT DISTINCT k FROM t",
    "SELECT DISTINCT s, k FROM t",
    "SELECT k % 2, count(*) FROM t GROUP BY k % 2",
    "SELECT k, c, rank() OVER (PARTITION BY k ORDER BY c) FROM (SELECT k, s, count(*) AS c FROM t GROUP BY k, s)",
    "SELECT k, v, rank() OVER (PARTITION BY k ORDER BY s, v) FROM t WHERE v > 9",
    "SELECT t.v, u.v FROM t JOIN u ON t.k = u.k WHERE t.v > 390 AND u.v > 390",
    "SELECT t.v, u.v FROM t JOIN u ON t.k = u.k AND t.s = u.s WHERE t.v > 380 AND u.v > 380",
    "SELECT a.k, a.n, b.n FROM (SELECT k, count(*) AS n FROM t GROUP BY k) a "
    "JOIN (SELECT k, max(v) AS n FROM u GROUP BY k) b ON a.k = b.k",
    "SELECT k, v FROM t ORDER BY v DESC LIMIT 7",
    "SELECT k, sum(v) FROM t GROUP BY k ORDER BY k",
]


@pytest.mark.usefixtures("adaptive")
@pytest.mark.daily("adaptive-keyed*")
@pytest.mark.parametrize("make", [keyed, hashed, lambda: table_of(DATA, 3)], ids=["keyed", "hashed", "plain"])
def test_no_query_gains_a_shuffle_or_a_sort(ctx: hr.SessionContext, make: Any) -> None:
    ctx.register_table("t", make())
    ctx.register_table("u", keyed((1, 3, 0, 2)) if make is keyed else make())
    bucketing = {"spark.sql.sources.v2.bucketing.enabled": "true"}
    with session_settings(ctx.spark, WITHOUT_BROADCAST | bucketing):
        found = {query: more for query in QUERIES if (more := gained(ctx.spark, query))}
    assert found == {}


def test_groups_of_keyed_partitions_have_no_exchange(ctx: hr.SessionContext) -> None:
    ctx.register_table("t", keyed())
    with session_settings(ctx.spark, {"spark.sql.sources.v2.bucketing.enabled": "true"}):
        frame = ctx.sql("SELECT k, max(s), count(*) FROM t WHERE v >= 200 GROUP BY k")
        assert sorted(frame.collect()) == [(k, "s2", 50) for k in range(4)]
        assert "ShuffleExchangeExec" not in executed_nodes(frame)
    assert "max(s), count(*) GROUP BY k: HEADRACE" in plan_text(frame)


def metric(frame: DataFrame, name: str) -> int:
    def scan(node: Any) -> Any:
        kind = node.getClass().getSimpleName()
        if kind == "BatchScanExec":
            return node
        inner = {"AdaptiveSparkPlanExec": "executedPlan"}
        children = [getattr(node, inner[kind])()] if kind in inner else []
        children += [node.plan()] if kind.endswith("QueryStageExec") else []
        children += [node.children().apply(i) for i in range(node.children().size())]
        return next((found for child in children if (found := scan(child)) is not None), None)

    return int(scan(frame._jdf.queryExecution().executedPlan()).metrics().apply(name).value())


@pytest.mark.parametrize("placement", list(hr.Placement))
def test_metrics_rows_read_and_rows_sent_are_told_apart(ctx: hr.SessionContext, placement: hr.Placement) -> None:
    ctx.register_table("t", table_of(DATA, 2, placement=placement))
    grouped = ctx.sql("SELECT s, sum(v) FROM t WHERE k = 1 GROUP BY s")
    assert len(grouped.collect()) == 3
    assert (metric(grouped, "headraceRows"), metric(grouped, "headraceRowsSent")) == (400, 6)
    first = ctx.sql("SELECT v FROM t ORDER BY v DESC LIMIT 5")
    assert [row.v for row in first.collect()] == [399, 398, 397, 396, 395]
    assert (metric(first, "headraceRows"), metric(first, "headraceRowsSent")) == (400, 10)
    plain = ctx.sql("SELECT v FROM t")
    assert len(plain.collect()) == 400
    assert (metric(plain, "headraceRows"), metric(plain, "headraceRowsSent")) == (400, 400)


def test_limit_after_a_filter_is_reached_and_the_provider_told_of_none(ctx: hr.SessionContext) -> None:
    provider = table_of(DATA, 2)
    ctx.register_table("t", provider)
    frame = ctx.sql("SELECT v FROM t WHERE s = 's1' LIMIT 3")
    assert len(frame.collect()) == 3
    assert provider.request().limit is None
    assert metric(frame, "headraceRowsSent") <= 6
    assert "3 rows are enough, after the filters that Headrace does" in ctx.explain(frame)


def test_count_over_no_partitions_is_zero(ctx: hr.SessionContext) -> None:
    ctx.register_table("t", table_of(DATA.slice(0, 0), 0))
    assert ctx.sql("SELECT count(*), count(v), sum(v), max(s) FROM t WHERE k > 1").collect() == [(0, 0, None, None)]
    assert ctx.sql("SELECT k, count(*) FROM t GROUP BY k").collect() == []


def test_setting_switches_it_off_for_a_session(ctx: hr.SessionContext) -> None:
    provider = table_of(DATA, 2)
    ctx.register_table("t", provider)
    with session_settings(ctx.spark, OFF):
        frame = ctx.sql("SELECT s, count(*) FROM t WHERE v > 3 GROUP BY s")
        assert "FilterExec" in executed_nodes(frame)
        assert "HEADRACE" not in plan_text(frame)
        assert "(not Headrace: spark.headrace.workAtSource is off)" in ctx.explain(frame)
    again = ctx.sql("SELECT s, count(*) FROM t WHERE v > 3 GROUP BY s")
    assert "FilterExec" not in executed_nodes(again)
    assert sorted(again.collect()) == sorted(frame.collect())


def star(ctx: hr.SessionContext, small: hr.Statistics | None) -> Recorder:
    """A large table t, and d, whose filter leaves one k."""
    fact = table_of(DATA, 2)
    ctx.register_table("t", fact)
    names = pa.table({"k": [0, 1, 2, 3], "name": ["a", "b", "c", "d"]})
    ctx.register_table("d", table_of(names, table_statistics=small))
    return fact


STAR = "SELECT count(*), sum(t.v) FROM t JOIN d ON t.k = d.k WHERE d.name = 'b'"


@pytest.mark.usefixtures("adaptive")
def test_join_keys_are_looked_up_without_another_scan(ctx: hr.SessionContext) -> None:
    fact = star(ctx, hr.Statistics(4, 200))
    frame = ctx.sql(STAR)
    assert frame.collect() == [(100, sum(row["v"] for row in ROWS if row["k"] == 1))]
    assert len(fact.asked("scan")) == 1
    text = ctx.explain(frame)
    assert "k IN (1)  HEADRACE: done in Arrow" in text or "k = 1  HEADRACE: done in Arrow" in text
    assert "name = 'b'  HEADRACE: done in Arrow; Spark filters again, for joins to learn" in text


def test_join_side_that_may_be_broadcast_offers_no_columns_for_keys(ctx: hr.SessionContext) -> None:
    star(ctx, hr.Statistics(4, 200))
    ctx.collect(STAR)
    planner: Any = ctx._attached.planner
    offered = {plan.table.name: plan.runtime_filter_columns for plan in planner.scans.plans()}
    assert offered["d"] == ()
    assert "k" in offered["t"]


def test_filter_of_a_small_table_stays_visible_and_a_limit_goes_through_from_4_3_on(ctx: hr.SessionContext) -> None:
    star(ctx, hr.Statistics(4, 200))
    rows = ctx.sql("SELECT k FROM d WHERE name > 'a'")
    assert sorted(rows.collect()) == [(1,), (2,), (3,)]
    assert "FilterExec" in executed_nodes(rows)
    counted = ctx.sql("SELECT count(*) FROM d WHERE name > 'a'")
    assert counted.collect() == [(3,)]
    assert ("FilterExec" in executed_nodes(counted)) is not has("filters put back")


def test_push_table_is_filtered_and_grouped_before_rows_are_sent(ctx: hr.SessionContext) -> None:
    sink = ctx.register_streaming_table("pushed", DATA.schema, capacity=4, partitions=2)

    def produce() -> None:
        with sink:
            for batch in DATA.to_batches(max_chunksize=20):
                sink.write(batch)

    producer = threading.Thread(target=produce)
    producer.start()
    frame = ctx.sql("SELECT s, count(*) AS n, max(v) AS m FROM pushed WHERE k = 2 GROUP BY s")
    found = sorted(frame.collect())
    producer.join(60)
    wanted = [row for row in ROWS if row["k"] == 2]
    assert found == [
        (s, sum(row["s"] == s for row in wanted), max(row["v"] for row in wanted if row["s"] == s))
        for s in ("s0", "s1", "s2")
    ]
    assert metric(frame, "headraceRows") == 400
    assert metric(frame, "headraceRowsSent") <= 6


def test_push_table_filtered_rows_are_seen_at_once(ctx: hr.SessionContext) -> None:
    sink = ctx.register_streaming_table("pushed", DATA.schema)
    with ctx.execute_stream("SELECT v FROM pushed WHERE k = 1") as result, sink:
        for start in (0, 40):
            sink.write(DATA.slice(start, 8))
            found: list[int] = []
            while len(found) < 2:
                found += result.read_next_batch()["v"].to_pylist()
            assert found == [start + 1, start + 5]


def test_push_table_keys_of_a_join_are_looked_up_and_the_scan_stays_one(ctx: hr.SessionContext) -> None:
    sink = ctx.register_streaming_table("pushed", DATA.schema, capacity=100)
    names = pa.table({"k": [0, 1, 2, 3], "name": ["a", "b", "c", "d"]})
    ctx.register_table("d", table_of(names, table_statistics=hr.Statistics(4, 200)))
    with sink:
        sink.write(DATA)
    frame = ctx.sql("SELECT count(*) AS n FROM pushed JOIN d ON pushed.k = d.k WHERE d.name = 'b'")
    assert frame.collect() == [(100,)]
    assert metric(frame, "headraceRowsSent") in (100, 400)  # Spark need not have learnt the keys in time
    with pytest.raises(hr.StreamConsumedError):
        ctx.collect("SELECT count(*) FROM pushed")


class Failing(hr.ExecutionPlan):
    schema = DATA.schema

    def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
        yield DATA.to_batches()[0]
        raise LookupError("page 2 is gone")


@pytest.mark.parametrize("query", ["SELECT k, count(*) FROM t GROUP BY k", "SELECT v FROM t ORDER BY v LIMIT 1"])
def test_error_of_the_provider_below_the_stage_is_its_own(ctx: hr.SessionContext, query: str) -> None:
    class Broken(Recorder):
        def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
            return Failing()

    ctx.register_table("t", Broken(DATA.schema, []))
    with pytest.raises(hr.ProviderError) as raised:
        ctx.collect(query)
    assert (raised.value.exception_type, raised.value.message) == ("LookupError", "page 2 is gone")


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_sum_that_overflows_is_as_sparks_own(ctx: hr.SessionContext, ansi: str) -> None:
    large = pa.table({"k": [1, 1, 2], "v": [2**63 - 1, 5, 7]})
    ctx.register_table("t", table_of(large, 2))
    ctx.spark.createDataFrame([(1, 2**63 - 1), (1, 5), (2, 7)], "k BIGINT, v BIGINT").createOrReplaceTempView("plain")
    with session_settings(ctx.spark, {"spark.sql.ansi.enabled": ansi}):
        frame = ctx.sql("SELECT k, sum(v) FROM t GROUP BY k")
        assert "HEADRACE" in plan_text(frame)
        if ansi == "true":
            with pytest.raises(Exception, match="ARITHMETIC_OVERFLOW"):
                frame.collect()
        else:
            assert sorted(frame.collect()) == sorted(ctx.sql("SELECT k, sum(v) FROM plain GROUP BY k").collect())


def test_average_of_nothing_is_null_under_ansi(ctx: hr.SessionContext) -> None:
    ctx.register_table("t", table_of(DATA, 2))
    with session_settings(ctx.spark, {"spark.sql.ansi.enabled": "true"}):
        assert ctx.sql("SELECT avg(v), avg(x), sum(v) FROM t WHERE v < 0").collect() == [(None, None, None)]
