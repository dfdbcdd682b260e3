"""Push tables over Spark Connect: one scan, the endings of a classic session, and nothing left in the server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from pyspark.errors import PySparkException

import headrace as hr
from connect_server import ConnectServer
from places import SCRIPTS
from producing import NUMBERS, FunctionTable, ten_rows, wait_until
from pushing import InBackground, Producer, filled, reading, rows

pytestmark = pytest.mark.timeout(200)

INSTALLED = ("planner.Planners$Context", "push.QueryEndListener", "catalog.ConnectSessions")


def installed(server: ConnectServer) -> dict[str, int]:
    return server.reachable(*INSTALLED)


def nothing_left(server: ConnectServer) -> None:
    wait_until(lambda: installed(server) == {}, what="a server without contexts and listeners")


@pytest.fixture
def other(server: ConnectServer) -> Iterator[Any]:
    from pyspark.sql.connect.session import SparkSession

    session = SparkSession.builder.remote(server.url).create()
    yield session
    session.stop()


def endless(sink: hr.TableSink) -> Producer:
    return Producer(lambda i: sink.write(rows(i)))


def counted(ctx: hr.SessionContext) -> int:
    (count,) = ctx.collect("SELECT count(*) AS n FROM t")["n"].to_pylist()
    return int(count)


# One scan


@pytest.mark.daily("3")
@pytest.mark.parametrize("partitions", [1, 3])
def test_connect_push_table_is_read_while_it_is_written(ctx: hr.SessionContext, partitions: int) -> None:
    filled(ctx, "t", 100, partitions=partitions)
    assert ctx.collect("SELECT count(*) AS n, sum(a) AS s FROM t").to_pylist() == [{"n": 100, "s": 4950}]


@pytest.mark.daily("3-adaptive")
@pytest.mark.parametrize("adaptive", ["true", "false"], ids=["adaptive", "as planned"])
@pytest.mark.parametrize("partitions", [1, 3])
def test_connect_push_table_is_ordered_with_one_scan(ctx: hr.SessionContext, partitions: int, adaptive: str) -> None:
    ctx.spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    try:
        filled(ctx, "t", 100, partitions=partitions)
        assert [row.a for row in ctx.spark.sql("SELECT a FROM t ORDER BY a").collect()] == list(range(100))
    finally:
        ctx.spark.conf.unset("spark.sql.adaptive.enabled")


def test_connect_push_table_is_joined_with_another_table(ctx: hr.SessionContext) -> None:
    filled(ctx, "t", 100, partitions=2)
    ctx.register_table("ten", FunctionTable(ten_rows, partitions=2))
    assert ctx.collect("SELECT sum(t.a) AS s FROM t JOIN ten ON t.a = ten.a WHERE t.a > 9").to_pylist() == [{"s": 145}]


@pytest.mark.daily("self-join")
@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM t x JOIN t y ON x.a = y.a",
        "SELECT * FROM t UNION ALL SELECT * FROM t",
        "WITH c AS (SELECT a FROM t WHERE a > 3) SELECT * FROM c x JOIN c y ON x.a = y.a",
    ],
    ids=["self-join", "union", "cte"],
)
def test_connect_push_table_named_twice_is_refused_and_can_be_read_afterwards(
    ctx: hr.SessionContext, query: str
) -> None:
    filled(ctx, "t", 100)
    with pytest.raises(hr.StreamConsumedError, match="this query scans it 2 times"):
        ctx.collect(query)
    with pytest.raises(PySparkException, match="StreamConsumedError"):
        ctx.spark.sql(query).collect()
    assert ctx.spark.table("t").count() == 100


def test_connect_push_table_second_query_is_refused_by_name(ctx: hr.SessionContext) -> None:
    filled(ctx, "t", 100)
    assert ctx.spark.table("t").count() == 100
    with pytest.raises(hr.StreamConsumedError, match="'t' can be scanned once, and another query has taken that scan"):
        ctx.collect("SELECT * FROM t")
    with pytest.raises(PySparkException, match="StreamConsumedError"):
        ctx.spark.table("t").collect()


def test_connect_push_table_is_planned_and_explained_without_a_scan(ctx: hr.SessionContext) -> None:
    filled(ctx, "t", 100)
    assert "one scan" in ctx.explain("SELECT a FROM t WHERE a > 3")
    assert ctx.spark.table("t").columns == ["a", "s"]
    assert len(list(ctx.spark.table("t").toLocalIterator())) == 100


# Endings


def test_connect_push_limit_ends_the_scan_of_every_partition(ctx: hr.SessionContext) -> None:
    """Partitions that no task opens have no reader that could tell their producers."""
    sink = ctx.register_streaming_table("t", rows(0).schema, partitions=4, capacity=1)
    producers = [endless(sink.partition(at)) for at in range(4)]
    assert len(ctx.spark.sql("SELECT a FROM t LIMIT 3").collect()) == 3
    for producer in producers:
        assert "needs no more rows" in producer.scan_ended()


def test_connect_push_cancelled_query_ends_the_scan(ctx: hr.SessionContext) -> None:
    sink = ctx.register_streaming_table("t", rows(0).schema)
    producer = endless(sink)
    stream = ctx.execute_stream("SELECT sum(a) FROM t")
    reading(sink)
    stream.close()
    assert "cancelled" in producer.scan_ended()


def test_connect_push_interrupted_query_of_pysparks_own_ends_the_scan(ctx: hr.SessionContext) -> None:
    sink = ctx.register_streaming_table("t", rows(0).schema)
    producer = endless(sink)
    query = InBackground(lambda: ctx.spark.sql("SELECT sum(a) FROM t").collect())
    reading(sink)
    ctx.spark.interruptAll()
    assert "cancelled" in producer.scan_ended()
    assert isinstance(query.error(), PySparkException)


def test_connect_push_failed_query_ends_the_scan_with_its_error(ctx: hr.SessionContext) -> None:
    sink = ctx.register_streaming_table("t", rows(0).schema)
    producer = endless(sink)
    with pytest.raises(PySparkException, match="too much"):
        ctx.spark.sql("SELECT sum(if(a > 50, raise_error('too much'), a)) FROM t").collect()
    assert "too much" in producer.scan_ended()


def test_connect_push_producer_that_fails_fails_the_query_with_its_error(ctx: hr.SessionContext) -> None:
    sink = ctx.register_streaming_table("t", rows(0).schema)
    query = InBackground(lambda: ctx.collect("SELECT sum(a) FROM t"))
    sink.write(rows(0))
    reading(sink)
    sink.fail(LookupError("no such shard"))
    error = query.error()
    assert isinstance(error, hr.ProviderError)
    assert (error.exception_type, error.message, error.table) == ("LookupError", "no such shard", "t")
    assert isinstance(error.__cause__, LookupError)


@pytest.mark.daily("deregister")
@pytest.mark.parametrize("end", ["deregister", "replace"])
def test_connect_push_table_that_goes_fails_sink_and_query(ctx: hr.SessionContext, end: str) -> None:
    sink = ctx.register_streaming_table("t", rows(0).schema)
    query = InBackground(lambda: ctx.collect("SELECT sum(a) FROM t"))
    producer = endless(sink)
    reading(sink)
    if end == "deregister":
        assert ctx.deregister_table("t")
        assert not ctx.spark.catalog.tableExists("t")
    else:
        ctx.register_streaming_table("t", NUMBERS, replace=True)
    assert isinstance(producer.ended(), hr.DeregisteredError)
    assert isinstance(query.error(), hr.DeregisteredError)


@pytest.mark.daily("native")
@pytest.mark.parametrize("ask", ["collect", "native"])
def test_connect_push_context_that_closes_while_its_query_runs_ends_both(spark: Any, ask: str) -> None:
    with hr.SessionContext(spark) as ctx:
        sink = ctx.register_streaming_table("t", rows(0).schema)
        producer = endless(sink)
        run: Callable[[], object] = (
            (lambda: ctx.collect("SELECT sum(a) FROM t"))
            if ask == "collect"
            else (lambda: spark.sql("SELECT sum(a) FROM t").collect())
        )
        query = InBackground(run)
        reading(sink)
    assert isinstance(producer.ended(), hr.StreamError)
    assert isinstance(query.error(), hr.ScanEndedError if ask == "collect" else PySparkException)
    assert not spark.catalog.tableExists("t")


@pytest.mark.daily
def test_connect_push_session_that_is_stopped_ends_the_scan(server: ConnectServer) -> None:
    from pyspark.sql.connect.session import SparkSession

    session = SparkSession.builder.remote(server.url).create()
    ctx = hr.SessionContext(session)
    sink = ctx.register_streaming_table("t", rows(0).schema, capacity=1)
    producer = endless(sink)  # nobody reads, so it waits
    wait_until(lambda: sink.stats.waiting == 1)
    session.stop()
    assert "closed this session" in producer.scan_ended()
    ctx.close()
    nothing_left(server)


# Clients beside each other, and after them


def test_connect_push_tables_of_one_name_in_two_sessions_are_two(ctx: hr.SessionContext, other: Any) -> None:
    with hr.SessionContext(other) as second:
        filled(ctx, "t", 100)
        filled(second, "t", 50)
        queries = [InBackground(partial(counted, one)) for one in (ctx, second)]
        assert [query.result() for query in queries] == [100, 50]


def test_connect_client_is_not_told_of_the_queries_of_others(
    ctx: hr.SessionContext, other: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    operations: Any = ctx._attached.planner._operations
    told: list[str] = []
    monkeypatch.setitem(operations, "query_end", lambda question: told.append(question["error"]) or {})
    ctx.register_streaming_table("t", NUMBERS)
    for session in (other, ctx.spark):  # in this order Spark tells of their ends
        with pytest.raises(PySparkException):
            session.sql(
                f"SELECT raise_error('{'not for you' if session is other else 'yours'}') FROM range(2)"
            ).collect()
    wait_until(lambda: any("yours" in error for error in told), what="the end of the query")
    assert not [error for error in told if "not for you" in error]


@pytest.mark.daily
def test_connect_push_contexts_of_one_session_leave_one_by_one(ctx: hr.SessionContext, server: ConnectServer) -> None:
    with hr.SessionContext(ctx.spark) as second:
        filled(second, "u", 20)
        filled(ctx, "t", 100)
        assert ctx.collect("SELECT count(*) AS n FROM t JOIN u ON t.a = u.a").to_pylist() == [{"n": 20}]
    wait_until(lambda: installed(server).get("planner.Planners$Context") == 1, what="the leave of one context")
    assert installed(server)["push.QueryEndListener"] == 1
    with pytest.raises(hr.StreamConsumedError):
        ctx.collect("SELECT count(*) AS n FROM t")


@pytest.mark.daily
def test_connect_client_that_is_killed_takes_its_listeners_along_and_no_others(
    spark: Any, server: ConnectServer
) -> None:
    nothing_left(server)
    with hr.SessionContext(spark) as ctx:
        sink = ctx.register_streaming_table("t", rows(0).schema)
        query = InBackground(lambda: ctx.collect("SELECT sum(a) AS s FROM t").to_pylist())
        sink.write(rows(1))
        reading(sink)
        assert installed(server) == dict.fromkeys(INSTALLED, 1)
        client = subprocess.Popen(
            [sys.executable, str(SCRIPTS / "connect_client.py"), server.url],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert client.stdout is not None
            assert client.stdout.readline() == "reading\n"
            found = installed(server)
            assert (found["planner.Planners$Context"], found["push.QueryEndListener"]) == (2, 2)
        finally:
            client.send_signal(signal.SIGKILL)
            client.wait()
        wait_until(lambda: installed(server) == dict.fromkeys(INSTALLED, 1), what="the leave of the dead client")
        sink.write(rows(2))
        sink.close()
        assert query.result() == [{"s": 3}]
    nothing_left(server)


@pytest.mark.daily("client")
@pytest.mark.parametrize("planning", ["client", "server"])
def test_connect_context_that_closes_leaves_nothing_in_the_server(
    spark: Any, server: ConnectServer, planning: str
) -> None:
    for _ in range(2):
        with hr.SessionContext(spark, planning=planning) as ctx:
            ctx.register_table("ten", FunctionTable(ten_rows))
            assert ctx.spark.table("ten").count() == 10
            assert ctx.catalog == "headrace"
    nothing_left(server)


def test_connect_planning_beside_the_server_refuses_push_tables_by_name(spark: Any) -> None:
    with (
        hr.SessionContext(spark, planning="server") as ctx,
        pytest.raises(hr.HeadraceError, match=r'push tables cannot be had with planning="server"'),
    ):
        ctx.register_streaming_table("s", NUMBERS)
