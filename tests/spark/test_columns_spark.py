"""Dictionaries and views that cross to Spark as they are: every value arrives, whatever Spark does with the column."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from headrace.arrow.sizes import LARGE_ROWS
from headrace.transport.driver_partition import DriverPartition
from headrace.transport.protocol import TOTALS
from raw_frames import frame, serving

ROWS = LARGE_ROWS
VALUES = ["a name of more than twelve bytes", "short", "", None, "exactly 12 b", "thirteen byte"]
ORDER = [0, 1, None, 2, 3, 4, 5, 5]
EXPECTED = [None if i is None else VALUES[i] for i in ORDER] * (ROWS // len(ORDER))
INDEX_TYPES = [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64()]


def dictionary(values: Sequence[str | None] = VALUES, index: pa.DataType | None = None) -> pa.Array:
    indices = pa.array(ORDER * (ROWS // len(ORDER)), index or pa.int32())
    return pa.DictionaryArray.from_arrays(indices, pa.array(values, pa.string()))


def every_kind() -> pa.RecordBatch:
    plain = pa.array(EXPECTED, pa.string())
    return pa.record_batch(
        {
            "n": pa.array(range(ROWS)),
            **{f"d_{index}": dictionary(index=index) for index in INDEX_TYPES},
            "bytes": pa.DictionaryArray.from_arrays(dictionary().indices, pa.array(VALUES).cast(pa.binary())),
            "views": plain.cast(pa.string_view()),
            "byte_views": plain.cast(pa.binary()).cast(pa.binary_view()),
            "short": pa.array(["twelve bytes", None] * (ROWS // 2), pa.string_view()),
            "plain": plain,
        }
    )


@pytest.mark.daily("adaptive*")
@pytest.mark.usefixtures("adaptive")
@pytest.mark.parametrize("placement", hr.Placement)
def test_columns_as_they_are_arrive_with_every_value_and_null(ctx: hr.SessionContext, placement: hr.Placement) -> None:
    batch = every_kind()
    ctx.register_table("kinds", hr.SimpleTable(batch.schema, lambda: [batch, batch], placement=placement))
    found = ctx.collect("SELECT * FROM kinds").to_pydict()
    assert {kind.simpleString() for kind in (f.dataType for f in ctx.table("kinds").schema)} == {
        "bigint",
        "string",
        "binary",
    }
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        assert found[name] == column.to_pylist() * 2, name


QUERIES = [
    "SELECT c, count(*) AS n, count(c) AS m FROM {t} GROUP BY c ORDER BY c",
    "SELECT count(*) AS n FROM {t} WHERE c <> 'short' AND n > 10",
    "SELECT count(*) AS n FROM {t} WHERE c IS NULL",
    "SELECT max(c) AS a, min(c) AS b, sum(octet_length(c)) AS n, max(concat(c, '!')) AS d FROM {t}",
    "SELECT c, n FROM {t} ORDER BY c DESC NULLS LAST, n LIMIT 20",
    "SELECT a.c, count(*) AS n FROM {t} a JOIN (SELECT DISTINCT c FROM {t}) b ON a.c = b.c GROUP BY a.c ORDER BY a.c",
    "SELECT collect_set(c) AS s FROM (SELECT c FROM {t} ORDER BY c) WHERE c LIKE '%t%'",
]


@pytest.mark.daily("adaptive-SELECT c, count*", "not adaptive-SELECT c, n *")
@pytest.mark.usefixtures("adaptive")
@pytest.mark.parametrize("query", QUERIES)
def test_queries_over_columns_as_they_are_answer_as_over_plain_ones(ctx: hr.SessionContext, query: str) -> None:
    found = []
    for kind, column in {"plain": pa.array(EXPECTED), "d": dictionary(), "v": None}.items():
        array = pa.array(EXPECTED).cast(pa.string_view()) if column is None else column
        batch = pa.record_batch({"n": pa.array(range(ROWS)), "c": array})
        table = f"queried_{kind}"
        ctx.register_table(table, hr.SimpleTable(batch.schema, lambda batch=batch: [batch] * 2), replace=True)
        found.append(ctx.collect(query.format(t=table)).to_pydict())
    plain, *others = [
        {name: [sorted(v) if isinstance(v, list) else v for v in values] for name, values in answer.items()}
        for answer in found
    ]
    assert others == [plain, plain]


@pytest.mark.daily("adaptive*")
@pytest.mark.usefixtures("adaptive")
def test_dictionary_that_grows_and_is_replaced_is_right_in_every_batch(ctx: hr.SessionContext) -> None:
    order = pa.array(range(4), pa.int8()).take(pa.array([0, 1, 2, 3] * (ROWS // 4)))
    dictionaries = [["a", "b", "c", "d"], ["a", "b", "c", "d", "e"], ["d", "c", "b", "a"], ["d", "c", None, "a"]]
    arrays = [pa.DictionaryArray.from_arrays(order, pa.array(values)) for values in dictionaries]
    small = pa.array(["x", "y"]).dictionary_encode().cast(arrays[0].type)  # decoded: sent in between, plainly
    arrays = [arrays[0], arrays[0], *arrays[1:], small, arrays[0]]
    batches = [pa.record_batch({"c": array}) for array in arrays]
    ctx.register_table("replaced", hr.SimpleTable(batches[0].schema, lambda: batches))
    found = ctx.collect("SELECT c FROM replaced")["c"].to_pylist()
    assert found == [value for array in arrays for value in array.to_pylist()]


@pytest.mark.daily("adaptive*")
@pytest.mark.usefixtures("adaptive")
def test_sink_of_dictionaries_and_views_delivers_every_value(ctx: hr.SessionContext) -> None:
    batch = every_kind()
    sink = ctx.register_streaming_table("kinds_pushed", batch.schema)
    with ctx.execute_stream("SELECT * FROM kinds_pushed") as result, sink:
        sink.write(batch)
        sink.write(batch.slice(0, 3))
        sink.write(batch)
        sink.close()
        found = pa.Table.from_batches(list(result), result.schema).to_pydict()
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        values = column.to_pylist()
        assert found[name] == [*values, *values[:3], *values], name


def test_frames_of_polars_and_pandas_arrive_with_every_value(ctx: hr.SessionContext) -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    frame = polars.DataFrame({"s": EXPECTED * 2, "l": [f"row {i} of a long column" for i in range(2 * ROWS)]})
    frame = frame.with_columns(c=polars.col("s").cast(polars.Categorical))
    ctx.register_table("polars_frame", hr.MemTable(frame, partitions=2))
    assert ctx.collect("SELECT * FROM polars_frame").to_pylist() == frame.to_dicts()
    kept = ctx.collect("SELECT s, l, c FROM polars_frame WHERE c = 'short' AND l < 'row 2'").to_pylist()
    assert kept == [row for row in frame.to_dicts() if row["c"] == "short" and row["l"] < "row 2"]
    categories = pandas.DataFrame({"c": pandas.Categorical(EXPECTED)})  # a null is the index -1
    ctx.register_table("pandas_frame", hr.MemTable(categories))
    assert ctx.collect("SELECT c FROM pandas_frame")["c"].to_pylist() == EXPECTED


# What somebody else might send


def messages(*arrays: pa.Array) -> list[tuple[int, bytes, bytes]]:
    """Kind, metadata and body of the frames of these arrays, as column ``c``, up to the last batch."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([("c", arrays[0].type)])) as stream:
        for array in arrays:
            stream.write_batch(pa.record_batch({"c": array}))
    found = []
    reader = pa.ipc.MessageReader.open_stream(sink.getvalue())
    kinds = {"schema": 1, "dictionary": 5, "record batch": 2}
    for message in iter(reader.read_next_message, None):
        body = b"" if message.body is None else bytes(message.body)
        whole = bytes(message.serialize())
        found.append((kinds[message.type], whole[: len(whole) - len(body)], body))
        if len(found) == 2 * len(arrays) + 1 or (found[-1][0] == 2 and len(found) == len(arrays) + 1):
            break
    return found


def sent(frames: Sequence[tuple[int, bytes, bytes]], rows: int, batches: int = 1) -> bytes:
    return b"".join(frame(*each) for each in frames) + frame(3, TOTALS.pack(rows, batches))


TEXT = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 0], pa.int32()), pa.array(["a", "b", "c"]))
VIEWS = pa.array(["one of more than twelve", "b", None, "another of more than 12"], pa.string_view())


def without_dictionary() -> bytes:
    schema, _, batch = messages(TEXT)
    return sent([schema, batch], 4)


def before_the_schema() -> bytes:
    _, dictionary, _ = messages(TEXT)
    return sent([dictionary], 0)


def of_no_column() -> bytes:
    _, dictionary, _ = messages(TEXT)
    other = messages(pa.array(["plain"]))[0]
    return sent([other, dictionary], 0)


def with_index(value: int) -> bytes:
    schema, dictionary, (kind, metadata, body) = messages(TEXT)
    return sent([schema, dictionary, (kind, metadata, body.replace(struct.pack("<I", 2), struct.pack("<i", value)))], 4)


def with_offset(value: int) -> bytes:
    schema, (kind, metadata, body), batch = messages(TEXT)
    offsets = struct.pack("<4i", 0, 1, 2, 3)
    assert offsets in body
    return sent([schema, (kind, metadata, body.replace(offsets, struct.pack("<4i", 0, 1, value, 3))), batch], 4)


def with_view(*view: int) -> bytes:
    schema, (kind, metadata, body) = messages(VIEWS)
    length, prefix, buffer, offset = struct.unpack_from("<4i", VIEWS.buffers()[1], 48)
    old = struct.pack("<4i", length, prefix, buffer, offset)
    assert old in body
    return sent([schema, (kind, metadata, body.replace(old, struct.pack("<4i", *view)))], 4)


def with_data_buffers(count: int) -> bytes:
    schema, (kind, metadata, body) = messages(VIEWS)
    old = struct.pack("<q", 1)  # the count is the only such number that can be changed without changing others
    places = [at for at in range(0, len(metadata) - 7, 8) if metadata[at : at + 8] == old]
    changed = metadata[: places[0]] + struct.pack("<q", count) + metadata[places[0] + 8 :]
    return sent([schema, (kind, changed, body)], 4)


def with_long_indices() -> bytes:
    return sent(messages(pa.DictionaryArray.from_arrays(pa.array([0], pa.int64()), pa.array(["a"]))), 1)


BROKEN: dict[str, tuple[Callable[[], bytes], str]] = {
    "no dictionary": (without_dictionary, r"has 0 as index of row 0, expected 0 to -1"),
    "dictionary first": (before_the_schema, "a dictionary before the schema"),
    "of no column": (of_no_column, "a dictionary that cannot be read.*belongs to no column"),
    "index": (lambda: with_index(3), r"column 'c' \(Arrow Int\(32, true\)\) has 3 as index of row 2, expected 0 to 2"),
    "negative index": (lambda: with_index(-1), "as index of row 2, expected 0 to 2"),
    "offset": (lambda: with_offset(4096), r"column 'c.dictionary' \(Arrow Utf8\) has 4096 as offset 2 of 3"),
    "view": (lambda: with_view(23, 0, 0, 1 << 20), "column 'c' .* has a view of 23 bytes at 1048576 of data buffer 0"),
    "view of no buffer": (lambda: with_view(23, 0, 7, 0), "of data buffer 7 in row 3"),
    "view of negative length": (lambda: with_view(-1, 0, 0, 0), "has a view of -1 bytes"),
    "data buffers": (lambda: with_data_buffers(-1), "has -1 data buffers|cannot be read"),
    "many data buffers": (lambda: with_data_buffers(1 << 40), "data buffers|cannot be read"),
    "wide indices": (with_long_indices, "were planned"),
}


@pytest.mark.daily(every=3)
@pytest.mark.parametrize(("made", "message"), BROKEN.values(), ids=BROKEN)
def test_broken_columns_as_they_are_are_a_named_error_and_leak_nothing(
    ctx: hr.SessionContext, monkeypatch: pytest.MonkeyPatch, made: Callable[[], bytes], message: str
) -> None:
    data = made()
    monkeypatch.setattr(DriverPartition, "serve", serving(data))
    schema = pa.schema([("c", pa.string())])
    ctx.register_table("broken", hr.SimpleTable(schema, lambda: [], placement=hr.Placement.DRIVER), replace=True)
    with pytest.raises((hr.SchemaMismatchError, hr.TransportError), match=message):
        ctx.collect("SELECT c FROM broken")
    allocator: Any = ctx.spark._jvm.org.apache.spark.sql.util.ArrowUtils.rootAllocator()
    assert allocator.getAllocatedMemory() == 0


def test_whole_columns_as_they_are_are_read_where_nulls_hide_anything(
    ctx: hr.SessionContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a null's index and view nobody knows what they are."""
    garbage = struct.pack("<4i", 0, -1, 1 << 30, 1)
    indices = pa.Array.from_buffers(pa.int32(), 4, [pa.py_buffer(b"\x09"), pa.py_buffer(garbage)])
    views = bytearray(VIEWS.buffers()[1].to_pybytes())
    views[32:48] = struct.pack("<4i", 99, -1, -1, -1)
    view_array = pa.Array.from_buffers(
        pa.string_view(), 4, [VIEWS.buffers()[0], pa.py_buffer(bytes(views)), *VIEWS.buffers()[2:]]
    )
    schema = pa.schema([("c", pa.string())])
    ctx.register_table("hidden", hr.SimpleTable(schema, lambda: [], placement=hr.Placement.DRIVER), replace=True)
    for array in (pa.DictionaryArray.from_arrays(indices, TEXT.dictionary, safe=False), view_array):
        data = sent(messages(array), 4)
        monkeypatch.setattr(DriverPartition, "serve", serving(data))
        expected = ["a", None, None, "b"] if array is not view_array else VIEWS.to_pylist()
        assert ctx.collect("SELECT c FROM hidden")["c"].to_pylist() == expected
