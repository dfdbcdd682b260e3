"""A Spark Connect session that is adopted: whether it can be, under which names, and what it learns of the secret."""

from __future__ import annotations

import base64
import socket
import threading
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

import headrace as hr
from certificates import make_identity
from connect_server import ConnectServer
from connecting import hides_the_unix_socket
from headrace.spark.connect.artifacts import KnownSession
from producing import FunctionTable, ten_rows, wait_until

pytestmark = pytest.mark.timeout(200)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    """One that tells all it can: in its log, and in the events from which the web pages are made."""
    with ConnectServer(events=tmp_path_factory.mktemp("events")) as running:
        yield running


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


def test_connect_server_of_an_unsupported_spark_is_refused_and_nothing_is_left_there(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(spark), "version", property(lambda session: "3.5.6"))
    with pytest.raises(hr.HeadraceError, match=r"server runs Spark 3\.5\.6, .* needs 4\.0 or newer"):
        hr.SessionContext(spark)
    assert not [key for key in spark.conf.getAll if "headrace" in key]


PLANNINGS = pytest.mark.parametrize("planning", ["client", "server"])


@PLANNINGS
def test_connect_workers_of_another_python_version_are_named(
    spark: Any, planning: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.worker.payload.PYTHON_VERSION", "3.99")  # of this process: the others are not patched
    with hr.SessionContext(spark, planning=planning) as ctx, pytest.raises(hr.HeadraceError, match=r"3\.99") as caught:
        ctx.register_table("t", FunctionTable(ten_rows))
        ctx.collect("SELECT a FROM t")
    text = {"client": "PYTHON_VERSION_MISMATCH", "server": "both must be of one minor version"}[planning]
    assert text in str(caught.value)


@pytest.mark.daily
def test_connect_server_whose_python_has_no_pyarrow_is_told_so(tmp_path: Path) -> None:
    from pyspark.sql.connect.session import SparkSession

    venv.create(tmp_path / "bare", symlinks=True)
    python = str(tmp_path / "bare" / "bin" / "python")
    with ConnectServer(environment={"PYSPARK_PYTHON": python}) as server:
        session = SparkSession.builder.remote(server.url).create()
        try:
            with hr.SessionContext(session) as ctx:
                ctx.register_table("t", FunctionTable(ten_rows))
                with pytest.raises(hr.TransportError, match="No module named 'pyarrow'") as worker:
                    ctx.collect("SELECT a FROM t")
            with (
                hr.SessionContext(session, planning="server") as ctx,
                pytest.raises(hr.TransportError, match="with pyarrow") as planner,
            ):
                ctx.register_table("t", FunctionTable(ten_rows))
        finally:
            session.stop()
    assert python in str(worker.value)
    assert python in str(planner.value)


def test_connect_session_of_a_silent_server_keeps_no_other_waiting(spark: Any) -> None:
    from pyspark.sql.connect.session import SparkSession

    with socket.create_server(("127.0.0.1", 0)) as silent:
        other: Any = SparkSession.builder.remote(f"sc://127.0.0.1:{silent.getsockname()[1]}").create()
        other.client.set_retry_policies([])
        known, ended = KnownSession.of(other), threading.Event()

        def ask() -> None:
            try:
                with known.naming, pytest.raises(PySparkException):
                    other.conf.get("spark.sql.catalog.shop", None)
            finally:
                ended.set()

        threading.Thread(target=ask, daemon=True).start()
        wait_until(known.naming.locked, what="a question that nobody answers")
        with hr.SessionContext(spark) as ctx:
            assert ctx.collect("SELECT 1 AS one").to_pylist() == [{"one": 1}]
        assert not ended.is_set()
    other.client.close()
    assert ended.wait(60)


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
        with hr.SessionContext(session, catalog="shop") as third:  # the server still has the first one's, loaded
            assert third.catalog == "shop"
            third.register_table("v", hr.MemTable(pa.table({"a": [3]})))
            assert session.sql("SELECT a FROM shop.v").collect() == [(3,)]
            assert [row.tableName for row in session.sql("SHOW TABLES IN shop").collect()] == ["v"]
    finally:
        session.stop()


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
    assert attached.planner.scans.plans()[-1].description() in events  # it is the right place to look
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
