"""execute_stream: a query's result as Arrow while it runs, in order, bounded, and every way it can end."""

from __future__ import annotations

import gc
import io
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from rich.console import Console

import headrace as hr
from headrace.results import inbox
from headrace.spark import session
from headrace.spark.progress import ProgressBar
from producing import NUMBERS, FunctionTable, numbers, wait_until
from pushing import ROWS, InBackground, Producer, rows, running_jobs

pytestmark = pytest.mark.core


def column(stream: hr.ResultStream, name: str = "a") -> list[Any]:
    return pa.Table.from_batches(stream, stream.schema)[name].to_pylist()


# While it runs


def test_first_batch_comes_while_another_task_still_runs(ctx: hr.SessionContext) -> None:
    """Partition 1 ends only when the first batch of partition 0 has been seen."""
    seen = threading.Event()

    def produce(partition: int) -> Iterator[pa.RecordBatch]:
        yield numbers(1, partition)
        assert seen.wait(60)
        yield numbers(1, 10 + partition)

    ctx.register_table("t", FunctionTable(produce, partitions=2, placement=hr.Placement.DRIVER))
    with ctx.execute_stream("SELECT a FROM t") as stream:
        assert stream.schema == NUMBERS
        assert next(stream).to_pydict() == {"a": [0]}
        seen.set()
        assert column(stream) == [10, 1, 11]


def test_order_by_is_kept_over_many_partitions(ctx: hr.SessionContext) -> None:
    frame = ctx.spark.range(0, 20_000, numPartitions=7).selectExpr("(id * 7919) % 20000 AS a").orderBy("a")
    with ctx.execute_stream(frame) as stream:
        assert column(stream) == list(range(20_000))


def test_partitions_come_in_order_when_the_first_is_the_slowest(ctx: hr.SessionContext) -> None:
    """Nine partitions on two slots; the others are done long before."""
    others = threading.Semaphore(0)

    def produce(partition: int) -> Iterator[pa.RecordBatch]:
        if partition == 0:
            for _ in range(8):
                assert others.acquire(timeout=60)
        yield numbers(10, 10 * partition)
        others.release()

    ctx.register_table("t", FunctionTable(produce, partitions=9, placement=hr.Placement.DRIVER))
    with ctx.execute_stream("SELECT a FROM t") as stream:
        assert column(stream) == list(range(90))


def test_slow_caller_bounds_memory_on_both_sides(ctx: hr.SessionContext) -> None:
    """Four partitions of 200 MB each, and nobody takes: what Python holds is bounded, and the tasks wait."""
    frame = ctx.spark.range(0, 800, numPartitions=4).selectExpr("id", "repeat('x', 1000000) AS s")
    with ctx.execute_stream(frame) as stream:
        first = next(stream)
        assert first.nbytes < 16 << 20
        held = []
        for _ in range(10):
            held.append(stream._query.inbox.waiting_bytes)
            threading.Event().wait(0.1)
        assert max(held) <= inbox._MAX_WAITING_BYTES + inbox._MAX_CURRENT_BYTES
        assert running_jobs(ctx.spark) == 1
        assert first.num_rows + sum(batch.num_rows for batch in stream) == 800


def test_several_streams_at_once_from_several_threads(ctx: hr.SessionContext) -> None:
    def run(start: int) -> int:
        with ctx.execute_stream(ctx.spark.range(start, start + 1000, numPartitions=3).selectExpr("id AS a")) as stream:
            return sum(column(stream))

    threads = [InBackground(lambda start=start: run(start)) for start in range(6)]
    assert [thread.result() for thread in threads] == [sum(range(i, i + 1000)) for i in range(6)]


def test_two_streams_read_in_turn_by_one_thread(ctx: hr.SessionContext) -> None:
    sinks = [ctx.register_streaming_table(name, ROWS) for name in "tu"]
    with ctx.execute_stream("SELECT a FROM t") as one, ctx.execute_stream("SELECT a FROM u") as other:
        for i in range(5):
            sinks[0].write(rows(i))
            sinks[1].write(rows(10 * i))
            assert (next(one)["a"][0].as_py(), next(other)["a"][0].as_py()) == (i, 10 * i)


# Any DataFrame

FRAMES = {
    "range": "SELECT id AS a FROM range(100)",
    "empty": "SELECT id AS a FROM range(100) WHERE id < 0",
    "no partitions": "SELECT * FROM VALUES (1) t(a) WHERE false",
    "literal": "SELECT 1 AS a",
    "join": "SELECT x.id, y.id AS other FROM range(50) x JOIN range(50) y ON x.id = y.id",
    "duplicate names": "SELECT id AS a, id + 1 AS a FROM range(3)",
    "limit": "SELECT id FROM range(0, 1000, 1, 5) LIMIT 7",
    "limit of one partition": "SELECT id FROM range(0, 1000, 1, 1) LIMIT 7",
    "limit and offset": "SELECT id FROM range(0, 1000, 1, 1) LIMIT 5 OFFSET 3",
    "offset": "SELECT id FROM range(0, 100, 1, 2) OFFSET 95",
    "large limit": "SELECT id FROM range(0, 200000, 1, 3) LIMIT 150000",
    "numbers": "SELECT 1Y, 2S, 3, 4L, 1.5F, 2.5D, 1.23BD, true, NULL, 'text', X'00FF', DATE'2024-02-29'",
    "timestamps": "SELECT TIMESTAMP'2024-01-01 12:00:00', TIMESTAMP_NTZ'2024-01-01 12:00:00'",
    "intervals": "SELECT INTERVAL '3 04:05:06.000007' DAY TO SECOND, INTERVAL '5' HOUR",
    "nested": "SELECT array(1, NULL) l, map('k', array(named_struct('x', 1))) m, struct(struct('q' AS z) AS y) s",
    "char": "SELECT CAST('ab' AS CHAR(5)) c, CAST('ab' AS VARCHAR(5)) v",
    "not null": "SELECT id, id IS NULL AS n FROM range(3)",
    "show": "SHOW DATABASES",
}


@pytest.mark.daily(every=3)
@pytest.mark.parametrize("sql", FRAMES.values(), ids=FRAMES)
def test_result_of_any_query_equals_what_toarrow_gives(ctx: hr.SessionContext, sql: str) -> None:
    expected = ctx.sql(sql).toArrow()
    with ctx.execute_stream(sql) as stream:
        schema = stream.schema
        result = pa.Table.from_batches(stream, stream.schema)
    assert schema == expected.schema
    assert result.num_rows == expected.num_rows
    assert result.sort_by(schema.names[0]) == expected if "join" in sql.lower() else result == expected


@pytest.mark.parametrize("wrap", ["{}", "array({})", "named_struct('x', {})"])
def test_result_of_a_type_that_pyarrow_cannot_hold_is_refused(ctx: hr.SessionContext, wrap: str) -> None:
    with pytest.raises(hr.HeadraceError, match="column 'c' of the result has a year-month interval"):
        ctx.collect("SELECT " + wrap.format("INTERVAL '1-2' YEAR TO MONTH") + " AS c")


def test_result_without_columns_has_its_rows(ctx: hr.SessionContext) -> None:
    with ctx.execute_stream(ctx.spark.range(0, 25, numPartitions=3).select()) as stream:
        assert stream.schema == pa.schema([])
        assert sum(batch.num_rows for batch in stream) == 25


def test_result_of_a_cached_frame_may_be_taken_again(ctx: hr.SessionContext) -> None:
    frame = ctx.spark.range(10).cache()
    try:
        for _ in range(2):
            assert ctx.collect(frame)["id"].to_pylist() == list(range(10))
    finally:
        frame.unpersist()


def test_wide_rows_are_cut_into_batches_of_a_few_megabytes(ctx: hr.SessionContext) -> None:
    with ctx.execute_stream("SELECT repeat('x', 100000) AS s FROM range(0, 200, 1, 1)") as stream:
        sizes = [batch.nbytes for batch in stream]
    assert len(sizes) > 3
    assert max(sizes) < 8 << 20


# Arrow's stream interface


def test_stream_is_read_by_pyarrow_polars_and_duckdb(ctx: hr.SessionContext) -> None:
    sql = "SELECT id AS a FROM range(0, 10, 1, 2)"
    with ctx.execute_stream(sql) as stream:
        assert pa.table(stream)["a"].to_pylist() == list(range(10))
    with ctx.execute_stream(sql) as stream:
        assert pa.RecordBatchReader.from_stream(stream).read_all().num_rows == 10
    with ctx.execute_stream(sql) as stream:
        assert pl.DataFrame(stream)["a"].sum() == 45
    with ctx.execute_stream(sql) as stream:
        assert duckdb.sql("SELECT sum(a) FROM stream").fetchall() == [(45,)]
    with ctx.execute_stream(sql) as stream:
        assert sum(stream.read_next_batch().num_rows for _ in range(2)) == 10


def test_stream_read_through_arrow_that_fails_tells_the_error(ctx: hr.SessionContext) -> None:
    sink = ctx.register_streaming_table("t", ROWS)
    sink.fail(ValueError("a bad shard"))
    with ctx.execute_stream("SELECT a FROM t") as stream, pytest.raises(Exception, match="a bad shard"):
        pa.RecordBatchReader.from_stream(stream).read_all()


# Ends


def endless(ctx: hr.SessionContext) -> tuple[Producer, hr.ResultStream]:
    sink = ctx.register_streaming_table("t", ROWS)
    producer = Producer(lambda i: sink.write(rows(i)))
    return producer, ctx.execute_stream("SELECT a FROM t")


def test_closed_stream_cancels_the_job_and_releases_producers(ctx: hr.SessionContext) -> None:
    producer, stream = endless(ctx)
    next(stream)
    stream.close()
    producer.scan_ended()
    wait_until(lambda: running_jobs(ctx.spark) == 0)
    stream.close()
    for _ in range(2):  # never StopIteration: that would look like the end
        with pytest.raises(hr.ScanEndedError, match="closed before its end"):
            next(stream)


def test_stream_closed_at_once_cancels_a_job_that_has_not_started(ctx: hr.SessionContext) -> None:
    for i in range(3):
        ctx.execute_stream(f"SELECT sum(id * {i}) FROM range(0, 100000000000)").close()
    wait_until(lambda: running_jobs(ctx.spark) == 0)


def test_dropped_stream_cancels_the_job(ctx: hr.SessionContext) -> None:
    producer, stream = endless(ctx)
    next(stream)
    gone = weakref.ref(stream)
    del stream
    gc.collect()
    assert gone() is None
    producer.scan_ended()
    wait_until(lambda: running_jobs(ctx.spark) == 0)


def test_dropped_stream_does_not_hold_up_the_thread_that_drops_it(ctx: hr.SessionContext) -> None:
    """A collector may run anywhere, also where the inbox's own lock is held."""
    _, stream = endless(ctx)
    next(stream)
    held = stream._query.inbox._lock
    with held:
        del stream
        gc.collect()
    wait_until(lambda: running_jobs(ctx.spark) == 0)


def test_block_that_raises_cancels_the_job(ctx: hr.SessionContext) -> None:
    producer, stream = endless(ctx)

    def consume() -> None:
        with stream:
            next(stream)
            raise LookupError("the consumer's own")

    with pytest.raises(LookupError):
        consume()
    producer.scan_ended()
    wait_until(lambda: running_jobs(ctx.spark) == 0)


def test_stream_closed_by_another_thread_wakes_the_one_that_waits(ctx: hr.SessionContext) -> None:
    ctx.register_streaming_table("t", ROWS)  # nothing is ever written
    sink = ctx.register_streaming_table("u", ROWS)
    stream = ctx.execute_stream("SELECT a FROM u")
    waiting = InBackground(lambda: next(stream))
    wait_until(lambda: running_jobs(ctx.spark) == 1)
    stream.close()
    assert isinstance(waiting.error(), hr.ScanEndedError)
    assert sink.stats.rows_written == 0


def test_finished_stream_stays_finished(ctx: hr.SessionContext) -> None:
    stream = ctx.execute_stream("SELECT 1 AS a")
    assert column(stream) == [1]
    stream.close()
    for _ in range(2):
        with pytest.raises(StopIteration):
            stream.read_next_batch()


def test_provider_error_comes_as_headrace_error_with_its_cause(ctx: hr.SessionContext) -> None:
    def produce(_: int) -> Iterator[pa.RecordBatch]:
        yield numbers(5)
        raise LookupError("shard 7 is gone")

    ctx.register_table("t", FunctionTable(produce, placement=hr.Placement.DRIVER))
    stream = ctx.execute_stream("SELECT a FROM t")
    with pytest.raises(hr.ProviderError, match="shard 7 is gone") as caught:
        list(stream)
    assert isinstance(caught.value.__cause__, LookupError)
    with pytest.raises(hr.ProviderError, match="shard 7 is gone"):
        next(stream)


def test_sparks_own_errors_pass_unchanged(ctx: hr.SessionContext) -> None:
    with pytest.raises(PySparkException, match="TABLE_OR_VIEW_NOT_FOUND"):
        ctx.execute_stream("SELECT * FROM nowhere")
    for run in (lambda sql: list(ctx.execute_stream(sql)), ctx.collect):
        with pytest.raises(PySparkException, match="DIVIDE_BY_ZERO") as caught:
            run("SELECT 1 / (id - 50) FROM range(100)")
        assert not isinstance(caught.value, hr.HeadraceError)


def test_closed_context_starts_no_stream(ctx: hr.SessionContext) -> None:
    other = hr.SessionContext(ctx.spark)
    other.close()
    with pytest.raises(hr.HeadraceError, match="closed"):
        other.execute_stream("SELECT 1")


# Progress


def test_progress_function_is_called_for_each_batch_and_the_end(ctx: hr.SessionContext) -> None:
    calls: list[hr.Progress] = []
    frame = ctx.spark.range(0, 30, numPartitions=3)
    with ctx.execute_stream(frame, progress=calls.append) as stream:
        batches = list(stream)
    assert [call.rows for call in calls] == [10, 20, 30, 30]
    assert [call.batches for call in calls] == [1, 2, 3, len(batches)]
    assert (calls[-1].partitions_done, calls[-1].partitions) == (3, 3)
    assert calls[-1].seconds > 0


def test_progress_function_that_raises_cancels_the_query(ctx: hr.SessionContext) -> None:
    def report(_: hr.Progress) -> None:
        raise LookupError("in the callback")

    stream = ctx.execute_stream(ctx.spark.range(10), progress=report)
    with pytest.raises(LookupError, match="in the callback"):
        next(stream)
    with pytest.raises(hr.ScanEndedError):
        next(stream)


def test_progress_bar_on_a_terminal_shows_rows_and_partitions(
    ctx: hr.SessionContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100)
    bar = ProgressBar(console)
    monkeypatch.setattr(session, "ProgressBar", lambda: bar)
    with ctx.execute_stream(ctx.spark.range(0, 5000, numPartitions=2), progress=True) as stream:
        for _ in stream:
            assert bar._display is not None
            bar._display.refresh()
    assert "2/2 partitions" in screen.getvalue()
    assert "5,000 rows" in screen.getvalue()
    assert bar._display is None


def test_progress_bar_without_a_terminal_shows_nothing(
    ctx: hr.SessionContext, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = io.StringIO()
    bar = ProgressBar(Console(file=screen))
    monkeypatch.setattr(session, "ProgressBar", lambda: bar)
    capfd.readouterr()
    with ctx.execute_stream("SELECT id FROM range(10)", progress=True) as stream:
        assert sum(batch.num_rows for batch in stream) == 10
    assert screen.getvalue() == ""
    assert "partitions" not in capfd.readouterr().err


def test_progress_bar_of_a_failed_query_is_removed(ctx: hr.SessionContext, monkeypatch: pytest.MonkeyPatch) -> None:
    bar = ProgressBar(Console(file=io.StringIO(), force_terminal=True))
    monkeypatch.setattr(session, "ProgressBar", lambda: bar)
    with pytest.raises(PySparkException, match="DIVIDE_BY_ZERO"):
        list(ctx.execute_stream("SELECT 1 / (id - 5) FROM range(10)", progress=True))
    assert bar._display is None


def test_stream_of_a_query_that_somebody_cancelled_says_so(ctx: hr.SessionContext) -> None:
    _, stream = endless(ctx)
    with stream:
        assert stream.read_next_batch().num_rows
        ctx.spark.sparkContext.cancelAllJobs()
        with pytest.raises(hr.ScanEndedError, match="the query was cancelled"):
            for _ in stream:
                continue
