"""How a served partition ends: a stream that was stopped is never called whole (decision 0002). No Spark."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

import headrace as hr
from headrace.execute.partition_stream import PartitionStream, ScanTask
from headrace.execute.stopping import StopFlag
from headrace.transport.frames import Frame, read_frame
from headrace.transport.protocol import FrameKind
from headrace.transport.serve import serve_partition
from producing import NUMBERS, FunctionPlan, numbers

NONCE = 5


def served(batches: Callable[[StopFlag], Iterator[pa.RecordBatch]]) -> list[Frame]:
    stop = StopFlag(lambda: None)
    plan = FunctionPlan(NUMBERS, lambda _partition: batches(stop), 1, hr.Placement.DRIVER)
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            serve_partition(theirs, NONCE, PartitionStream(ScanTask("t", plan, NUMBERS, NUMBERS, None), 0, stop))
        frames = []
        while (frame := read_frame(ours, NONCE)) is not None:
            frames.append(frame)
        return frames


def stopped_between_batches(stop: StopFlag) -> Iterator[pa.RecordBatch]:
    yield numbers(3)
    stop.request("nobody asked for more")
    yield numbers(3)


def stopped_and_ending_as_if_it_were_whole(stop: StopFlag) -> Iterator[pa.RecordBatch]:
    """As a source does whose ``interrupt`` makes it end, or code that swallows what is raised in it."""
    yield numbers(3)
    stop.request("nobody asked for more")


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
    assert "stopped before its end" in failure["text"]
