"""Whatever user code raises, in whatever phase and process, the user is told what, where and in which words."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PythonException, SparkRuntimeException

import headrace as hr
from misbehaving import BadProvider, plan_with, still_works
from placements import placements
from producing import BOTH_PLACEMENTS, NUMBERS, FunctionTable, numbers, ten_rows
from versions import has


class FloodError(ValueError):
    """A user's own exception class."""


class Unpicklable(Exception):
    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.lock = threading.Lock()


class NeedsTwo(Exception):
    """Pickles, but cannot be rebuilt from its args."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Abort(BaseException):
    """Not an Exception, so that ``except Exception`` does not see it."""


def raising(error: Callable[[], BaseException]) -> Callable[..., Any]:
    def river(*_args: Any) -> Any:
        raise error()

    return river


def raising_after_a_batch(error: Callable[[], BaseException]) -> Callable[[int], Any]:
    def river(_partition: int) -> Iterator[pa.RecordBatch]:
        yield numbers(5)
        raise error()

    return river


# -- exceptions of the user's code --------------------------------------------------------------------------------


@pytest.mark.daily("later-*")
@placements
@pytest.mark.parametrize("when", [raising, raising_after_a_batch], ids=["first", "later"])
def test_execute_raising_is_a_provider_error_with_everything_known(
    ctx: hr.SessionContext, placement: hr.Placement, when: Callable[..., Any]
) -> None:
    ctx.register_table("rain", FunctionTable(when(lambda: FloodError("too much")), placement=placement))
    with pytest.raises(hr.ProviderError) as caught:
        ctx.collect("SELECT * FROM rain")
    error = caught.value
    assert error.exception_type.endswith("FloodError")
    assert error.message == "too much"
    assert (error.table, error.partition) == ("rain", 0)
    assert isinstance(error.__cause__, FloodError)
    assert error.__cause__.args == ("too much",)
    assert "raise error()" in error.traceback
    assert "in river" in error.traceback
    assert f"{Path(hr.__file__).parent}{os.sep}" not in error.traceback  # starts in the user's code
    assert ".zip/headrace/" not in error.traceback  # nor in the package as executors have it
    text = str(error)
    assert "FloodError: too much" in text.splitlines()[0]
    assert "FunctionPlan.execute" in text
    assert len(text.splitlines()) < 15


@placements
def test_execute_raising_shows_class_message_and_traceback_in_native_pyspark(
    ctx: hr.SessionContext, placement: hr.Placement
) -> None:
    ctx.register_table(
        "rain", FunctionTable(raising_after_a_batch(lambda: FloodError("too much")), placement=placement)
    )
    kind, condition = (
        (PythonException, "PYTHON_EXCEPTION")
        if has("condition of a PythonException")
        else (SparkRuntimeException, "PYTHON_DATA_SOURCE_ERROR")
    )
    with pytest.raises(kind) as caught:
        ctx.sql("SELECT sum(a) FROM rain").collect()
    assert caught.value.getCondition() == condition
    assert caught.value.getSqlState() == "38000"
    assert f"[{condition}]" in caught.value.getMessage()
    text = str(caught.value)
    assert text.startswith(f"{__name__}.FloodError: too much")
    assert "in river" in text
    assert "'rain'" in text
    assert "partition 0" in text
    assert "py4j" not in text
    assert len(text) < 4000


@pytest.mark.parametrize("method", ["supports_filters_pushdown", "scan"])
def test_planning_that_raises_is_an_analysis_exception_in_native_pyspark(ctx: hr.SessionContext, method: str) -> None:
    ctx.register_table("rain", BadProvider(method, raising(lambda: FloodError("no clouds"))))
    with pytest.raises(AnalysisException) as caught:
        ctx.spark.table("rain").where("a = 1").collect()
    assert caught.value.getCondition() == "PYTHON_DATA_SOURCE_ERROR"
    text = str(caught.value)
    assert text.startswith(f"{__name__}.FloodError: no clouds\n  in BadProvider.{method}, table 'rain'")
    assert "in river" in text


def test_batch_of_another_schema_is_a_pyspark_exception_in_native_pyspark(ctx: hr.SessionContext) -> None:
    ctx.register_table("rain", FunctionTable(lambda _partition: iter([pa.record_batch({"b": [1]})])))
    actions: tuple[Callable[[Any], Any], ...] = (
        lambda frame: frame.collect(),
        lambda frame: frame.toArrow(),
        lambda frame: frame.toPandas(),
        lambda frame: frame.show(),
    )
    for action in actions:
        with pytest.raises(SparkRuntimeException) as caught:
            action(ctx.table("rain"))
        assert caught.value.getCondition() == "PYTHON_DATA_SOURCE_ERROR"
        assert str(caught.value).startswith("SchemaMismatchError: FunctionPlan.execute yielded a batch")


@pytest.mark.parametrize("when", [raising, raising_after_a_batch], ids=["first", "later"])
def test_execute_raising_while_files_are_written_is_the_same_exception(
    ctx: hr.SessionContext, tmp_path: Path, when: Callable[..., Any]
) -> None:
    ctx.register_table("rain", FunctionTable(when(lambda: FloodError("too much"))))
    with pytest.raises((PythonException, SparkRuntimeException)) as caught:
        ctx.table("rain").write.parquet(str(tmp_path / "rain"))
    assert caught.value.getCondition() in ("PYTHON_EXCEPTION", "PYTHON_DATA_SOURCE_ERROR")
    assert str(caught.value).startswith(f"{__name__}.FloodError: too much")


@placements
def test_execute_raising_in_one_of_many_partitions_names_that_partition(
    ctx: hr.SessionContext, placement: hr.Placement
) -> None:
    def third_is_bad(partition: int) -> Iterator[pa.RecordBatch]:
        yield numbers(1)
        if partition == 2:
            raise KeyError("shard")

    ctx.register_table("shards", FunctionTable(third_is_bad, partitions=4, placement=placement))
    with pytest.raises(hr.ProviderError) as caught:
        ctx.collect("SELECT * FROM shards")
    assert caught.value.partition == 2
    assert caught.value.exception_type == "KeyError"
    assert isinstance(caught.value.__cause__, KeyError)


@placements
def test_generator_raising_in_its_finally_fails_the_query(ctx: hr.SessionContext, placement: hr.Placement) -> None:
    def leaky(_partition: int) -> Iterator[pa.RecordBatch]:
        try:
            yield numbers(5)
        finally:
            raise FloodError("while closing")

    ctx.register_table("leaky", FunctionTable(leaky, placement=placement))
    with pytest.raises(hr.ProviderError, match="while closing"):
        ctx.collect("SELECT * FROM leaky")


@placements
def test_iterator_raising_in_close_fails_the_query_and_says_so(ctx: hr.SessionContext, placement: hr.Placement) -> None:
    class Tap:
        def __init__(self) -> None:
            self.batches = iter([numbers(5)])

        def __iter__(self) -> Tap:
            return self

        def __next__(self) -> pa.RecordBatch:
            return next(self.batches)

        def close(self) -> None:
            raise FloodError("stuck")

    ctx.register_table("tap", FunctionTable(lambda _: Tap(), placement=placement))
    with pytest.raises(hr.ProviderError, match="stuck") as caught:
        ctx.collect("SELECT * FROM tap")
    assert "while closing" in str(caught.value)


@pytest.mark.daily("SystemExit-first-EXECUTORS", "KeyboardInterrupt-later-*", "Abort-later-DRIVER")
@placements
@pytest.mark.parametrize("when", [raising, raising_after_a_batch], ids=["first", "later"])
@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit, Abort])
def test_execute_raising_a_base_exception_fails_the_query_and_nothing_hangs(
    ctx: hr.SessionContext, placement: hr.Placement, when: Callable[..., Any], kind: type[BaseException]
) -> None:
    ctx.register_table("rude", FunctionTable(when(lambda: kind("bye")), placement=placement))
    with pytest.raises(hr.ProviderError) as caught:
        ctx.collect("SELECT * FROM rude")
    assert caught.value.exception_type.endswith(kind.__name__)
    assert caught.value.message == "bye"
    assert isinstance(caught.value.__cause__, kind)


def test_base_exceptions_in_execute_leave_the_worker_usable(ctx: hr.SessionContext) -> None:
    def pid_then_exit(_partition: int) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([pa.array([os.getpid()])], schema=NUMBERS)

    def leave(_partition: int) -> Iterator[pa.RecordBatch]:
        sys.exit(0)
        yield

    ctx.register_table("pids", FunctionTable(pid_then_exit))
    ctx.register_table("leave", FunctionTable(leave))
    before = ctx.collect("SELECT a FROM pids").to_pydict()["a"]
    for _ in range(3):
        with pytest.raises(hr.ProviderError, match="SystemExit"):
            ctx.collect("SELECT * FROM leave")
    assert ctx.collect("SELECT a FROM pids").to_pydict()["a"] == before


@pytest.mark.daily("unpicklable-*", "str raises-EXECUTORS")
@placements
@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (lambda: Unpicklable("has a lock"), "Unpicklable", "has a lock"),
        (lambda: NeedsTwo(7, "cannot be rebuilt"), "NeedsTwo", "7: cannot be rebuilt"),
        (lambda: Mute(), "Mute", "whose str() raised RuntimeError"),
        (lambda: FloodError("x" * 5_000_000), "FloodError", "characters left out"),
        (lambda: FloodError("caf\udce9.parquet"), "FloodError", "caf\\udce9.parquet"),
        (lambda: FloodError(""), "FloodError", ""),
        (lambda: FloodError("drei Flüße\n\t'\"\\ {} %s \0"), "FloodError", "drei Flüße\n\t'\"\\ {} %s \0"),
    ],
    ids=["unpicklable", "not rebuildable", "str raises", "huge", "surrogate", "empty", "odd characters"],
)
def test_execute_raising_a_difficult_exception_still_tells_class_and_message(
    ctx: hr.SessionContext, placement: hr.Placement, make: Callable[[], BaseException], kind: str, words: str
) -> None:
    ctx.register_table("odd", FunctionTable(raising(make), placement=placement))
    with pytest.raises(hr.ProviderError) as caught:
        ctx.collect("SELECT * FROM odd")
    assert caught.value.exception_type.endswith(kind)
    assert words in caught.value.message
    assert "in river" in caught.value.traceback
    assert len(str(caught.value)) < 25_000


@placements
def test_execute_raising_from_another_exception_shows_both(ctx: hr.SessionContext, placement: hr.Placement) -> None:
    def river(_partition: int) -> Any:
        try:
            raise OSError("pipe burst")
        except OSError as error:
            raise FloodError("no water") from error

    ctx.register_table("rain", FunctionTable(river, placement=placement))
    with pytest.raises(hr.ProviderError) as caught:
        ctx.collect("SELECT * FROM rain")
    assert "OSError: pipe burst" in caught.value.traceback
    assert "direct cause" in caught.value.traceback


def test_schema_raising_reaches_the_caller_unchanged(ctx: hr.SessionContext) -> None:
    error = FloodError("no schema today")
    with pytest.raises(FloodError) as caught:
        ctx.register_table("bad", BadProvider("schema", raising(lambda: error)))
    assert caught.value is error
    assert not ctx.table_exists("bad")


@pytest.mark.parametrize("method", ["scan", "supports_filters_pushdown"])
@pytest.mark.parametrize("kind", [FloodError, SystemExit, Abort])
def test_planning_method_raising_is_a_provider_error(
    ctx: hr.SessionContext, method: str, kind: type[BaseException]
) -> None:
    ctx.register_table("bad", BadProvider(method, raising(lambda: kind("at planning"))))
    with pytest.raises(hr.ProviderError) as caught:
        ctx.collect("SELECT * FROM bad WHERE a > 1")
    error = caught.value
    assert error.exception_type.endswith(kind.__name__)
    assert error.message == "at planning"
    assert isinstance(error.__cause__, kind)
    assert error.table == "bad"
    assert error.partition is None
    assert f"BadProvider.{method}" in str(error)
    assert "in river" in error.traceback


@pytest.mark.parametrize("method", ["scan", "supports_filters_pushdown"])
def test_planning_method_raising_is_readable_in_native_pyspark(ctx: hr.SessionContext, method: str) -> None:
    ctx.register_table("bad", BadProvider(method, raising(lambda: FloodError("at planning"))))
    with pytest.raises(Exception) as caught:
        ctx.sql("SELECT * FROM bad WHERE a > 1").collect()
    text = str(caught.value)
    assert "FloodError: at planning" in text
    assert "in river" in text
    assert "py4j" not in text
    assert len(text) < 4000


def test_explain_of_a_provider_that_raises_is_a_provider_error(ctx: hr.SessionContext) -> None:
    ctx.register_table("bad", BadProvider("scan", raising(lambda: FloodError("at planning"))))
    with pytest.raises(hr.ProviderError, match="at planning"):
        ctx.explain("SELECT * FROM bad")


# -- the worker process -------------------------------------------------------------------------------------------


class BadOnArrival:
    def __getstate__(self) -> dict[str, int]:
        return {"a": 1}

    def __setstate__(self, _state: Any) -> None:
        raise FloodError("cannot live here")


def test_plan_that_cannot_be_unpickled_in_the_worker_says_why(ctx: hr.SessionContext) -> None:
    ctx.register_table("bad", BadProvider("scan", plan_with(luggage=BadOnArrival())))
    with pytest.raises(hr.ProviderError, match="cannot live here") as caught:
        ctx.collect("SELECT * FROM bad")
    assert "unpickling the plan" in str(caught.value)
    still_works(ctx)


@pytest.mark.daily("SIGKILL")
@pytest.mark.parametrize("ending", ["os._exit", "SIGKILL", "SIGSEGV"])
def test_worker_dying_in_mid_stream_is_an_error_with_a_hint_and_never_a_short_result(
    ctx: hr.SessionContext, ending: str
) -> None:
    def dying(_partition: int) -> Iterator[pa.RecordBatch]:
        for start in range(50):
            yield numbers(10_000, start)
        if ending == "os._exit":
            os._exit(0)
        os.kill(os.getpid(), getattr(signal, ending))

    ctx.register_table("dying", FunctionTable(dying, partitions=2))
    with pytest.raises(hr.TransportError) as caught:
        ctx.collect("SELECT count(a) FROM dying")
    text = str(caught.value)
    assert "the Python worker died" in text
    assert "'dying'" in text
    assert "out of memory" in text
    still_works(ctx)


def test_worker_printing_to_stdout_does_not_disturb_the_stream(ctx: hr.SessionContext) -> None:
    def talkative(partition: int) -> Iterator[pa.RecordBatch]:
        print("water " * 1000)
        os.write(1, b"\x00\x01\x02" * 100)
        yield numbers(10, partition * 10)
        print("more water", flush=True)

    ctx.register_table("talkative", FunctionTable(talkative, partitions=2))
    assert ctx.collect("SELECT sum(a) AS s FROM talkative").to_pydict() == {"s": [sum(range(20))]}


def test_many_failing_queries_leave_everything_usable(ctx: hr.SessionContext) -> None:
    for placement in BOTH_PLACEMENTS:
        table = FunctionTable(raising_after_a_batch(lambda: FloodError("x")), partitions=2, placement=placement)
        ctx.register_table(f"rain_{placement.name}", table)
    for turn in range(10):
        with pytest.raises(hr.ProviderError):
            ctx.collect(f"SELECT * FROM rain_{BOTH_PLACEMENTS[turn % 2].name}")
    still_works(ctx)


def test_worker_of_another_python_version_says_so_before_it_reads_the_plan(
    ctx: hr.SessionContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx.register_table("t", FunctionTable(ten_rows))
    monkeypatch.setattr("headrace.worker.payload.PYTHON_VERSION", "3.99")  # of the driver: workers are other processes
    with pytest.raises(hr.TransportError, match=r"PYTHON_VERSION_MISMATCH.*than that in driver: 3\.99"):
        ctx.collect("SELECT a FROM t")
    monkeypatch.undo()
    still_works(ctx)
