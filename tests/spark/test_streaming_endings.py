"""Every way a query can end the scan of a streaming table: the producer learns it, and is never left waiting."""

from __future__ import annotations

import gc
import re
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

import headrace as hr
from producing import wait_until
from pushing import LIVE, ROWS, InBackground, Producer, reading, rows, running_jobs

pytestmark = pytest.mark.core

# A satisfied LIMIT


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("capacity", [1, 10_000], ids=["blocked", "busy"])
def test_limit_satisfied_releases_every_producer(ctx: hr.SessionContext, partitions: int, capacity: int) -> None:
    """With three partitions only the first one's task runs: those of the others never tell their producers."""
    sink = ctx.register_streaming_table("t", ROWS, capacity=capacity, partitions=partitions)
    producers = [Producer(lambda i, p=p: sink.partition(p).write(rows(i))) for p in range(partitions)]
    assert len(ctx.sql(f"{LIVE} LIMIT 3").collect()) == 3
    assert all("needs no more rows" in producer.scan_ended() for producer in producers)
    assert sink.stats.state == "ended"


def test_limit_satisfied_ends_an_idle_sink(ctx: hr.SessionContext) -> None:
    sink = ctx.register_streaming_table("t", ROWS, partitions=3)
    for i in range(3):
        sink.partition(i).write(rows(i, 3))
    assert ctx.collect("SELECT a FROM t LIMIT 3").num_rows == 3
    wait_until(lambda: sink.stats.state == "ended")
    for target in (sink, sink.partition(2)):
        with pytest.raises(hr.ScanEndedError):
            target.write(rows(0))
    sink.close()


# Cancelled


class Live:
    """A query that reads a streaming table, on a thread of its own or as a stream."""

    def __init__(self, ctx: hr.SessionContext, sink: hr.TableSink) -> None:
        self.ctx = ctx
        self.sink = sink
        self.stream: hr.ResultStream | None = None
        self.query: InBackground | None = None

    def collect(self) -> None:
        def run() -> object:
            self.ctx.spark.sparkContext.addJobTag("live")
            return self.ctx.sql(LIVE).collect()

        self.query = InBackground(run)

    def execute(self) -> None:
        self.stream = self.ctx.execute_stream(LIVE)


def close_stream(live: Live) -> None:
    assert live.stream is not None
    live.stream.close()


def cancel_all(live: Live) -> None:
    live.ctx.spark.sparkContext.cancelAllJobs()


def cancel_tag(live: Live) -> None:
    live.ctx.spark.sparkContext.cancelJobsWithTag("live")


@pytest.mark.daily("2-idle-tag cancelled", "2-blocked-stream closed", "256-busy-stream closed")
@pytest.mark.parametrize(
    ("start", "cancel"),
    [(Live.execute, close_stream), (Live.collect, cancel_all), (Live.collect, cancel_tag)],
    ids=["stream closed", "all jobs cancelled", "tag cancelled"],
)
@pytest.mark.parametrize("producing", ["blocked", "busy", "idle"])
@pytest.mark.parametrize("capacity", [2, 256])
def test_query_cancelled_releases_the_producer(
    ctx: hr.SessionContext, start: Callable[[Live], None], cancel: Callable[[Live], None], producing: str, capacity: int
) -> None:
    big = rows(0, 100_000)
    sink = ctx.register_streaming_table("t", ROWS, capacity=capacity)
    live = Live(ctx, sink)
    start(live)
    sink.write(rows(0))
    reading(sink)
    producer = None
    if producing == "blocked":  # the stream's caller takes nothing, or Spark collects more slowly than this
        producer = Producer(lambda _: sink.write(big))
        wait_until(lambda: sink.stats.blocked_s > 0)
    elif producing == "busy":  # slower than Spark reads
        producer = Producer(lambda i: (sink.write(rows(i)), time.sleep(0.001))[0])
    cancel(live)
    if producer is None:
        wait_until(lambda: sink.stats.state == "ended")
        with pytest.raises(hr.ScanEndedError) as refused:
            sink.write(rows(0))
        reason = str(refused.value)
    else:
        reason = producer.scan_ended()
    assert re.search("cancelled|closed|killed", reason)  # killed: a task that is interrupted may have no time for words
    if live.query is not None:
        assert "cancel" in str(live.query.error()).lower()
    wait_until(lambda: running_jobs(ctx.spark) == 0)


@pytest.mark.daily("all jobs cancelled", "context closed")
@pytest.mark.parametrize("way", ["stream closed", "all jobs cancelled", "table deregistered", "context closed"])
def test_scan_ended_while_spark_is_busy_with_a_small_batch(ctx: hr.SessionContext, way: str) -> None:
    """Whoever serves the table is waiting then, until Spark asks for more, and Spark waits for the stream's caller."""
    context = hr.SessionContext(ctx.spark)
    sink = context.register_streaming_table("t", ROWS, capacity=256)
    stream = context.execute_stream("SELECT a, explode(sequence(1, 2000000)) FROM t")
    sink.write(rows(0))
    next(stream)
    producer = Producer(lambda i: sink.write(rows(i)))
    wait_until(lambda: sink.stats.waiting == 256 and sink.stats.blocked_s > 0)
    if way == "stream closed":
        stream.close()
    elif way == "all jobs cancelled":
        ctx.spark.sparkContext.cancelAllJobs()
    elif way == "table deregistered":
        context.deregister_table("t")
    else:
        context.close()
    ended = producer.ended()
    expected = {"table deregistered": hr.DeregisteredError, "context closed": hr.ProducerLostError}
    assert type(ended) is expected.get(way, hr.ScanEndedError)
    stream.close()
    context.close()
    wait_until(lambda: running_jobs(ctx.spark) == 0)


def test_task_killed_midstream_fails_the_query_and_says_why(ctx: hr.SessionContext) -> None:
    """Spark runs a killed task again; what it had read is gone, so that must not look like a whole result."""
    sink = ctx.register_streaming_table("t", ROWS)
    query = InBackground(lambda: ctx.sql(LIVE).collect())
    sink.write(rows(0))
    reading(sink)
    context: Any = ctx.spark.sparkContext
    (stage,) = context.statusTracker().getActiveStageIds()
    tasks = context._jsc.sc().statusStore().taskList(stage, 0, 10)
    context._jsc.sc().killTaskAttempt(tasks.apply(0).taskId(), True, "a test")
    error = query.error()
    assert "StreamConsumedError: partition 0 of the streaming table 't' can be scanned once" in str(error)
    assert "its task was killed" in str(error)
    with pytest.raises(hr.ScanEndedError):
        sink.write(rows(1))


# A query that fails for another reason


def test_udf_that_raises_fails_the_query_with_its_own_error(ctx: hr.SessionContext) -> None:
    """Spark reads what its Python worker says only when that takes no more input: here at the end of the stream."""
    sink = ctx.register_streaming_table("t", ROWS, capacity=100)
    with sink:
        for i in range(100):
            sink.write(rows(i))

    @F.udf("long")
    def fail_at_five(value):
        if value == 5:
            raise LookupError("five is right out")
        return value

    frame = ctx.table("t").select(fail_at_five("a"))
    with pytest.raises(PySparkException, match="five is right out") as caught:
        ctx.collect(frame)
    assert "StreamConsumedError" not in str(caught.value)


@pytest.mark.parametrize(
    "sql", ["SELECT if(a = 500, raise_error('no such luck'), a) FROM t", "SELECT 1 / (a - 500) FROM t"]
)
def test_failing_expression_fails_the_query_with_its_own_error(ctx: hr.SessionContext, sql: str) -> None:
    sink = ctx.register_streaming_table("t", ROWS, capacity=4)
    producer = Producer(lambda i: sink.write(rows(i)))
    with pytest.raises(PySparkException, match=r"no such luck|DIVIDE_BY_ZERO"):
        ctx.collect(sql)
    reason = producer.scan_ended()
    assert "no such luck" in reason or "DIVIDE_BY_ZERO" in reason


def test_other_table_failing_ends_the_scan(ctx: hr.SessionContext) -> None:
    def broken() -> Any:
        raise RuntimeError("the other table is broken")

    sink = ctx.register_streaming_table("t", ROWS)
    ctx.register_table("broken", hr.SimpleTable(pa.schema([("b", pa.int64())]), broken))
    producer = Producer(lambda i: sink.write(rows(i)))
    with pytest.raises(hr.ProviderError, match="the other table is broken"):
        ctx.collect("SELECT a FROM t UNION ALL SELECT b FROM broken")
    producer.scan_ended()


# A query that ends before it opens the table


def occupy_all_slots(ctx: hr.SessionContext) -> tuple[InBackground, Callable[[], None]]:
    context = ctx.spark.sparkContext

    def run() -> None:
        context.addJobTag("occupied")
        context.parallelize(range(2), 2).foreach(lambda _: time.sleep(120))

    query = InBackground(run)
    wait_until(lambda: len(active_tasks(ctx)) == 2, 60, "both slots to be taken")
    return query, lambda: context.cancelJobsWithTag("occupied")


def active_tasks(ctx: hr.SessionContext) -> list[int]:
    tracker = ctx.spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    return [i for stage in stages if stage is not None for i in range(stage.numActiveTasks)]


@pytest.mark.daily("stream closed")
@pytest.mark.parametrize("way", ["stream closed", "tag cancelled"])
def test_query_cancelled_before_its_first_task_ran_releases_the_producers(ctx: hr.SessionContext, way: str) -> None:
    sink = ctx.register_streaming_table("t", ROWS, capacity=1, partitions=2)
    producers = [Producer(lambda i, p=p: sink.partition(p).write(rows(i))) for p in range(2)]
    occupying, let_go = occupy_all_slots(ctx)
    live = Live(ctx, sink)
    try:
        before = running_jobs(ctx.spark)
        live.execute() if way == "stream closed" else live.collect()
        wait_until(lambda: running_jobs(ctx.spark) > before, 60, "the query's job")
        assert sink.stats.rows_delivered == 0
        close_stream(live) if way == "stream closed" else cancel_tag(live)
        assert all("cancelled" in producer.scan_ended() for producer in producers)
    finally:
        let_go()
    occupying.error()
    with pytest.raises(
        hr.StreamConsumedError, match=r"another query has taken that scan, and ended: the query was cancelled"
    ):
        ctx.collect(LIVE)


@pytest.mark.parametrize(
    ("query", "why"), [("SELECT * FROM {}", "read it to its end"), ("SELECT * FROM {} LIMIT 1", "limit")]
)
@pytest.mark.parametrize("partitions", [1, 2])
def test_second_query_is_told_how_the_first_one_ended(
    ctx: hr.SessionContext, query: str, why: str, partitions: int
) -> None:
    with ctx.register_streaming_table("ended", "a BIGINT", partitions=partitions) as sink:
        for number in range(4):
            sink.write([{"a": number}])
    assert ctx.collect(query.format("ended")).num_rows in (1, 4)
    with pytest.raises(hr.StreamConsumedError, match=why) as error:
        ctx.collect("SELECT * FROM ended")
    assert ("limit" in str(error.value)) == (why == "limit")


def test_query_failed_before_it_opened_the_table_releases_the_producer(ctx: hr.SessionContext) -> None:
    """The broadcast side of a join runs first."""

    def broken() -> Any:
        raise RuntimeError("the other table is broken")

    sink = ctx.register_streaming_table("t", ROWS, capacity=1)
    ctx.register_table("broken", hr.SimpleTable(pa.schema([("b", pa.int64())]), broken))
    producer = Producer(lambda i: sink.write(rows(i)))
    with pytest.raises(hr.ProviderError, match="the other table is broken"):
        ctx.collect("SELECT /*+ BROADCAST(broken) */ a FROM t JOIN broken ON a = b")
    assert "the other table is broken" in producer.scan_ended()
    assert sink.stats.rows_delivered == 0


@pytest.mark.parametrize("sql", ["SELECT a FROM t WHERE 1 = 0", "SELECT a FROM t LIMIT 0"])
def test_query_that_needs_no_row_leaves_the_table_to_the_next(ctx: hr.SessionContext, sql: str) -> None:
    sink = ctx.register_streaming_table("t", ROWS)
    sink.write(rows(0, 5))
    assert ctx.collect(sql).num_rows == 0
    sink.close()
    assert ctx.collect("SELECT a FROM t").num_rows == 5


def test_query_refused_while_planning_leaves_the_table_to_the_next(ctx: hr.SessionContext) -> None:
    sink = ctx.register_streaming_table("t", ROWS)
    sink.write(rows(0, 5))
    with pytest.raises(hr.StreamConsumedError, match="scans it 2 times"):
        ctx.collect("SELECT x.a FROM t x JOIN t y ON x.a = y.a")
    ctx.sql("EXPLAIN SELECT a FROM t").collect()
    sink.close()
    assert ctx.collect("SELECT a FROM t").num_rows == 5


# toLocalIterator, which Spark holds for over as soon as it began


@pytest.mark.parametrize("prefetch", [False, True])
def test_local_iterator_dropped_releases_the_producers_of_unread_partitions(
    ctx: hr.SessionContext, prefetch: bool
) -> None:
    sink = ctx.register_streaming_table("t", ROWS, capacity=1, partitions=4)
    sink.partition(0).write(rows(0))
    sink.partition(0).close()
    sink.partition(1).write(rows(0))
    sink.partition(1).close()
    producers = [Producer(lambda i, p=p: sink.partition(p).write(rows(i))) for p in (2, 3)]
    iterator = ctx.table("t").toLocalIterator(prefetchPartitions=prefetch)
    assert next(iterator).a == 0
    del iterator
    gc.collect()
    assert all("toLocalIterator" in producer.scan_ended() for producer in producers)


def test_local_iterator_read_slowly_is_whole(ctx: hr.SessionContext) -> None:
    sink = ctx.register_streaming_table("t", ROWS, partitions=3)
    for i in range(3):
        sink.partition(i).write(rows(i))
    sink.close()
    seen = []
    for row in ctx.table("t").toLocalIterator():
        seen.append(row.a)
        time.sleep(0.7)  # longer than it takes to look for dropped ones
    assert seen == [0, 1, 2]
    assert sink.stats.state == "finished"
