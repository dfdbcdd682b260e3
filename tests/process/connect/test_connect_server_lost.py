"""A Spark Connect server that is killed while its queries read: everybody is told, by name, and nothing goes on."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest

import headrace as hr
from connect_server import ConnectServer
from headrace.spark.connect.patience import PATIENCE_SECONDS
from placements import placements
from producing import NUMBERS, FunctionTable, Marks, numbers, wait_until

SOON_S = PATIENCE_SECONDS + 20.0  # a few seconds more are promised; the machines that run tests are busy
PLANNINGS = pytest.mark.parametrize("planning", ["client", "server"])
QUERIES = ("native", "collect", "stream")

pytestmark = [pytest.mark.timeout(300), pytest.mark.daily]


class Witness(threading.Thread):
    """Runs a function to its end, and knows when and how it ended."""

    def __init__(self, function: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self._function = function
        self.outcome: object = None
        self.ended_at = 0.0
        self.start()

    def run(self) -> None:
        try:
            self.outcome = self._function()
        except BaseException as error:
            self.outcome = error
        self.ended_at = time.monotonic()


@dataclass(frozen=True)
class Ending:
    """What something ended with, and how long after the server was killed; or how long a call took."""

    outcome: object
    seconds: float


def one_whole_partition_and_one_without_end(marks: Marks, name: str) -> Callable[[int], Iterator[pa.RecordBatch]]:
    def produce(partition: int) -> Iterator[pa.RecordBatch]:
        yield numbers(10)
        if partition == 0:
            return
        marks.leave(f"started-{name}")
        try:
            while True:
                time.sleep(0.02)  # a slow source
                yield numbers(10)
        finally:
            marks.leave(f"closed-{name}")

    return produce


def write_without_end(sink: hr.TableSink) -> None:
    while True:
        sink.write(numbers(10))


def timed(function: Callable[[], object]) -> Ending:
    started = time.monotonic()
    witness = Witness(function)
    witness.join(SOON_S)
    assert not witness.is_alive(), "it still waits"
    return Ending(witness.outcome, witness.ended_at - started)


@cache
def killed(placement: hr.Placement, planning: str) -> dict[str, Ending]:
    from pyspark.sql.connect.session import SparkSession

    found: dict[str, Ending] = {}
    with tempfile.TemporaryDirectory(prefix="hr") as directory, ConnectServer("local[4]") as server:
        marks = Marks(Path(directory))
        session: Any = SparkSession.builder.remote(server.url).create()
        ctx = hr.SessionContext(session, planning=planning)
        for name in QUERIES:
            produce = one_whole_partition_and_one_without_end(marks, name)
            ctx.register_table(name, FunctionTable(produce, partitions=2, placement=placement))
        stream = ctx.execute_stream("SELECT a FROM stream")
        read: list[pa.RecordBatch] = []
        witnesses = {
            "native": Witness(lambda: session.sql("SELECT sum(a) FROM native").collect()),
            "collect": Witness(lambda: ctx.collect("SELECT sum(a) FROM collect")),
            "stream": Witness(lambda: read.extend(stream)),
        }
        if planning == "client":  # a producer that waits, as no query reads
            sink = ctx.register_streaming_table("pushed", NUMBERS)
            witnesses["producer"] = Witness(partial(write_without_end, sink))
            wait_until(lambda: sink.stats.waiting == sink.stats.capacity, what="a sink that is full")
        wait_until(lambda: marks.count("started-") == 3 and bool(read), what="three queries under way")
        below = psutil.Process(server.pid).children(recursive=True)
        children = [child for child in below if "python" in child.name()]
        assert bool(children) is (placement is hr.Placement.EXECUTORS or planning == "server")
        os.kill(server.pid, signal.SIGKILL)
        killed_at = time.monotonic()
        _, alive = psutil.wait_procs(children, timeout=SOON_S)
        found["children"] = Ending(alive, time.monotonic() - killed_at)
        for name, witness in witnesses.items():
            witness.join(max(0.0, killed_at + 2 * SOON_S - time.monotonic()))
            found[name] = Ending("hangs" if witness.is_alive() else witness.outcome, witness.ended_at - killed_at)
        if placement is hr.Placement.DRIVER and planning == "client":
            wait_until(lambda: marks.count("closed-") == 3, what="the end of the generators in this process")
        found["sql"] = timed(lambda: ctx.sql("SELECT 1"))
        found["stream.close"] = timed(stream.close)
        found["close"] = timed(ctx.close)
        found["stop"] = timed(session.stop)
    return found


@placements
@PLANNINGS
def test_connect_server_killed_ends_every_query_with_an_error(placement: hr.Placement, planning: str) -> None:
    """A result that is short is never given for a whole one, though a partition of it had come."""
    from pyspark.errors.exceptions.connect import SparkConnectGrpcException

    found = killed(placement, planning)
    assert isinstance(found["native"].outcome, SparkConnectGrpcException)
    for name in ("collect", "stream"):
        assert isinstance(found[name].outcome, hr.TransportError)
        assert "the Spark Connect server does not answer any more" in str(found[name].outcome)
    assert max(found[name].seconds for name in QUERIES) < SOON_S


@placements
def test_connect_server_killed_ends_producers_that_nobody_reads(placement: hr.Placement) -> None:
    found = killed(placement, "client")["producer"]
    assert isinstance(found.outcome, hr.ScanEndedError)
    assert "the Spark Connect server is gone" in str(found.outcome)
    assert found.seconds < SOON_S


@placements
@PLANNINGS
def test_connect_server_killed_takes_workers_and_planners_along(placement: hr.Placement, planning: str) -> None:
    found = killed(placement, planning)["children"]
    assert found.outcome == []
    assert found.seconds < SOON_S


@placements
@PLANNINGS
def test_connect_server_killed_context_says_so_and_closes_at_once(placement: hr.Placement, planning: str) -> None:
    found = killed(placement, planning)
    assert isinstance(found["sql"].outcome, hr.TransportError)
    assert "make a new session and a new context" in str(found["sql"].outcome)
    assert (found["stream.close"].outcome, found["close"].outcome) == (None, None)
    assert found["close"].seconds < PATIENCE_SECONDS  # it asks nobody
    assert found["stop"].outcome is None
