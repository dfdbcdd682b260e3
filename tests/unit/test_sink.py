"""TableSink: what it accepts and copies, when it is full, what it spills."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.errors import ScanEndedError, SinkClosedError, WriteTimeout
from headrace.execute.stopping import Ending
from headrace.push.channel import END
from headrace.spill.arrow_spill import ArrowSpill
from sinks import SCHEMA, batch, new_sink, received, xs

PATIENCE_S = 60.0


class OnlyArray:
    def __init__(self, inner: pa.RecordBatch) -> None:
        self._inner = inner

    def __arrow_c_array__(self, requested_schema: object = None) -> Any:
        return self._inner.__arrow_c_array__(requested_schema)


class OnlyStream:
    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return self._inner.__arrow_c_stream__(requested_schema)


# What is accepted


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (batch(1, 2), [[1, 2]]),
        (pa.Table.from_batches([batch(1), batch(2, 3)]), [[1], [2, 3]]),
        (OnlyArray(batch(1, 2)), [[1, 2]]),
        (OnlyStream(pa.Table.from_batches([batch(1), batch(2, 3)])), [[1], [2, 3]]),
    ],
    ids=["RecordBatch", "Table", "c_array", "c_stream"],
)
def test_write_arrow_data_of_any_kind_arrives_in_order(data: Any, expected: list[list[int]]) -> None:
    sink, channel = new_sink()
    sink.write(data)
    sink.close()
    batches = received(channel)
    assert xs(batches) == expected
    assert all(each.schema.equals(SCHEMA, check_metadata=True) for each in batches)


def test_write_not_arrow_raises_type_error() -> None:
    sink, channel = new_sink()
    with pytest.raises(TypeError, match="cannot write list to the streaming table 't'"):
        sink.write([1, 2])
    assert channel.stats.batches_written == 0


def test_write_endless_stream_is_written_as_it_comes() -> None:
    produced = 0

    def endless() -> Iterator[pa.RecordBatch]:
        nonlocal produced
        while True:
            produced += 1
            yield batch(produced)

    sink, channel = new_sink(capacity=2)
    reader = channel.claim(0)
    errors: list[BaseException] = []

    def write() -> None:
        try:
            sink.write(pa.RecordBatchReader.from_batches(SCHEMA, endless()))
        except ScanEndedError as error:
            errors.append(error)

    writing = threading.Thread(target=write, daemon=True)
    writing.start()
    taken = reader.take(1, 1 << 20)
    assert isinstance(taken, list)
    assert xs(taken) == [[1]]
    reader.end(Ending("limit", "LIMIT reached"))
    writing.join(PATIENCE_S)
    assert [str(error) for error in errors] == ["the scan of the streaming table 't' ended: LIMIT reached"]
    assert produced < 10


@pytest.mark.parametrize("data", [batch(), SCHEMA.empty_table(), pa.Table.from_batches([], SCHEMA)])
def test_write_no_rows_counts_and_is_not_queued(data: Any) -> None:
    sink, _ = new_sink(capacity=1)
    for _ in range(3):
        sink.write(data)
        assert sink.try_write(data)
    assert (sink.stats.batches_written, sink.stats.rows_written, sink.stats.waiting) == (6, 0, 0)
    sink.close()
    with pytest.raises(SinkClosedError):
        sink.write(data)


def test_write_no_columns_keeps_the_row_count() -> None:
    rows = pa.RecordBatch.from_struct_array(pa.array([{}, {}, {}], pa.struct([])))
    sink, channel = new_sink(pa.schema([]))
    sink.write(rows)
    assert [each.num_rows for each in received(channel)] == [3]


# The promise that the caller may reuse the data


@pytest.mark.parametrize("way", ["write", "try_write", "awrite", "table", "c_array", "c_stream"])
def test_write_numpy_overwritten_afterwards_keeps_the_values_written(way: str) -> None:
    values = np.arange(1000)
    schema = pa.schema([("x", pa.int64())])
    sink, channel = new_sink(schema)
    shared = pa.record_batch([pa.array(values)], schema=schema)
    if way == "awrite":
        asyncio.run(sink.awrite(shared))
    elif way == "try_write":
        assert sink.try_write(shared)
    else:
        table = pa.Table.from_batches([shared])
        sink.write({"table": table, "c_array": OnlyArray(shared), "c_stream": OnlyStream(table)}.get(way, shared))
    values[:] = -1
    assert shared.column(0)[0].as_py() == -1, "the batch shares numpy's memory, or this test shows nothing"
    assert xs(received(channel)) == [list(range(1000))]


def test_write_numpy_dictionary_overwritten_afterwards_keeps_the_values_written() -> None:
    values = np.arange(5)
    column = pa.DictionaryArray.from_arrays(pa.array([0, 4], pa.int32()), pa.array(values))
    sink, channel = new_sink(pa.schema([("x", column.type)]))
    sink.write(pa.record_batch({"x": column}))
    values[:] = -1
    assert xs(received(channel)) == [[0, 4]]


def test_write_small_slice_of_large_batch_counts_and_keeps_the_slice_alone() -> None:
    large = pa.record_batch({"x": pa.array(range(1_000_000), pa.int64()), "s": ["abc"] * 1_000_000})
    sink, channel = new_sink()
    sink.write(large.slice(500_000, 3))
    assert sink.stats.bytes_written < 1000
    (only,) = received(channel)
    assert only.get_total_buffer_size() < 1000
    assert xs([only]) == [[500_000, 500_001, 500_002]]


# Full


def test_try_write_full_returns_false_and_writes_nothing() -> None:
    sink, channel = new_sink(capacity=1)
    assert sink.try_write(batch(1))
    assert not sink.try_write(batch(2))
    sink.close()
    assert xs(received(channel)) == [[1]]


@pytest.mark.parametrize("way", ["try_write", "timeout", "awrite"])
def test_write_several_batches_all_or_nothing_are_written_as_one(way: str) -> None:
    several = pa.Table.from_batches([batch(1), batch(2), batch(3)])
    sink, channel = new_sink(capacity=2)
    if way == "try_write":
        assert sink.try_write(several)
    elif way == "timeout":
        sink.write(several, timeout=60)
    else:
        asyncio.run(sink.awrite(several))
    assert xs(received(channel)) == [[1, 2, 3]]


def test_write_full_for_the_timeout_raises_and_writes_nothing() -> None:
    sink, channel = new_sink(capacity=1)
    sink.write(batch(1))
    with pytest.raises(WriteTimeout):
        sink.write(pa.Table.from_batches([batch(2), batch(3)]), timeout=0.01)
    assert xs(received(channel)) == [[1]]


def test_awrite_cancelled_while_full_writes_nothing() -> None:
    sink, channel = new_sink(capacity=1)

    async def main() -> None:
        await sink.awrite(batch(1))
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(sink.awrite(pa.Table.from_batches([batch(2), batch(3)])), 0.02)

    asyncio.run(main())
    assert xs(received(channel)) == [[1]]


# Its partitions, and how it is shown


@pytest.mark.parametrize("i", [-1, 2])
def test_partition_out_of_range_raises(i: int) -> None:
    sink, _ = new_sink(partitions=2)
    with pytest.raises(IndexError, match=f"has the partitions 0 to 1, not {i}"):
        sink.partition(i)


def test_repr_names_table_partition_and_state() -> None:
    sink, _ = new_sink(partitions=2)
    assert repr(sink.partition(1)) == (
        "<TableSink of the streaming table 't', partition 1: open, 0 batches waiting, 0 rows written, 0 delivered>"
    )


def test_repr_shows_the_fill_level_and_what_was_written() -> None:
    sink, _ = new_sink(capacity=4)
    sink.write(batch(1, 2, 3))
    sink.close()
    assert "closed, 1 of 4 batches waiting, 3 rows written, 0 delivered" in repr(sink)
    shown = sink._repr_html_()
    assert "width: 25%" in shown
    assert "1 of 4 batches waiting<br>3 rows written" in shown


# Spilling


def test_arrow_spill_batches_come_back_equal_and_leave_no_file() -> None:
    spill = ArrowSpill()
    loaders = [spill.store(batch(i, None)) for i in range(3)]
    assert spill._directory is not None
    directory = spill._directory.path
    assert sum(name.endswith(".arrow") for name in os.listdir(directory)) == 3
    assert os.stat(directory).st_mode & 0o077 == 0
    assert [load() for load in loaders] == [batch(i, None) for i in range(3)]
    assert os.listdir(directory) == ["lock"]
    spill.store(batch(9))
    spill.close()
    spill.close()
    assert not os.path.exists(directory)
    with pytest.raises(OSError, match="closed"):
        spill.store(batch(1))


def test_write_more_partitions_than_readers_spills_and_delivers_all() -> None:
    spill = ArrowSpill()
    sink, channel = new_sink(capacity=1, partitions=2, spill=spill, stall_s=0.0)
    results: list[list[list[int]]] = []

    def one_slot() -> None:
        for partition in (0, 1):
            with channel.claim(partition) as reader:
                items: list[pa.RecordBatch] = []
                while (taken := reader.take(1 << 30, 1 << 40)) is not END:
                    assert isinstance(taken, list)
                    items += taken
            results.append(xs(items))

    reading = threading.Thread(target=one_slot, daemon=True)
    reading.start()
    with sink:
        for i in range(20):
            sink.partition(i % 2).write(batch(i), timeout=PATIENCE_S)
    reading.join(PATIENCE_S)
    assert results == [[[i] for i in range(0, 20, 2)], [[i] for i in range(1, 20, 2)]]
    assert spill._closed
