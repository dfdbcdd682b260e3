"""Serving one partition: user batches in, frames out, every ending named; driver and executor Python."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator

import pyarrow as pa

from headrace.errors import ScanEndedError
from headrace.execute.failure import Failure
from headrace.execute.live import MergingSource
from headrace.execute.partition_stream import PartitionStream
from headrace.execute.stopping import StopRequested
from headrace.transport.coalesce import CoalescingWriter
from headrace.transport.frames import SEND_BUFFER_BYTES, FrameWriter
from headrace.transport.paced import PacedWriter
from headrace.transport.seal import FrameSeal


def serve_partition(
    sock: socket.socket,
    nonce: int,
    stream: PartitionStream,
    when_gone: Callable[[], None] = lambda: None,
    seal: FrameSeal | None = None,
) -> None:
    """Run ``stream`` and write it to ``sock`` up to its END or ERROR frame.

    Returns normally too when the user's code raised and when a stop was requested. Both go out as an ERROR frame:
    a stopped stream must not look whole to a reader that did not ask for the stop. The user's generator or reader
    is closed in every case. Raises OSError when the reader is gone; ``when_gone`` is called before the stream is closed
    for that.
    """
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
    writer = FrameWriter(sock, stream.schema, nonce, seal)
    source = stream.source
    merges = isinstance(source, MergingSource)
    # Over a network, to wait until the reader asks takes a round trip.
    asking = sock if merges and source.patient and sock.family == socket.AF_UNIX else None
    try:
        # A reader can do nothing with a schema alone, but it has to know at once that it is to ask.
        writer.schema(told_when_read=asking is not None, held=not merges)
    except OSError:
        when_gone()
        _close(stream)  # a source that was opened already (a claimed channel) must learn of it
        raise
    out = PacedWriter(writer, asking) if merges else CoalescingWriter(writer)
    failure = _pump(stream, out, when_gone)
    if failure is None:
        writer.end(stream.rows_read)
    else:
        writer.error(failure.to_json())


def _pump(
    stream: PartitionStream, out: CoalescingWriter | PacedWriter, when_gone: Callable[[], None]
) -> Failure | None:
    """Move every batch; returns what the user's code raised, if it did, after all earlier batches were sent.

    User code may raise anything, SystemExit and KeyboardInterrupt too; in a worker those would end the process
    without a word, so they travel as data like all others.
    """
    failure: Failure | None = None
    stopped = False
    try:
        for batch in _batches(stream):
            out.send(batch)
        out.finish()
    except StopRequested:
        stopped = True
    except _UserError as raised:
        failure = _failure(raised.error, stream, "execute")
        with contextlib.suppress(pa.ArrowException):  # the query fails with the user's error, not with a later one
            out.finish()
    except OSError:
        when_gone()
        raise
    except Exception as error:  # Arrow could not write the batch: a bug of ours or its own, but never silent
        failure = _failure(error, stream, "execute (while sending)")
    finally:
        out.abort()
        closing = _close(stream)
    # Nobody waits for the rows of a stopped stream, so its finally block's error has no query to fail.
    return failure or (_stopped(stream) if stopped else closing)


class _UserError(Exception):
    """What the user's code raised, told apart from what sending raised: an OSError may be either."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


def _batches(stream: PartitionStream) -> Iterator[pa.RecordBatch]:
    batches = iter(stream)
    while True:
        try:
            batch = next(batches, None)
        except StopRequested:
            raise
        except BaseException as error:
            raise _UserError(error) from None
        if batch is None:
            return
        yield batch


def _close(stream: PartitionStream) -> Failure | None:
    try:
        stream.close()
    except BaseException as error:  # the user's finally block or close() may raise anything
        return _failure(error, stream, "execute (while closing)")
    return None


def _stopped(stream: PartitionStream) -> Failure:
    assert stream.ending is not None, "only a request stops a stream"
    error = ScanEndedError(f"the stream was stopped before its end: {stream.ending}", stream.ending.reason)
    return _failure(error, stream, "execute")


def _failure(error: BaseException, stream: PartitionStream, method: str) -> Failure:
    return Failure.of(error, where=stream.task.place(method), table=stream.task.table, partition=stream.partition)
