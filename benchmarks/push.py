"""Push: a producer thread and a query that run at the same time, against what people do today."""

from __future__ import annotations

import multiprocessing
import os
import socket
import tempfile
import threading
from collections.abc import Callable
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

import headrace as hr
import headrace.streaming
from benchmarks.data import SCHEMA, base_batch, batches
from benchmarks.harness import Case, Contender
from headrace.transport.frames import SEND_BUFFER_BYTES, FrameWriter

AGGREGATE = "SELECT sum(id), sum(v), sum(k), sum(octet_length(s)) FROM {t}"
SOCKET = "bare Unix socket"
MEMORY = "Spark, data in JVM memory"
CREATE = "createDataFrame"
PARQUET = "Parquet detour"
FLUSH = "one flush per batch"


def pushed(ctx: hr.SessionContext, source: Callable[[], Any], query: str = AGGREGATE, capacity: int = 16) -> Any:
    """Push everything ``source`` yields from one thread while this one queries."""
    sink = ctx.register_streaming_table("pushed", SCHEMA, capacity=capacity)

    def produce() -> None:
        with sink:
            for batch in source():
                sink.write(batch)

    producer = threading.Thread(target=produce)
    producer.start()
    try:
        return [tuple(row) for row in ctx.sql(query.format(t="pushed")).collect()]
    finally:
        producer.join()
        ctx.deregister_table("pushed")


def cases(ctx: hr.SessionContext, rows: int) -> list[Case]:
    cached = _cached(ctx, rows)
    small = rows // 4
    hundred = 6_000_000
    return [
        Case(
            "push: 65 k-row batches, four-column aggregate",
            [
                Contender("headrace", lambda: pushed(ctx, lambda: batches(rows))),
                Contender(SOCKET, lambda: _bare_socket(rows)),
                Contender(MEMORY, lambda: [tuple(r) for r in ctx.sql(AGGREGATE.format(t=cached)).collect()]),
            ],
            {SOCKET: 0.6},
            agree=False,
        ),
        Case(
            "push: 100-row batches",
            [
                Contender("headrace", lambda: pushed(ctx, lambda: batches(hundred, 100), capacity=256)),
                Contender(FLUSH, lambda: _flushing(lambda: pushed(ctx, lambda: batches(hundred, 100), capacity=256))),
            ],
            {FLUSH: 4.0},
        ),
        Case(
            "push: from batches to the answer",
            [
                Contender("headrace", lambda: pushed(ctx, lambda: batches(small))),
                Contender(CREATE, lambda: _created(ctx, small)),
                Contender(PARQUET, lambda: _detoured(ctx, small)),
            ],
            {CREATE: 5.0, PARQUET: 1.5},
        ),
    ]


def memory_growth_mb(ctx: hr.SessionContext, total_bytes: int = 5 << 30) -> float:
    """How much this process grows while ``total_bytes`` are pushed through a channel of four batches."""
    batch = base_batch()
    count = total_bytes // batch.nbytes
    me = psutil.Process()
    pushed(ctx, lambda: (batch for _ in range(20)), capacity=4)
    before = peak = me.memory_info().rss

    def watched() -> Any:
        nonlocal peak
        for _ in range(count):
            peak = max(peak, me.memory_info().rss)
            yield batch

    pushed(ctx, watched, capacity=4)
    return (peak - before) / 1e6


def _cached(ctx: hr.SessionContext, rows: int) -> str:
    """The same data in Spark's own column cache."""
    ctx.register_table("push_source", hr.StreamTable(SCHEMA, [lambda: batches(rows)]), replace=True)
    frame = ctx.table("push_source")
    frame.createOrReplaceTempView("push_cached")
    ctx.spark.catalog.cacheTable("push_cached")
    ctx.spark.table("push_cached").count()
    return "push_cached"


def _bare_socket(rows: int) -> None:
    """The same frames to a process that only receives them."""
    directory = tempfile.mkdtemp()
    path = os.path.join(directory, "bare.sock")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(1)
    reader = multiprocessing.get_context("fork").Process(target=_drain, args=(path,))
    reader.start()
    sock, _ = listener.accept()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
    writer = FrameWriter(sock, SCHEMA)
    writer.schema()
    for batch in batches(rows):
        writer.batch(batch)
    sock.close()
    reader.join()
    listener.close()
    os.unlink(path)
    os.rmdir(directory)


def _drain(path: str) -> None:
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(path)
    buffer = bytearray(1 << 20)
    while sock.recv_into(buffer):
        pass
    os._exit(0)


def _flushing(run: Callable[[], Any]) -> Any:
    """Headrace with merging switched off."""
    rows, headrace.streaming._TAKEN_ROWS = headrace.streaming._TAKEN_ROWS, 1
    try:
        return run()
    finally:
        headrace.streaming._TAKEN_ROWS = rows


def _created(ctx: hr.SessionContext, rows: int) -> Any:
    table = pa.Table.from_batches(batches(rows))
    frame = ctx.spark.createDataFrame(table)
    return [tuple(row) for row in frame.selectExpr("sum(id)", "sum(v)", "sum(k)", "sum(octet_length(s))").collect()]


def _detoured(ctx: hr.SessionContext, rows: int) -> Any:
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "detour.parquet")
        with pq.ParquetWriter(path, SCHEMA) as writer:
            for batch in batches(rows):
                writer.write_batch(batch)
        frame = ctx.spark.read.parquet(path)
        return [tuple(row) for row in frame.selectExpr("sum(id)", "sum(v)", "sum(k)", "sum(octet_length(s))").collect()]
