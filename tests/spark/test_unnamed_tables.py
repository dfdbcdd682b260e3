"""Tables without a name are forgotten with the last DataFrame that scans them, and not before."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace.spark import unnamed
from producing import wait_until
from unnamed import assert_nothing_held_after, held, held_at_rest

ROWS = [{"id": 1}, {"id": 2}]


def test_read_table_is_forgotten_with_its_frame(ctx: hr.SessionContext) -> None:
    frame = ctx.read_table(ROWS)
    assert frame.count() == 2
    assert held_at_rest(ctx, 1) >= 1
    del frame
    assert held_at_rest(ctx) == 0


def test_frames_made_of_it_work_after_it_is_gone(ctx: hr.SessionContext) -> None:
    derived = ctx.read_table(ROWS).where("id > 1")
    of_sql = ctx.sql("SELECT max(id) AS m FROM {data}", data=ROWS)
    held_at_rest(ctx, 2)
    for _ in range(2):
        assert [row.id for row in derived.collect()] == [2]
        assert ctx.collect(of_sql).to_pylist() == [{"m": 2}]
        assert "MemTable" in ctx.explain(derived)
    del derived, of_sql
    assert held_at_rest(ctx) == 0


def test_view_and_cache_of_it_work_after_it_is_gone(ctx: hr.SessionContext) -> None:
    ctx.read_table(ROWS).createOrReplaceTempView("kept")
    cached = ctx.read_table(ROWS).cache()
    held_at_rest(ctx, 2)
    assert ctx.sql("SELECT count(*) AS n FROM kept").collect()[0].n == 2
    assert cached.count() == 2
    ctx.spark.catalog.dropTempView("kept")
    cached.unpersist()
    del cached
    assert held_at_rest(ctx) == 0


def test_query_that_runs_works_after_its_frame_is_gone(ctx: hr.SessionContext) -> None:
    go_on, begun = threading.Event(), threading.Event()

    def batches() -> Any:
        yield pa.record_batch({"id": [1]})
        begun.set()
        assert go_on.wait(60)
        yield pa.record_batch({"id": [2]})

    table = hr.SimpleTable("id BIGINT", batches, placement=hr.Placement.DRIVER)
    stream = ctx.execute_stream("SELECT id FROM {table}", table=table)
    wait_until(begun.is_set, what="the scan to begin")
    held_at_rest(ctx)
    go_on.set()
    assert stream.read_all().to_pylist() == ROWS
    del stream
    assert held_at_rest(ctx) == 0


def test_two_hundred_tables_without_a_name_leave_nothing_behind(ctx: hr.SessionContext) -> None:
    assert_nothing_held_after(ctx, 200, queried=10)


def test_data_is_forgotten_before_the_jvm_needs_memory_itself(
    ctx: hr.SessionContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The JVM sees a few small objects, and would collect them when it needs memory itself: after hundreds."""
    monkeypatch.setattr(unnamed, "_COLLECTED_BYTES", 8 << 20)
    most = 0
    for _ in range(200):
        ctx.read_table({"a": np.zeros(1 << 17)})  # of 1 MiB
        most = max(most, held(ctx))
    assert most < 150  # the JVM tells of its garbage a few collections later


def test_closed_context_reads_no_table(ctx: hr.SessionContext) -> None:
    with hr.SessionContext(ctx.spark) as other:
        frame = other.read_table(ROWS)
        assert frame.count() == 2
    with pytest.raises(hr.HeadraceError, match="closed"):
        other.read_table(ROWS)
