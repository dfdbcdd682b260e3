"""Results of a Spark Connect session as they come, and queries that are ended early."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from connecting import endless
from placements import placements
from producing import NUMBERS, FunctionTable, Marks, numbers, ten_rows, wait_until

pytestmark = pytest.mark.timeout(200)


# Results as they come


def test_connect_result_stream_has_all_rows_in_order(ctx: hr.SessionContext) -> None:
    ctx.register_table("t", FunctionTable(ten_rows, partitions=4))
    with ctx.execute_stream("SELECT a, named_struct('x', a) AS s FROM t") as stream:
        assert stream.schema.names == ["a", "s"]
        found = [row["a"] for batch in stream for row in batch.to_pylist()]
    assert found == list(range(40))
    assert ctx.collect("SELECT a FROM t WHERE a < 0").schema == NUMBERS


def test_connect_result_stream_gives_a_first_batch_while_a_later_partition_waits(
    ctx: hr.SessionContext, tmp_path: Path
) -> None:
    marks = Marks(tmp_path)

    def second_waits(partition: int) -> Iterator[pa.RecordBatch]:
        if partition:
            wait_until(lambda: marks.has("go"))
        yield numbers(10, partition * 10)

    ctx.register_table("t", FunctionTable(second_waits, partitions=2))
    with ctx.execute_stream("SELECT a FROM t") as stream:
        first = stream.read_next_batch()
        marks.leave("go")
        rest = stream.read_all()
    assert first["a"].to_pylist() == list(range(10))
    assert rest["a"].to_pylist() == list(range(10, 20))


# Stopping early


@placements
def test_connect_session_limit_stops_the_producer(
    ctx: hr.SessionContext, placement: hr.Placement, tmp_path: Path
) -> None:
    marks = Marks(tmp_path)
    ctx.register_table("t", FunctionTable(endless(marks), placement=placement))
    assert len(ctx.spark.sql("SELECT a FROM t WHERE a % 2 = 0 LIMIT 5").collect()) == 5
    wait_until(lambda: marks.has("stopped"), what="the producer's end")


@placements
def test_connect_result_stream_that_is_closed_cancels_the_query(
    ctx: hr.SessionContext, placement: hr.Placement, tmp_path: Path
) -> None:
    marks = Marks(tmp_path)
    ctx.register_table("t", FunctionTable(endless(marks), placement=placement))
    stream = ctx.execute_stream("SELECT count(*) FROM t")
    wait_until(lambda: marks.has("started"), what="the producer's start")
    stream.close()
    wait_until(lambda: marks.has("stopped"), what="the producer's end")
    with pytest.raises(hr.ScanEndedError, match="closed before its end"):
        stream.read_next_batch()


@placements
def test_connect_context_that_closes_cancels_its_queries(spark: Any, placement: hr.Placement, tmp_path: Path) -> None:
    marks = Marks(tmp_path)
    with hr.SessionContext(spark) as ctx:
        ctx.register_table("t", FunctionTable(endless(marks), placement=placement))
        stream = ctx.execute_stream("SELECT count(*) FROM t")
        wait_until(lambda: marks.has("started"), what="the producer's start")
    wait_until(lambda: marks.has("stopped"), what="the producer's end")
    with pytest.raises(hr.ScanEndedError, match="its session context was closed"):
        stream.read_next_batch()
    assert spark.sql("SELECT 1").collect() == [(1,)]


def test_connect_context_that_closes_cancels_a_query_whose_result_waits_to_be_read(spark: Any, tmp_path: Path) -> None:
    marks = Marks(tmp_path)

    def much_then_endless(partition: int) -> Iterator[pa.RecordBatch]:
        if partition:
            yield from endless(marks)(partition)
        for start in range(0, 4_000_000, 100_000):
            yield numbers(100_000, start)

    with hr.SessionContext(spark) as ctx:
        ctx.register_table("t", FunctionTable(much_then_endless, partitions=2))
        stream = ctx.execute_stream("SELECT a FROM t")
        assert stream.read_next_batch().num_rows > 0
        wait_until(lambda: marks.has("started"), what="the producer's start")
    wait_until(lambda: marks.has("stopped"), what="the producer's end")
    with pytest.raises(hr.ScanEndedError, match="its session context was closed"):
        stream.read_all()


class PlannedAgain(FunctionTable):
    """An endless table that is planned twice, the second time on a thread of Spark's that nobody interrupts."""

    def __init__(self, marks: Marks) -> None:
        super().__init__(endless(marks), placement=hr.Placement.DRIVER)
        self.marks = marks

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        plan = super().scan(request)
        plan.runtime_filter_columns = ("a",)
        if request.runtime_filters:
            self.marks.leave("planning")
            wait_until(lambda: self.marks.has("go"), what="the end of the query")
            self.marks.leave("planned")
        return plan


def test_connect_query_that_is_cancelled_before_its_job_starts_reads_nothing_for_long(
    ctx: hr.SessionContext, tmp_path: Path
) -> None:
    """Spark cancels the jobs that run, and submits this one afterwards."""
    marks = Marks(tmp_path)
    ctx.register_table("t", PlannedAgain(marks))
    ctx.register_table("ten", FunctionTable(ten_rows, partitions=2))
    stream = ctx.execute_stream("SELECT count(*) FROM t JOIN (SELECT id FROM range(9) WHERE id % 2 = 1) ON a = id")
    wait_until(lambda: marks.has("planning"), what="the second planning")
    stream.close()
    marks.leave("go")
    wait_until(lambda: marks.has("planned"))
    assert ctx.collect("SELECT sum(a) AS s FROM ten")["s"].to_pylist() == [190]  # by then a job that came is under way
    wait_until(lambda: marks.has("stopped") or not marks.has("started"), what="the producer's end")
