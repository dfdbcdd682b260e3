"""The push table: a provider whose partitions read from a channel, once; driver Python."""

from __future__ import annotations

import threading
from collections import deque

import pyarrow as pa

from headrace.arrow.sizes import BATCH_ROWS, PUSHED_BYTES
from headrace.errors import ScanEndedError, StreamConsumedError, StreamError
from headrace.execute.failure import traceback_of
from headrace.execute.live import LivePlan, LiveTable, MergingSource
from headrace.execute.stopping import Ending
from headrace.plan import ExecutionPlan, ScanRequest, UnknownPartitioning
from headrace.push.channel import END, HINT_S, Channel, Reader
from headrace.push.packing import Packed, Packing

_MAX_REASON_CHARS = 300
_REMEMBERED_QUERIES = 1000
_QUERY_END_S = 0.5  # from the end of a killed task until Spark says how its query ended


class PushTable(LiveTable):
    """A table that is fed through a TableSink and can be scanned once.

    Filters stay with Spark; columns and limit are honoured before bytes leave this process.
    """

    def __init__(self, name: str, channel: Channel[Packed], packing: Packing) -> None:
        self.name = name
        self.channel = channel
        self._packing = packing
        self._scans = _Scans(name, channel, packing)

    def schema(self) -> pa.Schema:
        return self._packing.schema

    def scan(self, request: ScanRequest) -> ExecutionPlan:
        return PushPlan(self)

    def claim(self, partition: int, query: object) -> MergingSource:
        """Open a partition for the one scan, which ``query`` makes. Any thread.

        A task that Spark runs again gets the failure that ended the stream of its partition. Raises StreamConsumedError
        where there was none, and to another query; ScanEndedError where the query is over already.
        """
        return self._scans.claim(partition, query)

    def query_ended(self, query: object, error: str = "", reason: str = "", *, planned: bool = False) -> None:
        """If it was the query that scans this table, nobody will read any more.

        ``error`` is Spark's, if it failed; ``reason`` tells why else it ended early. ``planned``: the query was to scan
        this table. Then one that ended early takes the scan with it even if it had not opened a partition, so that
        producers always learn it; one that ended well without (it needed no row) leaves it to the next query.
        """
        why = Ending("cancelled", reason) if reason else _why_ended(error)
        if self._scans.ended(query, why, early=planned and bool(error or reason)):
            self.channel.end_scan(why)

    def reader_lost(self, reason: str) -> None:
        self.channel.end_scan(Ending("lost", reason))

    def abandon(self, error: StreamError) -> None:
        self.channel.abandon(error)


class PushPlan(LivePlan):
    """Reads the channel's partitions in the process that holds the sink."""

    failure_place = "the producer"

    def __init__(self, table: PushTable) -> None:
        self.schema = table.schema()
        self.partitioning = UnknownPartitioning(table.channel.partitions)
        self.table = table

    def claim(self, partition: int, execution: int) -> MergingSource:
        return self.table.claim(partition, self if execution < 0 else execution)

    def released(self) -> None:
        self.table.query_ended(self)

    def describe(self) -> str:
        return f"streaming, capacity {self.table.channel.capacity}, one scan"


class ChannelStream(MergingSource):
    """One partition's batches: whatever is queued goes out at once, merged, as soon as it is asked for."""

    def __init__(self, channel: Channel[Packed], reader: Reader[Packed], packing: Packing) -> None:
        self.patient = packing.many
        self._channel = channel
        self._reader = reader
        self._packing = packing
        self._merged: deque[pa.RecordBatch] = deque()
        self._lost: Ending | None = None

    @property
    def reason(self) -> Ending | None:
        """Why it ended before the producer's own end, if it did."""
        return self._reader.reason or self._lost

    @property
    def over(self) -> bool:
        """Whether nothing more will be read."""
        return self._reader.over

    @property
    def failure(self) -> Exception | None:
        """What the producer's failure was, if that is what ended it."""
        ending = self._reader.ending
        return ending if self.over and self.reason is None and isinstance(ending, Exception) else None

    def __next__(self) -> pa.RecordBatch:
        if not self._merged:
            while (taken := self._reader.take(BATCH_ROWS, PUSHED_BYTES, HINT_S)) == []:
                self._channel.hint_waiting(HINT_S)
            if taken is END:
                raise StopIteration
            assert isinstance(taken, list)
            self._merged.extend(self._packing.merged(taken))
        return self._merged.popleft()

    def interrupt(self, reason: Ending) -> None:
        """The query reads no more: writers learn it now. Any thread, idempotent.

        A reader that was killed does not know why. Spark is about to say how its query ended, so that is waited for.
        """
        if reason.reason == "lost":
            self._lost = reason
            self._reader.await_early_end(_QUERY_END_S)
        self._reader.end(reason)

    def close(self) -> None:
        """The reading side is done; before the end of the stream that is an early end."""
        self.interrupt(self._lost or Ending("limit", "the query needs no more rows (its limit was reached)"))


def _why_ended(error: str) -> Ending:
    if not error:
        return Ending("limit", "the query ended and needs no more rows (its limit was reached, for instance)")
    if "SPARK_JOB_CANCELLED" in error or "InterruptedException" in error:
        return Ending("cancelled", "the query was cancelled")
    if "SparkContext was shut down" in error:
        return Ending("lost", "Spark was stopped")
    return Ending("failed", f"the query failed: {error.strip().splitlines()[0][:_MAX_REASON_CHARS]}")


def _was_read(stream: ChannelStream) -> bool:
    """Whether it was read to the producer's own end."""
    return stream.over and stream.reason is None and stream.failure is None


class _FailedStream(MergingSource):
    """What a task that is run again reads: the failure that its first run had."""

    patient = False

    def __init__(self, failure: Exception) -> None:
        self._failure = failure
        self._traceback = traceback_of(failure)

    def __next__(self) -> pa.RecordBatch:
        raise BaseException.with_traceback(self._failure, self._traceback)


class _Scans:
    """Remembers who reads, to tell a second query from a task that Spark ran again. Thread-safe."""

    def __init__(self, table: str, channel: Channel[Packed], packing: Packing) -> None:
        self._table = table
        self._channel = channel
        self._packing = packing
        self._lock = threading.Lock()
        self._query: object = None
        self._why_over = ""
        self._opened: dict[int, ChannelStream] = {}
        self._over: deque[tuple[int, Ending]] = deque(maxlen=_REMEMBERED_QUERIES)

    def claim(self, partition: int, query: object) -> MergingSource:
        with self._lock:
            for over, reason in self._over:
                if over == query:  # a task that started late: its query will not read what it takes
                    text = f"the scan of the streaming table {self._table!r} ended: {reason}"
                    raise ScanEndedError(text, reason.reason)
            if self._query is None:
                self._query = query
            elif self._query != query:
                ended = f", and ended: {self._why_over}" if self._why_over else ""
                if len(self._opened) == self._channel.partitions and all(map(_was_read, self._opened.values())):
                    ended = " and read it to its end"
                raise StreamConsumedError(
                    f"the streaming table {self._table!r} can be scanned once, and another query has taken that "
                    f"scan{ended}; register it again with replace=True for a new stream, or use a TableProvider to "
                    "scan again"
                )
            earlier = self._opened.get(partition)
            if earlier is not None:
                return self._again(partition, earlier)
            stream = self._opened[partition] = ChannelStream(
                self._channel, self._channel.claim(partition), self._packing
            )
            return stream

    def _again(self, partition: int, earlier: ChannelStream) -> MergingSource:
        if earlier.failure is not None:
            return _FailedStream(earlier.failure)
        ended = f" That one ended because {earlier.reason}." if earlier.reason else ""
        raise StreamConsumedError(
            f"partition {partition} of the streaming table {self._table!r} can be scanned once, and an earlier "
            f"task of the same query has read from it: a retried or speculative task cannot start again, and "
            f"a query cannot scan the table twice.{ended} Use a TableProvider to scan again"
        )

    def ended(self, query: object, reason: Ending, *, early: bool) -> bool:
        """Whether the one scan is over with ``query``: where it reads, and where it was to read but ended early."""
        with self._lock:
            if self._query is None and early:
                self._query = query
            if isinstance(query, int):
                self._over.append((query, reason))
            if self._query != query:
                return False
            self._why_over = self._why_over or reason
            return True
