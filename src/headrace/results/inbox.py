"""The inbox: receives a query's result from its tasks and hands it out in order, bounded; driver Python.

Tasks send their partitions at the same time; the caller gets them one after the other. What is not taken yet waits
in memory up to a bound, then its task blocks. Only when nobody sends the partition whose turn it is (its task may
be waiting for a slot that a blocked one holds) do the later ones go to disk instead.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic

import pyarrow as pa

from headrace.errors import HeadraceError, ResultClosedError, StreamError, TransportError
from headrace.results.receiver import PartitionReceiver
from headrace.spill.arrow_spill import ArrowSpill
from headrace.transport.claims import Claim

_MAX_WAITING_BYTES = 128 << 20  # of all partitions: room for the tasks that run beside the one whose turn it is
_MAX_CURRENT_BYTES = 16 << 20  # of the partition whose turn it is: more would only be a slow caller's
_STALLED_SECONDS = 1.0

Load = Callable[[], pa.RecordBatch]


@dataclass
class _Partition:
    sender: PartitionReceiver | None = None  # the connection that sends it now
    failure: HeadraceError | str = ""  # why the last one that did not send it all broke off, if it said so
    batches: deque[tuple[pa.RecordBatch | Load, int]] = field(default_factory=deque)
    waiting_bytes: int = 0
    delivered: bool = False
    done: bool = False


class ResultInbox:
    """Many tasks put, one caller takes. Thread-safe.

    ``bounded=False`` is for a caller who keeps everything anyway: a partition is handed out once it arrived whole, so
    a task that failed half-way can be run again.
    """

    def __init__(self, schema: pa.Schema, *, bounded: bool = True) -> None:
        self.schema = schema
        self._bounded = bounded
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._partitions: dict[int, _Partition] = {}
        self._count: int | None = None
        self._waiting_bytes = 0
        self._current = 0
        self._to_skip = 0
        self._to_hand_out: int | None = None  # rows; None: all
        self._unsent_since = monotonic()  # since when nobody sends the current partition
        self._finished = False
        self._error: BaseException | None = None
        self._spill = ArrowSpill()

    # The caller's side

    def take(self, timeout_s: float | None = None) -> pa.RecordBatch | None:
        """The next batch in the query's order; None at its end. Raises what ``fail`` was given, and TimeoutError."""
        deadline = None if timeout_s is None else monotonic() + timeout_s
        while (batch := self._next(deadline)) is not None:
            kept = self._kept(batch)
            if kept is batch or kept.num_rows:
                return kept
        return None

    def _next(self, deadline: float | None) -> pa.RecordBatch | None:
        with self._changed:
            while True:
                if self._error is not None:
                    raise self._error
                partition = self._partition(self._current)
                if partition.batches and (self._bounded or partition.done):
                    entry, size = partition.batches.popleft()
                    self._count_bytes(partition, -size)
                    partition.delivered = True
                    self._changed.notify_all()
                    break
                if partition.done:
                    self._current += 1
                    self._unsent_since = monotonic()
                    self._changed.notify_all()
                elif self._finished:
                    return None
                elif not self._changed.wait(None if deadline is None else max(0.0, deadline - monotonic())):
                    raise TimeoutError
        try:
            return entry() if callable(entry) else entry
        except Exception as error:  # unless it was closed meanwhile, and its files with it: the first error counts
            self.fail(StreamError(f"part of the result was put on disk and cannot be read back: {error}"))
            assert self._error is not None
            raise self._error from None

    def _kept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """What of the next batch belongs to the result, of which ``keep_rows`` may have said how long it is."""
        with self._changed:
            if self._to_hand_out is None:
                return batch
            skipped = min(self._to_skip, batch.num_rows)
            length = min(self._to_hand_out, batch.num_rows - skipped)
            self._to_skip -= skipped
            self._to_hand_out -= length
            if self._to_hand_out == 0:
                for partition in self._partitions.values():
                    self._forget(partition)
                self._changed.notify_all()
        return batch if length == batch.num_rows else batch.slice(skipped, length)

    def progress(self) -> tuple[int, int | None]:
        """Partitions received whole, and how many there are, if known by now."""
        with self._lock:
            return sum(partition.done for partition in self._partitions.values()), self._count

    @property
    def failed(self) -> bool:
        """Whether the query failed, or ``close`` was called before its end."""
        with self._lock:
            return self._error is not None

    @property
    def waiting_bytes(self) -> int:
        """What waits in memory."""
        with self._lock:
            return self._waiting_bytes

    def close(self) -> None:
        """Nobody takes any more: tasks that send fail. Idempotent."""
        self.fail(ResultClosedError("the result stream was closed before its end"))
        self._spill.close()

    # The query's side

    def keep_rows(self, first: int, end: int) -> None:
        """The result is only the rows from ``first`` to before ``end`` of what comes; said before any of them comes.

        What is too much is dropped, and its senders are not kept waiting.
        """
        with self._lock:
            self._to_skip, self._to_hand_out = first, max(0, end - first)

    def announce(self, count: int) -> None:
        """How many partitions the result has; comes before any of them.

        With a LIMIT it comes again as more of them are run, and at the end with how many were needed.
        """
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
            for index, partition in self._partitions.items():
                if index >= (self._count or 0):  # a LIMIT had enough without it
                    self._forget(partition)
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """The query failed, or nobody wants it. The first error counts."""
        with self._changed:
            if self._error is None:
                self._error = error
                for partition in self._partitions.values():
                    self._forget(partition)
            self._changed.notify_all()

    def open(self, claim: Claim) -> PartitionReceiver:
        """A task wants to send. Raises StreamError if the caller has seen part of what another attempt sent."""
        with self._changed:
            partition = self._partition(claim.partition)
            if partition.delivered and not partition.done and self._to_hand_out != 0:
                raise self._sent_twice(claim, partition)
            receiver = PartitionReceiver(self, claim.partition)
            if not partition.done:
                self._forget(partition)
                partition.sender = receiver
                self._changed.notify_all()
            return receiver

    def _sent_twice(self, claim: Claim, partition: _Partition) -> StreamError:
        which = f"partition {claim.partition} of the result"
        if partition.sender is not None:  # a speculative copy: the one that sends goes on
            return StreamError(f"{which} is being sent by another attempt of this task, and was handed out in part")
        told = partition.failure
        if isinstance(told, HeadraceError):  # the first cause: that Spark ran the task again only followed from it
            told.add_note(f"Spark ran the task of {which} again, after part of it had been handed out.")
            self._error = self._error or told
            self._changed.notify_all()
            return StreamError(f"{which} is not wanted any more: {told}")
        why = f": {told}" if told else ""
        error = StreamError(
            f"{which} was computed again (attempt {claim.attempt}) after part of it had been handed out, and rows "
            f"would come twice. The earlier task failed or was lost{why}"
        )
        self._error = self._error or error
        self._changed.notify_all()
        return error

    def put(self, receiver: PartitionReceiver, batch: pa.RecordBatch, size: int) -> None:
        """Blocks while there is no room for this partition, and has ``receiver`` say that it is there meanwhile.

        Raises StreamError when nobody wants it any more, OSError when the task is gone.
        """
        with self._changed:
            partition = self._partition(receiver.partition)
            while self._is_wanted(receiver, partition) and not self._has_room(receiver.partition, partition, size):
                if self._is_stalled(receiver.partition):
                    break
                self._changed.wait(_STALLED_SECONDS)
                receiver.give_sign_of_life()
            else:
                if not partition.done:
                    self._append(receiver.partition, partition, batch, size)
                return  # or it is a second run of a partition that arrived whole
        loader = self._store(batch)
        with self._changed:
            if self._is_wanted(receiver, partition):
                self._append(receiver.partition, partition, loader, 0)

    def end(self, receiver: PartitionReceiver) -> None:
        """``receiver`` has put everything. Raises StreamError when that is not wanted any more."""
        with self._changed:
            partition = self._partition(receiver.partition)
            self._is_wanted(receiver, partition)
            partition.done = True
            self._changed.notify_all()

    def left(self, receiver: PartitionReceiver, why: HeadraceError | str) -> None:
        """``receiver`` sends no more, after ``end`` or without."""
        with self._changed:
            partition = self._partition(receiver.partition)
            if partition.sender is receiver:
                partition.sender, partition.failure = None, why
                if not partition.done:  # what is left of it would only keep a second run from replacing it
                    self._forget(partition)
                if receiver.partition == self._current:
                    self._unsent_since = monotonic()
                self._changed.notify_all()

    # Inside, with the lock held (_store: without)

    def _is_wanted(self, receiver: PartitionReceiver, partition: _Partition) -> bool:
        is_late = self._finished or partition.sender is not receiver
        if self._error is not None or (is_late and not partition.done):
            raise StreamError("this result is not wanted any more")
        return not partition.done

    def _has_room(self, index: int, partition: _Partition, size: int) -> bool:
        """A batch that is larger than the bounds passes when nothing else waits."""
        if not self._bounded or self._to_hand_out == 0:
            return True
        if index == self._current:
            return partition.waiting_bytes + size <= _MAX_CURRENT_BYTES or not partition.waiting_bytes
        return self._waiting_bytes + size <= _MAX_WAITING_BYTES or not self._waiting_bytes

    def _is_stalled(self, index: int) -> bool:
        current = self._partition(self._current)
        if index == self._current or current.sender is not None or current.done:
            return False
        return monotonic() - self._unsent_since > _STALLED_SECONDS

    def _append(self, index: int, partition: _Partition, entry: pa.RecordBatch | Load, size: int) -> None:
        if self._to_hand_out == 0:
            return
        partition.batches.append((entry, size))
        self._count_bytes(partition, size)
        if index == self._current:
            self._changed.notify_all()

    def _forget(self, partition: _Partition) -> None:
        partition.batches.clear()
        self._count_bytes(partition, -partition.waiting_bytes)

    def _count_bytes(self, partition: _Partition, size: int) -> None:
        partition.waiting_bytes += size
        self._waiting_bytes += size

    def _partition(self, index: int) -> _Partition:
        return self._partitions.setdefault(index, _Partition())

    def _store(self, batch: pa.RecordBatch) -> Load:
        try:
            return self._spill.store(batch)
        except OSError as error:
            self.fail(StreamError(f"the result does not fit in memory and cannot be put on disk: {error}"))
            raise StreamError("this result is not wanted any more") from error
