"""Dictionaries and views that are sent as they are, and where they are converted instead. No Spark."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Iterable

import pyarrow as pa
import pytest

import headrace as hr
from broken_arrays import MANY_ROWS, broken_batch
from headrace.arrow.sizes import LARGE_ROWS
from headrace.execute.partition_stream import PartitionStream, ScanTask
from headrace.execute.stopping import StopFlag
from headrace.transport.frames import SPLIT_BYTES, FrameWriter, read_frame
from headrace.transport.protocol import FrameKind
from producing import FunctionPlan

ROWS = LARGE_ROWS
NAMES = pa.array(["a name of more than twelve bytes", "short", ""])
INDICES = pa.array([0, 1, None, 2] * (ROWS // 4), pa.int32())


def column(array: pa.Array, *, nullable: bool = True) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([array], schema=pa.schema([pa.field("c", array.type, nullable)]))


def dictionary(values: pa.Array = NAMES, indices: pa.Array = INDICES) -> pa.Array:
    return pa.DictionaryArray.from_arrays(indices, values)


def streamed(batches: Iterable[pa.RecordBatch], limit: int | None = None, sent: bool = True) -> list[pa.RecordBatch]:
    """What is sent of them."""
    batches = list(batches)
    schema = batches[0].schema
    plan = FunctionPlan(schema, lambda _partition: iter(batches), 1, hr.Placement.DRIVER)
    task = ScanTask("t", plan, schema, schema, limit)
    return list(PartitionStream(task, 0, StopFlag(), as_they_are=sent))


def types(batches: list[pa.RecordBatch]) -> list[pa.DataType]:
    return [batch.schema.field("c").type for batch in batches]


@pytest.mark.parametrize(
    "index", [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()], ids=str
)
def test_dictionary_of_every_index_type_is_sent_as_it_is(index: pa.DataType) -> None:
    array = dictionary(indices=INDICES.cast(index))
    (batch,) = streamed([column(array)])
    assert batch["c"].to_pylist() == array.to_pylist()
    width = min(index.bit_width, 32)
    assert batch["c"].type.index_type.bit_width == width


@pytest.mark.parametrize(
    ("values", "sent"),
    [
        (NAMES.cast(pa.large_string()), pa.string()),
        (NAMES.cast(pa.string_view()), pa.string()),
        (NAMES.cast(pa.binary()), pa.binary()),
        (NAMES.cast(pa.binary_view()), pa.binary()),
        (pa.array(["one", None, "three"]), pa.string()),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else str(value),
)
def test_dictionary_of_text_or_bytes_is_sent_with_plain_values(values: pa.Array, sent: pa.DataType) -> None:
    batches = streamed([column(dictionary(values))] * 2)
    assert types(batches) == [pa.dictionary(pa.int32(), sent)] * 2
    expected = [None if i is None else values[i].as_py() for i in INDICES.to_pylist()]
    assert [batch["c"].to_pylist() for batch in batches] == [expected] * 2


@pytest.mark.parametrize("values", [pa.array([1, 2, 3]), pa.array([b"12", b"34", b"56"], pa.binary(2))], ids=str)
def test_dictionary_of_other_types_has_the_wire_type(values: pa.Array) -> None:
    (batch,) = streamed([column(dictionary(values))])
    assert batch["c"].to_pylist() == dictionary(values).to_pylist()
    assert not pa.types.is_dictionary(batch["c"].type) or values.type == pa.binary(2)


def test_dictionary_inside_of_others_is_decoded() -> None:
    array = pa.StructArray.from_arrays([dictionary()], ["d"])
    assert types(streamed([column(array)])) == [pa.struct([("d", pa.string())])]


def test_dictionary_in_a_small_batch_is_decoded() -> None:
    array = dictionary().slice(1)
    assert types(streamed([column(array)])) == [pa.string()]
    assert types(streamed([column(dictionary())], limit=10)) == [pa.string()]


def test_dictionary_that_a_limit_does_not_make_small_is_sent_as_it_is() -> None:
    array = dictionary(indices=pa.concat_arrays([INDICES, INDICES]))
    (batch,) = streamed([column(array)], limit=ROWS + 2)
    assert pa.types.is_dictionary(batch["c"].type)
    assert batch["c"].to_pylist() == array.slice(0, ROWS + 2).to_pylist()


def test_dictionary_with_many_values_is_sent_once_it_comes_again() -> None:
    values = pa.array([f"value {i}" for i in range(2 * ROWS)])
    kinds = types(streamed([column(dictionary(values))] * 3))
    assert kinds == [pa.string(), pa.dictionary(pa.int32(), pa.string()), pa.dictionary(pa.int32(), pa.string())]


def test_dictionary_with_far_more_values_than_rows_is_decoded() -> None:
    values = pa.array([f"value {i}" for i in range(5 * ROWS)])
    assert types(streamed([column(dictionary(values))] * 2)) == [pa.string()] * 2


def test_dictionary_with_very_many_values_is_decoded() -> None:
    rows = 40 * ROWS
    indices = pa.array(range(10), pa.int32()).take(pa.array([i % 10 for i in range(rows)]))
    values = pa.array([str(i) for i in range(256 * 1024 + 1)])
    assert types(streamed([column(dictionary(values, indices))] * 2)) == [pa.string()] * 2


def test_dictionary_with_a_null_value_where_none_is_declared_is_a_schema_mismatch() -> None:
    array = dictionary(pa.array(["a", None, "c"]), pa.array([0, 1] * (ROWS // 2)))
    with pytest.raises(hr.SchemaMismatchError, match="nulls in column 'c', which the schema declares not null"):
        streamed([column(array, nullable=False)])


def test_dictionary_with_an_unused_null_value_where_none_is_declared_is_whole() -> None:
    array = dictionary(pa.array(["a", None]), pa.array([0, 0] * (ROWS // 2)))
    (batch,) = streamed([column(array, nullable=False)])
    assert batch["c"].to_pylist() == ["a"] * ROWS


@pytest.mark.parametrize("kind", [pa.string_view(), pa.binary_view()], ids=str)
def test_views_with_data_of_their_own_are_sent_as_they_are(kind: pa.DataType) -> None:
    array = dictionary().dictionary_decode().cast(kind)
    (batch,) = streamed([column(array)])
    assert batch["c"].type == kind
    assert batch["c"].equals(array)


def test_views_cut_from_much_more_data_are_converted() -> None:
    array = pa.array(["some text of twenty bytes or more"] * (20 * ROWS), pa.string_view()).slice(ROWS, ROWS)
    (batch,) = streamed([column(array)])
    assert batch["c"].type == pa.string()
    assert batch["c"].to_pylist() == array.to_pylist()


def test_views_in_a_small_batch_are_converted() -> None:
    assert types(streamed([column(pa.array(["a"] * (ROWS - 1), pa.string_view()))])) == [pa.string()]


def test_stream_that_nobody_sends_has_wire_types() -> None:
    views = dictionary().dictionary_decode().cast(pa.string_view())
    assert types(streamed([column(dictionary())], sent=False)) == [pa.string()]
    assert types(streamed([column(views)], sent=False)) == [pa.string()]


@pytest.mark.parametrize("name", ["many indices to text far away", "long indices far away"])
def test_dictionary_that_is_broken_where_python_reads_it_is_a_schema_mismatch(name: str) -> None:
    assert name in MANY_ROWS
    with pytest.raises(hr.SchemaMismatchError, match=r"a broken batch \(table 't', partition 0\): column 'c'"):
        streamed([broken_batch(name)])


# What the writer makes of them


def frames(batches: Iterable[pa.RecordBatch]) -> list[tuple[FrameKind, bytes]]:
    ours, theirs = socket.socketpair()

    def write() -> None:
        with theirs:
            writer = FrameWriter(theirs, pa.schema([("c", pa.string())]), 7)
            writer.schema()
            for batch in batches:
                writer.batch(batch)
            writer.end()

    thread = threading.Thread(target=write)
    thread.start()
    with ours:
        found = []
        while (frame := read_frame(ours, 7)) is not None:
            found.append((frame.kind, bytes(frame.message)))
    thread.join()
    return found


def read_back(found: list[tuple[FrameKind, bytes]]) -> list[object]:
    rows: list[object] = []
    starts = [at for at, (kind, _) in enumerate(found) if kind is FrameKind.SCHEMA]
    for start, end in itertools.pairwise([*starts, len(found) - 1]):
        stream = b"".join(message for _, message in found[start:end])
        rows += pa.ipc.open_stream(stream).read_all()["c"].to_pylist()
    return rows


def test_writer_sends_a_dictionary_once_then_what_it_grew_by_then_its_successor() -> None:
    small, grown, other = (pa.array(values) for values in (["a", "b"], ["a", "b", "c"], ["x", "y", "z"]))
    indices = pa.array([0, 1, None, 1])
    arrays = [dictionary(values, indices) for values in (small, small, pa.array(["a", "b"]), grown, other)]
    found = frames(column(array) for array in arrays)
    assert "".join(kind.name[0] for kind, _ in found) == "SSDBBBDBDBE"
    assert read_back(found) == [value for array in arrays for value in array.to_pylist()]


def test_writer_cuts_a_large_batch_of_indices_and_sends_its_dictionary_once() -> None:
    rows = SPLIT_BYTES // 4 + 8
    indices = pa.Array.from_buffers(pa.int32(), rows, [None, pa.py_buffer(bytes(4 * rows))])
    found = frames([column(pa.DictionaryArray.from_arrays(indices, pa.array(["x" * 1000])))])
    assert "".join(kind.name[0] for kind, _ in found) == "SSDBBE"


def test_writer_sends_views_in_one_piece_however_much_data_is_behind_them() -> None:
    array = pa.array(["x" * 1000] * (SPLIT_BYTES // 1000 + 8), pa.string_view())
    found = frames([column(array)])
    assert "".join(kind.name[0] for kind, _ in found) == "SSBE"
