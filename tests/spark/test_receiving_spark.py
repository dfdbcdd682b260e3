"""Spark's tasks that send their rows to code in Python, which echoes them, in workers and in the driver's process."""

from __future__ import annotations

import base64
import functools
import json
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.java_gateway import JavaClass
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import headrace as hr
from echoing import Echo, echo_task, words
from headrace.spark import launch
from headrace.transport.driver_partition import ReceivingPartition
from headrace.transport.endpoint import Endpoint
from headrace.worker.payload import payload_of
from java_checks import compiled_checks
from producing import FunctionTable, ten_rows, wait_until

pytestmark = [pytest.mark.core, pytest.mark.timeout(300)]  # with the time to compile

Run = Callable[[DataFrame, Echo], list[list[int]]]
BATCH_ROWS = 10


@pytest.fixture(scope="module")
def job(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The job that sends, in Spark's JVM."""
    launch.adopt(spark)
    classes, jar = tmp_path_factory.mktemp("classes"), tmp_path_factory.mktemp("jar") / "echo.jar"
    compiled_checks(classes)
    subprocess.run(["jar", "--create", "--file", str(jar), "-C", str(classes), "."], check=True)
    context: Any = spark.sparkContext
    context._jvm.org.apache.spark.sql.api.python.PythonSQLUtils.addJarToCurrentClassLoader(str(jar))
    context._jsc.addJar(str(jar))
    return JavaClass("org.headrace.spark.send.EchoJob", context._gateway._gateway_client)


@pytest.fixture(params=["worker", "endpoint", "endpoint over TCP"])
def run(request: pytest.FixtureRequest, spark: SparkSession, job: Any) -> Iterator[Run]:
    """Sends a query's rows to an echo, and returns the message of each partition."""
    endpoint = Endpoint("127.0.0.1" if request.param.endswith("TCP") else None)

    def run_job(query: DataFrame, echo: Echo) -> list[list[int]]:
        task = echo_task(echo)
        if request.param == "worker":
            payload = base64.b64encode(payload_of(pickle.dumps(task))).decode()
            archive = launch._installed[spark.sparkContext.applicationId]
            python = os.environ.get("PYSPARK_PYTHON") or sys.executable
            origin: dict[str, Any] = {"worker": {"python": python, "archive": archive, "task": payload}}
        else:
            ticket = endpoint.offer(lambda claim: ReceivingPartition(task, claim), receives=True, watched=True)
            address = endpoint.address(ticket)
            origin = {"endpoint": {**address, "path": ""} if request.param.endswith("TCP") else address}
        return [json.loads(message) for message in job.run(query._jdf, json.dumps(origin), "t", BATCH_ROWS)]

    yield run_job
    endpoint.close()


def rows(spark: SparkSession, count: int, partitions: int) -> DataFrame:
    return spark.range(0, count, 1, partitions).selectExpr("id AS a")


def test_rows_of_all_tasks_arrive_and_their_messages_come_back(spark: SparkSession, run: Run) -> None:
    for _ in range(2):  # the second time, workers that have received before
        messages = run(rows(spark, 1000, 4), Echo(7))
        assert [(number, partition, rows, batches) for number, partition, rows, batches, _ in messages] == [
            (7, partition, 250, 25) for partition in range(4)
        ]
    nothing = run(rows(spark, 10, 2).where("a < 0"), Echo(7))
    assert [message[2:4] for message in nothing] == [[0, 0], [0, 0]]


def test_workers_that_received_are_used_again_by_tasks_that_read(
    ctx: hr.SessionContext, spark: SparkSession, run: Run
) -> None:
    ctx.register_table("t", FunctionTable(ten_rows, partitions=4))
    for _ in range(3):
        assert sum(message[2] for message in run(rows(spark, 100, 4), Echo(1))) == 100
        assert ctx.collect("SELECT count(*) AS n FROM t").to_pylist() == [{"n": 40}]


def test_code_that_raises_fails_the_query_with_its_error(spark: SparkSession, run: Run) -> None:
    with pytest.raises(PySparkException) as error:
        run(rows(spark, 100_000, 2), Echo(5, ((3, "raise"),)))
    assert "LookupError: raised by 5" in str(error.value)
    assert sum(message[2] for message in run(rows(spark, 100, 4), Echo(1))) == 100


def test_query_that_fails_while_it_sends_ends_the_code_and_keeps_its_own_error(
    spark: SparkSession, run: Run, tmp_path: Path
) -> None:
    failing = rows(spark, 1000, 1).selectExpr("if(a = 500, raise_error('no more')::bigint, a) AS a")
    for attempt in range(20):
        seen = tmp_path / f"seen {attempt}"
        with pytest.raises(PySparkException) as error:
            run(failing, Echo(5, seen=str(seen)))
        assert "no more" in str(error.value)
        if "begun" in words(seen):  # else the task was gone before its code could begin
            break
    assert "begun" in words(seen)
    wait_until(lambda: "finally" in words(seen), what="the end of the code")
    assert "end" not in words(seen)


@pytest.mark.parametrize("when", ["at once", "in the midst", "blocked", "behind the end"])
def test_query_that_is_cancelled_interrupts_the_code(spark: SparkSession, run: Run, tmp_path: Path, when: str) -> None:
    """Blocked: the task waits, in the midst of a frame, for code that takes nothing."""
    seen = tmp_path / "seen"
    after = {"at once": 0, "in the midst": 2, "blocked": 1, "behind the end": 10}[when]
    count = 20_000_000 if when == "blocked" else 100
    failed: list[BaseException] = []

    def work() -> None:
        spark.sparkContext.setJobGroup("echo", "", interruptOnCancel=False)
        try:
            run(rows(spark, count, 1), Echo(5, ((after, "sleep"),), seen=str(seen)))
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    wait_until(lambda: "sleeping" in words(seen), what="the code")
    spark.sparkContext.cancelJobGroup("echo")
    wait_until(lambda: "finally" in words(seen), what="the end of the code")
    thread.join(60)
    assert words(seen) == ["begun", "sleeping", "StopRequested", "finally"]
    assert len(failed) == 1
    assert "cancelled" in str(failed[0])


def test_worker_that_dies_while_it_receives_is_a_named_error(spark: SparkSession, job: Any, tmp_path: Path) -> None:
    payload = base64.b64encode(payload_of(pickle.dumps(echo_task(Echo(5, ((2, "die"),)))))).decode()
    python = os.environ.get("PYSPARK_PYTHON") or sys.executable
    worker = {"python": python, "archive": launch._installed[spark.sparkContext.applicationId], "task": payload}
    send = functools.partial(job.run, rows(spark, 1_000_000, 1)._jdf, json.dumps({"worker": worker}), "t", BATCH_ROWS)
    with pytest.raises(PySparkException) as error:
        send()
    assert "the Python worker died while it received partition 0 of table 't'" in str(error.value)


def test_sender_leaves_no_memory_behind(spark: SparkSession, run: Run) -> None:
    run(rows(spark, 100_000, 4), Echo(1))
    with pytest.raises(PySparkException):
        run(rows(spark, 100_000, 4), Echo(1, ((3, "raise"),)))
    context: Any = spark.sparkContext
    allocator = context._jvm.org.apache.spark.sql.util.ArrowUtils.rootAllocator()
    wait_until(lambda: allocator.getAllocatedMemory() == 0, what="no memory in use")
