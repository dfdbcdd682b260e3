"""Spark Connect: a SessionContext on a real server, which comes back to this process for plans and rows."""

from __future__ import annotations

import base64
import importlib
import logging
import os
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException

import headrace as hr
from catalogs import Shop
from certificates import make_identity
from connect_server import ConnectServer
from headrace.transport.endpoint import Endpoint
from places import EXAMPLES
from producing import BOTH_PLACEMENTS, NUMBERS, FunctionTable, Marks, numbers, ten_rows, wait_until
from recording import inexact, table_of

pytestmark = pytest.mark.timeout(200)

DOCUMENTED = "sc://spark.example.com:15002"
COUNTING_MODULE = """
import pyarrow as pa

CALLS = []

def counted(partition):
    CALLS.append(partition)
    yield pa.record_batch({"a": pa.array([len(CALLS)], pa.int64())})
"""
PLACEMENTS = pytest.mark.parametrize("placement", BOTH_PLACEMENTS, ids=lambda placement: placement.name)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    """One that tells all it can: in its log, and in the events from which the web pages are made."""
    with ConnectServer(events=tmp_path_factory.mktemp("events")) as running:
        yield running


@pytest.fixture(scope="module")
def spark(server: ConnectServer) -> Iterator[Any]:
    # Not SparkSession.builder: that refuses where the process has a classic session, of other tests.
    from pyspark.sql.connect.session import SparkSession

    logging.getLogger("pyspark.sql.connect").setLevel(logging.CRITICAL)  # it prints every failed query once more
    session = SparkSession.builder.remote(server.url).create()
    yield session
    session.stop()


@pytest.fixture
def ctx(spark: Any) -> Iterator[hr.SessionContext]:
    with hr.SessionContext(spark) as context:
        yield context


def hides_the_unix_socket(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    """As if the server were on another host."""
    told = Endpoint.address
    monkeypatch.setattr(Endpoint, "address", lambda self, ticket: {**told(self, ticket), "path": "", **changes})


# Rows


@PLACEMENTS
def test_connect_session_reads_every_partition_of_a_live_provider(
    ctx: hr.SessionContext, placement: hr.Placement
) -> None:
    ctx.register_table("t", FunctionTable(ten_rows, partitions=3, placement=placement))
    assert [row.a for row in ctx.spark.sql("SELECT a FROM t ORDER BY a").collect()] == list(range(30))
    assert ctx.collect("SELECT sum(a) AS s FROM t").to_pylist() == [{"s": 435}]


@pytest.mark.parametrize("on_another_host", [False, True], ids=["server on this machine", "server elsewhere"])
def test_connect_session_modules_travel_only_where_the_server_cannot_import_them(
    spark: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, on_another_host: bool
) -> None:
    """What is imported stays in a worker with all it has learnt; what travels is made anew for every task."""
    name = f"module_of_{'this' if on_another_host else 'that'}_test"
    (tmp_path / f"{name}.py").write_text(COUNTING_MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    counted = importlib.import_module(name).counted
    if on_another_host:
        hides_the_unix_socket(monkeypatch)
    with hr.SessionContext(spark) as ctx:
        ctx.register_table("t", FunctionTable(counted, partitions=8, placement=hr.Placement.EXECUTORS))
        most = ctx.collect("SELECT max(a) AS most FROM t")["most"].to_pylist()[0]
    assert most == 1 if on_another_host else most > 1


def test_connect_session_negotiates_with_the_provider_in_this_process(ctx: hr.SessionContext) -> None:
    data = pa.table({"a": range(100), "b": [str(i) for i in range(100)], "c": [0.5] * 100})
    table = table_of(data, 2, answer=inexact)
    ctx.register_table("t", table)
    assert [row.b for row in ctx.spark.table("t").where("a > 97").select("b").collect()] == ["98", "99"]
    request = table.request()
    assert request.projection == ("a", "b")
    assert [repr(one) for one in request.filters if "NULL" not in repr(one)] == ["a > 97"]


def test_connect_session_joins_two_tables_and_keeps_their_types(ctx: hr.SessionContext) -> None:
    ctx.register_table("t", hr.MemTable(pa.table({"k": range(50), "when": pa.array(range(50), pa.timestamp("us"))})))
    ctx.register_table("u", FunctionTable(ten_rows, partitions=2))
    found = ctx.collect("SELECT t.when FROM t JOIN u ON t.k = u.a WHERE u.a > 17 ORDER BY t.k")
    assert found.schema == pa.schema([("when", pa.timestamp("us"))])
    assert found["when"].cast(pa.int64()).to_pylist() == [18, 19]


# Errors


def fails_after_a_batch(partition: int) -> Iterator[pa.RecordBatch]:
    yield numbers(3)
    raise ValueError(f"no more: {partition}\nsee the manual")


@PLACEMENTS
def test_connect_session_provider_that_raises_is_a_provider_error(
    ctx: hr.SessionContext, placement: hr.Placement
) -> None:
    from pyspark.errors.exceptions.connect import SparkException

    ctx.register_table("t", FunctionTable(fails_after_a_batch, placement=placement))
    with pytest.raises(hr.ProviderError) as caught:
        ctx.collect("SELECT * FROM t")
    error = caught.value
    assert (error.exception_type, error.message) == ("ValueError", "no more: 0\nsee the manual")
    assert (error.table, error.partition) == ("t", 0)
    assert "fails_after_a_batch" in error.traceback
    assert isinstance(error.__cause__, ValueError)
    with pytest.raises(SparkException) as native:
        ctx.spark.sql("SELECT * FROM t").collect()
    assert native.value.getCondition() == "PYTHON_DATA_SOURCE_ERROR"
    assert str(native.value).startswith("ValueError: no more: 0\nsee the manual\n  in FunctionPlan.execute, table 't'")


def test_connect_session_provider_that_raises_while_planning_is_named(ctx: hr.SessionContext) -> None:
    class Unplannable(FunctionTable):
        def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
            raise LookupError("no such shard")

    ctx.register_table("t", Unplannable(ten_rows))
    with pytest.raises(hr.ProviderError, match=r"LookupError: no such shard\n  in Unplannable.scan, table 't'"):
        ctx.collect("SELECT * FROM t")
    with pytest.raises(AnalysisException, match="LookupError: no such shard") as native:
        ctx.spark.table("t").collect()
    assert native.value.getCondition() == "PYTHON_DATA_SOURCE_ERROR"


def test_connect_session_own_errors_keep_their_class(ctx: hr.SessionContext) -> None:
    def wrong(partition: int) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"b": ["x"]})

    ctx.register_table("t", FunctionTable(wrong))
    with pytest.raises(hr.SchemaMismatchError, match="b: string"):
        ctx.collect("SELECT * FROM t")


def test_connect_server_that_cannot_reach_this_process_is_told_with_two_ways_out(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    hides_the_unix_socket(monkeypatch, port=port)
    with pytest.raises(hr.TransportError, match=f"cannot reach .* at 127.0.0.1:{port}") as caught:
        hr.SessionContext(spark)
    assert not [key for key in spark.conf.getAll if "headrace_" in key]
    assert 'planning="server"' in str(caught.value)
    assert "hr.as_data_source" in str(caught.value)


def test_connect_session_push_table_is_refused_with_what_works(ctx: hr.SessionContext) -> None:
    with pytest.raises(hr.HeadraceError, match=r"Connect session cannot have push tables.*Placement.DRIVER"):
        ctx.register_streaming_table("s", NUMBERS)


# Stopping early


def endless(marks: Marks) -> Any:
    def produce(partition: int) -> Iterator[pa.RecordBatch]:
        try:
            start = 0
            while True:
                yield numbers(100, start)
                start += 100
        finally:
            marks.leave("stopped")

    return produce


@PLACEMENTS
def test_connect_session_limit_stops_the_producer(
    ctx: hr.SessionContext, placement: hr.Placement, tmp_path: Path
) -> None:
    marks = Marks(tmp_path)
    ctx.register_table("t", FunctionTable(endless(marks), placement=placement))
    assert len(ctx.spark.sql("SELECT a FROM t WHERE a % 2 = 0 LIMIT 5").collect()) == 5
    wait_until(lambda: marks.has("stopped"), what="the producer's end")


def test_connect_result_stream_that_is_closed_cancels_the_query(ctx: hr.SessionContext, tmp_path: Path) -> None:
    marks = Marks(tmp_path)
    ctx.register_table("t", FunctionTable(endless(marks), placement=hr.Placement.DRIVER))
    stream = ctx.execute_stream("SELECT count(*) FROM t")
    wait_until(lambda: bool(ctx.collect("SELECT 1 AS one").num_rows), what="another query beside it")
    stream.close()
    wait_until(lambda: marks.has("stopped"), what="the producer's end")
    with pytest.raises(hr.ScanEndedError, match="closed before its end"):
        stream.read_next_batch()


# Results as they come


def test_connect_result_stream_has_all_rows_in_order(ctx: hr.SessionContext) -> None:
    ctx.register_table("t", FunctionTable(ten_rows, partitions=4))
    with ctx.execute_stream("SELECT a, named_struct('x', a) AS s FROM t") as stream:
        assert stream.schema.names == ["a", "s"]
        found = [row["a"] for batch in stream for row in batch.to_pylist()]
    assert found == list(range(40))
    assert ctx.collect("SELECT a FROM t WHERE a < 0").schema == NUMBERS


def test_connect_result_stream_gives_a_first_batch_while_a_later_partition_waits(
    ctx: hr.SessionContext, tmp_path: Path
) -> None:
    marks = Marks(tmp_path)

    def second_waits(partition: int) -> Iterator[pa.RecordBatch]:
        if partition:
            wait_until(lambda: marks.has("go"))
        yield numbers(10, partition * 10)

    ctx.register_table("t", FunctionTable(second_waits, partitions=2))
    with ctx.execute_stream("SELECT a FROM t") as stream:
        first = stream.read_next_batch()
        marks.leave("go")
        rest = stream.read_all()
    assert first["a"].to_pylist() == list(range(10))
    assert rest["a"].to_pylist() == list(range(10, 20))


# The context


def test_connect_context_registers_replaces_and_forgets(ctx: hr.SessionContext, spark: Any) -> None:
    ctx.register_table("t", FunctionTable(ten_rows))
    with pytest.raises(hr.TableExistsError):
        ctx.register_table("t", FunctionTable(ten_rows))
    ctx.register_table("t", FunctionTable(ten_rows, partitions=2), replace=True)
    assert spark.table("t").count() == 20
    assert ctx.table_names() == ["t"]
    assert ctx.deregister_table("t") is True
    assert ctx.deregister_table("t") is False
    assert not spark.catalog.tableExists("t")
    assert "Spark Connect at 127.0.0.1" in repr(ctx)


def test_connect_context_that_closes_takes_its_views_along_and_no_others(spark: Any) -> None:
    with hr.SessionContext(spark) as ctx:
        ctx.register_table("t", FunctionTable(ten_rows))
        ctx.register_table("mine", FunctionTable(ten_rows))
        spark.range(3).createOrReplaceTempView("mine")
    assert not spark.catalog.tableExists("t")
    assert spark.table("mine").count() == 3
    assert not [key for key in spark.conf.getAll if "headrace_" in key]
    spark.catalog.dropTempView("mine")


def test_connect_explain_tells_what_was_negotiated_and_sparks_plan(ctx: hr.SessionContext) -> None:
    ctx.register_table("t", table_of(pa.table({"a": range(10), "b": range(10), "c": range(10)}), answer=inexact))
    text = ctx.explain("SELECT a FROM t WHERE b > 3")
    assert text.startswith("scan 1: t (")
    assert "b > 3  INEXACT: used to skip data; Spark filters again" in text
    assert "columns       a, b  [2 of 3]" in text
    assert "== Physical Plan ==" in text


def test_connect_example_reads_a_live_object(ctx: hr.SessionContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    example = importlib.import_module("connect_session")
    assert example.main(ctx) == [{"inlet": 3.5, "outlet": 0.75}, {"inlet": 13.5, "outlet": 0.75}]


@pytest.mark.daily
def test_connect_page_code_runs_in_a_process_of_its_own(server: ConnectServer) -> None:
    addresses = {DOCUMENTED: server.url}
    code = f"from documents import run_blocks; run_blocks('docs/howto/connect.md', {{}}, {addresses!r})"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr[-2000:]


# Planning beside the server


def prints_a_megabyte(partition: int) -> Iterator[pa.RecordBatch]:
    os.write(1, b"." * (1 << 20))
    yield from ten_rows(partition)


def own_listener(partition: int) -> Iterator[pa.RecordBatch]:
    """The port on which the endpoint of this process listens."""
    ports = [one.laddr.port for one in psutil.Process().net_connections("tcp") if one.status == psutil.CONN_LISTEN]
    yield pa.record_batch([pa.array(ports, pa.int64())], schema=NUMBERS)


def what_the_file_says(partition: int) -> Iterator[pa.RecordBatch]:
    from pyspark import SparkFiles

    yield pa.record_batch([pa.array([int(Path(SparkFiles.get("told_in_connect.txt")).read_text())])], schema=NUMBERS)


def process_ids(partition: int) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch([pa.array([os.getpid()], pa.int64())], schema=NUMBERS)


@pytest.mark.daily("EXECUTORS")
@PLACEMENTS
def test_connect_planning_beside_the_server_gives_the_same_rows_from_another_process(
    spark: Any, placement: hr.Placement
) -> None:
    with hr.SessionContext(spark, planning="server") as ctx:
        ctx.register_table("t", FunctionTable(ten_rows, partitions=3, placement=placement))
        ctx.register_table("p", FunctionTable(process_ids, placement=hr.Placement.DRIVER))
        assert ctx.collect("SELECT a FROM t WHERE a > 4 ORDER BY a")["a"].to_pylist() == list(range(5, 30))
        (pid,) = ctx.collect("SELECT a FROM p")["a"].to_pylist()
        assert pid not in (os.getpid(), None)
        assert psutil.pid_exists(pid)
        ctx.register_table("t", FunctionTable(ten_rows), replace=True)
        assert spark.table("t").count() == 10
        assert "FunctionPlan" in ctx.explain("SELECT * FROM t")
        assert ctx.deregister_table("t") is True
        assert psutil.pid_exists(pid)
    wait_until(lambda: not psutil.pid_exists(pid), what="the end of the process, which has no table left")
    assert not spark.catalog.tableExists("p")


@pytest.mark.daily
def test_connect_planning_beside_the_server_ends_with_the_session(server: ConnectServer) -> None:
    from pyspark.sql.connect.session import SparkSession

    session = SparkSession.builder.remote(server.url).create()
    try:
        ctx = hr.SessionContext(session, planning="server")
        ctx.register_table("p", FunctionTable(process_ids, placement=hr.Placement.DRIVER))
        (pid,) = ctx.collect("SELECT a FROM p")["a"].to_pylist()
        assert psutil.pid_exists(pid)
    finally:
        session.stop()
    wait_until(lambda: not psutil.pid_exists(pid), what="the end of the process")
    ctx.close()


@pytest.mark.daily
def test_connect_planning_beside_the_server_names_what_fails(spark: Any) -> None:
    class Unplannable(FunctionTable):
        def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
            raise LookupError("no such shard")

    with hr.SessionContext(spark, planning="server") as ctx:
        with pytest.raises(hr.RegistrationError, match=r"table 'l'.*cannot be pickled.*planning='client'"):
            ctx.register_table("l", FunctionTable(threading.Lock()))  # type: ignore[arg-type]
        assert ctx.table_names() == []
        ctx.register_table("u", Unplannable(ten_rows))
        with pytest.raises(hr.ProviderError, match="LookupError: no such shard"):
            ctx.collect("SELECT * FROM u")
        ctx.register_table("f", FunctionTable(fails_after_a_batch))
        with pytest.raises(hr.ProviderError, match="no more: 0"):
            ctx.collect("SELECT * FROM f")
    with pytest.raises(ValueError, match="'client' or 'server'"):
        hr.SessionContext(spark, planning="elsewhere")


@pytest.mark.daily
def test_connect_planning_beside_the_server_survives_a_provider_that_prints_without_end(spark: Any) -> None:
    """To the descriptor itself, as a library in C or a child process does: nobody reads it after the first line."""
    with hr.SessionContext(spark, planning="server") as ctx:
        ctx.register_table("loud", FunctionTable(prints_a_megabyte, placement=hr.Placement.DRIVER))
        assert ctx.collect("SELECT sum(a) AS s FROM loud")["s"].to_pylist() == [45]


@pytest.mark.daily
def test_connect_planning_beside_the_server_uses_the_servers_certificate(tmp_path: Path) -> None:
    """What crosses TCP from the process beside the server is encrypted where the server's settings say so."""
    from pyspark.sql.connect.session import SparkSession

    make_identity(tmp_path, "server")
    files = {"certificate": str(tmp_path / "server.pem"), "key": str(tmp_path / "server.key")}
    with ConnectServer(config={f"spark.headrace.tls.{key}": value for key, value in files.items()}) as server:
        session = SparkSession.builder.remote(server.url).create()
        try:
            with hr.SessionContext(session, planning="server") as ctx:
                ctx.register_table("t", FunctionTable(own_listener, placement=hr.Placement.DRIVER))
                (port,) = ctx.collect("SELECT a FROM t")["a"].to_pylist()
                unverified = ssl.create_default_context()
                unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
                with (
                    socket.create_connection(("127.0.0.1", port), 10) as plain,
                    unverified.wrap_socket(plain) as encrypted,
                ):
                    assert encrypted.version() in ("TLSv1.2", "TLSv1.3")
        finally:
            session.stop()


# Files, catalogs and data sources


def test_connect_files_of_the_session_are_found_in_workers(ctx: hr.SessionContext, spark: Any, tmp_path: Path) -> None:
    (tmp_path / "told_in_connect.txt").write_text("17")
    spark.addArtifacts(str(tmp_path / "told_in_connect.txt"), file=True)
    ctx.register_table("told", FunctionTable(what_the_file_says))
    assert ctx.collect("SELECT a FROM told")["a"].to_pylist() == [17]


def test_connect_catalog_has_the_wanted_name_or_the_next(server: ConnectServer) -> None:
    from pyspark.sql.connect.session import SparkSession

    session = SparkSession.builder.remote(server.url).create()
    try:
        with hr.SessionContext(session, catalog="shop") as first, hr.SessionContext(session, catalog="shop") as second:
            assert (first.catalog, second.catalog) == ("shop", "shop_2")
            first.register_table("t", hr.MemTable(pa.table({"a": [1]})))
            second.register_table("u", hr.MemTable(pa.table({"a": [2]})))
            assert session.sql("SELECT a FROM shop.t UNION ALL SELECT a FROM shop_2.u ORDER BY a").collect() == [
                (1,),
                (2,),
            ]
        with hr.SessionContext(session, catalog="shop") as third:  # the server still has the first one's
            assert third.catalog == "shop_3"
    finally:
        session.stop()


def test_connect_session_catalogs_and_functions_are_refused_by_name(ctx: hr.SessionContext) -> None:
    with pytest.raises(hr.HeadraceError, match="need a classic Spark session"):
        ctx.register_catalog("crm", Shop())
    with pytest.raises(hr.HeadraceError, match="need a classic Spark session"):
        ctx.register_table_function("f", lambda: hr.MemTable(pa.table({"a": [1]})))


def test_connect_session_reads_a_provider_as_a_data_source(spark: Any) -> None:
    """Without the jar: no SessionContext was made for it."""
    provider = hr.MemTable(pa.table({"a": range(100), "b": [str(i) for i in range(100)]}), partitions=2)
    spark.dataSource.register(hr.as_data_source(provider, "headrace_hundred"))
    frame = spark.read.format("headrace_hundred").load()
    assert [row.b for row in frame.where("a >= 98").orderBy("a").collect()] == ["98", "99"]


# The secret


def test_connect_secret_is_in_no_option_plan_log_or_event(
    ctx: hr.SessionContext, server: ConnectServer, spark: Any
) -> None:
    attached: Any = ctx._attached
    ctx.register_table("t", FunctionTable(ten_rows, placement=hr.Placement.DRIVER))
    frame = spark.sql("SELECT * FROM t WHERE a > 3")
    assert len(frame.collect()) == 6
    secret = attached.endpoint._secret
    encoded = base64.b64encode(secret).decode()
    plan = frame._explain_string(extended=True)
    events = server.told_listeners()
    assert attached.planner.planned_scans()[-1].description() in events  # it is the right place to look
    for place, text in {"options": str(spark.conf.getAll), "plan": plan, "log": server.log, "events": events}.items():
        assert encoded not in text, place
        assert secret.hex() not in text, place


def test_connect_session_over_tls_reads_rows_and_refuses_another_certificate(
    spark: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    make_identity(tmp_path, "client")
    spark.conf.set("spark.headrace.tls.certificate", str(tmp_path / "client.pem"))
    spark.conf.set("spark.headrace.tls.key", str(tmp_path / "client.key"))
    try:
        hides_the_unix_socket(monkeypatch)
        with hr.SessionContext(spark) as ctx:
            ctx.register_table("t", hr.MemTable(pa.table({"a": range(50_000)}), partitions=2))
            assert ctx.collect("SELECT sum(a) AS s FROM t")["s"].to_pylist() == [1249975000]
        other = make_identity(tmp_path, "other").certificate_der
        hides_the_unix_socket(monkeypatch, certificate=base64.b64encode(other).decode())
        with pytest.raises(hr.TransportError, match="another certificate"):
            hr.SessionContext(spark)
    finally:
        spark.conf.unset("spark.headrace.tls.certificate")
        spark.conf.unset("spark.headrace.tls.key")
