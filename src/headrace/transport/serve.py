"""Serving one partition: user batches in, frames out, every ending named; driver and executor Python."""

from __future__ import annotations

import contextlib
import socket

from headrace.failure import Failure
from headrace.stream import PartitionStream, ScanTask, StopFlag, StopRequested
from headrace.transport.coalesce import CoalescingWriter
from headrace.transport.frames import SEND_BUFFER_BYTES, FrameWriter


def serve_partition(sock: socket.socket, task: ScanTask, partition: int, stop: StopFlag) -> None:
    """Run ``task``'s partition and write it to ``sock`` up to its END or ERROR frame.

    Returns normally too when the user's code raised (the error went out as a frame) and when ``stop`` was
    requested; the user's generator or reader is closed in every case. Raises OSError when the reader is gone.
    """
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
    writer: FrameWriter | None = None
    failure: Failure | None = None
    try:
        stream = PartitionStream(task, partition, stop)
        writer = FrameWriter(sock, stream.schema)
        writer.schema()
        failure = _pump(stream, CoalescingWriter(writer), task, partition)
    except StopRequested:
        pass
    if writer is None:
        return
    if failure is None:
        writer.end()
    else:
        writer.error(failure.to_json())


def _pump(stream: PartitionStream, out: CoalescingWriter, task: ScanTask, partition: int) -> Failure | None:
    """Move every batch; returns what the user's code raised, if it did, after all earlier batches were sent."""
    failure: Failure | None = None
    stopped = False
    try:
        batches = iter(stream)
        while True:
            try:
                batch = next(batches, None)
            except Exception as error:  # user code may raise anything; it travels as data
                failure = _failure(error, task, partition, "execute")
                break
            if batch is None:
                break
            out.send(batch)
        out.finish()
    except StopRequested:
        stopped = True
    finally:
        out.abort()
        closing = _close(stream, task, partition)
    # Nobody waits for the rows of a stopped stream, so its finally block's error has no query to fail.
    return failure or (None if stopped else closing)


def _close(stream: PartitionStream, task: ScanTask, partition: int) -> Failure | None:
    try:
        stream.close()
    except Exception as error:  # the user's finally block or close() may raise anything
        return _failure(error, task, partition, "execute (while closing)")
    return None


def _failure(error: Exception, task: ScanTask, partition: int, method: str) -> Failure:
    return Failure.of(error, where=f"{task.plan_name}.{method}", table=task.table, partition=partition)
