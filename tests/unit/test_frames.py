"""Frames over a socket pair, and what is sent in them of one partition; no Spark."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from headrace.arrow.batches import merged
from headrace.errors import TransportError
from headrace.execute.partition_stream import PartitionStream, ScanTask
from headrace.execute.stopping import StopFlag
from headrace.transport import frames as frames_module
from headrace.transport.frames import FrameWriter, read_frame, send_all
from headrace.transport.protocol import FRAME_HEADER, PROTOCOL_VERSION, TOTALS, FrameKind
from headrace.transport.seal import FrameSeal
from headrace.transport.serve import serve_partition
from raw_frames import NONCE, NUMBERS, TIMEOUT_S, numbers
from recording import Batches

Frame = tuple[FrameKind, bytes, bytes]


class Wire:
    """A socket pair whose far end is read by a thread, as soon as ``read`` is called."""

    def __init__(self, send_buffer_bytes: int | None = None) -> None:
        self.near, self.far = socket.socketpair()
        if send_buffer_bytes is not None:
            self.near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
        self.frames: list[Frame] = []
        self._reader: threading.Thread | None = None

    def read(self) -> Wire:
        self._reader = threading.Thread(target=self._run, daemon=True)
        self._reader.start()
        return self

    def close(self) -> list[Frame]:
        """End the near end, and give all that arrived at the far one."""
        self.near.close()
        if self._reader is not None:
            self._reader.join(TIMEOUT_S)
        self.far.close()
        return self.frames

    def _run(self) -> None:
        with self.far.makefile("rb") as file:
            while header := file.read(FRAME_HEADER.size):
                kind, version, flags, first, second, nonce = FRAME_HEADER.unpack(header)
                assert (version, flags, nonce) == (PROTOCOL_VERSION, 0, NONCE)
                self.frames.append((FrameKind(kind), file.read(first), file.read(second)))


@pytest.fixture
def wire() -> Iterator[Wire]:
    made = Wire()
    yield made
    made.close()


def received(frames: list[Frame], schema: pa.Schema) -> list[pa.RecordBatch]:
    assert frames[0][0] is FrameKind.SCHEMA
    assert pa.ipc.read_schema(pa.py_buffer(frames[0][1])).equals(schema)
    return [
        pa.ipc.read_record_batch(pa.py_buffer(first + second), schema)
        for kind, first, second in frames
        if kind is FrameKind.BATCH
    ]


COUNTED = pa.record_batch({"i": pa.array(range(5))}).select([])


@pytest.mark.parametrize(
    "batches",
    [
        [numbers(0, 3), numbers(3, 1)],
        [numbers(0, 50_000), numbers(50_000, 1)],
        [numbers(0, 0), numbers(0, 2), numbers(2, 0)],
        [numbers(0, 50_000).slice(17, 20_001), numbers(0, 100).slice(3, 5), numbers(0, 9).slice(9)],
        [],
    ],
    ids=["small", "large", "empty", "sliced", "none"],
)
def test_frame_writer_batches_arrive_as_they_were(wire: Wire, batches: list[pa.RecordBatch]) -> None:
    writer = FrameWriter(wire.read().near, NUMBERS, NONCE)
    writer.schema()
    for batch in batches:
        writer.batch(batch)
    writer.end()
    frames = wire.close()
    assert received(frames, NUMBERS) == batches
    kind, totals, rest = frames[-1]
    assert (kind, rest) == (FrameKind.END, b"")
    assert TOTALS.unpack(totals) == (sum(batch.num_rows for batch in batches), len(batches))


def test_frame_writer_slice_of_a_large_batch_sends_the_slice_alone(wire: Wire) -> None:
    writer = FrameWriter(wire.read().near, NUMBERS, NONCE)
    writer.schema()
    writer.batch(numbers(0, 100_000).slice(10, 10))
    assert sum(len(first) + len(second) for _, first, second in wire.close()) < 4096


def test_frame_writer_batch_without_columns_keeps_its_rows(wire: Wire) -> None:
    writer = FrameWriter(wire.read().near, COUNTED.schema, NONCE)
    writer.schema()
    writer.batch(COUNTED)
    writer.batch(COUNTED.slice(0, 2))
    writer.end()
    frames = wire.close()
    assert [batch.num_rows for batch in received(frames, COUNTED.schema)] == [5, 2]
    assert TOTALS.unpack(frames[-1][1]) == (7, 2)


def test_frame_writer_small_socket_buffer_sends_every_byte() -> None:
    wire = Wire(send_buffer_bytes=4096).read()
    writer = FrameWriter(wire.near, NUMBERS, NONCE)
    writer.schema()
    batch = numbers(0, 200_000)
    writer.batch(batch)
    assert received(wire.close(), NUMBERS) == [batch]


def test_send_all_more_pieces_than_one_call_takes_keeps_the_order(wire: Wire) -> None:
    pieces = [bytes([i % 256]) * (i % 5) for i in range(3000)]
    body = b"".join(pieces)
    send_all(wire.read().near, [FRAME_HEADER.pack(FrameKind.ERROR, PROTOCOL_VERSION, 0, 0, len(body), NONCE), *pieces])
    assert wire.close() == [(FrameKind.ERROR, b"", body)]


def test_frame_writer_held_schema_goes_out_with_the_next_frame(wire: Wire) -> None:
    writer = FrameWriter(wire.near, NUMBERS, NONCE)
    writer.schema(held=True)
    wire.far.setblocking(False)
    with pytest.raises(BlockingIOError):
        wire.far.recv(1)
    wire.far.setblocking(True)
    wire.read()
    writer.end()
    assert [kind for kind, _, _ in wire.close()] == [FrameKind.SCHEMA, FrameKind.END]


def test_frame_writer_seal_counts_what_is_sent_and_nothing_else(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    """A held schema that another one takes the place of is not sent, nor is a frame that is too large."""
    text = pa.schema([("s", pa.string())])
    as_dictionary = pa.record_batch({"s": pa.array(["a", "b"]).dictionary_encode()})
    writer = FrameWriter(wire.near, text, NONCE, FrameSeal(b"key"))
    writer.schema(held=True)
    writer.batch(as_dictionary)
    writer.schema(held=True)
    monkeypatch.setattr(frames_module, "MAX_SECOND_BYTES", 16)
    with pytest.raises(TransportError, match="a single row 16"):
        writer.batch(pa.record_batch({"s": ["c" * 1000]}))
    writer.error("{}")
    seal = FrameSeal(b"key")
    kinds = []
    monkeypatch.undo()
    while kinds[-1:] != [FrameKind.ERROR]:
        frame = read_frame(wire.far, NONCE, seal)
        assert frame is not None
        kinds.append(frame.kind)
    expected = [FrameKind.SCHEMA, FrameKind.DICTIONARY, FrameKind.BATCH, FrameKind.SCHEMA, FrameKind.ERROR]
    assert kinds == expected


def test_frame_writer_reader_gone_raises_oserror(wire: Wire) -> None:
    wire.far.close()
    writer = FrameWriter(wire.near, NUMBERS, NONCE)
    with pytest.raises(OSError, match="pipe"):
        writer.schema()


def test_frame_writer_batch_larger_than_the_bound_is_sent_in_pieces(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames_module, "SPLIT_BYTES", 256 * 1024)
    writer = FrameWriter(wire.read().near, NUMBERS, NONCE)
    writer.schema()
    batch = numbers(0, 100_000)
    writer.batch(batch)
    writer.end()
    frames = wire.close()
    pieces = received(frames, NUMBERS)
    assert len(pieces) > 5
    assert max(len(second) for _, _, second in frames) <= 256 * 1024 + 1024  # and what aligns its buffers
    assert merged(pieces) == batch
    assert TOTALS.unpack(frames[-1][1]) == (100_000, len(pieces))


@pytest.mark.parametrize("nested", [False, True])
def test_frame_writer_columns_that_share_their_memory_count_each_for_the_bound(
    wire: Wire, monkeypatch: pytest.MonkeyPatch, nested: bool
) -> None:
    monkeypatch.setattr(frames_module, "SPLIT_BYTES", 256 * 1024)
    names = [f"c{i}" for i in range(8)]
    shared = [pa.array(range(16 * 1024))] * len(names)
    struct = pa.StructArray.from_arrays(shared, names)
    batch = pa.record_batch([struct], ["s"]) if nested else pa.record_batch(shared, names)
    writer = FrameWriter(wire.read().near, batch.schema, NONCE)
    writer.schema()
    writer.batch(batch)
    frames = wire.close()
    assert max(len(second) for _, _, second in frames) <= 256 * 1024 + 1024
    assert merged(received(frames, batch.schema)) == batch


def test_frame_writer_rows_of_very_different_size_are_sent_alone_where_they_must(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames_module, "SPLIT_BYTES", 100_000)
    schema = pa.schema([("s", pa.string())])
    batch = pa.record_batch([pa.array(["x"] * 50 + ["y" * 300_000] + ["z"] * 50)], schema=schema)
    writer = FrameWriter(wire.read().near, schema, NONCE)
    writer.schema()
    writer.batch(batch)
    pieces = received(wire.close(), schema)
    assert merged(pieces) == batch
    assert [piece.num_rows for piece in pieces if piece.nbytes > 100_000] == [1]


def test_frame_writer_row_larger_than_a_frame_is_refused_by_name_and_nothing_of_it_is_sent(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames_module, "MAX_SECOND_BYTES", 100_000)
    schema = pa.schema([("s", pa.string())])
    writer = FrameWriter(wire.read().near, schema, NONCE)
    writer.schema()
    with pytest.raises(hr.TransportError, match="a single row 100000"):
        writer.batch(pa.record_batch([pa.array(["y" * 300_000])], schema=schema))
    assert [kind for kind, _, _ in wire.close()] == [FrameKind.SCHEMA]


def test_merged_batches_without_columns_add_their_rows() -> None:
    assert merged([COUNTED, COUNTED.slice(1), COUNTED]).num_rows == 14
    assert merged([COUNTED]).num_rows == 5


class Yielding(Batches):
    """A plan whose one partition is what a function yields."""

    def __init__(self, schema: pa.Schema, function: Callable[[], Any]) -> None:
        super().__init__(schema, [[]])
        self._function = function

    def execute(self, partition: int) -> Any:
        return self._function()


def served(function: Callable[[], Any], schema: pa.Schema = NUMBERS, *, limit: int | None = None) -> list[Frame]:
    wire = Wire().read()
    task = ScanTask("t", Yielding(schema, function), schema, schema, limit)
    serve_partition(wire.near, NONCE, PartitionStream(task, 0, StopFlag()))
    return wire.close()


def failure(frames: list[Frame]) -> dict[str, Any]:
    kind, first, _ = frames[-1]
    assert kind is FrameKind.ERROR
    return json.loads(first)


def test_serve_partition_error_after_batches_comes_after_them() -> None:
    def rows() -> Iterator[pa.RecordBatch]:
        yield from (numbers(i, 1) for i in range(20))
        raise LookupError("shard 7 is gone")

    frames = served(rows)
    assert sum(batch.num_rows for batch in received(frames, NUMBERS)) == 20
    assert failure(frames)["exception_type"] == "builtins.LookupError"
    assert "shard 7 is gone" in failure(frames)["text"]


def test_serve_partition_yielded_none_is_an_error_and_not_an_end() -> None:
    frames = served(lambda: iter([numbers(0, 1), None, numbers(1, 1)]))
    assert failure(frames)["error"] == "SchemaMismatchError"
    assert "yielded NoneType" in failure(frames)["text"]


def test_serve_partition_many_small_batches_all_arrive_in_order() -> None:
    frames = served(lambda: (numbers(i, 1) for i in range(5000)))
    rows = [i for batch in received(frames, NUMBERS) for i in batch.column("i").to_pylist()]
    assert rows == list(range(5000))
    assert TOTALS.unpack(frames[-1][1])[0] == 5000


@pytest.mark.parametrize(
    "other", [pa.schema([("b", pa.int64())]), pa.schema([("a", pa.int32())]), pa.schema([])], ids=str
)
@pytest.mark.parametrize("kind", ["reader", "table"])
def test_serve_partition_reader_of_another_schema_without_batches_is_an_error(other: pa.Schema, kind: str) -> None:
    table = other.empty_table()
    frames = served(lambda: pa.RecordBatchReader.from_batches(other, []) if kind == "reader" else table)
    assert frames[-1][0] is FrameKind.ERROR
    failure = json.loads(frames[-1][1])
    assert failure["error"] == "SchemaMismatchError"
    assert "returned a reader whose schema is not the plan's" in failure["text"]


def test_serve_partition_reader_of_the_schema_without_batches_is_empty() -> None:
    frames = served(lambda: pa.RecordBatchReader.from_batches(NUMBERS, []))
    assert [frame[0] for frame in frames] == [FrameKind.SCHEMA, FrameKind.END]


def test_serve_partition_limit_ends_the_stream_and_closes_the_generator() -> None:
    closed: list[bool] = []

    def rows() -> Iterator[pa.RecordBatch]:
        try:
            while True:
                yield numbers(0, 4)
        finally:
            closed.append(True)

    frames = served(rows, limit=10)
    assert sum(batch.num_rows for batch in received(frames, NUMBERS)) == 10
    assert closed == [True]


@pytest.mark.parametrize(
    ("schema", "column"),
    [
        (pa.schema([pa.field("i", pa.int64(), nullable=False)]), pa.array([1, None])),
        (
            pa.schema([pa.field("i", pa.dictionary(pa.int8(), pa.string()), nullable=False)]),
            pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), pa.array([None], pa.string())),
        ),
        (
            pa.schema([pa.field("i", pa.run_end_encoded(pa.int32(), pa.int64()), nullable=False)]),
            pa.RunEndEncodedArray.from_arrays(pa.array([2], pa.int32()), pa.array([None], pa.int64())),
        ),
    ],
    ids=["plain", "dictionary", "runs"],
)
def test_serve_partition_null_where_none_is_declared_is_an_error(schema: pa.Schema, column: pa.Array) -> None:
    frames = served(lambda: [pa.RecordBatch.from_arrays([column], schema=schema)], schema)
    assert failure(frames)["error"] == "SchemaMismatchError"
    assert "nulls in column 'i'" in failure(frames)["text"]


@pytest.mark.parametrize("rows", [1, 50_000])
def test_serve_partition_batch_declared_nullable_passes_where_it_has_no_nulls(rows: int) -> None:
    strict = pa.schema([field.with_nullable(False) for field in NUMBERS])
    frames = served(lambda: [numbers(0, rows), numbers(rows, rows)], strict)
    assert sum(batch.num_rows for batch in received(frames, strict)) == 2 * rows
    assert frames[-1][0] is FrameKind.END
