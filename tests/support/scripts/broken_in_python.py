"""What Python does to broken batches before Spark sees them; prints an outcome for each, as it comes, as JSON."""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1]))
import headrace as hr
from broken_arrays import ALL, INSIDE, broken_batch
from headrace.execute.partition_stream import PartitionStream, ScanTask
from headrace.execute.stopping import StopFlag
from headrace.push.channel import Channel
from headrace.push.packing import MANY_BATCHES, Packing
from headrace.push.sink import TableSink
from headrace.transport import frames
from headrace.transport.coalesce import CoalescingWriter
from headrace.transport.frames import FrameWriter
from recording import Batches


def stream(batch: pa.RecordBatch, limit: int | None = None) -> None:
    """As a worker does it: several in a row, so that they are merged, and written to a socket that is read."""
    near, far = socket.socketpair()
    reader = threading.Thread(target=lambda: all(iter(lambda: far.recv(1 << 16), b"")), daemon=True)
    reader.start()
    plan = Batches(batch.schema, [[batch] * 5])
    task = ScanTask("t", plan, batch.schema, batch.schema, limit)
    with near, far:
        writer = CoalescingWriter(FrameWriter(near, task.wire_schema(), 1))
        try:
            for each in PartitionStream(task, 0, StopFlag()):
                writer.send(each)
            writer.finish()
        finally:
            writer.abort()
            near.shutdown(socket.SHUT_WR)
            reader.join()


def in_pieces(batch: pa.RecordBatch) -> None:
    """As a batch is sent that is larger than a frame."""
    frames._SMALL_BATCH_BYTES = frames.SPLIT_BYTES = 1
    try:
        stream(batch)
    finally:
        frames._SMALL_BATCH_BYTES, frames.SPLIT_BYTES = sizes


def part(batch: pa.RecordBatch) -> None:
    """A slice that begins where the damage is."""
    stream(batch.slice(2, 1))


def sink(batch: pa.RecordBatch) -> None:
    packing = Packing(batch.schema, MANY_BATCHES)
    channel: Channel = Channel("t", MANY_BATCHES, new_pack=packing.new_pack)
    written = TableSink(channel, packing)
    for each in (batch, batch, batch.slice(0, 2), batch):
        written.write(each)
    written.write(pa.Table.from_batches([batch] * 2))
    packing.merged(channel.claim(0).take(1 << 30, 1 << 40, timeout_s=0))


def sink_of_another_type(batch: pa.RecordBatch) -> None:
    schema = pa.schema([("c", pa.string())])
    packing = Packing(schema, MANY_BATCHES)
    TableSink(Channel("t", MANY_BATCHES, new_pack=packing.new_pack), packing).write(batch)


def memory(batch: pa.RecordBatch) -> None:
    table = hr.MemTable([batch, batch])
    request = hr.ScanRequest(table.schema(), ("c",))
    for _ in table.scan(request).execute(0):
        pass


def filtered(batch: pa.RecordBatch) -> None:
    """Arrow's filter copies the values."""
    both = pa.RecordBatch.from_arrays([batch.column(0), pa.array([1, 2, 3])], ["c", "n"])
    table = hr.MemTable(both)
    request = hr.ScanRequest(
        table.schema(), ("c", "n"), (hr.Comparison("=", hr.Column("n"), hr.Literal(2, pa.int64())),)
    )
    for _ in table.scan(request).execute(0):
        pass


sizes = frames._SMALL_BATCH_BYTES, frames.SPLIT_BYTES
WAYS: dict[str, Callable[[pa.RecordBatch], None]] = {
    "stream": stream,
    "limit 1": lambda batch: stream(batch, 1),
    "limit 2": lambda batch: stream(batch, 2),
    "part": part,
    "in pieces": in_pieces,
    "sink": sink,
    "sink of another type": sink_of_another_type,
    "memory": memory,
    "filtered": filtered,
}

if __name__ == "__main__":
    for way, run in WAYS.items():
        for name in INSIDE if way == "filtered" else ALL:
            print("RUNNING", way, name, flush=True)
            try:
                run(broken_batch(name))
                found = ["passed", ""]
            except Exception as error:
                found = [type(error).__name__, str(error)]
            print("FOUND", json.dumps([way, name, *found]), flush=True)
