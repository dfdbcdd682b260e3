"""What many micro-batches of a streaming query leave behind, for the tests that say: nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import headrace as hr
from growing import Counter, is_quiet, read_available, running
from leaking import Held, at_rest
from producing import wait_until


def assert_ranges_leave_nothing(ctx: hr.SessionContext, directory: Path, ranges: int) -> None:
    """As a query asks, without all that Spark does besides: a thousand ranges take some seconds."""
    counter = Counter(ranges, parts=1, filters=hr.FilterPushdown.EXACT)
    ctx.register_table("numbers", counter)
    frame: Any = ctx.stream("numbers")
    relation = frame._jdf.queryExecution().analyzed()
    while relation.children().nonEmpty():
        relation = relation.children().head()
    before = at_rest(ctx)
    _read_ranges(ctx, relation, directory, ranges, before)
    counter.ranges.clear()
    wait_until(lambda: is_quiet(ctx, counter))
    assert at_rest(ctx).python_threads <= before.python_threads + 3


def _read_ranges(ctx: hr.SessionContext, relation: Any, directory: Path, ranges: int, before: Held) -> None:
    planner: Any = ctx._attached.planner
    endpoint: Any = ctx._attached.endpoint
    stream = relation.table().newScanBuilder(relation.extraOptions()).build().toMicroBatchStream(str(directory))
    most = [0, 0, 0]
    start = stream.initialOffset()
    limit: Any = ctx.spark.sparkContext._jvm.org.apache.spark.sql.connector.read.streaming.ReadLimit
    for number in range(ranges):
        end = stream.latestOffset(start, limit.maxRows(1))
        assert len(stream.planInputPartitions(start, end)) == 1
        most = list(map(max, most, (len(planner.scans.plans()), len(endpoint._tickets), len(planner.streams))))
        stream.commit(end)
        start = end
        assert int(end.json()) == number + 1
    assert stream.latestOffset(start, limit.maxRows(1)) is None
    stream.stop()
    assert most[0] <= before.scans + 3, "plans are released with the commit"
    assert most[1] <= before.tickets + 3
    assert most[2] == 1


def assert_batches_leave_nothing(
    ctx: hr.SessionContext, directory: Path, batches: int, timeout_s: float = 600.0
) -> None:
    """A row a batch, filtered and pruned; while the query runs and after it has ended."""
    counter = Counter(0, parts=1, filters=hr.FilterPushdown.EXACT)
    ctx.register_table("numbers", counter)
    read_available(ctx.stream("numbers").select("n"), directory / "first")
    before = at_rest(ctx)
    counter.head = batches
    planner: Any = ctx._attached.planner
    endpoint: Any = ctx._attached.endpoint
    seen: list[tuple[int, int, int]] = []

    def sink(_frame: Any, _batch: int) -> None:
        seen.append((len(planner.scans.plans()), len(endpoint._tickets), len(planner.streams)))

    frame = ctx.stream("numbers", maxRowsPerTrigger=1).where("n >= 0").select("n")
    with running(frame, directory / "second", sink, availableNow=True) as query:
        assert query.awaitTermination(timeout_s), f"{len(seen)} batches in {timeout_s} s"
    assert len(seen) == len(counter.ranges) == batches
    assert max(plans for plans, _, _ in seen) <= before.scans + 4, "plans are released with the commit"
    assert max(tickets for _, tickets, _ in seen) <= before.tickets + 4
    assert {streams for _, _, streams in seen} == {1}
    counter.ranges.clear()
    counter.asked.clear()
    wait_until(lambda: is_quiet(ctx, counter))
    after = at_rest(ctx)
    assert after.scans <= before.scans + 2
    assert after.tickets <= before.tickets + 2
    assert after.python_threads <= before.python_threads + 3
    assert after.python_files <= before.python_files + 5
    assert after.jvm_files <= before.jvm_files + 20
    assert after.jvm_threads <= before.jvm_threads + 10
    assert after.arrow_bytes == 0
