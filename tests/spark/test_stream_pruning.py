"""What a streaming query does not need is not read: columns and filters reach the provider."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions

import headrace as hr
from growing import Batches, Counter, read_available, running
from placements import placements
from producing import wait_until

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

pytestmark = pytest.mark.core


def counted(query: StreamingQuery) -> int:
    """The rows of all batches, as Spark counts them."""
    return sum(one["numInputRows"] for one in query.recentProgress)


@placements
def test_columns_that_a_query_needs_are_all_that_is_asked_for(
    ctx: hr.SessionContext, tmp_path: Path, placement: hr.Placement
) -> None:
    counter, batches = Counter(10, placement=placement), Batches()
    ctx.register_table("numbers", counter)
    frame = ctx.stream("numbers", maxRowsPerTrigger=4).select("square")
    with running(frame, tmp_path, batches, availableNow=True) as query:
        assert query.awaitTermination(60)
        assert counted(query) == 10
    assert batches.column("square") == [n * n for n in range(10)]
    assert [request.projection for _, _, request in counter.ranges] == [("square",)] * 3


@pytest.mark.parametrize(
    ("answer", "columns"),
    [
        (hr.FilterPushdown.EXACT, ("square",)),
        (hr.FilterPushdown.INEXACT, ("square", "n")),  # Headrace filters, and needs the column
        (hr.FilterPushdown.UNSUPPORTED, ("square", "n")),
    ],
    ids=lambda one: one.name if isinstance(one, hr.FilterPushdown) else "",
)
def test_filters_reach_the_provider_as_it_answers(
    ctx: hr.SessionContext, tmp_path: Path, answer: hr.FilterPushdown, columns: tuple[str, ...]
) -> None:
    counter = Counter(10, filters=answer)
    ctx.register_table("numbers", counter)
    frame = ctx.stream("numbers").where("n > 6 AND n % 2 = 1").select("square")
    assert read_available(frame, tmp_path).column("square") == [49, 81]
    request = counter.ranges[0][2]
    assert request.projection == columns
    pushed = answer is not hr.FilterPushdown.UNSUPPORTED
    assert any(repr(one) == "n > 6" for one in request.filters) is pushed


def test_filters_without_columns_to_leave_out_reach_the_provider(ctx: hr.SessionContext, tmp_path: Path) -> None:
    counter = Counter(10, filters=hr.FilterPushdown.EXACT)
    ctx.register_table("numbers", counter)
    assert read_available(ctx.stream("numbers").where("N >= 8"), tmp_path).column("n") == [8, 9]
    assert [repr(one) for one in counter.ranges[0][2].filters if "NULL" not in repr(one)] == ["n >= 8"]


def test_rows_that_are_only_counted_have_the_cheapest_column(ctx: hr.SessionContext, tmp_path: Path) -> None:
    counter = Counter(10)
    ctx.register_table("numbers", counter)
    batches = Batches()
    query = (
        ctx.stream("numbers")
        .groupBy()
        .count()
        .writeStream.outputMode("complete")
        .foreachBatch(batches)
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(60)
    assert batches.column("count") == [10]
    assert counter.ranges[0][2].projection == ("odd",)  # of booleans


def test_plan_of_a_pruned_stream_is_asked_for_once_a_batch(ctx: hr.SessionContext, tmp_path: Path) -> None:
    counter = Counter(12)
    ctx.register_table("numbers", counter)
    read_available(ctx.stream("numbers", maxRowsPerTrigger=3).select("n"), tmp_path)
    assert [(start, end) for start, end, _ in counter.ranges] == [(0, 3), (3, 6), (6, 9), (9, 12)]
    assert ctx._attached.planner is not None
    wait_until(lambda: len(ctx._attached.planner.streams) == 0)


def test_stream_that_a_query_reads_twice_gives_each_part_its_own_columns(
    ctx: hr.SessionContext, tmp_path: Path
) -> None:
    """Spark takes scans of one stream for equal, and would use the shuffled rows of one for the other."""
    counter, batches = Counter(10), Batches()
    ctx.register_table("numbers", counter)
    stream = ctx.stream("numbers")
    both = stream.select("n").repartition(2, "n").union(stream.select("square").repartition(2, "square"))
    with running(both, tmp_path, batches, availableNow=True) as query:
        assert query.awaitTermination(60)
    assert batches.column("n") == sorted([*range(10), *(n * n for n in range(10))])


def test_joined_stream_with_a_watermark_is_pruned_too(ctx: hr.SessionContext, tmp_path: Path) -> None:
    counter = Counter(10)
    ctx.register_table("numbers", counter)
    names = ctx.spark.createDataFrame([(1, "one"), (4, "four")], "square BIGINT, name STRING")
    frame = (
        ctx.stream("numbers")
        .withColumn("at", functions.timestamp_seconds("n"))
        .withWatermark("at", "1 second")
        .join(names, "square")
        .select("name")
    )
    assert read_available(frame, tmp_path).column("name") == ["four", "one"]
    assert set(counter.ranges[0][2].projection) == {"n", "square"}


def test_filter_that_changes_with_each_batch_is_offered_anew(ctx: hr.SessionContext, tmp_path: Path) -> None:
    counter = Counter(9, filters=hr.FilterPushdown.INEXACT)
    ctx.register_table("numbers", counter)
    frame = ctx.stream("numbers", maxRowsPerTrigger=3).where("timestamp_micros(n) < current_timestamp()").select("n")
    assert read_available(frame, tmp_path).column("n") == list(range(9))
    assert {request.projection for _, _, request in counter.ranges} == {("n",)}


def test_progress_of_a_filtered_stream_is_in_the_sql_metrics(ctx: hr.SessionContext, tmp_path: Path) -> None:
    ctx.register_table("numbers", Counter(10, filters=hr.FilterPushdown.EXACT))
    batches = Batches()
    with running(ctx.stream("numbers").where("n > 6").select("n"), tmp_path, batches, availableNow=True) as query:
        assert query.awaitTermination(60)
        assert counted(query) == 3
