"""What a JVM with little memory makes of large batches, rows and promises; prints what was seen as JSON."""

from __future__ import annotations

import json
import mmap
import os
import stat
import sys
from collections.abc import Iterator

import pyarrow as pa

import headrace as hr

NUMBERS = pa.schema([("a", pa.int64())])
BYTES = pa.schema([("b", pa.binary())])


def zeros(count: int) -> pa.Buffer:
    """Bytes that take no memory until somebody copies them."""
    return pa.py_buffer(mmap.mmap(-1, count))


def many_rows() -> Iterator[pa.RecordBatch]:
    """1.28 GB in one batch."""
    rows = 160_000_000
    yield pa.record_batch([pa.Array.from_buffers(pa.int64(), rows, [None, zeros(8 * rows)])], schema=NUMBERS)


def huge_row() -> Iterator[pa.RecordBatch]:
    """One row of 700 MB."""
    size = 700_000_000
    offsets = pa.array([0, size], pa.int32()).buffers()[1]
    yield pa.record_batch([pa.Array.from_buffers(pa.binary(), 1, [None, offsets, zeros(size)])], schema=BYTES)


def promised() -> Iterator[pa.RecordBatch]:
    """A schema, and the header of a frame as large as one may be, written by user code."""
    from headrace.transport.protocol import FRAME_HEADER, MAX_SECOND_BYTES, PROTOCOL_VERSION, FrameKind

    frame = sys._getframe()
    while frame is not None and frame.f_code.co_name != "serve_partition":
        frame = frame.f_back
    nonce, schema = frame.f_locals["nonce"], NUMBERS.serialize().to_pybytes()
    header = FRAME_HEADER.pack(FrameKind.SCHEMA, PROTOCOL_VERSION, 0, len(schema), 0, nonce) + schema
    header += FRAME_HEADER.pack(FrameKind.BATCH, PROTOCOL_VERSION, 0, 0, MAX_SECOND_BYTES, nonce)
    for entry in os.listdir("/proc/self/fd"):
        try:
            if stat.S_ISSOCK(os.fstat(int(entry)).st_mode):
                os.write(int(entry), header)
                break
        except OSError:
            continue
    yield pa.record_batch([pa.array([1])], schema=NUMBERS)


def ten_rows() -> Iterator[pa.RecordBatch]:
    yield pa.record_batch([pa.array(range(10))], schema=NUMBERS)


def outcome(function) -> object:
    try:
        return function()
    except Exception as error:
        return [type(error).__name__, str(error)]


def main() -> None:
    found: dict[str, object] = {}
    alive: list[object] = []
    with hr.SessionContext(master="local[1]", config={"spark.driver.memory": "512m"}) as ctx:
        ctx.register_table("many_rows", hr.SimpleTable(NUMBERS, many_rows))
        ctx.register_table("huge_row", hr.SimpleTable(BYTES, huge_row))
        ctx.register_table("promised", hr.SimpleTable(NUMBERS, promised))
        ctx.register_table("ten_rows", hr.SimpleTable(NUMBERS, ten_rows))
        queries = {
            "many rows": "SELECT count(*), max(a) FROM many_rows WHERE a = 0",
            "huge row": "SELECT length(b) FROM huge_row",
            "promised": "SELECT * FROM promised",
            "huge result": "SELECT repeat('0123456789', 60000000 + CAST(rand() AS INT)) AS s",
        }
        for name, query in queries.items():
            found[name] = outcome(lambda query=query: list(ctx.collect(query).to_pylist()[0].values()))
            alive.append(outcome(lambda: f"{ctx.collect('SELECT a FROM ten_rows').num_rows} rows"))
    print("RESULT " + json.dumps({**found, "alive": alive}))


main()
