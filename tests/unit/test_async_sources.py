"""Async sources: driven on a loop of their own, step by step, and closed as async generators should be."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator, Callable
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from headrace.arrow.async_batches import AsyncBatches
from headrace.arrow.sources import batch_iterator, close_sources
from headrace.execute.partition_stream import PartitionStream, ScanTask
from headrace.execute.stopping import StopFlag, StopRequested
from headrace.testing import check_provider
from headrace.transport.driver_partition import DriverPartition
from producing import NUMBERS, FunctionPlan, FunctionTable, numbers, wait_until


async def three(_partition: int) -> AsyncIterator[pa.RecordBatch]:
    for start in range(3):
        await asyncio.sleep(0)
        yield numbers(1, start)


class Pages:
    """Not a generator: an object with ``__aiter__``, and a ``close`` that is async too."""

    def __init__(self) -> None:
        self.closed = 0
        self.next = iter(range(3))

    def __aiter__(self) -> Pages:
        return self

    async def __anext__(self) -> pa.RecordBatch:
        for start in self.next:
            return numbers(1, start)
        raise StopAsyncIteration

    async def close(self) -> None:
        self.closed += 1


def stream_of(function: Callable[[int], Any], stop: StopFlag | None = None) -> PartitionStream:
    plan = FunctionPlan(NUMBERS, function, 1, hr.Placement.DRIVER)
    return PartitionStream(ScanTask("t", plan, NUMBERS, NUMBERS, None), 0, stop or StopFlag())


def rows(stream: PartitionStream) -> list[int]:
    return [row for batch in stream for row in batch.column(0).to_pylist()]


def test_async_generator_read_to_its_end_gives_every_batch() -> None:
    threads = threading.active_count()
    stream = stream_of(three)
    assert rows(stream) == [0, 1, 2]
    stream.close()
    assert threading.active_count() == threads


def test_async_object_read_to_its_end_is_closed_once() -> None:
    pages = Pages()
    stream = stream_of(lambda _: pages)
    assert rows(stream) == [0, 1, 2]
    stream.close()
    stream.close()
    assert pages.closed == 1


def test_async_object_never_read_is_closed_once() -> None:
    pages = Pages()
    close_sources(batch_iterator(pages, "execute"), pages)
    assert pages.closed == 1


def test_async_source_under_a_running_loop_is_read() -> None:
    async def in_a_notebook() -> list[int]:
        stream = stream_of(three)
        try:
            return rows(stream)
        finally:
            stream.close()

    assert asyncio.run(in_a_notebook()) == [0, 1, 2]


def test_async_source_that_is_not_asked_makes_no_batch_ahead() -> None:
    made = []

    async def eager(_partition: int) -> AsyncIterator[pa.RecordBatch]:
        for number in count():
            made.append(number)
            yield numbers(1, number)

    stream = stream_of(eager)
    batches = iter(stream)
    next(batches)
    next(batches)
    assert made == [0, 1]
    stream.close()
    assert made == [0, 1]


def test_async_source_between_two_batches_keeps_its_own_tasks_running() -> None:
    ticks = threading.Semaphore(0)

    async def ticking() -> None:
        while True:
            ticks.release()
            await asyncio.sleep(0.001)

    async def source(_partition: int) -> AsyncIterator[pa.RecordBatch]:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(ticking())
            yield numbers(1)
            yield numbers(1)

    stream = stream_of(source)
    next(iter(stream))
    for _ in range(20):
        assert ticks.acquire(timeout=60)
    stream.close()  # also ends the group, which is left by a GeneratorExit


def test_async_source_closed_early_runs_its_finally_in_the_task_that_began_it() -> None:
    seen: list[Any] = []
    inside = contextvars.ContextVar("inside", default="no")

    async def source(_partition: int) -> AsyncIterator[pa.RecordBatch]:
        inside.set("yes")
        task = asyncio.current_task()
        try:
            async with asyncio.timeout(600):
                for number in count():
                    yield numbers(1, number)
        finally:
            await asyncio.sleep(0)
            seen.extend([inside.get(), asyncio.current_task() is task])

    stream = stream_of(source)
    next(iter(stream))
    stream.close()
    assert seen == ["yes", True]


def test_async_source_whose_finally_raises_on_closing_raises_that() -> None:
    async def source(_partition: int) -> AsyncIterator[pa.RecordBatch]:
        try:
            yield numbers(1)
            yield numbers(1)
        finally:
            raise ValueError("no connection to say goodbye on")

    stream = stream_of(source)
    next(iter(stream))
    with pytest.raises(ValueError, match="goodbye"):
        stream.close()
    stream.close()


@pytest.mark.parametrize("error", [ValueError("page 2 is gone"), asyncio.CancelledError("by itself"), SystemExit(3)])
def test_async_source_that_raises_raises_just_that(error: BaseException) -> None:
    closed = []

    async def source(_partition: int) -> AsyncIterator[pa.RecordBatch]:
        try:
            yield numbers(1)
            raise error
        finally:
            closed.append(True)

    stream = stream_of(source)
    with pytest.raises(type(error)) as raised:
        rows(stream)
    assert raised.value is error
    stream.close()
    assert closed == [True]


class OpensWithStopIteration:
    def __aiter__(self) -> AsyncIterator[pa.RecordBatch]:
        raise StopIteration("no more")


def test_async_source_that_raises_stop_iteration_is_an_error_and_no_end() -> None:
    with pytest.raises(RuntimeError, match="raised StopIteration") as caught:
        next(AsyncBatches(OpensWithStopIteration()))
    assert isinstance(caught.value.__cause__, StopIteration)


def test_async_source_that_waits_is_stopped_by_its_partition() -> None:
    """As the endpoint stops a partition: the serving thread waits, another one asks it to stop."""
    waiting, closed = threading.Event(), threading.Event()

    async def source(_partition: int) -> AsyncIterator[pa.RecordBatch]:
        try:
            waiting.set()
            await asyncio.sleep(600)
            yield numbers(1)
        finally:
            closed.set()

    plan = FunctionPlan(NUMBERS, source, 1, hr.Placement.DRIVER)
    partition = DriverPartition(ScanTask("t", plan, NUMBERS, NUMBERS, None), 0)
    endings: list[BaseException] = []

    def serve() -> None:
        partition._thread.begin()
        try:
            rows(partition._stream)
        except StopRequested as stopped:
            endings.append(stopped)
        partition._stream.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    assert waiting.wait(60)
    wait_until(lambda: partition._thread.stop.inside)
    partition.stop("the query was cancelled")
    assert closed.wait(60)
    thread.join(60)
    assert [type(ending) for ending in endings] == [StopRequested]


def test_async_source_that_swallows_its_cancellation_is_closed_at_the_next_batch() -> None:
    waiting = threading.Event()
    ended = []

    async def source() -> AsyncIterator[int]:
        try:
            try:
                waiting.set()
                await asyncio.sleep(600)
            except asyncio.CancelledError:
                yield 1
            yield 2
        finally:
            ended.append(True)

    batches = AsyncBatches(source())
    batches._in_loop().call_soon_threadsafe(batches._wanted.set)
    assert waiting.wait(60)
    batches.close()
    assert ended == [True]


def test_coroutine_in_place_of_an_async_generator_is_named() -> None:
    async def no_yield(_partition: int) -> pa.RecordBatch:
        return numbers(1)

    stream = stream_of(no_yield)
    with pytest.raises(TypeError, match=r"returned coroutine.*an async def gives batches if it has a yield"):
        rows(stream)
    stream.close()


def test_simple_table_takes_an_async_generator_with_or_without_the_request() -> None:
    async def plain() -> AsyncIterator[pa.RecordBatch]:
        yield numbers(5)

    async def asked(request: hr.ScanRequest) -> AsyncIterator[pa.RecordBatch]:
        yield numbers(5).select(request.projection)

    for function in (plain, asked):
        report = check_provider(hr.SimpleTable(NUMBERS, function, placement=hr.Placement.DRIVER))
        assert report.ok, str(report)


def test_check_provider_async_source_that_cannot_be_repeated_is_a_finding() -> None:
    numbers_left = iter(range(100))

    async def once(_partition: int) -> AsyncIterator[pa.RecordBatch]:
        await asyncio.sleep(0)
        yield numbers(1, next(numbers_left))

    report = check_provider(FunctionTable(once, placement=hr.Placement.DRIVER))
    assert "gave other rows when it was executed again" in str(report)


def test_check_provider_async_source_in_order_passes() -> None:
    report = check_provider(FunctionTable(three, partitions=2))
    assert report.ok, str(report)


class AsyncLines(hr.FileFormat):
    """A number in each line, read by an async generator."""

    def schema(self, file: hr.DataFile) -> pa.Schema:
        return NUMBERS

    async def read(self, file: hr.DataFile, request: hr.ScanRequest) -> AsyncIterator[pa.RecordBatch]:
        for line in Path(file.path).read_text().split():
            await asyncio.sleep(0)
            yield numbers(1, int(line))


def test_file_format_that_reads_asynchronously_gives_the_rows_of_every_file(tmp_path: Path) -> None:
    for name, start in (("one", 0), ("two", 10)):
        (tmp_path / f"{name}.txt").write_text(f"{start} {start + 1}")
    provider = hr.ListingTable(str(tmp_path), AsyncLines())
    plan = provider.scan(hr.ScanRequest(NUMBERS, ("a",)))
    assert isinstance(plan.partitioning, hr.UnknownPartitioning)
    found = [
        row
        for partition in range(plan.partitioning.n)
        for row in rows(PartitionStream(ScanTask("t", plan, NUMBERS, NUMBERS, None), partition, StopFlag()))
    ]
    assert sorted(found) == [0, 1, 10, 11]
