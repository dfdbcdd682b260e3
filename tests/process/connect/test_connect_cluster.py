"""A Spark Connect server whose executors are JVMs of their own: the jar and the package reach them by themselves."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyspark
import pytest
from faults.cluster import python_without_headrace

import headrace as hr
from connect_server import ConnectServer
from connecting import endless, fails_after_a_batch
from placements import placements
from producing import FunctionTable, Marks, ten_rows, wait_until
from pushing import ROWS, Producer, filled, rows

PLACES = pa.schema([("pid", pa.int64()), ("package", pa.string())])

pytestmark = [pytest.mark.timeout(300), pytest.mark.daily]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    from pyspark.sql.connect.session import SparkSession

    config = {
        "spark.executor.memory": "512m",
        "spark.driver.memory": "1g",
        "spark.executor.extraJavaOptions": os.environ.get("SPARK_SUBMIT_OPTS", ""),
        "spark.task.maxFailures": "1",
    }
    environment = {"PYSPARK_PYTHON": python_without_headrace(tmp_path_factory.mktemp("python"))}
    with ConnectServer("local-cluster[2,1,1024]", config, environment=environment) as running:
        session = SparkSession.builder.remote(running.url).create()
        application = session.conf.get("spark.app.id")
        session.stop()
        yield running
    shutil.rmtree(Path(pyspark.__file__).parent / "work" / application)  # the executors' logs


@pytest.fixture(params=["client", "server"])
def ctx(request: pytest.FixtureRequest, spark: Any) -> Iterator[hr.SessionContext]:
    with hr.SessionContext(spark, planning=request.param) as context:
        yield context


def where_it_runs(partition: int) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch([pa.array([os.getpid()]), pa.array([hr.__file__])], schema=PLACES)


def jvm_above(pid: int) -> int:
    return next(process.pid for process in psutil.Process(pid).parents() if process.name() == "java")


@placements
def test_connect_cluster_reads_every_partition(ctx: hr.SessionContext, placement: hr.Placement) -> None:
    ctx.register_table("t", FunctionTable(ten_rows, partitions=5, placement=placement))
    assert ctx.collect("SELECT a FROM t ORDER BY a")["a"].to_pylist() == list(range(50))
    assert ctx.spark.sql("SELECT sum(a) AS s FROM t WHERE a > 9").collect() == [(sum(range(10, 50)),)]


def test_connect_cluster_executes_plans_below_the_executors(ctx: hr.SessionContext, server: ConnectServer) -> None:
    ctx.register_table("t", FunctionTable(where_it_runs, schema=PLACES, partitions=4))
    for row in ctx.collect("SELECT * FROM t").to_pylist():
        assert jvm_above(row["pid"]) != server.pid
        assert ".zip/headrace/" in row["package"]


@placements
def test_connect_cluster_limit_stops_the_producer(
    ctx: hr.SessionContext, placement: hr.Placement, tmp_path: Path
) -> None:
    marks = Marks(tmp_path)
    ctx.register_table("t", FunctionTable(endless(marks), placement=placement))
    assert len(ctx.spark.sql("SELECT a FROM t WHERE a % 2 = 0 LIMIT 5").collect()) == 5
    wait_until(lambda: marks.has("stopped"), what="the producer's end")


def test_connect_cluster_reads_push_tables_and_ends_their_scans(spark: Any) -> None:
    with hr.SessionContext(spark) as ctx:
        filled(ctx, "t", 100, partitions=3)
        assert ctx.collect("SELECT a FROM t ORDER BY a")["a"].to_pylist() == list(range(100))
        sink = ctx.register_streaming_table("u", ROWS, partitions=3)
        producers = [Producer(lambda i, at=at: sink.partition(at).write(rows(i))) for at in range(3)]  # type: ignore[misc]
        assert len(spark.sql("SELECT a FROM u LIMIT 3").collect()) == 3
        for producer in producers:
            assert "needs no more rows" in producer.scan_ended()


@placements
def test_connect_cluster_closed_result_stream_stops_the_producer(
    ctx: hr.SessionContext, placement: hr.Placement, tmp_path: Path
) -> None:
    marks = Marks(tmp_path)
    ctx.register_table("t", FunctionTable(endless(marks), placement=placement))
    with ctx.execute_stream("SELECT count(*) FROM t"):
        wait_until(lambda: marks.has("started"), what="the producer's start")
    wait_until(lambda: marks.has("stopped"), what="the producer's end")


@placements
def test_connect_cluster_provider_that_raises_is_a_provider_error(
    ctx: hr.SessionContext, placement: hr.Placement
) -> None:
    ctx.register_table("t", FunctionTable(fails_after_a_batch, placement=placement))
    with pytest.raises(hr.ProviderError) as caught:
        ctx.collect("SELECT * FROM t")
    assert (caught.value.exception_type, caught.value.message) == ("ValueError", "no more: 0\nsee the manual")
    assert (caught.value.table, caught.value.partition) == ("t", 0)
    ctx.register_table("u", FunctionTable(ten_rows))
    assert ctx.spark.table("u").count() == 10
