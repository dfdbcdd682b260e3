"""Packs: small batches behind one another in one piece of memory, and back again."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.errors import ScanEndedError, SchemaMismatchError, SinkClosedError
from headrace.execute.stopping import Ending
from headrace.push import packing
from headrace.push.channel import END, Channel
from headrace.push.packing import MANY_BATCHES, PACKED_ROWS, Packing
from headrace.push.sink import TableSink

SCHEMA = pa.schema([("x", pa.int64()), ("s", pa.string())])
DAY = datetime.date(2026, 1, 1)
NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)


def batch(*xs: int) -> pa.RecordBatch:
    return pa.record_batch({"x": pa.array(xs, pa.int64()), "s": pa.array([str(x) for x in xs])}, SCHEMA)


def new_sink(
    schema: pa.Schema = SCHEMA, capacity: int = MANY_BATCHES, **options: Any
) -> tuple[TableSink, Channel[Any], Packing]:
    batches = Packing(schema, capacity)
    channel: Channel[Any] = Channel("t", capacity, new_pack=batches.new_pack, **options)
    return TableSink(channel, batches), channel, batches


def taken(channel: Channel[Any]) -> list[Any]:
    items = channel.claim(0).take(1 << 30, 1 << 40, timeout_s=0)
    assert isinstance(items, list)
    return items


def values(batches: list[pa.RecordBatch]) -> list[int]:
    return [x for each in batches for x in each.column("x").to_pylist()]


COLUMNS = [
    pa.array([True, None, False, True, True, None, False, True, True, None, True]),
    pa.array([*range(10), None], pa.int8()),
    pa.array([*range(10), None], pa.uint64()),
    pa.array(np.arange(11, dtype=np.float16)),
    pa.array([0.5, None, float("nan")] * 4),
    pa.array([decimal.Decimal("1.25"), None] * 6, pa.decimal128(10, 2)),
    pa.array([decimal.Decimal("1.25"), None] * 6, pa.decimal256(50, 2)),
    pa.array([DAY, None] * 6),
    pa.array([DAY, None] * 6, pa.date64()),
    pa.array([1, None] * 6, pa.time32("s")),
    pa.array([1, None] * 6, pa.time64("ns")),
    pa.array([NOON, None] * 6, pa.timestamp("us", "UTC")),
    pa.array([1, None] * 6, pa.duration("ms")),
    pa.array(["a", None, "", "\u00e9" * 20] * 3),
    pa.array(["a", None, "", "b" * 20] * 3, pa.large_string()),
    pa.array([b"a", None, b"", b"b" * 20] * 3),
    pa.array([b"ab", None] * 6, pa.binary(2)),
    pa.array([[1, None], None, [], [2, 3, 4]] * 3),
    pa.array([[1, None], None, [], [2, 3, 4]] * 3, pa.large_list(pa.int64())),
    pa.array([[1, 2], None] * 6, pa.list_(pa.int32(), 2)),
    pa.array([{"a": 1, "b": ["x", None]}, None, {"a": None, "b": None}] * 4),
    pa.array([[("k", 1)], None, []] * 4, pa.map_(pa.string(), pa.int32())),
    pa.nulls(12),
    pa.RunEndEncodedArray.from_arrays(pa.array([3, 7, 12], pa.int32()), pa.array(["a", None, "b"])),
    pa.UnionArray.from_sparse(pa.array([0, 1, 0] * 4, pa.int8()), [pa.array(range(12)), pa.array(["x"] * 12)]),
    pa.UnionArray.from_dense(
        pa.array([0, 1, 0] * 4, pa.int8()), pa.array([0, 0, 1, 2, 1, 3, 4, 2, 5, 6, 3, 7], pa.int32()),
        [pa.array(range(8)), pa.array(["x", "y", "z", "w"])],
    ),
]  # fmt: skip


@pytest.mark.parametrize("column", COLUMNS, ids=[str(column.type) for column in COLUMNS])
def test_pack_whole_batches_and_slices_of_any_type_come_back_equal(column: pa.Array) -> None:
    whole = pa.record_batch({"c": column, "n": pa.array(range(len(column)))})
    batches = Packing(whole.schema, MANY_BATCHES)
    assert batches.small_size(whole) > 0
    pack = batches.new_pack()
    parts = [whole, whole.slice(3, 5), whole.slice(2), whole.slice(10, 1)]
    for part in parts:
        pack.add(part, part.num_rows, part.nbytes)
    merged = pa.Table.from_batches(batches.merged([pack.sealed()]), whole.schema)
    merged.validate(full=True)
    # As text, in which NaN is equal to itself.
    assert str(merged.to_pylist()) == str([row for part in parts for row in part.to_pylist()])


class Unregistered(pa.ExtensionType):
    def __init__(self) -> None:
        super().__init__(pa.int64(), "headrace.test.unregistered")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> Unregistered:
        return cls()


@pytest.mark.parametrize(
    "kind",
    [
        pa.dictionary(pa.int8(), pa.string()),
        pa.struct([("d", pa.dictionary(pa.int8(), pa.string()))]),
        pa.list_(pa.string_view()),
        pa.binary_view(),
        pa.list_view(pa.int64()),
        Unregistered(),
    ],
    ids=str,
)
def test_packing_types_that_a_stream_would_not_hold_as_they_are_stay_batches(kind: pa.DataType) -> None:
    schema = pa.schema([("c", kind), ("x", pa.int64())])
    empty = pa.RecordBatch.from_arrays([pa.nulls(1, each) for each in schema.types], schema=schema)
    assert Packing(schema, 10_000).small_size(empty) == 0


def test_packing_without_columns_or_with_little_room_stays_with_batches() -> None:
    assert Packing(pa.schema([]), 10_000).small_size(pa.record_batch([], schema=pa.schema([]))) == 0
    few, many = (Packing(SCHEMA, capacity) for capacity in (MANY_BATCHES - 1, MANY_BATCHES))
    assert (few.small_size(batch(1)), few.many) == (0, False)
    assert (many.small_size(batch(1)) > 0, many.many) == (True, True)


def test_small_size_is_what_a_batch_shows_and_0_if_that_is_much() -> None:
    batches = Packing(SCHEMA, MANY_BATCHES)
    assert batches.small_size(batch(*range(100))) == batch(*range(100)).get_total_buffer_size()
    assert batches.small_size(batch(*range(PACKED_ROWS + 1))) == 0
    assert batches.small_size(batch()) == 0
    rows = [{"x": i, "s": "y" * 1000} for i in range(1000)]
    wide = pa.RecordBatch.from_pylist(rows, SCHEMA)
    assert batches.small_size(wide.slice(0, 100)) == 0
    assert 10_000 < batches.small_size(wide.slice(500, 10)) < 12_000


@pytest.mark.parametrize(("limit", "most"), [("BATCH_ROWS", 50), ("PUSHED_BYTES", 500)])
def test_write_full_pack_starts_another(monkeypatch: pytest.MonkeyPatch, limit: str, most: int) -> None:
    monkeypatch.setattr(packing, limit, most)
    sink, channel, batches = new_sink()
    for i in range(100):
        sink.write(batch(i))
    items = taken(channel)
    assert len(items) > 1
    assert values(batches.merged(items)) == list(range(100))


def test_write_small_and_large_batches_keep_their_order() -> None:
    sink, channel, batches = new_sink()
    large = pa.concat_batches([batch(*range(1000, 1000 + PACKED_ROWS)), batch(5000)])
    table = pa.Table.from_batches([batch(6000), batch(6001)])
    for data in [batch(1), batch(2), large, batch(3), table, batch(4), large.slice(5, 2)]:
        sink.write(data)
    items = taken(channel)
    assert any(isinstance(item, pa.Buffer) for item in items)
    assert any(isinstance(item, pa.RecordBatch) for item in items)
    (merged,) = batches.merged(items)
    expected = [1, 2, *range(1000, 1000 + PACKED_ROWS), 5000, 3, 6000, 6001, 4, 1005, 1006]
    assert values([merged]) == expected
    assert merged.schema.equals(SCHEMA, check_metadata=True)


def test_write_packed_then_overwritten_keeps_what_was_written() -> None:
    numbers = np.arange(100)
    sink, channel, batches = new_sink(pa.schema([("x", pa.int64())]))
    sink.write(pa.record_batch({"x": numbers}))
    numbers[:] = -1
    items = taken(channel)
    assert [type(item) for item in items] == [pa.Buffer]
    assert values(batches.merged(items)) == list(range(100))


def test_write_packed_slice_counts_and_keeps_the_slice_alone() -> None:
    large = pa.record_batch({"x": pa.array(range(1_000_000), pa.int64()), "s": ["abc"] * 1_000_000}, SCHEMA)
    sink, channel, batches = new_sink()
    sink.write(large.slice(500_000, 3))
    assert sink.stats.bytes_written < 2000
    (item,) = taken(channel)
    assert item.size < 2000
    assert values(batches.merged([item])) == [500_000, 500_001, 500_002]


def test_write_packed_counts_every_batch_and_is_bounded_by_capacity() -> None:
    sink, channel, batches = new_sink(capacity=MANY_BATCHES)
    for i in range(MANY_BATCHES):
        assert sink.try_write(batch(i, i))
    assert not sink.try_write(batch(-1))
    stats = sink.stats
    assert (stats.waiting, stats.batches_written, stats.rows_written) == (MANY_BATCHES, MANY_BATCHES, 2 * MANY_BATCHES)
    assert stats.bytes_written > 0
    assert len(batches.merged(taken(channel))) == 1
    stats = sink.stats
    assert (stats.waiting, stats.batches_delivered, stats.rows_delivered) == (0, MANY_BATCHES, 2 * MANY_BATCHES)
    assert stats.bytes_delivered == stats.bytes_written
    assert channel._lanes.memory == 0
    assert sink.try_write(batch(1))


def test_write_packed_is_bounded_by_bytes() -> None:
    sink, channel, _ = new_sink(capacity=100_000, max_bytes=50_000)
    written = 0
    while sink.try_write(batch(*range(200))):
        written += 1
    assert channel._lanes.memory >= 50_000
    assert 5 <= written <= 50


def test_write_nulls_where_none_may_be_are_refused_when_small_too() -> None:
    schema = pa.schema([pa.field("x", pa.int64(), nullable=False)])
    sink, channel, batches = new_sink(schema)
    sink.write(pa.record_batch({"x": pa.array([1, 2])}, schema))
    with pytest.raises(SchemaMismatchError, match="nulls in 'x'"):
        sink.write(pa.record_batch([pa.array([None, 1])], schema=schema))
    with pytest.raises(SchemaMismatchError, match="nothing was written"):
        sink.write(batch(1))
    items = taken(channel)
    assert isinstance(items[0], pa.Buffer)
    assert values(batches.merged(items)) == [1, 2]


def test_write_after_the_end_raises_what_it_does_for_any_batch() -> None:
    sink, channel, batches = new_sink()
    sink.write(batch(1))
    sink.close()
    with pytest.raises(SinkClosedError):
        sink.write(batch(2))
    reader = channel.claim(0)
    items = reader.take(1, 1)
    assert isinstance(items, list)
    assert values(batches.merged(items)) == [1]
    assert reader.take(1, 1) is END

    sink, channel, _ = new_sink()
    sink.write(batch(1))
    channel.end_scan(Ending("limit", "enough"))
    assert (sink.stats.waiting, channel._lanes.memory) == (0, 0)
    with pytest.raises(ScanEndedError, match="enough"):
        sink.write(batch(2))
