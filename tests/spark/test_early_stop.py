"""When Spark needs no more rows, the user's code is told at once, wherever it runs and whatever it is doing."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from placements import placements
from producing import BOTH_PLACEMENTS, NUMBERS, PATIENCE_SECONDS, FunctionTable, Marks, numbers, ten_rows, wait_until

pytestmark = [pytest.mark.core, pytest.mark.usefixtures("provider_alone")]

# Headrace does not filter either: it would count the rows where they are made. The filter is Spark's own, so the limit
# stays with Spark too, and the scan learns of it only by being stopped.
LIMITED = "SELECT a FROM endless WHERE a >= 0 LIMIT 3"
FOREVER = 600.0  # seconds: longer than any test may take


@pytest.fixture
def marks(tmp_path: Path) -> Marks:
    return Marks(tmp_path)


def idle(seconds: float = FOREVER) -> None:
    """Waits as code that can be stopped on any thread does: not inside one long C call."""
    event = threading.Event()
    for _ in range(int(seconds / 0.05)):
        event.wait(0.05)


def fast(_partition: int) -> Iterator[pa.RecordBatch]:
    for number in count():
        yield numbers(1, number)


def every_20_ms(_partition: int) -> Iterator[pa.RecordBatch]:
    for number in count():
        yield numbers(1, number)
        time.sleep(0.02)


def large(_partition: int) -> Iterator[pa.RecordBatch]:
    batch = numbers(1_000_000)
    while True:
        yield batch


def three_rows_then_idle(_partition: int) -> Iterator[pa.RecordBatch]:
    yield numbers(3)
    idle()


def three_rows_then_asleep(_partition: int) -> Iterator[pa.RecordBatch]:
    yield numbers(3)
    time.sleep(FOREVER)


def watched(producer: Callable[[int], Iterator[pa.RecordBatch]], marks: Marks) -> Callable[[int], Any]:
    """Leaves marks when the producer starts and when its finally block runs."""

    def produce(partition: int) -> Iterator[pa.RecordBatch]:
        marks.leave(f"started-{partition}")
        try:
            yield from producer(partition)
        finally:
            marks.leave(f"closed-{partition}", str(os.getpid()))

    return produce


def pids(_partition: int) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch([pa.array([os.getpid()])], schema=NUMBERS)


STOPPABLE = [
    *(
        (producer, placement)
        for producer in (fast, every_20_ms, large, three_rows_then_idle)
        for placement in BOTH_PLACEMENTS
    ),
    (three_rows_then_asleep, hr.Placement.EXECUTORS),  # on a thread of the driver one C call cannot be cut short
]


@pytest.mark.daily(
    "fast-*",
    "every_20_ms-DRIVER",
    "large-EXECUTORS",
    "three_rows_then_*-EXECUTORS",
    "three_rows_then_idle-DRIVER",
)
@pytest.mark.parametrize(
    ("producer", "placement"), STOPPABLE, ids=[f"{p.__name__}-{where.name}" for p, where in STOPPABLE]
)
def test_limit_reached_closes_the_generator_promptly(
    ctx: hr.SessionContext, marks: Marks, producer: Callable[[int], Any], placement: hr.Placement
) -> None:
    ctx.register_table("endless", FunctionTable(watched(producer, marks), placement=placement))
    assert len(ctx.collect(LIMITED)) == 3
    wait_until(lambda: marks.has("closed-0"), what="the generator's finally block")


class Query(threading.Thread):
    """Runs a query that is expected to fail, on a thread and under a job tag of its own."""

    def __init__(self, ctx: hr.SessionContext, sql: str, *, interrupt: bool = True) -> None:
        super().__init__(daemon=True)
        self.ctx = ctx
        self.sql = sql
        self.interrupt = interrupt
        self.tag = f"tag{id(self)}"
        self.error: BaseException | None = None

    def run(self) -> None:
        context = self.ctx.spark.sparkContext
        context.addJobTag(self.tag)
        context.setInterruptOnCancel(self.interrupt)
        try:
            self.ctx.sql(self.sql).collect()
        except BaseException as error:
            self.error = error
        finally:
            context.removeJobTag(self.tag)


@pytest.mark.daily(
    "fast-interrupting-EXECUTORS",
    "fast-not interrupting-DRIVER",
    "three_rows_then_idle-interrupting-DRIVER",
    "three_rows_then_idle-not interrupting-EXECUTORS",
)
@placements
@pytest.mark.parametrize("interrupt", [True, False], ids=["interrupting", "not interrupting"])
@pytest.mark.parametrize("producer", [fast, three_rows_then_idle])
def test_cancelling_by_tag_closes_the_generators_promptly(
    ctx: hr.SessionContext, marks: Marks, producer: Callable[[int], Any], placement: hr.Placement, interrupt: bool
) -> None:
    ctx.register_table("endless", FunctionTable(watched(producer, marks), partitions=2, placement=placement))
    query = Query(ctx, "SELECT sum(a) FROM endless", interrupt=interrupt)
    query.start()
    wait_until(lambda: marks.count("started") == 2, what="both partitions to start")
    ctx.spark.sparkContext.cancelJobsWithTag(query.tag)
    wait_until(lambda: marks.count("closed") == 2, what="the generators' finally blocks")
    query.join(PATIENCE_SECONDS)
    assert not query.is_alive()
    assert "cancelled" in str(query.error).lower()


@placements
def test_cancelling_all_jobs_closes_the_generators_promptly(
    ctx: hr.SessionContext, marks: Marks, placement: hr.Placement
) -> None:
    table = FunctionTable(watched(three_rows_then_idle, marks), partitions=2, placement=placement)
    ctx.register_table("endless", table)
    query = Query(ctx, "SELECT sum(a) FROM endless")
    query.start()
    wait_until(lambda: marks.count("started") == 2, what="both partitions to start")
    ctx.spark.sparkContext.cancelAllJobs()
    wait_until(lambda: marks.count("closed") == 2, what="the generators' finally blocks")
    query.join(PATIENCE_SECONDS)
    assert not query.is_alive()


@placements
def test_failure_of_one_partition_closes_the_others_promptly(
    ctx: hr.SessionContext, marks: Marks, placement: hr.Placement
) -> None:
    def one_fails(partition: int) -> Iterator[pa.RecordBatch]:
        yield numbers(1)
        if partition == 1:
            wait_until(lambda: marks.has("started-0"))
            raise ValueError("the second fails")
        idle()

    ctx.register_table("endless", FunctionTable(watched(one_fails, marks), partitions=2, placement=placement))
    with pytest.raises(hr.ProviderError, match="the second fails"):
        ctx.collect("SELECT sum(a) FROM endless")
    wait_until(lambda: marks.has("closed-0"), what="the first partition's finally block")


@placements
def test_failure_above_the_scan_closes_the_generator_promptly(
    ctx: hr.SessionContext, marks: Marks, placement: hr.Placement
) -> None:
    ctx.register_table("endless", FunctionTable(watched(three_rows_then_idle, marks), placement=placement))
    with pytest.raises(Exception, match="raised by the query"):
        ctx.sql("SELECT raise_error('raised by the query') FROM endless WHERE a = 2").collect()
    wait_until(lambda: marks.has("closed-0"), what="the generator's finally block")


@placements
def test_limit_reached_closes_a_record_batch_reader(
    ctx: hr.SessionContext, marks: Marks, placement: hr.Placement
) -> None:
    def reader(partition: int) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(NUMBERS, watched(every_20_ms, marks)(partition))

    ctx.register_table("endless", FunctionTable(reader, placement=placement))
    assert len(ctx.collect(LIMITED)) == 3
    wait_until(lambda: marks.has("closed-0"), what="the reader to be closed")


@placements
def test_limit_reached_calls_close_of_a_custom_iterator(
    ctx: hr.SessionContext, marks: Marks, placement: hr.Placement
) -> None:
    class Tap:
        def __iter__(self) -> Tap:
            return self

        def __next__(self) -> pa.RecordBatch:
            return numbers(1)

        def close(self) -> None:
            marks.leave("closed-0")

    ctx.register_table("endless", FunctionTable(lambda _: Tap(), placement=placement))
    assert len(ctx.collect(LIMITED)) == 3
    wait_until(lambda: marks.has("closed-0"), what="close()")


@placements
def test_pushed_limit_ends_the_generator_without_waiting_for_more(
    ctx: hr.SessionContext, marks: Marks, placement: hr.Placement
) -> None:
    ctx.register_table("endless", FunctionTable(watched(three_rows_then_idle, marks), placement=placement))
    assert len(ctx.collect("SELECT a FROM endless LIMIT 3")) == 3
    wait_until(lambda: marks.has("closed-0"), what="the generator's finally block")


@placements
def test_one_row_batches_are_visible_as_they_come(ctx: hr.SessionContext, placement: hr.Placement) -> None:
    """Behind a buffer that waits to be full they would never be seen."""

    def one_by_one(_partition: int) -> Iterator[pa.RecordBatch]:
        for number in range(3):
            yield numbers(1, number)
        idle()

    ctx.register_table("endless", FunctionTable(one_by_one, placement=placement))
    assert ctx.collect(LIMITED).to_pydict() == {"a": [0, 1, 2]}


def test_workers_go_back_to_the_pool_after_a_limit(ctx: hr.SessionContext, marks: Marks) -> None:
    ctx.register_table("pids", FunctionTable(pids, partitions=2))
    ctx.register_table("endless", FunctionTable(watched(fast, marks)))
    used: set[int] = set()
    for turn in range(8):
        assert len(ctx.collect(LIMITED)) == 3
        wait_until(lambda: marks.has("closed-0"), what="the generator's finally block")
        used.add(int(marks.text("closed-0")))
        (marks.directory / "closed-0").unlink()
        if turn > 1:
            used |= set(ctx.collect("SELECT a FROM pids").to_pydict()["a"])
    assert len(used) <= 4


def test_generator_that_swallows_the_stop_is_killed_and_delays_nobody(ctx: hr.SessionContext, marks: Marks) -> None:
    def stubborn(_partition: int) -> Iterator[pa.RecordBatch]:
        marks.leave("pid", str(os.getpid()))
        yield numbers(3)
        while True:
            try:
                time.sleep(FOREVER)
            except BaseException:
                marks.leave("swallowed")

    ctx.register_table("endless", FunctionTable(stubborn))
    assert len(ctx.collect(LIMITED)) == 3
    pid = int(marks.text("pid"))
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), what="the worker to be killed")


@placements
def test_generator_that_swallows_the_stop_but_yields_is_ended(
    ctx: hr.SessionContext, marks: Marks, placement: hr.Placement
) -> None:
    def stubborn(_partition: int) -> Iterator[pa.RecordBatch]:
        for number in count():
            try:
                yield numbers(1, number)
                idle(0.1)
            except BaseException:
                marks.leave("swallowed")
            else:
                continue
            return

    ctx.register_table("endless", FunctionTable(stubborn, placement=placement))
    assert len(ctx.collect(LIMITED)) == 3
    wait_until(lambda: marks.has("swallowed"), what="the stop")


@placements
def test_exception_raised_because_of_the_stop_fails_nothing(
    ctx: hr.SessionContext, marks: Marks, placement: hr.Placement
) -> None:
    def upset(_partition: int) -> Iterator[pa.RecordBatch]:
        try:
            yield from three_rows_then_idle(0)
        finally:
            marks.leave("closed-0")
            raise ValueError("upset about being stopped")

    ctx.register_table("endless", FunctionTable(upset, placement=placement))
    assert len(ctx.collect(LIMITED)) == 3
    wait_until(lambda: marks.has("closed-0"), what="the generator's finally block")
    assert len(ctx.collect(LIMITED)) == 3


@placements
def test_clean_up_of_the_user_is_not_interrupted(ctx: hr.SessionContext, marks: Marks, placement: hr.Placement) -> None:
    def careful(_partition: int) -> Iterator[pa.RecordBatch]:
        try:
            yield from three_rows_then_idle(0)
        finally:
            idle(1.0)
            marks.leave("closed-0")

    ctx.register_table("endless", FunctionTable(careful, placement=placement))
    assert len(ctx.collect(LIMITED)) == 3
    wait_until(lambda: marks.has("closed-0"), what="the whole finally block")


SLOW_MODULE = """
import pathlib, time
with pathlib.Path({log!r}).open("a") as log:
    log.write("begun ")
    log.flush()
    time.sleep(1)
    log.write("whole ")
"""


@placements
def test_stop_while_a_module_is_imported_leaves_no_half_of_it(
    ctx: hr.SessionContext, tmp_path: Path, placement: hr.Placement
) -> None:
    """The next query that this worker, or the user's own process, serves would find it."""
    log, folder, name = tmp_path / "log", str(tmp_path), f"slow_to_import_{placement.name.lower()}"
    (tmp_path / f"{name}.py").write_text(SLOW_MODULE.format(log=str(log)))

    def imports(_partition: int) -> Iterator[pa.RecordBatch]:
        import importlib
        import sys

        sys.path.insert(0, folder)
        try:
            importlib.import_module(name)
        finally:
            sys.path.remove(folder)
        yield from ten_rows(0)

    ctx.register_table("t", FunctionTable(imports, placement=placement))
    stream = ctx.execute_stream("SELECT a FROM t")
    wait_until(lambda: log.exists() and log.read_text() == "begun ")
    stream.close()
    wait_until(lambda: log.read_text() == "begun whole ")
    assert ctx.collect("SELECT count(*) AS n FROM t")["n"][0].as_py() == 10
    assert set(log.read_text().split(" ")[::2]) <= {"begun", ""}
