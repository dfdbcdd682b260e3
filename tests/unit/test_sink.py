"""TableSink: what it accepts, copies and refuses, and how it ends."""

from __future__ import annotations

import asyncio
import datetime
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.errors import (
    ProducerLostError,
    ScanEndedError,
    SchemaMismatchError,
    SinkClosedError,
    StreamConsumedError,
    WriteTimeout,
)
from headrace.push.channel import END, Channel
from headrace.push.packing import Packing
from headrace.push.sink import TableSink
from headrace.push.spill import ArrowSpill
from headrace.push.table import StreamingTable

SCHEMA = pa.schema([("x", pa.int64()), ("s", pa.string())])
PATIENCE_S = 60.0


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
    reader.end("LIMIT reached")
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


# Schema


@pytest.mark.parametrize(
    "wrong",
    [
        pa.record_batch({"x": pa.array([1], pa.int32()), "s": ["a"]}),
        pa.record_batch({"y": pa.array([1], pa.int64()), "s": ["a"]}),
        pa.record_batch({"s": ["a"], "x": pa.array([1], pa.int64())}),
        pa.record_batch({"x": pa.array([1], pa.int64())}),
        pa.table({"x": pa.array([1.5])}),
    ],
    ids=["type", "name", "order", "missing", "table"],
)
def test_write_other_schema_raises_with_both_and_writes_nothing(wrong: Any) -> None:
    sink, _ = new_sink()
    for write in (sink.write, sink.try_write, lambda data: asyncio.run(sink.awrite(data))):
        with pytest.raises(SchemaMismatchError) as raised:
            write(wrong)
        text = str(raised.value)
        assert "'t'" in text
        assert "expected:\n  x: int64\n  s: string\n" in text
        assert "found:\n" + "\n".join(f"  {field.name}: {field.type}" for field in wrong.schema) in text
    assert sink.stats.batches_written == 0


def test_write_metadata_and_nullability_differ_is_accepted() -> None:
    schema = pa.schema([pa.field("x", pa.int64(), nullable=False)], metadata={"a": "b"})
    sink, channel = new_sink(schema)
    sink.write(pa.record_batch({"x": [1, 2]}).replace_schema_metadata({"other": "one"}))
    (only,) = received(channel)
    assert only.schema.equals(schema, check_metadata=True)


NON_NULL: dict[str, tuple[pa.Field, list[Any], list[Any], str]] = {
    "top": (pa.field("f", pa.int64(), nullable=False), [1, 2], [1, None], "f"),
    "struct": (
        pa.field("f", pa.struct([pa.field("a", pa.int64(), nullable=False)])),
        [{"a": 1}, None],
        [{"a": 1}, {"a": None}],
        "f.a",
    ),
    "list": (
        pa.field("f", pa.list_(pa.field("item", pa.int64(), nullable=False))),
        [[1, 2], None, []],
        [[1], [None]],
        "f.element",
    ),
    "large list": (
        pa.field("f", pa.large_list(pa.field("item", pa.int64(), nullable=False))),
        [[1, 2], None, []],
        [[1], [None]],
        "f.element",
    ),
    "fixed-size list": (
        pa.field("f", pa.list_(pa.field("item", pa.int64(), nullable=False), 2)),
        [[1, 2], None],
        [[1, 2], [3, None]],
        "f.element",
    ),
    "list view of strings": (
        pa.field("f", pa.list_view(pa.field("item", pa.string_view(), nullable=False))),
        [["a", "b"], None, []],
        [["a"], [None]],
        "f.element",
    ),
    "map": (
        pa.field("f", pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False))),
        [[("a", 1)], None],
        [[("a", None)]],
        "f.value",
    ),
}


@pytest.mark.parametrize("where", NON_NULL)
def test_write_null_where_declared_not_null_raises_and_writes_nothing(where: str) -> None:
    field, right, wrong, path = NON_NULL[where]
    schema = pa.schema([field])
    sink, _ = new_sink(schema)

    def as_batch(values: list[Any]) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([pa.array(values, field.type)], schema=schema)

    sink.write(as_batch(right))
    with pytest.raises(SchemaMismatchError, match=f"nulls in '{path}', which is declared not null"):
        sink.write(pa.Table.from_batches([as_batch(right), as_batch(wrong)]))
    sink.write(as_batch([*wrong, *right]).slice(len(wrong)))  # a slice is judged by its own rows
    assert sink.stats.batches_written == 2


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


# Ends


def test_with_block_succeeds_closes() -> None:
    sink, channel = new_sink()
    with sink:
        sink.write(batch(1))
    assert sink.stats.state == "closed"
    assert xs(received(channel)) == [[1]]
    with pytest.raises(SinkClosedError, match="'t' was closed"):
        sink.write(batch(2))


def test_with_block_raises_fails_the_stream_and_propagates() -> None:
    sink, channel = new_sink()

    def produce() -> None:
        with sink:
            sink.write(batch(1))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        produce()
    reader = channel.claim(0)
    taken = reader.take(10, 1000)
    assert isinstance(taken, list)
    assert xs(taken) == [[1]]
    with pytest.raises(ZeroDivisionError):
        reader.take(10, 1000)


def test_with_block_closes_then_raises_propagates() -> None:
    sink, _ = new_sink()

    def produce() -> None:
        with sink:
            sink.close()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        produce()
    assert sink.stats.state == "closed"


def test_fail_not_an_exception_raises_type_error() -> None:
    sink, _ = new_sink()
    with pytest.raises(TypeError, match="the exception that is the cause, not str"):
        sink.fail("broken")  # type: ignore[arg-type]


def test_sink_collected_without_close_fails_the_reader() -> None:
    sink, channel = new_sink()
    sink.write(batch(1))
    del sink
    reader = channel.claim(0)
    assert len(reader.take(10, 1000)) == 1  # type: ignore[arg-type]
    with pytest.raises(ProducerLostError, match="went away before close"):
        reader.take(10, 1000)


def test_sink_collected_after_close_ends_cleanly() -> None:
    sink, channel = new_sink()
    with sink:
        pass
    del sink
    assert channel.claim(0).take(1, 1) is END


def test_partition_outlives_the_sink_keeps_the_stream_open() -> None:
    sink, channel = new_sink(partitions=2)
    part = sink.partition(1).partition(0)
    del sink
    gc.collect()
    part.write(batch(1))
    assert channel.stats.state == "open"
    part.close()
    del part
    gc.collect()
    assert xs(received(channel, 0)) == [[1]]
    with pytest.raises(ProducerLostError):  # nobody closed partition 1
        channel.claim(1).take(1, 1)


def test_partition_temporaries_collected_do_not_end_the_stream() -> None:
    sink, channel = new_sink(partitions=2)
    for i in range(4):
        sink.partition(i % 2).write(batch(i))
    sink.close()
    assert [xs(received(channel, i)) for i in (0, 1)] == [[[0], [2]], [[1], [3]]]


def test_partition_as_context_manager_closes_that_partition_alone() -> None:
    sink, channel = new_sink(partitions=2)
    with sink.partition(0) as part:
        part.write(batch(1))
    assert sink.stats.state == "open"
    assert xs(received(channel, 0)) == [[1]]
    with sink.partition(1):
        pass
    assert sink.stats.state == "closed"


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


def test_exit_with_an_open_sink_and_a_waiting_reader_does_not_hang() -> None:
    script = """
import threading, pyarrow as pa
from headrace.push.channel import Channel
from headrace.push.packing import Packing
from headrace.push.sink import TableSink
channel = Channel("t")
sink = TableSink(channel, Packing(pa.schema([("x", pa.int64())]), channel.capacity))
threading.Thread(target=lambda: channel.claim(0).take(1, 1), daemon=True).start()
print("done")
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True, text=True, timeout=60, env={"PYTHONPATH": ":".join(sys.path)},
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


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


# Who claims the one scan


def streaming_table(partitions: int = 2) -> tuple[StreamingTable, TableSink]:
    channel: Channel[Any] = Channel("t", partitions=partitions)
    packing = Packing(SCHEMA, channel.capacity)
    return StreamingTable("t", channel, packing), TableSink(channel, packing)


def test_claim_of_a_query_that_is_over_takes_nothing() -> None:
    table, sink = streaming_table()
    table.query_ended(7, "[SPARK_JOB_CANCELLED] Job 1 cancelled", planned=False)
    with pytest.raises(ScanEndedError, match="the query was cancelled"):
        table.claim(0, 7)
    assert sink.stats.state == "open"
    assert table.claim(0, 8) is not None


def test_query_planned_and_cancelled_before_it_claimed_ends_the_scan() -> None:
    table, sink = streaming_table()
    table.query_ended(7, "[SPARK_JOB_CANCELLED] Job 1 cancelled", planned=True)
    assert sink.stats.state == "ended"
    with pytest.raises(StreamConsumedError, match="another query"):
        table.claim(0, 8)


def test_query_planned_that_ends_does_not_end_the_scan_of_another() -> None:
    table, sink = streaming_table()
    table.claim(0, 7)
    table.query_ended(8, "StreamConsumedError: ...", planned=True)
    assert sink.stats.state == "open"


def test_claim_again_after_the_producers_failure_gets_it_again() -> None:
    table, sink = streaming_table()
    sink.fail(LookupError("no such shard"))
    for _ in range(4):
        with pytest.raises(LookupError, match="no such shard"):
            next(table.claim(0, 7))


def test_claim_again_after_the_reader_stopped_early_is_refused_with_why() -> None:
    table, sink = streaming_table()
    table.claim(0, 7).interrupt("the task was killed")
    sink.fail(LookupError("later"))
    with pytest.raises(StreamConsumedError, match="the task was killed"):
        table.claim(0, 7)


# Types that are one type to Spark


CAST: dict[str, tuple[pa.DataType, pa.DataType, list[Any]]] = {
    "large string": (pa.string(), pa.large_string(), ["a", None]),
    "string view": (pa.string(), pa.string_view(), ["a", None]),
    "dictionary": (pa.string(), pa.dictionary(pa.int8(), pa.string()), ["a", None, "a"]),
    "to large string": (pa.large_string(), pa.string(), ["a", None]),
    "to dictionary": (pa.dictionary(pa.int32(), pa.string()), pa.string(), ["a", None, "a"]),
    "binary view": (pa.binary(), pa.binary_view(), [b"a", None]),
    "nanoseconds": (pa.timestamp("us"), pa.timestamp("ns"), [0, 1_000_000, None]),
    "milliseconds": (pa.timestamp("us", "UTC"), pa.timestamp("ms", "Europe/Berlin"), [0, 1, None]),
    "unsigned": (pa.int16(), pa.uint8(), [0, 255, None]),
    "large list of views": (pa.list_(pa.string()), pa.large_list(pa.string_view()), [["a"], None, []]),
    "struct": (pa.struct([("s", pa.string())]), pa.struct([("s", pa.large_string())]), [{"s": "a"}, None]),
}


@pytest.mark.parametrize("case", CAST)
def test_write_type_that_is_the_same_to_spark_is_cast(case: str) -> None:
    declared, given, values = CAST[case]
    sink, channel = new_sink(pa.schema([("x", declared)]))
    array = pa.array(values, given)
    sink.write(pa.record_batch({"x": array}))
    assert sink.try_write(pa.table({"x": array}))
    sink.close()
    batches = received(channel)
    assert [each.schema.field("x").type for each in batches] == [declared] * len(batches)
    rows = [value for each in batches for value in each.column(0).to_pylist()]
    assert rows == [*array.to_pylist(), *array.to_pylist()]


def test_write_polars_and_pandas_frames_as_they_are() -> None:
    import pandas as pd
    import polars as pl

    when = [datetime.datetime(2024, 1, 2, 3, 4, 5, 6)]
    schema = pa.schema([("n", pa.int64()), ("s", pa.string()), ("at", pa.timestamp("us"))])
    sink, channel = new_sink(schema)
    sink.write(pl.DataFrame({"n": [1], "s": ["polars"], "at": when}))
    sink.write(pd.DataFrame({"n": [2], "s": ["pandas"], "at": pd.to_datetime(when).as_unit("ns")}))
    sink.write(pd.DataFrame({"n": [3], "s": pd.Categorical(["category"]), "at": pd.to_datetime(when)}))
    sink.close()
    rows = pa.Table.from_batches(received(channel)).to_pylist()
    assert rows == [{"n": n, "s": s, "at": when[0]} for n, s in ((1, "polars"), (2, "pandas"), (3, "category"))]


def test_write_value_that_a_cast_would_change_raises_and_writes_nothing() -> None:
    sink, channel = new_sink(pa.schema([("at", pa.timestamp("us"))]))
    with pytest.raises(SchemaMismatchError, match=r"column 'at': a value of type timestamp\[ns\] does not fit"):
        sink.write(pa.record_batch({"at": pa.array([1], pa.timestamp("ns"))}))
    assert channel.stats.batches_written == 0


@pytest.mark.parametrize("given", [pa.int32(), pa.string(), pa.float64()], ids=str)
def test_write_type_that_spark_tells_apart_raises_with_the_remedy(given: pa.DataType) -> None:
    sink, _ = new_sink(pa.schema([("x", pa.int64())]))
    with pytest.raises(SchemaMismatchError, match=f"column 'x' is {given}, expected int64\nmend it with batch.cast"):
        sink.write(pa.record_batch({"x": pa.array([], given)}))


def test_write_null_inside_a_cast_dictionary_where_none_is_declared_raises() -> None:
    sink, _ = new_sink(pa.schema([pa.field("x", pa.string(), nullable=False)]))
    values = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), pa.array(["a", None]))
    with pytest.raises(SchemaMismatchError, match="nulls in 'x', which is declared not null"):
        sink.write(pa.record_batch({"x": values}))
