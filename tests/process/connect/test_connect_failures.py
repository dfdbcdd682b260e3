"""Failed queries of a Spark Connect session: each is an error that names its cause, and never a short result.

The server runs a failed task again, as most clusters do.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

import headrace as hr
from connect_server import ConnectServer
from failing_queries import check_execute_told, check_planning_told
from headrace.spark import launch
from headrace.spark.connect import query as connect_query
from misbehaving import BadProvider
from placements import placements
from producing import NUMBERS, FunctionTable, numbers, ten_rows, wait_until
from raising import EXCEPTIONS, check_told, raise_made, third_raises

pytestmark = pytest.mark.timeout(200)

exceptions = pytest.mark.parametrize("name", EXCEPTIONS)
WRAPPED = {
    "subquery": "SELECT * FROM g WHERE a = (SELECT max(a) FROM t)",
    "two stages": "SELECT * FROM t AS one JOIN (SELECT a + 1 AS a FROM t) AS two USING (a)",
    "exchange": "SELECT a, count(*) FROM t GROUP BY a ORDER BY a",
    "limit": "SELECT * FROM t LIMIT 6",
}


@pytest.fixture(scope="module")
def server() -> Iterator[ConnectServer]:
    with ConnectServer("local[2,2]") as running:
        yield running


# Any exception


@pytest.mark.daily("failed process-*", "text like ours-*", "attributes raise-EXECUTORS", "huge number-EXECUTORS")
@placements
@exceptions
def test_connect_execute_raising_any_exception_after_rows_is_an_error_that_names_it(
    ctx: hr.SessionContext, name: str, placement: hr.Placement
) -> None:
    check_execute_told(ctx, name, placement)


@pytest.mark.daily("scan-failed process", "supports_filters_pushdown-metaclass raises", "scan-half a surrogate")
@exceptions
@pytest.mark.parametrize("method", ["supports_filters_pushdown", "scan"])
def test_connect_planning_raising_any_exception_is_an_error_that_names_it(
    ctx: hr.SessionContext, name: str, method: str
) -> None:
    check_planning_told(ctx, name, method)


def test_connect_failed_process_comes_back_with_its_attributes(ctx: hr.SessionContext) -> None:
    ctx.register_table("t", FunctionTable(partial(third_raises, "failed process"), partitions=3))
    with pytest.raises(hr.ProviderError) as caught:
        ctx.collect("SELECT * FROM t")
    cause: Any = caught.value.__cause__
    assert (type(cause).__name__, cause.returncode, cause.cmd) == ("CalledProcessError", 3, "fetch")


# The road of the record


@pytest.mark.daily("subquery-*", "*-adaptive")
@pytest.mark.parametrize("adaptive", ["true", "false"], ids=["adaptive", "as planned"])
@pytest.mark.parametrize("query", WRAPPED.values(), ids=WRAPPED)
def test_connect_error_that_spark_wraps_is_told_as_the_provider_raised_it(
    ctx: hr.SessionContext, query: str, adaptive: str
) -> None:
    """PySpark shows the outermost of several exceptions: "Exception thrown in awaitResult", say."""
    ctx.register_table("t", FunctionTable(partial(third_raises, "text like ours"), partitions=3))
    ctx.register_table("g", FunctionTable(ten_rows))
    ctx.spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    try:
        with pytest.raises(hr.ProviderError) as caught:
            ctx.collect(query)
        assert isinstance(caught.value.__cause__, ValueError)
        check_told("text like ours", caught.value)
        with pytest.raises(PySparkException) as native:
            ctx.spark.sql(query).collect()
        assert str(native.value).startswith("ValueError: x\n  in y")
        assert native.value.getCondition() == "PYTHON_DATA_SOURCE_ERROR"
    finally:
        ctx.spark.conf.unset("spark.sql.adaptive.enabled")


@pytest.mark.parametrize("told", ["Job aborted", "ValueError: no\n  in P.execute, table 't', partition 1", ""])
def test_connect_text_of_sparks_own_error_is_never_taken_for_one_of_ours(ctx: hr.SessionContext, told: str) -> None:
    with pytest.raises(PySparkException) as caught:
        ctx.collect(ctx.spark.sql("SELECT raise_error(:told)", args={"told": told}))
    assert caught.value.getCondition() == "USER_RAISED_EXCEPTION"
    assert told in str(caught.value)


def test_connect_record_that_the_server_keeps_to_itself_leaves_sparks_error(ctx: hr.SessionContext) -> None:
    """Without details the record, which is long, does not come: PySpark's exception with its text does."""
    ctx.register_table("t", FunctionTable(partial(third_raises, "text like ours"), partitions=3))
    ctx.spark.conf.set("spark.sql.connect.enrichError.enabled", "false")
    try:
        with pytest.raises(PySparkException, match="ValueError: x"):
            ctx.collect("SELECT * FROM t")
    finally:
        ctx.spark.conf.unset("spark.sql.connect.enrichError.enabled")


@pytest.mark.daily
@placements
def test_connect_server_with_the_jar_on_its_own_class_path_tells_the_same(placement: hr.Placement) -> None:
    from pyspark.sql.connect.session import SparkSession

    with ConnectServer(config={"spark.driver.extraClassPath": launch.connector_jar()}) as server:
        session = SparkSession.builder.remote(server.url).create()
        try:
            with hr.SessionContext(session) as ctx:
                for name in ("failed process", "text like ours"):
                    table = FunctionTable(partial(third_raises, name), partitions=3, placement=placement)
                    ctx.register_table("t", table, replace=True)
                    with pytest.raises(hr.ProviderError) as caught:
                        ctx.collect("SELECT * FROM t")
                    check_told(name, caught.value)
                    assert caught.value.__cause__ is not None
                    ctx.register_table("p", BadProvider("scan", partial(raise_made, name)), replace=True)
                    with pytest.raises(hr.ProviderError) as planned:
                        ctx.collect("SELECT * FROM p")
                    check_told(name, planned.value)
        finally:
            session.stop()


# The result itself


@pytest.mark.parametrize("kind", [MemoryError, KeyboardInterrupt, SystemExit, StopIteration, ValueError])
@pytest.mark.parametrize("place", ["translate", "receive", "put"])
def test_connect_result_whose_thread_ends_in_any_way_is_no_whole_one(
    ctx: hr.SessionContext, monkeypatch: pytest.MonkeyPatch, place: str, kind: type[BaseException]
) -> None:
    def fails(*_: Any) -> Any:
        raise kind

    name = "text like ours" if place == "translate" else ""
    ctx.register_table("t", FunctionTable(partial(third_raises, name) if name else ten_rows, partitions=3))
    if place == "translate":
        monkeypatch.setattr(connect_query, "translate", fails)
        monkeypatch.setattr(threading, "excepthook", lambda _: None)
    else:
        monkeypatch.setattr(connect_query.ConnectQuery, f"_{place}", fails)
    query = ctx._attached.query(ctx.sql("SELECT * FROM t"), bounded=True)
    query.start()
    wait_until(query.is_over, what="the end of its thread")
    with pytest.raises(BaseException) as caught:
        while query.take() is not None:
            pass
    assert isinstance(caught.value, PySparkException if place == "translate" else kind)
    with pytest.raises(type(caught.value)):
        query.take()


def test_connect_result_whose_reader_lost_a_batch_is_no_whole_one(ctx: hr.SessionContext) -> None:
    """The last batch was taken, and who was to hear of it raised: the end that follows is not told as one."""
    ctx.register_table("t", hr.MemTable(pa.table({"a": [1, 2]}, schema=NUMBERS)))

    def interrupted(_: hr.Progress) -> None:
        raise KeyboardInterrupt

    stream = ctx.execute_stream("SELECT * FROM t", progress=interrupted)
    wait_until(stream._query.is_over, what="the end of the query")
    with pytest.raises(KeyboardInterrupt):
        stream.read_next_batch()
    for _ in range(2):
        with pytest.raises(hr.ScanEndedError, match="closed before its end"):
            stream.read_next_batch()


def test_connect_result_read_through_arrows_stream_interface_fails_as_a_whole(ctx: hr.SessionContext) -> None:
    ctx.register_table("t", FunctionTable(partial(third_raises, "failed process"), partitions=3))
    reader = pa.RecordBatchReader.from_stream(ctx.execute_stream("SELECT * FROM t"))
    with pytest.raises(Exception, match="exit status 3"):
        reader.read_all()


def test_connect_rows_of_a_query_that_ends_well_are_all_there(ctx: hr.SessionContext) -> None:
    ctx.register_table("t", FunctionTable(lambda partition: iter([numbers(2, 2 * partition)]), partitions=3))
    assert ctx.collect("SELECT * FROM t ORDER BY a")["a"].to_pylist() == list(range(6))
