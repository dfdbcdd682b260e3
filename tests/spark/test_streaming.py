"""Streaming tables on Spark: written and read at the same time, in batches of any size, over any partitions."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

import headrace as hr
from producing import wait_until
from pushing import ROWS, InBackground, Producer, filled, rows

pytestmark = pytest.mark.core

METRICS = ("headraceRows", "headraceBatches", "headraceBytes")


def scan_metrics(frame: DataFrame) -> dict[str, int]:
    """The metrics of the one scan of a query that was run."""
    plan = frame._jdf.queryExecution().executedPlan()
    found: list[Any] = []

    def look(node: Any) -> None:
        name = node.getClass().getSimpleName()
        if name == "BatchScanExec":
            found.append(node)
        elif name == "AdaptiveSparkPlanExec":
            look(node.executedPlan())
        elif name.endswith("QueryStageExec"):
            look(node.plan())
        for index in range(node.children().size()):
            look(node.children().apply(index))

    look(plan)
    (scan,) = found
    # Spark adds a task's last metrics when it handles the task's end, which the result may overtake.
    frame.sparkSession.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(10_000)
    return {name: scan.metrics().apply(name).value() for name in METRICS}


# Concurrency


def test_query_started_before_the_first_write_gets_everything(ctx: hr.SessionContext) -> None:
    sink = ctx.register_streaming_table("t", ROWS)
    query = InBackground(lambda: ctx.table("t").count())
    wait_until(lambda: sink.stats.state == "open" and bool(ctx.spark.sparkContext.statusTracker().getActiveJobsIds()))
    with sink:
        for i in range(100):
            sink.write(rows(i))
    assert query.result() == 100


def test_query_started_when_the_channel_is_full_gets_everything(ctx: hr.SessionContext) -> None:
    sink = ctx.register_streaming_table("t", ROWS, capacity=4)
    while sink.try_write(rows(sink.stats.rows_written)):
        pass
    assert sink.stats.waiting == 4
    blocked = InBackground(lambda: sink.write(rows(4)))
    wait_until(lambda: sink.stats.blocked_s > 0)
    query = InBackground(lambda: ctx.collect("SELECT a FROM t"))
    blocked.result()
    sink.close()
    result = query.result()
    assert isinstance(result, pa.Table)
    assert result["a"].to_pylist() == [0, 1, 2, 3, 4]


def test_writing_goes_on_while_spark_consumes(ctx: hr.SessionContext) -> None:
    """A row comes out of the query before the next one is written, again and again."""
    sink = ctx.register_streaming_table("t", ROWS)
    with ctx.execute_stream("SELECT a * 2 AS b FROM t WHERE a >= 0") as stream:
        for i in range(20):
            sink.write(rows(i))
            assert next(stream).to_pydict() == {"b": [2 * i]}
        sink.close()
        assert list(stream) == []


def test_slow_query_holds_the_producer_back(ctx: hr.SessionContext) -> None:
    """Nobody takes the results: what fits between sink and caller is bounded, whatever is written."""
    schema = pa.schema([("x", pa.binary())])
    batch = pa.record_batch([pa.array([bytes(1 << 20)])], schema=schema)
    sink = ctx.register_streaming_table("t", schema, capacity=4)
    with ctx.execute_stream("SELECT x FROM t") as stream:
        producer = Producer(lambda _: sink.write(batch))
        next(stream)
        wait_until(lambda: producer.written > 20 and sink.stats.waiting == 4)
        written = -1
        while written < producer.written:  # until a second passes without a write
            written = producer.written
            threading.Event().wait(1.0)
        assert written < 120  # MiB: 16 in the inbox, 8 taken at once, the rest in sockets' and task's buffers
        for _ in range(30):
            next(stream)
        wait_until(lambda: producer.written > written)
    assert "closed" in producer.scan_ended() or "cancelled" in producer.scan_ended()


# Sizes


def test_one_row_batches_are_merged_while_the_reader_is_behind(ctx: hr.SessionContext) -> None:
    count = 5000
    sink = ctx.register_streaming_table("t", ROWS, capacity=count)
    with sink:
        for i in range(count):
            sink.write(rows(i))
    frame = ctx.sql("SELECT sum(a) FROM t")
    assert frame.collect()[0][0] == sum(range(count))
    metrics = scan_metrics(frame)
    assert metrics["headraceRows"] == count
    assert metrics["headraceBatches"] < 10


def test_million_row_batches_arrive_whole(ctx: hr.SessionContext) -> None:
    batch = rows(0, 1_000_000)
    sink = ctx.register_streaming_table("t", ROWS, capacity=1)
    query = InBackground(lambda: ctx.collect("SELECT count(*) AS n, sum(a) AS s FROM t"))
    with sink:
        for _ in range(3):
            sink.write(batch)
    result = query.result()
    assert isinstance(result, pa.Table)
    assert result.to_pylist() == [{"n": 3_000_000, "s": 3 * sum(range(1_000_000))}]


def test_empty_batches_tables_and_arrow_objects_are_written_as_their_rows(ctx: hr.SessionContext) -> None:
    sink = ctx.register_streaming_table("t", ROWS)
    with sink:
        sink.write(rows(0, 0))
        sink.write(pa.Table.from_batches([rows(0, 2), rows(2, 2)]))
        sink.write(pa.RecordBatchReader.from_batches(ROWS, iter([rows(4), rows(5)])))
    assert ctx.collect("SELECT a FROM t")["a"].to_pylist() == list(range(6))


@pytest.mark.parametrize("capacity", [2, 256])
def test_asyncio_producer_writes_while_spark_reads(ctx: hr.SessionContext, capacity: int) -> None:
    sink = ctx.register_streaming_table("t", ROWS, capacity=capacity)

    async def produce() -> None:
        with sink:
            for i in range(200):
                await sink.awrite(rows(i))

    query = InBackground(lambda: ctx.collect("SELECT count(*) AS n FROM t"))
    asyncio.run(produce())
    result = query.result()
    assert isinstance(result, pa.Table)
    assert result.to_pylist() == [{"n": 200}]


@pytest.mark.daily("1-many wait", "3-few wait")
@pytest.mark.parametrize(("capacity", "count"), [(3, 50), (256, 2000)], ids=["few wait", "many wait"])
@pytest.mark.parametrize("partitions", [1, 3])
def test_many_threads_write_to_one_sink(ctx: hr.SessionContext, capacity: int, count: int, partitions: int) -> None:
    sink = ctx.register_streaming_table("t", ROWS, capacity=capacity, partitions=partitions)
    query = InBackground(lambda: ctx.collect("SELECT a FROM t ORDER BY a"))
    threads = [
        InBackground(lambda start=start: [sink.write(rows(i)) for i in range(start, start + count)])
        for start in range(0, 8 * count, count)
    ]
    for thread in threads:
        thread.result()
    sink.close()
    result = query.result()
    assert isinstance(result, pa.Table)
    assert result["a"].to_pylist() == list(range(8 * count))


def test_batches_of_all_sizes_keep_their_order(ctx: hr.SessionContext) -> None:
    """Small ones are packed, and Spark is waited for after them; larger ones are not."""
    sink = ctx.register_streaming_table("t", ROWS, capacity=256)
    query = InBackground(lambda: ctx.collect("SELECT a, s FROM t"))
    written = 0
    with sink:
        for i in range(300):
            size = (1, 1, 3, 100, 256, 257, 1, 5000, 40_000)[i % 9]
            sink.write(rows(written, size))
            written += size
    result = query.result()
    assert isinstance(result, pa.Table)
    assert result["a"].to_numpy().tolist() == list(range(written))
    assert result["s"][-1].as_py() == str((written - 1) % 10)


def test_types_that_travel_in_another_form_come_back_right(ctx: hr.SessionContext) -> None:
    schema = pa.schema(
        [
            ("d", pa.dictionary(pa.int32(), pa.string())),
            ("l", pa.list_(pa.struct([("x", pa.int16()), ("y", pa.large_string())]))),
            ("t", pa.timestamp("us", "UTC")),
        ]
    )
    data = {"d": ["p", None, "p"], "l": [[{"x": 1, "y": "q"}], None, []], "t": [0, 1, None]}
    batch = pa.record_batch([pa.array(values, schema.field(name).type) for name, values in data.items()], schema=schema)
    with ctx.register_streaming_table("t", schema) as sink:
        sink.write(batch)
    result = ctx.collect("SELECT d, l.y AS y, unix_micros(t) AS t FROM t")
    assert result.to_pydict() == {"d": ["p", None, "p"], "y": [["q"], None, []], "t": [0, 1, None]}


def test_dictionaries_too_large_to_be_merged_come_back_right(ctx: hr.SessionContext) -> None:
    kind = pa.dictionary(pa.int8(), pa.string())  # counts to 127
    schema = pa.schema([("d", kind)])
    with ctx.register_streaming_table("t", schema) as sink:
        for start in (0, 100, 200):
            words = pa.array([str(n) for n in range(start, start + 100)])
            sink.write(pa.record_batch([words.dictionary_encode().cast(kind)], schema=schema))
    assert ctx.collect("SELECT d FROM t")["d"].to_pylist() == [str(n) for n in range(300)]


# What crosses to Spark


def test_only_needed_columns_cross_to_spark(ctx: hr.SessionContext) -> None:
    schema = pa.schema([("a", pa.int64()), ("wide", pa.binary())])
    batch = pa.record_batch([pa.array(range(1000)), pa.array([bytes(1000)] * 1000)], schema=schema)
    for name, sql, most_bytes in (
        ("p", "SELECT sum(a) FROM p", 20_000),
        ("c", "SELECT count(*) FROM c", 2_000),
        ("w", "SELECT sum(length(wide)) FROM w", None),
    ):
        with ctx.register_streaming_table(name, schema) as sink:
            sink.write(batch)
        frame = ctx.sql(sql)
        frame.collect()
        metrics = scan_metrics(frame)
        assert metrics["headraceRows"] == 1000
        if most_bytes is None:
            assert metrics["headraceBytes"] > 1_000_000
        else:
            assert metrics["headraceBytes"] < most_bytes
        assert sink.stats.bytes_delivered > 1_000_000


def test_filters_stay_with_spark(ctx: hr.SessionContext) -> None:
    sink = filled(ctx, "t", 100)
    frame = ctx.sql("SELECT a FROM t WHERE a > 90 AND s != '5'")
    assert sorted(row.a for row in frame.collect()) == [91, 92, 93, 94, 96, 97, 98, 99]
    assert scan_metrics(frame)["headraceRows"] == 100
    assert sink.stats.state == "finished"


def test_pushed_limit_stops_early(ctx: hr.SessionContext) -> None:
    sink = ctx.register_streaming_table("t", ROWS)
    producer = Producer(lambda i: sink.write(rows(i)))
    frame = ctx.sql("SELECT a FROM t LIMIT 3")
    assert [row.a for row in frame.collect()] == [0, 1, 2]
    assert scan_metrics(frame)["headraceRows"] == 3
    assert "limit" in producer.scan_ended()


# Partitions


def test_partition_sinks_write_to_their_partition_alone(ctx: hr.SessionContext) -> None:
    sink = ctx.register_streaming_table("t", ROWS, partitions=3)
    for i in range(3):
        with sink.partition(i) as part:
            part.write(rows(10 * i, 2))
    result = ctx.collect("SELECT spark_partition_id() AS p, a FROM t").to_pylist()
    assert sorted((row["p"], row["a"]) for row in result) == [(0, 0), (0, 1), (1, 10), (1, 11), (2, 20), (2, 21)]


def test_shared_writes_go_to_whoever_reads(ctx: hr.SessionContext) -> None:
    sink = ctx.register_streaming_table("t", ROWS, capacity=2, partitions=3)
    query = InBackground(lambda: ctx.collect("SELECT a FROM t"))
    with sink:
        for i in range(300):
            sink.write(rows(i))
    result = query.result()
    assert isinstance(result, pa.Table)
    assert sorted(result["a"].to_pylist()) == list(range(300))


@pytest.mark.parametrize("sql", ["SELECT a FROM t", "SELECT a FROM t ORDER BY a"])
def test_round_robin_over_more_partitions_than_slots_does_not_deadlock(ctx: hr.SessionContext, sql: str) -> None:
    partitions, count = 7, 700  # two of them are read at a time
    sink = ctx.register_streaming_table("t", ROWS, capacity=4, partitions=partitions)
    query = InBackground(lambda: ctx.collect(sql))
    with sink:
        for i in range(count):
            sink.partition(i % partitions).write(rows(i))
    result = query.result()
    assert isinstance(result, pa.Table)
    numbers = result["a"].to_pylist()
    assert numbers == list(range(count)) if "ORDER" in sql else sorted(numbers) == list(range(count))


def test_last_partition_written_first_does_not_deadlock(ctx: hr.SessionContext) -> None:
    sink = ctx.register_streaming_table("t", ROWS, capacity=2, partitions=5)
    query = InBackground(lambda: ctx.collect("SELECT a FROM t"))
    with sink:
        for i in reversed(range(5)):
            for j in range(20):
                sink.partition(i).write(rows(100 * i + j))
    result = query.result()
    assert isinstance(result, pa.Table)
    assert result.num_rows == 100


# Actions whose jobs run after Spark calls the query over


@pytest.mark.parametrize(
    "iterate", [DataFrame.toLocalIterator, lambda t: iter(t.rdd.toLocalIterator())], ids=["df", "rdd"]
)
def test_local_iterator_of_a_live_table_gets_everything(
    ctx: hr.SessionContext, monkeypatch: pytest.MonkeyPatch, iterate: Callable[[DataFrame], Any]
) -> None:
    """Word that the iterator's query is over comes when its first partition is being read."""
    sink = ctx.register_streaming_table("t", ROWS, partitions=2)
    tell, told = ctx._attached.planner._operations["query_end"], threading.Event()

    def tell_late(question: dict[str, Any]) -> dict[str, Any]:
        assert told.wait(60)
        return tell(question)

    monkeypatch.setitem(ctx._attached.planner._operations, "query_end", tell_late)
    ctx.spark.range(1).collect()  # what holds up Spark's listeners
    query = InBackground(lambda: [row.a for row in iterate(ctx.table("t"))])
    for i in range(2):
        sink.partition(i).write(rows(i))
        wait_until(lambda i=i: sink.stats.rows_delivered > 2 * i)
        told.set()
        wait_for_listeners(ctx)
        sink.partition(i).write(rows(10 + i))
        sink.partition(i).close()
    assert query.result() == [0, 10, 1, 11]
    assert sink.stats.state == "finished"


def test_local_iterator_cancelled_releases_the_partitions_it_has_not_reached(ctx: hr.SessionContext) -> None:
    sink = ctx.register_streaming_table("t", ROWS, partitions=3)
    query = InBackground(lambda: list(ctx.table("t").toLocalIterator()))
    sink.partition(0).write(rows(0))
    wait_until(lambda: sink.stats.rows_delivered == 1)
    producer = Producer(lambda i: sink.partition(2).write(rows(i)))
    ctx.spark.sparkContext.cancelAllJobs()
    assert "cancelled" in producer.scan_ended()
    query.error()


@pytest.mark.daily
def test_rdd_that_is_dropped_releases_the_partitions_it_has_not_reached(ctx: hr.SessionContext) -> None:
    """Jobs outside of SQL have no end that Spark tells of: the producer learns it when the plan is garbage."""
    sink = ctx.register_streaming_table("t", ROWS, partitions=3)
    sink.partition(0).write(rows(0))
    sink.partition(0).close()
    assert [row.a for row in ctx.table("t").rdd.take(1)] == [0]
    producer = Producer(lambda i: sink.partition(2).write(rows(i)))
    jvm: Any = ctx.spark.sparkContext._jvm

    def collected() -> bool:
        gc.collect()
        jvm.System.gc()
        return producer.error is not None

    wait_until(collected)
    producer.scan_ended()


def wait_for_listeners(ctx: hr.SessionContext) -> None:
    context: Any = ctx.spark.sparkContext
    context._jsc.sc().listenerBus().waitUntilEmpty(10_000)
