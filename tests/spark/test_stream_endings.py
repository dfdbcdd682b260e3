"""Streams that end: what fails is told by name, what is stopped stops, and nothing is left behind."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from effort import cases
from growing import Batches, Counter, Numbers, is_quiet, read_available, running
from headrace.stream import listeners_of
from placements import placements
from producing import wait_until
from stream_leaks import assert_batches_leave_nothing, assert_ranges_leave_nothing

pytestmark = pytest.mark.core

METHODS = ["initial_offset", "latest_offset", "scan_between", "commit", "rows_behind", "supports_filters_pushdown"]


def failure_of(query: Any) -> str:
    """What a query failed with; fails the test where it goes on."""
    wait_until(lambda: query.exception() is not None, what="the query's failure")
    assert not query.isActive
    return str(query.exception())


@pytest.mark.parametrize("method", METHODS)
def test_provider_that_raises_fails_the_query_with_its_own_words(
    ctx: hr.SessionContext, tmp_path: Path, method: str
) -> None:
    def broken(self: Counter, *_: object) -> None:
        raise LookupError(f"nobody knows the {method}")

    class Broken(Counter):
        pass

    setattr(Broken, method, broken)
    provider = Broken(10)
    ctx.register_table("numbers", provider)
    frame = ctx.stream("numbers", maxRowsPerTrigger=2).where("n > 0")
    with pytest.raises(Exception, match=f"LookupError: nobody knows the {method}") as raised:
        read_available(frame, tmp_path)
    text = str(raised.value)
    assert type(raised.value).__name__ == "StreamingQueryException"
    assert f"in Broken.{method}, table 'numbers'" in text
    assert 'raise LookupError(f"nobody knows' in text, "the traceback shows the user's line"
    wait_until(lambda: is_quiet(ctx, provider))


@placements
def test_plan_that_raises_fails_the_query_with_its_own_words(
    ctx: hr.SessionContext, tmp_path: Path, placement: hr.Placement
) -> None:
    class Breaking(Numbers):
        def execute(self, partition: int) -> Any:
            yield from super().execute(partition)
            raise LookupError("the second page is missing")

    class Broken(Counter):
        def scan_between(self, start: hr.Offset, end: hr.Offset, request: hr.ScanRequest) -> hr.ExecutionPlan:
            return Breaking(start, end, request, 1, placement)

    ctx.register_table("numbers", Broken(10))
    with pytest.raises(Exception, match="LookupError: the second page is missing"):
        read_available(ctx.stream("numbers"), tmp_path)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "Answering.latest_offset returned None as an offset of table 'numbers', expected a JSON value"),
        (object(), "expected a JSON value that is not null"),
        (-1, "Answering.latest_offset went back from 0 to -1 (table 'numbers'), expected 0 or more"),
    ],
    ids=["null", "not JSON", "back"],
)
def test_offset_that_cannot_be_fails_the_query_by_name(
    ctx: hr.SessionContext, tmp_path: Path, answer: Any, message: str
) -> None:
    class Answering(Counter):
        def latest_offset(self, start: hr.Offset, limit: hr.ReadLimit) -> hr.Offset:
            return answer

    ctx.register_table("numbers", Answering())
    with pytest.raises(Exception, match="PlanError") as raised:
        read_available(ctx.stream("numbers"), tmp_path)
    assert message in str(raised.value)


def test_rows_that_are_lost_fail_the_query_by_name(ctx: hr.SessionContext, tmp_path: Path) -> None:
    class Short(Counter):
        def scan_between(self, start: hr.Offset, end: hr.Offset, request: hr.ScanRequest) -> hr.ExecutionPlan:
            raise hr.OffsetLostError(f"the rows after {start} were deleted last night")

    ctx.register_table("numbers", Short(10))
    with pytest.raises(Exception, match="OffsetLostError: the rows after 0 were deleted last night"):
        read_available(ctx.stream("numbers"), tmp_path)


def test_plan_that_is_none_fails_the_query_by_name(ctx: hr.SessionContext, tmp_path: Path) -> None:
    class Empty(Counter):
        def scan_between(self, start: hr.Offset, end: hr.Offset, request: hr.ScanRequest) -> hr.ExecutionPlan:
            return None  # type: ignore[return-value]

    ctx.register_table("numbers", Empty(10))
    with pytest.raises(Exception, match=r"Empty\.scan_between returned None, expected an ExecutionPlan"):
        read_available(ctx.stream("numbers"), tmp_path)


@pytest.mark.parametrize("idle", [True, False], ids=["idle", "reading"])
def test_query_that_is_stopped_ends_without_an_error(ctx: hr.SessionContext, tmp_path: Path, idle: bool) -> None:
    counter, batches = Counter(3), Batches()
    ctx.register_table("numbers", counter)
    with running(ctx.stream("numbers"), tmp_path, batches) as query:
        batches.wait_for_rows(3)
        if not idle:
            ends = threading.Event()
            producer = threading.Thread(target=lambda: [counter.grow() for _ in iter(ends.is_set, True)])
            producer.start()
            batches.wait(lambda: len(batches.tables) > 3)
            query.stop()
            ends.set()
            producer.join()
        query.stop()
        assert query.exception() is None
        assert not query.isActive
    wait_until(lambda: is_quiet(ctx, counter))


def test_query_that_is_stopped_while_the_provider_thinks_ends_without_an_error(
    ctx: hr.SessionContext, tmp_path: Path
) -> None:
    thinking, decided = threading.Event(), threading.Event()

    class Slow(Counter):
        def latest_offset(self, start: hr.Offset, limit: hr.ReadLimit) -> hr.Offset:
            thinking.set()
            assert decided.wait(60)
            return super().latest_offset(start, limit)

    counter = Slow(3)
    ctx.register_table("numbers", counter)
    with running(ctx.stream("numbers"), tmp_path, Batches()) as query:
        assert thinking.wait(60)
        query.stop()
        assert query.exception() is None
    decided.set()
    wait_until(lambda: is_quiet(ctx, counter))


def test_query_that_is_stopped_while_its_target_plans_the_write_ends_without_an_error(
    ctx: hr.SessionContext, tmp_path: Path
) -> None:
    asked, go_on = threading.Event(), threading.Event()

    class Slow(hr.MemTable):
        def layout(self, mode: hr.WriteMode) -> hr.WriteLayout | None:
            asked.set()
            assert go_on.wait(60)
            return super().layout(mode)

    ctx.register_table("numbers", Counter(3))
    ctx.register_table("target", Slow(pa.table({"n": pa.array([], pa.int64())})))
    writer = ctx.stream("numbers").select("n").writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.toTable(f"{ctx.catalog}.target")
    try:
        assert asked.wait(60)
        query.stop()
        assert query.exception() is None
    finally:
        go_on.set()
        query.stop()


def test_context_that_closes_while_the_provider_thinks_ends_the_query_by_name(
    ctx: hr.SessionContext, tmp_path: Path
) -> None:
    thinking, decided = threading.Event(), threading.Event()

    class Slow(Counter):
        def latest_offset(self, start: hr.Offset, limit: hr.ReadLimit) -> hr.Offset:
            thinking.set()
            assert decided.wait(120)
            return super().latest_offset(start, limit)

    with hr.SessionContext(ctx.spark) as context:
        context.register_table("numbers", Slow(3))
        with running(context.stream("numbers"), tmp_path, Batches()) as query:
            assert thinking.wait(60)
            context.close()
            assert "ClosedError" in failure_of(query)
    decided.set()


@pytest.mark.parametrize("how", ["deregistered", "replaced", "closed"])
def test_table_that_goes_away_during_a_query_ends_it_by_name(ctx: hr.SessionContext, tmp_path: Path, how: str) -> None:
    counter, batches = Counter(3), Batches()
    with hr.SessionContext(ctx.spark) as context:
        context.register_table("numbers", counter)
        with running(context.stream("numbers"), tmp_path, batches) as query:
            batches.wait_for_rows(3)
            if how == "deregistered":
                context.deregister_table("numbers")
            elif how == "replaced":
                context.register_table("numbers", Counter(100), replace=True)
            else:
                context.close()
            text = failure_of(query)
            expected = (
                "ClosedError" if how == "closed" else "DeregisteredError: the table 'numbers' was deregistered or"
            )
            assert expected in text
            if how != "closed":
                wait_until(lambda: is_quiet(context, counter))
    assert listeners_of(counter) == []
    assert batches.column("n") == [0, 1, 2]


def test_idle_query_asks_python_once_a_second(ctx: hr.SessionContext, tmp_path: Path) -> None:
    counter, batches = Counter(3), Batches()
    ctx.register_table("numbers", counter)
    with running(ctx.stream("numbers"), tmp_path, batches):
        batches.wait_for_rows(3)
        asked = len(counter.asked)
        wait_until(lambda: len(counter.asked) >= asked + 3)
        first = len(counter.asked)
        waited = threading.Event().wait(3)  # nothing happens, and that is what is looked at
        assert not waited
        assert len(counter.asked) - first <= 5
        counter.head = 4  # without a word
        batches.wait_for_rows(4)


def test_idle_query_asks_how_many_rows_are_behind_once_per_offset(ctx: hr.SessionContext, tmp_path: Path) -> None:
    behind: list[hr.Offset] = []

    class Telling(Counter):
        def rows_behind(self, offset: hr.Offset) -> int | None:
            behind.append(offset)
            return 0

    counter, batches = Telling(3), Batches()
    ctx.register_table("numbers", counter)
    with running(ctx.stream("numbers"), tmp_path, batches):
        batches.wait_for_rows(3)
        asked = len(counter.asked)
        wait_until(lambda: behind and len(counter.asked) >= asked + 2)
    assert len(behind) == len(set(behind))


def test_provider_that_advances_is_asked_when_it_does(ctx: hr.SessionContext, tmp_path: Path) -> None:
    counter, batches = Counter(1), Batches()
    ctx.register_table("numbers", counter)
    with running(ctx.stream("numbers"), tmp_path, batches):
        batches.wait_for_rows(1)
        for rows in range(2, 30):
            counter.grow()
            batches.wait_for_rows(rows)  # each wake-up counts: without one this would take ten seconds a row
    assert batches.column("n") == list(range(29))


@pytest.mark.timeout(900)
def test_many_batches_leave_nothing_behind(ctx: hr.SessionContext, tmp_path: Path) -> None:
    """tests/soak runs ten thousand."""
    assert_batches_leave_nothing(ctx, tmp_path, batches=cases(150))


def test_many_ranges_leave_nothing_behind(ctx: hr.SessionContext, tmp_path: Path) -> None:
    assert_ranges_leave_nothing(ctx, tmp_path, ranges=cases(900))


def test_batch_kept_by_the_sink_reads_its_own_range(ctx: hr.SessionContext, tmp_path: Path) -> None:
    """A frame of foreachBatch that is run while the next batch is planned."""
    counter = Counter(6)
    ctx.register_table("numbers", counter)
    kept: list[Any] = []
    found: list[list[int]] = []

    def sink(frame: Any, batch: int) -> None:
        kept.append(frame)
        if batch == 1:
            found.extend(sorted(row["n"] for row in one.collect()) for one in kept[-1:])

    read_available(ctx.stream("numbers", maxRowsPerTrigger=3).select("n"), tmp_path, sink)
    assert found == [[3, 4, 5]]


def test_query_over_a_stream_with_an_empty_range_has_no_tasks(ctx: hr.SessionContext, tmp_path: Path) -> None:
    class Sparse(Counter):
        """Its offsets grow although there is nothing."""

        def scan_between(self, start: hr.Offset, end: hr.Offset, request: hr.ScanRequest) -> hr.ExecutionPlan:
            return Numbers(0, 0, request, 0, hr.Placement.DRIVER)

    ctx.register_table("numbers", Sparse(10))
    batches = read_available(ctx.stream("numbers"), tmp_path)
    assert [len(table) for table in batches.tables.values()] == [0]


def test_verified_stream_that_breaks_its_promise_fails_by_name(ctx: hr.SessionContext, tmp_path: Path) -> None:
    class Lying(Counter):
        def scan_between(self, start: hr.Offset, end: hr.Offset, request: hr.ScanRequest) -> hr.ExecutionPlan:
            plan = super().scan_between(start, end, request)
            assert isinstance(plan, Numbers)
            plan.filters = ()
            return plan

    ctx.register_table("numbers", Lying(10, filters=hr.FilterPushdown.EXACT), verify="all")
    with pytest.raises(Exception, match="BrokenPromiseError"):
        read_available(ctx.stream("numbers").where("n > 5"), tmp_path)


def test_batches_of_another_schema_fail_the_query_by_name(ctx: hr.SessionContext, tmp_path: Path) -> None:
    class Other(Numbers):
        def execute(self, partition: int) -> Any:
            yield pa.record_batch({"m": [1]})

    class Changing(Counter):
        def scan_between(self, start: hr.Offset, end: hr.Offset, request: hr.ScanRequest) -> hr.ExecutionPlan:
            return Other(start, end, request, 1, hr.Placement.DRIVER)

    ctx.register_table("numbers", Changing(10))
    with pytest.raises(Exception, match="SchemaMismatchError"):
        read_available(ctx.stream("numbers"), tmp_path)


def test_question_that_the_end_of_its_query_overtakes_leaves_nothing_behind(
    ctx: hr.SessionContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter = Counter(10)
    ctx.register_table("numbers", counter)
    planner: Any = ctx._attached.planner
    asked, ended, answered = threading.Event(), threading.Event(), threading.Event()
    latest, end = planner._operations["stream_latest"], planner._operations["stream_end"]

    def late(question: dict[str, Any]) -> dict[str, Any]:
        asked.set()
        assert ended.wait(60)
        try:
            return dict(latest(question))
        finally:
            answered.set()

    def ending(question: dict[str, Any]) -> dict[str, Any]:
        try:
            return dict(end(question))
        finally:
            ended.set()

    operations = {**planner._operations, "stream_latest": late, "stream_end": ending}
    monkeypatch.setattr(planner, "_operations", operations)
    with running(ctx.stream("numbers"), tmp_path, Batches()) as query:
        assert asked.wait(60)
        query.stop()
    assert answered.wait(60)
    assert is_quiet(ctx, counter)


def test_query_that_is_stopped_while_its_provider_is_asked_leaves_nothing_behind(
    ctx: hr.SessionContext, tmp_path: Path
) -> None:
    asked, go_on = threading.Event(), threading.Event()

    class Slow(Counter):
        def latest_offset(self, start: Any, limit: hr.ReadLimit) -> Any:
            asked.set()
            assert go_on.wait(60)
            return super().latest_offset(start, limit)

    provider = Slow(10)
    ctx.register_table("numbers", provider)
    with running(ctx.stream("numbers"), tmp_path, Batches()) as query:
        assert asked.wait(60)
        query.stop()
    wait_until(lambda: is_quiet(ctx, provider))
    go_on.set()
    wait_until(lambda: is_quiet(ctx, provider))
