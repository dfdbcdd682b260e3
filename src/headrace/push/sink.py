"""TableSink, what the producer of a streaming table holds: its data, checked and copied, enters the channel.

Driver Python.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from headrace.arguments import checked
from headrace.arrow.conversion import batch_converter
from headrace.arrow.damage import DamageCheck
from headrace.arrow.data import is_pandas_frame, opened
from headrace.arrow.mismatch import mismatch
from headrace.arrow.nulls import NullCheck
from headrace.arrow.rows import counted
from headrace.arrow.sizes import COPIED_BYTES
from headrace.arrow.sources import hint_for
from headrace.display import html_lines
from headrace.errors import ProducerLostError, SchemaMismatchError, SinkClosedError, WriteTimeout
from headrace.push.channel import Channel, ChannelStats
from headrace.push.packing import Packed, Packing, refers_to_a_whole

_MEMORY = pa.default_cpu_memory_manager()


class TableSink:
    """Writes data into a streaming table. Every method may be called from any thread, at the same time.

    Data: a RecordBatch, a Table, any object with ``__arrow_c_array__`` or ``__arrow_c_stream__`` (a polars frame, for
    instance), a pandas frame (its index only where that has a name), a list of dicts, in which a key that a row does
    not have is a null, or of tuples. Its columns are the table's, in any order. Types are cast where nothing is lost:
    ``large_string``, views and dictionaries to ``string``, nanoseconds to microseconds, numbers to other numbers, if
    every value fits. It is copied: the caller may overwrite, reuse or drop it when the call returns.

    Writes raise SchemaMismatchError (other names or types, values that a cast would change, or nulls where the table
    has none),
    SinkClosedError (after ``close`` or ``fail``), ScanEndedError (nobody will read it: limit reached,
    cancelled, failed), DeregisteredError (the table is gone), OSError (it had to go to disk and could not);
    nothing of that data is written then.

    A sink that is garbage collected before ``close()`` fails the query with ProducerLostError. What
    ``partition`` returned keeps the sink alive: the last of them to go counts.
    """

    def __init__(
        self,
        channel: Channel[Packed],
        packing: Packing,
        *,
        whole: TableSink | None = None,
        partition: int | None = None,
    ) -> None:
        self.schema = packing.schema
        """The table's columns."""
        self._packing = packing
        self._channel = channel
        self._whole = whole
        self._partition = partition
        self._intake: _Intake = _Intake(channel.name, packing) if whole is None else whole._intake
        if whole is None:
            lost = ProducerLostError(f"the sink of {channel.name} went away before close(): the stream is not whole")
            # Not at exit: the end of the process cuts the connections, and no reader takes that for an end.
            weakref.finalize(self, channel.abandon_soon, lost).atexit = False

    def write(self, batch: Any, timeout: float | None = None) -> None:
        """Write, in order; blocks while ``capacity`` batches are waiting.

        Without ``timeout`` the batches of a Table or stream are written one by one, so a stream may be
        endless; when a later batch of a stream is refused, those before it were written. With ``timeout``
        seconds everything is written as one batch or, raising WriteTimeout, not at all.
        """
        if self._packed(batch):
            return
        if timeout is not None and not hasattr(type(timeout), "__float__"):
            raise TypeError(f"write: timeout must be a number of seconds, not {type(timeout).__name__}")
        if timeout is not None or type(batch) is pa.RecordBatch:
            item, rows, size = self._intake.one(batch)
            self._channel.offer(item, rows, size, self._partition, timeout)
            return
        for item, rows, size in self._intake.several(batch):
            self._channel.offer(item, rows, size, self._partition)

    def try_write(self, batch: Any) -> bool:
        """Write everything at once, as one batch, or nothing: False when full."""
        if self._packed(batch):
            return True
        item, rows, size = self._intake.one(batch)
        try:
            self._channel.offer(item, rows, size, self._partition, 0)
        except WriteTimeout:
            return False
        return True

    async def awrite(self, batch: Any) -> None:
        """Write everything as one batch; waits for room without blocking the event loop.

        A cancelled ``awrite`` has written all of it or nothing.
        """
        item, rows, size = self._intake.one(batch)
        await self._channel.offer_async(item, rows, size, self._partition)

    def close(self) -> None:
        """End of stream: readers end cleanly after what was written. On a partition, of that one alone.

        Never blocks; writes that are blocked in other threads raise SinkClosedError. No-op after any end.
        """
        self._channel.close(self._partition)

    def fail(self, cause: BaseException) -> None:
        """The query fails with ``cause`` after what was written. On a partition too, for all that are open.

        Never blocks. The first failure counts. After ``close()``: SinkClosedError, as it can reach nobody.
        """
        if not isinstance(cause, BaseException):
            raise TypeError(f"fail() takes the exception that is the cause, not {type(cause).__name__}")
        self._channel.fail(cause)

    @checked()
    def partition(self, i: int) -> TableSink:
        """A sink that writes to partition ``i`` alone. Cheap; may be called again for the same partition."""
        if not 0 <= i < self._channel.partitions:
            raise IndexError(f"{self._channel.name} has the partitions 0 to {self._channel.partitions - 1}, not {i}")
        return TableSink(self._channel, self._packing, whole=self._whole or self, partition=i)

    @property
    def stats(self) -> ChannelStats:
        """Of the whole table, at this moment."""
        return self._channel.stats

    def __enter__(self) -> TableSink:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: object) -> None:
        if error is None:
            self.close()
            return
        with suppress(SinkClosedError):  # the block closed the sink before it raised, and that goes on anyway
            self.fail(error)

    async def __aenter__(self) -> TableSink:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: object) -> None:
        self.__exit__(kind, error, tb)  # neither close nor fail waits

    def __repr__(self) -> str:
        return f"<{self._title()}: {', '.join(self._lines())}>"

    def _repr_html_(self) -> str:
        stats = self.stats
        return html_lines(self._title(), self._lines(), filled=stats.waiting / stats.capacity)

    def _title(self) -> str:
        part = "" if self._partition is None else f", partition {self._partition}"
        return f"TableSink of {self._channel.name}{part}"

    def _lines(self) -> list[str]:
        stats = self.stats
        spilled = f" ({stats.spilled} on disk)" if stats.spilled else ""
        room = f"of {counted(stats.capacity, 'batch', 'batches')}" if self._channel.partitions == 1 else "batches"
        return [
            stats.state,
            f"{stats.waiting} {room} waiting{spilled}",
            f"{counted(stats.rows_written, 'row')} written",
            f"{stats.rows_delivered:,} delivered",
        ]

    def _packed(self, batch: Any) -> bool:
        """Pack it, which is the cheapest way, if it is small, its reader is busy and there is room; False otherwise."""
        size = self._intake.small_size(batch)
        return size > 0 and self._channel.pack(batch, batch.num_rows, size, self._partition)


class _Intake:
    """Turns what a producer hands over into batches of exactly the table's schema, in memory of their own.

    It always copies. Arrow cannot tell memory that someone may still write to (``pa.array`` shares numpy's)
    from its own: both call themselves mutable. A copy runs at 10-20 GB/s, a tenth of what sending it costs,
    and for small batches costs less than asking each buffer; it also frees a slice from its parent.
    """

    def __init__(self, table: str, packing: Packing) -> None:
        self._table = table
        self._packing = packing
        self._schema = packing.schema
        self._nulls = NullCheck(self._schema)
        self._shared = any(refers_to_a_whole(field.type) for field in self._schema)
        whole = {field.name for field in self._schema if refers_to_a_whole(field.type)}
        self._buffers = DamageCheck(self._schema, read=self._nulls.reads | whole)

    def small_size(self, data: Any) -> int:
        """How many bytes ``data`` has, if it may be packed as it is; 0 if not."""
        if type(data) is not pa.RecordBatch or not data.schema.equals(self._schema, check_metadata=True):
            return 0
        if self._buffers.damage(data) is not None:
            return 0  # the other ways say so
        size = self._packing.small_size(data)
        return 0 if size and self._nulls and self._nulls.path(data) else size

    def one(self, data: Any) -> tuple[pa.RecordBatch, int, int]:
        """All of ``data`` as one batch, its rows and its bytes."""
        if (
            type(data) is pa.RecordBatch
            and not self._nulls
            and data.schema.equals(self._schema, check_metadata=True)
            and self._buffers.damage(data) is None
        ):
            return self._copy([data])  # the common case, cheaply
        return self._copy(list(self._conforming(data)))

    def several(self, data: Any) -> Iterator[tuple[pa.RecordBatch, int, int]]:
        """``data`` batch by batch; of a Table or frame every batch is checked before the first is given out."""
        batches: Sequence[pa.RecordBatch] | Iterator[pa.RecordBatch] = self._conforming(data)
        if isinstance(data, pa.Table) or is_pandas_frame(data):
            batches = list(batches)
        for batch in batches:
            yield self._copy([batch])

    def _conforming(self, data: Any) -> Iterator[pa.RecordBatch]:
        schema, batches = self._opened(data)
        same = schema.equals(self._schema, check_metadata=True)
        convert = None if same else batch_converter(schema, self._schema)
        if convert is None and not same:
            raise self._mismatch("data of another schema", schema)
        buffers = self._buffers if convert is None else DamageCheck(schema, read=schema.names)
        empty = True
        for batch in batches:
            empty = False
            if damage := buffers.damage(batch):
                raise self._mismatch(f"a broken batch ({damage})", schema)
            if convert is not None:
                batch = convert(batch)
            if path := self._nulls.path(batch):
                raise self._mismatch(f"nulls in {path!r}, which is declared not null,", schema)
            yield batch
        if empty:
            yield pa.RecordBatch.from_arrays([pa.nulls(0, t) for t in self._schema.types], schema=self._schema)

    def _opened(self, data: Any) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        try:
            found = opened(data, self._schema, f"cannot be written to {self._table}")
        except SchemaMismatchError as error:
            raise SchemaMismatchError(f"{error}; nothing was written") from error
        except TypeError as error:
            raise TypeError(f"cannot write {type(data).__name__} to {self._table}: {error}") from error
        if found is None:
            raise TypeError(
                f"cannot write {type(data).__name__} to {self._table}: expected a RecordBatch, a Table, a frame, a "
                f"list of dicts or tuples, or an object with __arrow_c_array__ or __arrow_c_stream__{hint_for(data)}"
            )
        return found

    def _copy(self, batches: list[pa.RecordBatch]) -> tuple[pa.RecordBatch, int, int]:
        only = batches[0]
        if len(batches) == 1 and only.get_total_buffer_size() <= COPIED_BYTES:
            copy = only.copy_to(_MEMORY)  # costs half of a copy that leaves out what a slice hides
        else:
            copy = pa.concat_batches(batches)
            if self._shared:
                copy = copy.copy_to(_MEMORY)
        return copy, copy.num_rows, copy.get_total_buffer_size()  # exact: a copy is not the slice of a parent

    def _mismatch(self, what: str, found: pa.Schema) -> SchemaMismatchError:
        return SchemaMismatchError(
            f"{what} cannot be written to {self._table}; nothing was written\n{mismatch(self._schema, found)}"
        )
