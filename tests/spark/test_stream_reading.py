"""Tables that grow, as streams of Spark's: ranges, limits, triggers, restarts, in both placements."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from growing import SCHEMA, Batches, Counter, read_available, running
from placements import placements
from producing import wait_until

pytestmark = pytest.mark.core


@placements
def test_stream_of_what_is_available_gives_each_row_once(
    ctx: hr.SessionContext, tmp_path: Path, placement: hr.Placement
) -> None:
    counter = Counter(10, placement=placement)
    ctx.register_table("numbers", counter)
    batches = read_available(ctx.stream("numbers"), tmp_path)
    assert batches.column("n") == list(range(10))
    assert {row["text"] for row in batches.rows} == {f"number {n}" for n in range(10)}
    assert [(start, end) for start, end, _ in counter.ranges] == [(0, 10)]


@placements
def test_stream_that_grows_while_it_is_read_gives_all_of_it(
    ctx: hr.SessionContext, tmp_path: Path, placement: hr.Placement
) -> None:
    counter, batches = Counter(3, placement=placement), Batches()
    ctx.register_table("numbers", counter)
    with running(ctx.stream("numbers"), tmp_path, batches):
        batches.wait_for_rows(3)
        counter.grow(2)
        batches.wait_for_rows(5)
        counter.grow(4)
        batches.wait_for_rows(9)
    assert batches.column("n") == list(range(9))
    assert counter.committed[:2] == [3, 5]


def test_stream_is_read_by_the_name_in_the_catalog(ctx: hr.SessionContext, tmp_path: Path) -> None:
    ctx.register_table("numbers", Counter(10))
    reader = ctx.spark.readStream.option("maxRowsPerTrigger", 4)
    batches = read_available(reader.table(f"{ctx.catalog}.numbers"), tmp_path)
    assert [len(table) for table in batches.tables.values()] == [4, 4, 2]


@pytest.mark.parametrize(
    ("trigger", "sizes"),
    [({"availableNow": True}, [4, 4, 2]), ({"once": True}, [10]), ({"processingTime": "10 milliseconds"}, [4, 4, 2])],
    ids=["availableNow", "once", "processingTime"],
)
def test_triggers_read_as_much_as_they_say(
    ctx: hr.SessionContext, tmp_path: Path, trigger: dict[str, Any], sizes: list[int]
) -> None:
    ctx.register_table("numbers", Counter(10))
    batches = Batches()
    with running(ctx.stream("numbers", maxRowsPerTrigger=4), tmp_path, batches, **trigger):
        batches.wait_for_rows(10)
    assert [len(table) for table in batches.tables.values()] == sizes


def test_limits_of_rows_and_bytes_reach_the_provider(ctx: hr.SessionContext, tmp_path: Path) -> None:
    counter = Counter(10)
    ctx.register_table("numbers", counter)
    read_available(ctx.stream("numbers", maxRowsPerTrigger=20, maxBytesPerTrigger=5000), tmp_path)
    assert (0, hr.ReadLimit(max_rows=20, max_bytes=5000, until=10)) in counter.asked


def test_available_now_reads_what_there_was_when_the_query_began(ctx: hr.SessionContext, tmp_path: Path) -> None:
    counter = Counter(10)
    ctx.register_table("numbers", counter)
    batches = Batches()

    def sink(frame: Any, batch: int) -> None:
        batches(frame, batch)
        counter.grow(100)

    read_available(ctx.stream("numbers", maxRowsPerTrigger=4), tmp_path, sink)
    assert batches.column("n") == list(range(10))


def test_available_now_of_a_provider_that_caps_its_steps_reads_everything(
    ctx: hr.SessionContext, tmp_path: Path
) -> None:
    class Capped(Counter):
        def latest_offset(self, start: hr.Offset, limit: hr.ReadLimit) -> hr.Offset:
            return min(start + 300, super().latest_offset(start, limit))

    counter = Capped(1000)
    ctx.register_table("numbers", counter)
    batches = read_available(ctx.stream("numbers"), tmp_path)
    assert [len(table) for table in batches.tables.values()] == [300, 300, 300, 100]
    counter.grow(700)
    batches = read_available(ctx.stream("numbers", maxRowsPerTrigger=400), tmp_path)
    assert [len(table) for table in batches.tables.values()] == [300, 300, 100]


def test_query_goes_on_from_its_checkpoint_with_other_code(ctx: hr.SessionContext, tmp_path: Path) -> None:
    ctx.register_table("numbers", Counter(10, placement=hr.Placement.EXECUTORS))
    read_available(ctx.stream("numbers"), tmp_path)

    class Rewritten(Counter):
        """Has one column more, and another idea of where to start."""

        def initial_offset(self) -> hr.Offset:
            return 5

    added = SCHEMA.append(pa.field("added", pa.string()))
    newer = Rewritten(15, schema=added, parts=1)
    ctx.register_table("numbers", newer, replace=True)
    batches = read_available(ctx.stream("numbers").drop("added"), tmp_path)
    assert batches.column("n") == [10, 11, 12, 13, 14]
    assert [(start, end) for start, end, _ in newer.ranges] == [(10, 15)]


def test_start_of_a_query_is_remembered_by_its_checkpoint(ctx: hr.SessionContext, tmp_path: Path) -> None:
    class FromNow(Counter):
        def initial_offset(self) -> hr.Offset:
            return self.head

    provider = FromNow(10)
    ctx.register_table("numbers", provider)
    assert read_available(ctx.stream("numbers"), tmp_path).rows == []
    provider.grow(3)
    assert read_available(ctx.stream("numbers"), tmp_path).column("n") == [10, 11, 12]


@pytest.mark.parametrize(
    ("schema", "difference"),
    [
        (SCHEMA.remove(1), "column 'square' is gone"),
        (SCHEMA.set(1, pa.field("square", pa.string())), "column 'square' was BIGINT and is STRING"),
    ],
    ids=["gone", "other type"],
)
def test_checkpoint_of_another_schema_is_refused_by_name(
    ctx: hr.SessionContext, tmp_path: Path, schema: pa.Schema, difference: str
) -> None:
    ctx.register_table("numbers", Counter(10))
    read_available(ctx.stream("numbers"), tmp_path)
    changed = Counter(20, schema=schema)
    ctx.register_table("numbers", changed, replace=True)
    with pytest.raises(Exception, match="SchemaMismatchError") as raised:
        read_available(ctx.stream("numbers"), tmp_path)
    assert f"'numbers' has another schema than when this query's checkpoint was begun: {difference}" in str(
        raised.value
    )
    assert changed.ranges == []


def test_batch_that_failed_is_read_again_as_it_was(ctx: hr.SessionContext, tmp_path: Path) -> None:
    counter = Counter(10)
    ctx.register_table("numbers", counter)

    def broken(frame: Any, batch: int) -> None:
        frame.collect()
        raise OSError("the disk is full")

    with pytest.raises(Exception, match="the disk is full"):
        read_available(ctx.stream("numbers"), tmp_path, broken)
    counter.grow(7)
    batches = read_available(ctx.stream("numbers"), tmp_path)
    assert [sorted(table["n"].to_pylist()) for table in batches.tables.values()] == [
        list(range(10)),
        list(range(10, 17)),
    ]


def test_offsets_may_be_any_json(ctx: hr.SessionContext, tmp_path: Path) -> None:
    class Sharded(Counter):
        """Two shards; its offsets are dicts, whose order of keys says nothing."""

        def initial_offset(self) -> hr.Offset:
            return {"b": 0, "a": 0}

        def latest_offset(self, start: hr.Offset, limit: hr.ReadLimit) -> hr.Offset:
            return {"b": 4, "a": 6}

        def scan_between(self, start: hr.Offset, end: hr.Offset, request: hr.ScanRequest) -> hr.ExecutionPlan:
            return super().scan_between(start["a"] + start["b"], end["a"] + end["b"], request)

    sharded = Sharded()
    ctx.register_table("numbers", sharded)
    batches = Batches()
    with running(ctx.stream("numbers"), tmp_path, batches) as query:
        batches.wait_for_rows(10)
        wait_until(lambda: bool(query.lastProgress and query.lastProgress["numInputRows"]))
    assert batches.column("n") == list(range(10))
    assert len(sharded.ranges) == 1
    offsets = json.loads((tmp_path / "offsets" / "0").read_text().splitlines()[-1])
    assert offsets == {"a": 6, "b": 4}


def test_two_streams_are_joined_and_one_of_them_may_be_idle(ctx: hr.SessionContext, tmp_path: Path) -> None:
    left, right = Counter(5), Counter(5)
    ctx.register_table("numbers", left)
    ctx.register_table("others", right)
    batches = Batches()
    one, other = ctx.stream("numbers").select("n"), ctx.stream("others").select("n", "square")
    with running(one.join(other, "n"), tmp_path, batches):
        batches.wait_for_rows(5)
        left.grow(5)
        wait_until(lambda: [end for _, end, _ in left.ranges][-1] == 10)
        right.grow(5)
        batches.wait_for_rows(10)
    assert [row["square"] for row in sorted(batches.rows, key=lambda row: row["n"])] == [n * n for n in range(10)]


def test_progress_has_offsets_rows_and_the_lag(ctx: hr.SessionContext, tmp_path: Path) -> None:
    ctx.register_table("numbers", Counter(10))
    batches = Batches()
    with running(ctx.stream("numbers", maxRowsPerTrigger=4), tmp_path, batches, availableNow=True) as query:
        assert query.awaitTermination(60)
        sources = [one["sources"][0] for one in query.recentProgress if one["numInputRows"]]
    assert [(int(one["endOffset"]), one["numInputRows"]) for one in sources] == [(4, 4), (8, 4), (10, 2)]
    assert [one["metrics"]["rowsBehind"] for one in sources] == ["6", "2", "0"]
    assert sources[0]["description"] == "headrace stream numbers"


def test_batch_query_of_a_stream_says_how_to_read_it(ctx: hr.SessionContext) -> None:
    ctx.register_table("numbers", Counter(10))
    with pytest.raises(Exception, match=r"Counter is a stream, and has no batch scan: read it with ctx\.stream"):
        ctx.sql("SELECT * FROM numbers").collect()
    with pytest.raises(hr.PlanError, match=r"read it with ctx\.stream"):
        ctx.collect("SELECT count(*) FROM numbers")


def test_batch_query_of_a_stream_with_a_scan_is_answered(ctx: hr.SessionContext, tmp_path: Path) -> None:
    class Both(Counter):
        def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
            return self.scan_between(0, self.head, request)

    both = Both(10, filters=hr.FilterPushdown.EXACT)
    ctx.register_table("numbers", both)
    assert ctx.sql("SELECT sum(square) FROM numbers WHERE n > 7").collect()[0][0] == 64 + 81
    assert both.ranges[-1][2].projection == ("square",)
    assert read_available(ctx.stream("numbers"), tmp_path).column("n") == list(range(10))


def test_table_that_is_no_stream_is_refused_as_one(ctx: hr.SessionContext) -> None:
    ctx.register_table("fixed", [{"n": 1}])
    with pytest.raises(hr.HeadraceError, match=r"'fixed' cannot be read as a stream: MemTable is no StreamProvider"):
        ctx.stream("fixed")
    with pytest.raises(hr.HeadraceError, match=r"no table 'fixd' is registered here.*fixed"):
        ctx.stream("fixd")
    with pytest.raises(Exception, match="micro-batch"):
        ctx.spark.readStream.table(f"{ctx.catalog}.fixed")


def test_options_that_are_wrong_are_named(ctx: hr.SessionContext, tmp_path: Path) -> None:
    ctx.register_table("numbers", Counter(10))
    with pytest.raises(ValueError, match="no option 'maxRows'; it has maxRowsPerTrigger, maxBytesPerTrigger"):
        ctx.stream("numbers", maxRows=3)
    with pytest.raises(Exception, match="the option maxRowsPerTrigger is '0', expected a whole number above 0"):
        read_available(ctx.stream("numbers", maxRowsPerTrigger=0), tmp_path)


def test_stream_with_a_view_is_read_in_sql(ctx: hr.SessionContext, tmp_path: Path) -> None:
    ctx.register_table("numbers", Counter(10))
    ctx.stream("numbers").createOrReplaceTempView("growing_numbers")
    frame = ctx.sql("SELECT n + 1 AS m FROM growing_numbers WHERE odd")
    ctx.spark.catalog.dropTempView("growing_numbers")
    assert read_available(frame, tmp_path).column("m") == [2, 4, 6, 8, 10]
