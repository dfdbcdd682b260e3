"""Real columns of more than 2 GiB of text in one batch, in every type that can hold them; takes 5 GB of memory."""

from __future__ import annotations

import mmap
import struct

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace.execute.partition_stream import PartitionStream, ScanTask
from headrace.execute.stopping import StopFlag
from producing import FunctionPlan

ROWS = 640
VALUE_BYTES = 4 << 20  # 2.5 GiB in all


def large() -> pa.Array:
    data = pa.py_buffer(mmap.mmap(-1, ROWS * VALUE_BYTES))
    offsets = np.arange(ROWS + 1, dtype=np.int64) * VALUE_BYTES
    return pa.Array.from_buffers(pa.large_binary(), ROWS, [None, pa.py_buffer(offsets), data])


def views() -> pa.Array:
    data = pa.py_buffer(bytes(VALUE_BYTES))
    view = struct.pack("<i4sii", VALUE_BYTES, bytes(4), 0, 0)
    return pa.Array.from_buffers(pa.binary_view(), ROWS, [None, pa.py_buffer(view * ROWS), data])


def dictionary() -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array([0] * ROWS, pa.int32()), pa.array([bytes(VALUE_BYTES)]))


def runs() -> pa.Array:
    return pa.RunEndEncodedArray.from_arrays(pa.array([ROWS], pa.int32()), pa.array([bytes(VALUE_BYTES)]))


@pytest.mark.timeout(900)
@pytest.mark.parametrize("make", [large, views, dictionary, runs])
def test_column_of_more_than_2_gib_arrives_whole_in_several_batches(make) -> None:  # type: ignore[no-untyped-def]
    column = make()
    schema = pa.schema([("b", column.type)])
    plan = FunctionPlan(schema, lambda _: iter([pa.record_batch([column], schema=schema)]), 1, hr.Placement.DRIVER)
    stream = PartitionStream(ScanTask("t", plan, schema, schema, None), 0, StopFlag())
    rows = size = 0
    for batch in stream:
        batch.validate(full=True)
        assert batch.schema.field("b").type == pa.binary()
        rows += batch.num_rows
        size += pa.compute.sum(pa.compute.binary_length(batch["b"])).as_py()
    assert (rows, size) == (ROWS, ROWS * VALUE_BYTES)
