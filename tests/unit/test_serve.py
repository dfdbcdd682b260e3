"""How a served partition ends, and how what is too large for one batch travels in several. No Spark."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

import headrace as hr
from headrace.arrow import conversion
from headrace.execute.partition_stream import PartitionStream, ScanTask
from headrace.execute.stopping import Ending, StopFlag
from headrace.transport.frames import Frame, read_frame
from headrace.transport.protocol import FrameKind
from headrace.transport.serve import serve_partition
from producing import NUMBERS, FunctionPlan, numbers

NONCE = 5


def served(batches: Callable[[StopFlag], Iterator[pa.RecordBatch]], schema: pa.Schema = NUMBERS) -> list[Frame]:
    stop = StopFlag()
    plan = FunctionPlan(schema, lambda _partition: batches(stop), 1, hr.Placement.DRIVER)
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            serve_partition(theirs, NONCE, PartitionStream(ScanTask("t", plan, schema, schema, None), 0, stop))
        frames = []
        while (frame := read_frame(ours, NONCE)) is not None:
            frames.append(frame)
        return frames


# A stream that was stopped is never called whole (decision 0002)


def stopped_between_batches(stop: StopFlag) -> Iterator[pa.RecordBatch]:
    yield numbers(3)
    stop.request(Ending("limit", "nobody asked for more"))
    yield numbers(3)


def stopped_and_ending_as_if_it_were_whole(stop: StopFlag) -> Iterator[pa.RecordBatch]:
    """As a source does whose ``interrupt`` makes it end, or code that swallows what is raised in it."""
    yield numbers(3)
    stop.request(Ending("limit", "nobody asked for more"))


def stopped_and_raising_in_its_finally(stop: StopFlag) -> Iterator[pa.RecordBatch]:
    try:
        yield from stopped_between_batches(stop)
    finally:
        raise ValueError("upset about being stopped")


@pytest.mark.parametrize(
    "batches",
    [stopped_between_batches, stopped_and_ending_as_if_it_were_whole, stopped_and_raising_in_its_finally],
)
def test_stopped_stream_ends_with_an_error_and_not_with_an_end(
    batches: Callable[[StopFlag], Iterator[pa.RecordBatch]],
) -> None:
    frames = served(batches)
    assert frames[0].kind is FrameKind.SCHEMA
    assert frames[-1].kind is FrameKind.ERROR
    assert FrameKind.END not in [frame.kind for frame in frames]
    failure = json.loads(frames[-1].message.to_pybytes())
    assert failure["error"] == "ScanEndedError"
    assert "stopped before its end: nobody asked for more" in failure["text"]


# Strings are sent with offsets of 32 bits: 2 GiB of them in a batch are too many


def strings_of(column: pa.Array) -> tuple[list[pa.RecordBatch], Frame]:
    """The batches that were sent for one with this column, and the last frame."""
    schema = pa.schema([("s", column.type)])
    frames = served(lambda _stop: iter([pa.record_batch([column], schema=schema)]), schema)
    wire = pa.ipc.read_schema(frames[0].message)
    assert wire.field("s").type in (pa.string(), pa.list_(pa.string()))
    return [pa.ipc.read_record_batch(frame.message, wire) for frame in frames if frame.kind is FrameKind.BATCH], frames[
        -1
    ]


VALUES = [f"{i}" * 20 for i in range(100)]
TOO_MUCH = {
    "views": pa.array(VALUES, pa.string_view()),
    "runs": pa.RunEndEncodedArray.from_arrays(pa.array(range(1, 101), pa.int32()), pa.array(VALUES)),
    "large": pa.array(VALUES, pa.large_string()),
    "lists of large": pa.array([[value] for value in VALUES], pa.large_list(pa.large_string())),
}


@pytest.mark.parametrize("column", TOO_MUCH.values(), ids=TOO_MUCH)
def test_column_with_more_text_than_a_batch_can_have_is_sent_in_several(
    column: pa.Array, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversion, "_MAX_OFFSET", 1000)
    batches, last = strings_of(column)
    assert last.kind is FrameKind.END
    assert len(batches) > 1
    assert [value for batch in batches for value in batch["s"].to_pylist()] == column.to_pylist()


def test_value_with_more_text_than_a_batch_can_have_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversion, "_MAX_OFFSET", 1000)
    batches, last = strings_of(pa.array(["short", "x" * 2000, "never sent"], pa.string_view()))
    failure = json.loads(last.message.to_pybytes())
    assert failure["error"] == "SchemaMismatchError"
    assert "column 's'" in failure["text"]
    assert "2000 bytes of string in one batch are too many" in failure["text"]
    assert [value for batch in batches for value in batch["s"].to_pylist()] == ["short"]
