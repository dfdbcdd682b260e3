"""Async sources in both placements: read, stopped early, cancelled, and what they raise."""

from __future__ import annotations

import asyncio
import importlib
import threading
from collections.abc import AsyncIterator, Callable
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from placements import placements
from places import EXAMPLES
from producing import FunctionTable, Marks, numbers, wait_until


def producing(marks: Marks, *, rows: int) -> Callable[[int], AsyncIterator[pa.RecordBatch]]:
    """One row a batch, then waits forever; leaves a mark when it waits, and one from its finally."""

    async def produce(partition: int) -> AsyncIterator[pa.RecordBatch]:
        try:
            for number in range(rows):
                await asyncio.sleep(0)
                yield numbers(1, number)
            marks.leave("waiting")
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            marks.leave("closed")

    return produce


@pytest.mark.daily("adaptive*")
@pytest.mark.usefixtures("adaptive")
@placements
def test_async_generator_limit_reached_runs_its_finally(
    ctx: hr.SessionContext, tmp_path: Path, placement: hr.Placement
) -> None:
    marks = Marks(tmp_path)
    ctx.register_table("endless", FunctionTable(producing(marks, rows=3), placement=placement))
    assert ctx.collect("SELECT a FROM endless WHERE a >= 0 LIMIT 3").column(0).to_pylist() == [0, 1, 2]
    wait_until(lambda: marks.has("closed"), what="the generator's finally")


@pytest.mark.daily("adaptive*")
@pytest.mark.usefixtures("adaptive")
@placements
def test_async_generator_that_waits_when_its_query_is_cancelled_runs_its_finally(
    ctx: hr.SessionContext, tmp_path: Path, placement: hr.Placement
) -> None:
    marks = Marks(tmp_path)
    ctx.register_table("endless", FunctionTable(producing(marks, rows=1), placement=placement))
    stream = ctx.execute_stream("SELECT a FROM endless")
    assert stream.read_next_batch().num_rows == 1
    wait_until(lambda: marks.has("waiting"))
    stream.close()
    wait_until(lambda: marks.has("closed"), what="the generator's finally")


@pytest.mark.daily("adaptive*")
@pytest.mark.usefixtures("adaptive")
@placements
def test_async_generator_that_raises_fails_the_query_with_its_error(
    ctx: hr.SessionContext, placement: hr.Placement
) -> None:
    async def failing(partition: int) -> AsyncIterator[pa.RecordBatch]:
        yield numbers(1)
        async with asyncio.timeout(60):
            raise ConnectionResetError(f"page 2 of partition {partition}")

    ctx.register_table("failing", FunctionTable(failing, placement=placement))
    with pytest.raises(hr.ProviderError) as raised:
        ctx.collect("SELECT * FROM failing")
    error = raised.value
    assert (error.exception_type, error.table, error.partition) == ("ConnectionResetError", "failing", 0)
    assert error.message == "page 2 of partition 0"
    assert isinstance(error.__cause__, ConnectionResetError)
    assert "async_batches.py" not in error.traceback
    assert "in failing" in error.traceback


@pytest.mark.usefixtures("adaptive")
def test_async_generators_many_partitions_give_every_row_and_leave_no_thread(ctx: hr.SessionContext) -> None:
    async def ten(partition: int) -> AsyncIterator[pa.RecordBatch]:
        for number in range(10):
            await asyncio.sleep(0.001)
            yield numbers(1, partition * 10 + number)

    ctx.register_table("tens", FunctionTable(ten, partitions=20, placement=hr.Placement.DRIVER))
    assert ctx.collect("SELECT count(DISTINCT a) AS n FROM tens").to_pylist() == [{"n": 200}]
    wait_until(lambda: not any(thread.name == "headrace-async" for thread in threading.enumerate()))


def test_async_generator_blocking_its_loop_is_stopped_with_its_worker(ctx: hr.SessionContext, tmp_path: Path) -> None:
    """It cannot be cancelled, so its worker process is ended; the query does not wait for it."""
    marks = Marks(tmp_path)

    async def blocking(partition: int) -> AsyncIterator[pa.RecordBatch]:
        yield numbers(3)
        for _ in count():
            marks.leave("blocked")
            threading.Event().wait(600)

    ctx.register_table("blocking", FunctionTable(blocking))
    with ctx.execute_stream("SELECT a FROM blocking") as stream:
        assert stream.read_next_batch().num_rows == 3
        wait_until(lambda: marks.has("blocked"))
    assert ctx.collect("SELECT 1 AS one").to_pylist() == [{"one": 1}]


def test_async_pages_example_fetches_pages_at_once_and_stops_early(
    ctx: hr.SessionContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    example: Any = importlib.import_module("async_pages")
    results = example.main(ctx)
    assert [result["placement"] for result in results] == ["executors", "executors", "driver", "driver"]
    for everything, limited in (results[:2], results[2:]):
        assert everything["answer"] == [{"n": 1200, "last": 1199}]
        assert everything["pages"] == 60
        assert 2 <= everything["at_once"] <= example.AT_ONCE
        assert [row["title"] for row in limited["answer"]] == ["article 0", "article 1", "article 2"]
        assert limited["pages"] < 60
