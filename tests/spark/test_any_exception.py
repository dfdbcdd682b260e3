"""Whatever exception ends a provider or a producer, the query is an error that names it, and never a short result."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark import InheritableThread

import headrace as hr
from failing_queries import check_execute_told, check_planning_told
from headrace.spark.classic import failures
from headrace.spark.classic.query import ClassicQuery
from misbehaving import still_works
from placements import placements
from producing import NUMBERS, FunctionTable, numbers, ten_rows
from pushing import InBackground
from raising import EXCEPTIONS, check_told, raise_made, third_raises

exceptions = pytest.mark.parametrize("name", EXCEPTIONS)


@pytest.mark.daily("failed process-*", "StopIteration-*", "attributes raise-EXECUTORS", "huge number-EXECUTORS")
@placements
@exceptions
def test_execute_raising_any_exception_after_rows_is_an_error_that_names_it(
    ctx: hr.SessionContext, name: str, placement: hr.Placement
) -> None:
    check_execute_told(ctx, name, placement)
    still_works(ctx)


@pytest.mark.daily("scan-failed process", "supports_filters_pushdown-metaclass raises", "scan-half a surrogate")
@exceptions
@pytest.mark.parametrize("method", ["supports_filters_pushdown", "scan"])
def test_planning_raising_any_exception_is_an_error_that_names_it(
    ctx: hr.SessionContext, name: str, method: str
) -> None:
    check_planning_told(ctx, name, method)


@pytest.mark.daily("StopIteration", "str raises", "traceback raises")
@exceptions
def test_producer_failing_with_any_exception_is_an_error_that_names_it(ctx: hr.SessionContext, name: str) -> None:
    sink = ctx.register_streaming_table("t", NUMBERS, partitions=3)
    for partition in range(3):
        sink.partition(partition).write(numbers(2))
    sink.partition(0).close()
    sink.partition(1).close()
    try:
        raise_made(name)
    except BaseException as error:
        sink.fail(error)
    with pytest.raises(hr.HeadraceError) as caught:
        ctx.collect("SELECT * FROM t")
    check_told(name, caught.value)


@pytest.mark.parametrize("kind", [MemoryError, KeyboardInterrupt, SystemExit, ValueError])
@pytest.mark.parametrize("place", [(ClassicQuery, "_run_job"), (InheritableThread, "run")], ids=["job", "thread"])
def test_result_whose_thread_ends_in_any_way_is_no_whole_one(
    ctx: hr.SessionContext, monkeypatch: pytest.MonkeyPatch, place: tuple[type, str], kind: type[BaseException]
) -> None:
    """Before the job too, where PySpark copies local properties to the thread."""

    def fails(*_: Any) -> Any:
        raise kind

    monkeypatch.setattr(*place, fails)
    ctx.register_table("t", FunctionTable(ten_rows, partitions=3))
    stream = ctx.execute_stream("SELECT * FROM t")
    for _ in range(2):
        assert isinstance(InBackground(stream.read_next_batch).error(), kind)


def test_error_that_cannot_be_translated_is_an_error_all_the_same(
    ctx: hr.SessionContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(_: BaseException) -> None:
        raise Py4JError("the JVM is gone")

    monkeypatch.setattr(failures, "_behind", gone)
    ctx.register_table("t", FunctionTable(partial(third_raises, "text like ours"), partitions=3))
    with pytest.raises(Exception, match="ValueError: x"):
        ctx.collect("SELECT * FROM t")
