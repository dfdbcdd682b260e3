"""execute_stream of a query with a LIMIT on top: streams as it runs, stops early, and has exactly its rows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from producing import FunctionTable, Marks, numbers, wait_until
from pushing import ROWS, Producer, rows, running_jobs

pytestmark = pytest.mark.core

PLAIN = "SELECT a FROM t"
JOINED = "SELECT /*+ BROADCAST(r) */ t.a FROM t JOIN range(0, 100000) r ON t.a = r.id"
QUERIES = pytest.mark.parametrize("query", [PLAIN, JOINED], ids=["plain", "joined"])


@pytest.fixture(params=["true", "false"], ids=["adaptive", "not adaptive"], autouse=True)
def adaptive(request: pytest.FixtureRequest, spark: Any) -> Iterator[None]:
    before = spark.conf.get("spark.sql.adaptive.enabled")
    spark.conf.set("spark.sql.adaptive.enabled", request.param)
    yield
    spark.conf.set("spark.sql.adaptive.enabled", before)


def register(ctx: hr.SessionContext, produce: Callable[[int], Iterator[pa.RecordBatch]], partitions: int) -> None:
    ctx.register_table("t", FunctionTable(produce, partitions=partitions, placement=hr.Placement.DRIVER))


def column(stream: hr.ResultStream) -> list[Any]:
    return pa.Table.from_batches(stream, stream.schema)["a"].to_pylist()


# While it runs


@pytest.mark.daily("adaptive-3-joined", "not adaptive-1-plain")
@QUERIES
@pytest.mark.parametrize("partitions", [1, 3])
def test_first_rows_of_a_limit_come_while_its_partition_still_runs(
    ctx: hr.SessionContext, query: str, partitions: int
) -> None:
    seen = threading.Event()

    def produce(partition: int) -> Iterator[pa.RecordBatch]:
        yield numbers(2, 10 * partition)
        assert seen.wait(60)
        yield numbers(2, 10 * partition + 2)

    register(ctx, produce, partitions)
    with ctx.execute_stream(f"{query} LIMIT 4") as stream:
        assert next(stream)["a"].to_pylist() == [0, 1]
        seen.set()
        assert column(stream) == [2, 3]


@QUERIES
def test_rows_of_a_limit_come_while_a_later_partition_still_runs(ctx: hr.SessionContext, query: str) -> None:
    seen = threading.Event()

    def produce(partition: int) -> Iterator[pa.RecordBatch]:
        if partition == 2:
            assert seen.wait(60)
        yield numbers(2, 10 * partition)

    register(ctx, produce, 5)
    with ctx.execute_stream(f"{query} LIMIT 5") as stream:
        assert [next(stream)["a"].to_pylist() for _ in range(2)] == [[0, 1], [10, 11]]
        seen.set()
        assert column(stream) == [20]


def test_rows_of_a_limit_come_while_a_producer_still_writes(ctx: hr.SessionContext) -> None:
    sink = ctx.register_streaming_table("t", ROWS, partitions=2)
    with ctx.execute_stream(f"{JOINED} LIMIT 3") as stream:
        for i in range(3):
            sink.partition(0).write(rows(i))
            assert next(stream)["a"].to_pylist() == [i]
        assert next(stream, None) is None
    producer = Producer(lambda i: sink.write(rows(i)))
    producer.scan_ended()


# Early ends


@QUERIES
def test_limit_that_the_first_partition_fulfils_runs_no_other(
    ctx: hr.SessionContext, tmp_path: Any, query: str
) -> None:
    marks = Marks(tmp_path)

    def produce(partition: int) -> Iterator[pa.RecordBatch]:
        marks.leave(f"started-{partition}")
        yield numbers(3)

    register(ctx, produce, 4)
    assert ctx.collect(f"{query} LIMIT 3")["a"].to_pylist() == [0, 1, 2]
    assert marks.count("started-") == 1


@pytest.mark.daily("adaptive-small limit-joined", "not adaptive-large limit-plain")
@QUERIES
@pytest.mark.parametrize(("limit", "full"), [(3, 1), (100_000, 0)], ids=["small limit", "large limit"])
def test_limit_reached_stops_an_endless_partition_that_ran_beside(
    ctx: hr.SessionContext, query: str, limit: int, full: int
) -> None:
    """For a small limit the first runs alone and is empty, for a large one as many run as there are cores."""
    stopped = threading.Event()

    def produce(partition: int) -> Iterator[pa.RecordBatch]:
        if partition == full:
            yield numbers(limit)
        if partition > full:
            try:
                yield numbers(1, 7)
                while True:
                    threading.Event().wait(0.05)
            finally:
                stopped.set()

    register(ctx, produce, 3)
    with ctx.execute_stream(f"{query} LIMIT {limit}") as stream:
        assert column(stream) == list(range(limit))
    assert stopped.wait(60)
    wait_until(lambda: running_jobs(ctx.spark) == 0)


def test_stream_of_a_limit_closed_early_cancels_the_job(ctx: hr.SessionContext) -> None:
    sink = ctx.register_streaming_table("t", ROWS, partitions=2)
    producer = Producer(lambda i: sink.partition(0).write(rows(i % 1000)))
    with ctx.execute_stream(f"{JOINED} LIMIT 1000000000") as stream:
        next(stream)
    producer.scan_ended()
    wait_until(lambda: running_jobs(ctx.spark) == 0)


def test_limit_over_a_partition_that_fails_tells_the_providers_error(ctx: hr.SessionContext) -> None:
    def produce(partition: int) -> Iterator[pa.RecordBatch]:
        yield numbers(1, partition)
        if partition == 1:
            raise LookupError("shard 1 is gone")

    register(ctx, produce, 3)
    with ctx.execute_stream(f"{JOINED} LIMIT 3") as stream, pytest.raises(hr.ProviderError, match="shard 1 is gone"):
        list(stream)


# Exactly its rows


@pytest.mark.daily("adaptive-11-*", "not adaptive-1000-joined")
@QUERIES
@pytest.mark.parametrize("end", [0, 1, 11, 1000])
def test_limit_over_uneven_partitions_is_its_first_rows(ctx: hr.SessionContext, query: str, end: int) -> None:
    """12 partitions of 0, 2, 4, 6, 0, 2, ... rows."""
    held = [[100 * partition + i for i in range(partition % 4 * 2)] for partition in range(12)]  # 36 rows
    expected = [value for values in held for value in values][:end]

    def produce(partition: int) -> Iterator[pa.RecordBatch]:
        for value in held[partition]:
            yield numbers(1, value)

    register(ctx, produce, 12)
    assert ctx.collect(f"{query} LIMIT {end}")["a"].to_pylist() == expected
    with ctx.execute_stream(f"{query} LIMIT {end}") as stream:
        assert column(stream) == expected


@pytest.mark.parametrize(("limit", "offset"), [(5, 3), (5, 15), (30, 5), (5, 200), (200_000, 95)])
def test_limit_with_an_offset_skips_the_first_rows(ctx: hr.SessionContext, limit: int, offset: int) -> None:
    frame = ctx.spark.range(0, 100, numPartitions=7).selectExpr("id AS a").offset(offset).limit(limit)
    assert ctx.collect(frame)["a"].to_pylist() == list(range(100))[offset : offset + limit]


def test_large_limit_over_many_partitions_keeps_order(ctx: hr.SessionContext) -> None:
    frame = ctx.spark.range(0, 500_000, numPartitions=9).selectExpr("id AS a").limit(300_000)
    with ctx.execute_stream(frame) as stream:
        assert column(stream) == list(range(300_000))


def test_limit_of_a_result_without_columns_has_its_rows(ctx: hr.SessionContext) -> None:
    with ctx.execute_stream(ctx.spark.range(0, 25, numPartitions=10).select().limit(7)) as stream:
        assert sum(batch.num_rows for batch in stream) == 7


def test_limit_over_a_sort_keeps_its_order(ctx: hr.SessionContext) -> None:
    frame = ctx.spark.range(0, 1000, numPartitions=3).selectExpr("(id * 7919) % 1000 AS a").orderBy("a")
    assert ctx.collect(frame.limit(20))["a"].to_pylist() == list(range(20))
    grouped = ctx.sql("SELECT a, count(*) FROM VALUES (1), (2), (2), (3) t(a) GROUP BY a LIMIT 2")
    assert ctx.collect(grouped).num_rows == 2


def test_same_frame_with_a_limit_can_be_streamed_again(ctx: hr.SessionContext) -> None:
    register(ctx, lambda partition: iter([numbers(2, 10 * partition)]), 3)
    frame = ctx.sql(f"{JOINED} LIMIT 3")
    assert [ctx.collect(frame)["a"].to_pylist() for _ in range(2)] == [[0, 1, 10]] * 2
    assert [row.a for row in frame.collect()] == [0, 1, 10]
