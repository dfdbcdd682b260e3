"""A sink with its channel, what is written to the one and what comes out of the other; for the tests."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from headrace.push.channel import END, Channel
from headrace.push.packing import Packing
from headrace.push.sink import TableSink

SCHEMA = pa.schema([("x", pa.int64()), ("s", pa.string())])


def batch(*xs: int | None) -> pa.RecordBatch:
    return pa.record_batch({"x": pa.array(xs, pa.int64()), "s": pa.array([str(x) for x in xs])}, SCHEMA)


def new_sink(schema: pa.Schema = SCHEMA, capacity: int = 16, **options: Any) -> tuple[TableSink, Channel[Any]]:
    channel: Channel[Any] = Channel("t", capacity, **options)
    return TableSink(channel, Packing(schema, channel.capacity)), channel


def received(channel: Channel[Any], partition: int = 0) -> list[pa.RecordBatch]:
    """Everything written to a stream that has ended, or what waits in one that has not."""
    items: list[pa.RecordBatch] = []
    reader = channel.claim(partition)
    while taken := reader.take(1 << 30, 1 << 40, timeout_s=0):
        if taken is END:
            break
        assert isinstance(taken, list)
        items += taken
    return items


def xs(batches: list[pa.RecordBatch]) -> list[list[int]]:
    return [each.column("x").to_pylist() for each in batches]
