"""Children that user code forks: they never send, receive or write for their parent. No Spark."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable

import pyarrow as pa
import pytest

import headrace as hr
from forking import ROWS, ForkingPlan, fork_and
from headrace.execute.partition_stream import PartitionStream, ScanTask
from headrace.execute.stopping import StopFlag
from headrace.push.sink import TableSink
from headrace.transport.frames import frame_pieces, read_frame, read_totals, send_all
from headrace.transport.planning import PlanningConnection
from headrace.transport.protocol import FrameKind
from headrace.transport.seal import Seals
from headrace.transport.serve import serve_partition
from producing import NUMBERS
from sinks import batch, new_sink, received, xs

NONCE = 5
CHILDREN = ("go on", "raise", "exit", "async", "multiprocessing")


@pytest.mark.parametrize("child", CHILDREN)
def test_stream_of_code_that_forks_is_sent_by_the_parent_alone(child: str) -> None:
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            task = ScanTask("t", ForkingPlan(child), NUMBERS, NUMBERS, None)
            serve_partition(theirs, NONCE, PartitionStream(task, 0, StopFlag()))
        frames = []
        while (frame := read_frame(ours, NONCE)) is not None:
            frames.append(frame)
    assert frames[0].kind is FrameKind.SCHEMA
    assert frames[-1].kind is FrameKind.END
    assert read_totals(frames[-1])[0] == 2 * ROWS


def test_stream_whose_clean_up_forks_is_ended_by_the_parent_alone() -> None:
    class ForkingEnd:
        def __iter__(self) -> ForkingEnd:
            return self

        def __next__(self) -> pa.RecordBatch:
            raise StopIteration

        def close(self) -> None:
            fork_and("go on")

    stream = PartitionStream(ScanTask("t", ForkingPlan("go on"), NUMBERS, NUMBERS, None), 0, StopFlag(), ForkingEnd())
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            serve_partition(theirs, NONCE, stream)
        kinds = []
        while (frame := read_frame(ours, NONCE)) is not None:
            kinds.append(frame.kind)
    assert kinds == [FrameKind.SCHEMA, FrameKind.END]


def test_planning_that_forks_is_answered_by_the_parent_alone() -> None:
    def call(operation: str, question: str) -> str:
        fork_and("go on")
        return f"{operation} {question}"

    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            send_all(ours, frame_pieces(FrameKind.QUESTION, b"", [b"scan\n{}"], NONCE, None))
            ours.shutdown(socket.SHUT_WR)
            PlanningConnection(call).serve(theirs, NONCE, Seals(None, None))
        answer = read_frame(ours, NONCE)
        assert answer is not None
        assert answer.message.to_pybytes() == b"scan {}"
        assert read_frame(ours, NONCE) is None


def write(sink: TableSink) -> None:
    sink.write(batch(2))


def write_a_table(sink: TableSink) -> None:
    sink.write(pa.Table.from_batches([batch(2)]))


def awrite(sink: TableSink) -> None:
    asyncio.run(sink.awrite(batch(2)))


def leave(sink: TableSink) -> None:
    with sink:
        pass


@pytest.mark.parametrize("locked", [False, True], ids=["free", "locked"])
@pytest.mark.parametrize(
    "use", [write, write_a_table, awrite, leave, TableSink.close, lambda sink: sink.fail(ValueError("child"))]
)
def test_sink_used_in_a_forked_child_fails_there_and_stays_as_it_was(
    use: Callable[[TableSink], None], locked: bool
) -> None:
    """``locked``: another thread holds the channel's lock while the process forks, and the child has no such thread."""
    sink, channel = new_sink()
    sink.write(batch(1))
    if locked:
        channel._lock.acquire()
    child = os.fork()
    if child == 0:
        try:
            use(sink)
        except hr.SinkClosedError as error:
            os._exit(5 if "forked child" in str(error) else 6)
        finally:
            os._exit(7)
    if locked:
        channel._lock.release()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
    sink.write(batch(3))
    sink.close()
    assert xs(received(channel)) == [[1], [3]]
