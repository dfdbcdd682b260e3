"""The inbox: receives a query's result from its tasks and hands it out in order, bounded; driver Python.

Tasks send their partitions at the same time; the caller gets them one after the other. A partition that is not
its turn yet may wait in memory up to a bound, then its task blocks. Only when the partition whose turn it is
has not even started (its task may be waiting for a slot that a blocked one holds) does it go to disk instead.
"""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic

import pyarrow as pa

from headrace.errors import ScanEndedError, StreamError, TransportError
from headrace.spill import ArrowSpill
from headrace.transport.endpoint import Claim
from headrace.transport.frames import FrameKind, read_frame, read_totals

_MAX_WAITING_BYTES = 16 << 20
_STALLED_SECONDS = 1.0
_RECEIVE_BUFFER_BYTES = 1 << 20

RECEIPT = b"\x01"

Load = Callable[[], pa.RecordBatch]


@dataclass
class _Partition:
    attempt: int = -1
    batches: deque[tuple[pa.RecordBatch | Load, int]] = field(default_factory=deque)
    waiting_bytes: int = 0
    delivered: bool = False
    done: bool = False


class ResultInbox:
    """Many tasks put, one caller takes. Thread-safe."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._partitions: dict[int, _Partition] = {}
        self._count: int | None = None
        self._current = 0
        self._current_since = monotonic()
        self._finished = False
        self._error: BaseException | None = None
        self._spill = ArrowSpill()

    # The caller's side

    def take(self, timeout_s: float | None = None) -> pa.RecordBatch | None:
        """The next batch in the query's order; None at its end. Raises what ``fail`` was given, and TimeoutError."""
        deadline = None if timeout_s is None else monotonic() + timeout_s
        with self._changed:
            while True:
                if self._error is not None:
                    raise self._error
                partition = self._partition(self._current)
                if partition.batches:
                    entry, size = partition.batches.popleft()
                    partition.waiting_bytes -= size
                    partition.delivered = True
                    self._changed.notify_all()
                    break
                if partition.done:
                    self._current += 1
                    self._current_since = monotonic()
                    self._changed.notify_all()
                elif self._finished and self._current == self._count:
                    return None
                elif not self._changed.wait(None if deadline is None else max(0.0, deadline - monotonic())):
                    raise TimeoutError
        return entry() if callable(entry) else entry

    def progress(self) -> tuple[int, int | None]:
        """Partitions received whole, and how many there are, if known by now."""
        with self._lock:
            return sum(partition.done for partition in self._partitions.values()), self._count

    def close(self) -> None:
        """Nobody takes any more: tasks that send fail. Idempotent."""
        self.fail(ScanEndedError("the result stream was closed"))
        self._spill.close()

    # The query's side

    def announce(self, count: int) -> None:
        """How many partitions the result has; comes before any of them."""
        with self._changed:
            self._count = count
            self._changed.notify_all()

    def finish(self) -> None:
        """The query ended well."""
        with self._changed:
            whole = self._count is not None and all(self._partition(i).done for i in range(self._count))
            if not whole and self._error is None:
                self._error = TransportError("the query ended but part of its result never arrived")
            self._finished = True
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """The query failed, or nobody wants it. The first error counts."""
        with self._changed:
            if self._error is None:
                self._error = error
            self._changed.notify_all()

    def open(self, claim: Claim) -> PartitionReceiver:
        """A task wants to send. Raises StreamError if its partition was sent before and the caller has seen of it."""
        with self._changed:
            partition = self._partition(claim.partition)
            if partition.delivered and not partition.done:
                error = StreamError(
                    f"partition {claim.partition} of the result was computed again (attempt {claim.attempt}) after "
                    "part of it had been handed out: a task failed or was lost, and rows would come twice"
                )
                self._error = self._error or error
                self._changed.notify_all()
                raise error
            if not partition.done:
                partition.attempt = claim.attempt
                partition.batches.clear()
                partition.waiting_bytes = 0
            return PartitionReceiver(self, claim.partition, claim.attempt)

    def put(self, index: int, attempt: int, batch: pa.RecordBatch, size: int) -> None:
        """Blocks while this partition's share is full. Raises StreamError when nobody wants it any more."""
        entry: pa.RecordBatch | Load = batch
        with self._changed:
            partition = self._partition(index)
            while True:
                if self._error is not None or partition.attempt != attempt:
                    raise StreamError("this result is not wanted any more")
                if partition.done:
                    return  # a second run of a partition that arrived whole
                if partition.waiting_bytes < _MAX_WAITING_BYTES:
                    break
                if self._is_stalled(index):
                    entry = self._spill.store(batch)
                    size = 0
                    break
                self._changed.wait(_STALLED_SECONDS)
            partition.batches.append((entry, size))
            partition.waiting_bytes += size
            if index == self._current:
                self._changed.notify_all()

    def end(self, index: int, attempt: int) -> None:
        with self._changed:
            partition = self._partition(index)
            if partition.attempt == attempt:
                partition.done = True
            self._changed.notify_all()

    def _is_stalled(self, index: int) -> bool:
        current = self._partition(self._current)
        waited = monotonic() - self._current_since
        return index != self._current and current.attempt < 0 and waited > _STALLED_SECONDS

    def _partition(self, index: int) -> _Partition:
        return self._partitions.setdefault(index, _Partition())


class PartitionReceiver:
    """A PartitionServer that reads one task's frames into the inbox."""

    receives = True

    def __init__(self, inbox: ResultInbox, partition: int, attempt: int) -> None:
        self._inbox = inbox
        self._partition = partition
        self._attempt = attempt

    def serve(self, sock: socket.socket) -> None:
        """A connection that ends before END is a task that failed: Spark tells, and may run it again."""
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
        schema: pa.Schema | None = None
        batches = 0
        while True:
            frame = read_frame(sock)
            if frame is None:
                return
            if frame.kind is FrameKind.SCHEMA:
                schema = pa.ipc.read_schema(frame.message)
            elif frame.kind is FrameKind.BATCH and schema is not None:
                batch = pa.ipc.read_record_batch(frame.message, schema)
                batches += 1
                try:
                    self._inbox.put(self._partition, self._attempt, batch, frame.message.size)
                except StreamError:
                    return
            elif frame.kind is FrameKind.END and read_totals(frame)[1] == batches:
                self._inbox.end(self._partition, self._attempt)
                sock.sendall(RECEIPT)  # without it the task, and so the query, is not over
                return
            else:
                self._inbox.fail(TransportError(f"partition {self._partition} of the result sent a wrong frame"))
                return

    def stop(self, reason: str) -> None: ...
