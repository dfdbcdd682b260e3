"""The push table: a provider whose partitions read from a channel, once; driver Python."""

from __future__ import annotations

import threading
from collections import deque

import pyarrow as pa

from headrace.errors import StreamConsumedError, StreamError
from headrace.execute.live import LivePlan, LiveTable, MergingSource
from headrace.plan import ExecutionPlan, ScanRequest, UnknownPartitioning
from headrace.push.channel import END, Channel, Reader
from headrace.push.packing import Packed, Packing

# What is taken at once and sent as one batch: the size that suits Spark best, whatever size was written.
_TAKEN_ROWS = 64 * 1024
_TAKEN_BYTES = 8 << 20
_MAX_REASON_CHARS = 300


class StreamingTable(LiveTable):
    """A table that is fed through a TableSink and can be scanned once.

    Filters stay with Spark; columns and limit are honoured before bytes leave this process.
    """

    def __init__(self, name: str, channel: Channel[Packed], packing: Packing) -> None:
        self.name = name
        self.channel = channel
        self._packing = packing
        self._scans = _Scans(name)

    def schema(self) -> pa.Schema:
        return self._packing.schema

    def scan(self, request: ScanRequest) -> ExecutionPlan:
        return StreamingPlan(self)

    def claim(self, partition: int, query: object) -> ChannelStream:
        """Open a partition for the one scan, which ``query`` makes. Any thread. Raises StreamConsumedError."""
        self._scans.check(partition, query)
        stream = ChannelStream(self.channel.claim(partition), self._packing)
        self._scans.opened(partition, stream)
        return stream

    def query_ended(self, query: object, error: str = "") -> None:
        """If it was the query that scans this table, nobody will read any more. ``error`` is Spark's, if it failed."""
        if self._scans.is_reading(query):
            self.channel.end_scan(_why_ended(error))

    def abandon(self, error: StreamError) -> None:
        self.channel.abandon(error)


class StreamingPlan(LivePlan):
    """Reads the channel's partitions in the process that holds the sink."""

    failure_place = "the producer"

    def __init__(self, table: StreamingTable) -> None:
        self.schema = table.schema()
        self.partitioning = UnknownPartitioning(table.channel.partitions)
        self.table = table

    def claim(self, partition: int, execution: int) -> ChannelStream:
        return self.table.claim(partition, self if execution < 0 else execution)

    def released(self) -> None:
        self.table.query_ended(self)

    def describe(self) -> str:
        return f"streaming, capacity {self.table.channel.capacity}, one scan"


class ChannelStream(MergingSource):
    """One partition's batches: whatever is queued goes out at once, merged, as soon as it is asked for."""

    def __init__(self, reader: Reader[Packed], packing: Packing) -> None:
        self.patient = packing.many
        self._reader = reader
        self._packing = packing
        self._merged: deque[pa.RecordBatch] = deque()
        self.reason: str | None = None

    def __next__(self) -> pa.RecordBatch:
        if not self._merged:
            taken = self._reader.take(_TAKEN_ROWS, _TAKEN_BYTES)
            if taken is END:
                raise StopIteration
            assert isinstance(taken, list)
            self._merged.extend(self._packing.merged(taken))
        return self._merged.popleft()

    def interrupt(self, reason: str) -> None:
        """The query reads no more: writers learn it now. Any thread, idempotent."""
        self.reason = self.reason or reason
        self._reader.end(reason)

    def close(self) -> None:
        """The reading side is done; before the end of the stream that is an early end."""
        self.interrupt("the query needs no more rows (its limit was reached)")


def _why_ended(error: str) -> str:
    if not error:
        return "the query ended and needs no more rows (its limit was reached, for instance)"
    if "SPARK_JOB_CANCELLED" in error or "InterruptedException" in error:
        return "the query was cancelled"
    return f"the query failed: {error.strip().splitlines()[0][:_MAX_REASON_CHARS]}"


class _Scans:
    """Remembers who reads, to tell a second query from a task that Spark ran again."""

    def __init__(self, table: str) -> None:
        self._table = table
        self._lock = threading.Lock()
        self._query: object = None
        self._opened: dict[int, ChannelStream] = {}

    def check(self, partition: int, query: object) -> None:
        with self._lock:
            if self._query is None:
                self._query = query
            elif self._query != query:
                raise StreamConsumedError(
                    f"the streaming table {self._table!r} can be scanned once, and another query has taken that scan; "
                    "use a TableProvider to scan again"
                )
            earlier = self._opened.get(partition)
            if earlier is not None:
                ended = f" That one ended because {earlier.reason}." if earlier.reason else ""
                raise StreamConsumedError(
                    f"partition {partition} of the streaming table {self._table!r} can be scanned once, and an earlier "
                    f"task of the same query has read from it: a retried or speculative task cannot start again, and "
                    f"a query cannot scan the table twice.{ended} Use a TableProvider to scan again"
                )

    def opened(self, partition: int, stream: ChannelStream) -> None:
        with self._lock:
            self._opened[partition] = stream

    def is_reading(self, query: object) -> bool:
        with self._lock:
            return self._query == query and bool(self._opened)
