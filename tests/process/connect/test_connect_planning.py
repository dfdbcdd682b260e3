"""Spark Connect with planning="server": the tables are planned by a process beside the server."""

from __future__ import annotations

import importlib.util
import os
import socket
import ssl
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest

import headrace as hr
from certificates import make_identity
from connect_server import ConnectServer
from connecting import fails_after_a_batch
from placements import placements
from producing import NUMBERS, FunctionTable, ten_rows, wait_until

pytestmark = pytest.mark.timeout(200)


def prints_a_megabyte(partition: int) -> Iterator[pa.RecordBatch]:
    os.write(1, b"." * (1 << 20))
    yield from ten_rows(partition)


def own_listener(partition: int) -> Iterator[pa.RecordBatch]:
    """The port on which the endpoint of this process listens."""
    ports = [one.laddr.port for one in psutil.Process().net_connections("tcp") if one.status == psutil.CONN_LISTEN]
    yield pa.record_batch([pa.array(ports, pa.int64())], schema=NUMBERS)


def imports_only_here(partition: int) -> Iterator[pa.RecordBatch]:
    found = int(importlib.util.find_spec("only_here") is not None)
    yield pa.record_batch([pa.array([found], pa.int64())], schema=NUMBERS)


def process_ids(partition: int) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch([pa.array([os.getpid()], pa.int64())], schema=NUMBERS)


@pytest.mark.daily("EXECUTORS")
@placements
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
def test_connect_planning_beside_the_server_takes_no_modules_from_where_the_server_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither by python -m, nor by an empty entry in PYTHONPATH or in the client's own search path."""
    from pyspark.sql.connect.session import SparkSession

    imported = f"import os; open({str(tmp_path / 'imported')!r}, 'a').write(__name__)\n"
    (tmp_path / "headrace").mkdir()
    (tmp_path / "headrace" / "__init__.py").write_text(imported)
    (tmp_path / "sitecustomize.py").write_text(imported)
    (tmp_path / "only_here.py").write_text(imported)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    with ConnectServer(directory=tmp_path, environment={"PYTHONPATH": os.pathsep}) as server:
        session = SparkSession.builder.remote(server.url).create()
        try:
            with hr.SessionContext(session, planning="server") as ctx:
                ctx.register_table("t", FunctionTable(imports_only_here, placement=hr.Placement.DRIVER))
                assert ctx.collect("SELECT a FROM t")["a"].to_pylist() == [0]
        finally:
            session.stop()
    assert not (tmp_path / "imported").exists()


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
