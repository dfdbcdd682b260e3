"""Spark Connect where the connector's jar is on the server's own class path: sessions share its classes, not tables."""

from __future__ import annotations

import logging
import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

import headrace as hr
from connect_server import ConnectServer
from headrace.spark.launch import JAR
from headrace.worker.payload import payload_of
from producing import NUMBERS, FunctionTable, ten_rows

pytestmark = pytest.mark.timeout(200)


@pytest.fixture(scope="module")
def server() -> Iterator[ConnectServer]:
    with ConnectServer(config={"spark.driver.extraClassPath": str(JAR)}) as running:
        yield running


def session_of(user: str, server: ConnectServer) -> Any:
    from pyspark.sql.connect.session import SparkSession

    logging.getLogger("pyspark.sql.connect").setLevel(logging.CRITICAL)
    return SparkSession.builder.remote(f"{server.url}/;user_id={user}").create()


@pytest.fixture
def alice(server: ConnectServer) -> Iterator[Any]:
    session = session_of("alice", server)
    yield session
    session.stop()


@pytest.fixture
def mallory(server: ConnectServer) -> Iterator[Any]:
    session = session_of("mallory", server)
    yield session
    session.stop()


class WritesItsProcess:
    """Unpickled, it writes the number of the process that did so."""

    def __init__(self, path: Path) -> None:
        self._code = f"import os; open({str(path)!r}, 'a').write(str(os.getpid()) + ' ')"

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, (self._code,)


def process_ids(_partition: int) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch([pa.array([os.getpid()], pa.int64())], schema=NUMBERS)


def catalog_options(session: Any, catalog: str) -> dict[str, str]:
    """What a session's settings say of its catalog; they are in the server's event log."""
    keys = ("context", "session", "planner", "archive")
    found = {key: session.conf.get(f"spark.sql.catalog.{catalog}.{key}", None) for key in keys}
    return {key: value for key, value in found.items() if value is not None}


def attempts(session: Any, catalog: str, pickled: str) -> list[Any]:
    """What comes of everything that can be asked of a catalog: rows, or an error's text."""
    found: list[Any] = []
    for statement in (
        f"SHOW TABLES IN {catalog}",
        f"SELECT * FROM {catalog}.secret",
        f"EXPLAIN SELECT a FROM {catalog}.secret WHERE a > 1 LIMIT 2",
        f"DESCRIBE TABLE {catalog}.secret",
        f"SHOW NAMESPACES IN {catalog}",
        f"CREATE TABLE {catalog}.`headrace.registered.secret` TBLPROPERTIES ('headrace.provider' = '{pickled}')",
        f"DROP TABLE {catalog}.secret",
    ):
        try:
            found.append(session.sql(statement).collect())
        except PySparkException as error:
            found.append(str(error))
    return found


@pytest.mark.daily("server")
@pytest.mark.parametrize("planning", ["client", "server"])
def test_connect_session_that_knows_the_context_of_another_has_nothing_of_it(
    alice: Any, mallory: Any, tmp_path: Path, planning: str
) -> None:
    unpickled = tmp_path / "unpickled"
    with hr.SessionContext(alice, planning=planning) as ctx, hr.SessionContext(mallory, planning="server") as own:
        ctx.register_table("secret", FunctionTable(ten_rows))
        ctx.register_table("p", FunctionTable(process_ids, placement=hr.Placement.DRIVER))
        (planner,) = ctx.collect("SELECT a FROM p")["a"].to_pylist()
        assert (planner == os.getpid()) == (planning == "client")
        known = catalog_options(alice, ctx.catalog)
        archive = catalog_options(mallory, own.catalog)["archive"]
        pickled = mallory.client.cache_artifact(payload_of(pickle.dumps(WritesItsProcess(unpickled))))
        tried = {
            "as_it_is": known,
            "context_alone": {"context": known["context"]},
            "own_archive": {"context": known["context"], "session": known["session"], "archive": archive},
            "both": {**known, "archive": archive},
        }
        for name, options in tried.items():
            mallory.conf.set(f"spark.sql.catalog.{name}", "org.headrace.spark.catalog.HeadraceCatalog")
            for key, value in options.items():
                mallory.conf.set(f"spark.sql.catalog.{name}.{key}", value)
            tables, rows, plan, columns, *_ = attempts(mallory, name, pickled)
            assert tables == [] or "of another session" in tables, name
            assert isinstance(rows, str), name
            assert "HeadraceScan" not in str(plan), name
            assert isinstance(columns, str), name
        by = set(unpickled.read_text().split())  # a session may have its own process unpickle what it likes
        assert str(planner) not in by
        assert ctx.collect("SELECT sum(a) AS s FROM secret")["s"].to_pylist() == [45]
        assert ctx.collect("SELECT a FROM p")["a"].to_pylist() == [planner]


@pytest.mark.daily
def test_connect_session_of_the_same_user_is_another_one_too(alice: Any, server: ConnectServer) -> None:
    with hr.SessionContext(alice) as ctx:
        ctx.register_table("secret", FunctionTable(ten_rows))
        second = session_of("alice", server)
        try:
            second.conf.set("spark.sql.catalog.x", "org.headrace.spark.catalog.HeadraceCatalog")
            for key, value in catalog_options(alice, ctx.catalog).items():
                second.conf.set(f"spark.sql.catalog.x.{key}", value)
            with pytest.raises(PySparkException, match="the context is of another session"):
                second.sql("SELECT * FROM x.secret").collect()
            with hr.SessionContext(second) as other:  # and has its own
                other.register_table("secret", FunctionTable(ten_rows, partitions=2))
                assert other.collect("SELECT count(*) AS n FROM secret")["n"].to_pylist() == [20]
        finally:
            second.stop()
        assert ctx.collect("SELECT count(*) AS n FROM secret")["n"].to_pylist() == [10]
