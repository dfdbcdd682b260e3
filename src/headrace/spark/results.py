"""ResultStream: a query's result as Arrow batches while the query still runs; driver Python."""

from __future__ import annotations

import asyncio
import queue
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from functools import cache
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from headrace.arrow.rows import counted
from headrace.arrow.types import with_nested
from headrace.display import html_lines, names_text
from headrace.errors import HeadraceError, ResultClosedError
from headrace.optional import required
from headrace.spark.interrupts import in_one_line
from headrace.spark.progress import Progress, ProgressBar

if TYPE_CHECKING:
    import pandas
    import polars


class RunningQuery(Protocol):
    """A query whose result is taken while it runs. Does not know the ResultStream, so that may be dropped."""

    schema: pa.Schema

    @property
    def failed(self) -> bool:
        """Whether the query failed, or nobody wants its result any more."""

    def start(self) -> None:
        """Called once, before anything else."""

    def take(self) -> pa.RecordBatch | None:
        """The next batch; None only where all of the result was taken and the query said that this is all of it.

        Blocks; one consumer. Raises the query's error, again if called again: whatever ends the query otherwise is one.
        """

    def progress(self) -> tuple[int, int | None]:
        """How many partitions have arrived whole, and how many there are (None: not known yet)."""

    def is_over(self) -> bool:
        """Whether nothing of it runs any more."""

    def cancel(self) -> None:
        """End the query if it still runs, and wait until it has ended. Any thread, any number of times."""


class ResultStream:
    """An iterator of ``pa.RecordBatch`` in the query's order, with bounded memory.

    One consumer at a time. Closing it (or leaving its ``with`` block, or dropping it) cancels the Spark job if it
    still runs. Raises Headrace's own errors; Spark's own pass unchanged. ``read_all``, ``to_pandas`` and ``to_polars``
    take all that is left; ``async for`` works too; anything that takes an Arrow stream can read it (``duckdb``,
    ``pa.RecordBatchReader.from_stream``).
    """

    def __init__(self, query: RunningQuery, on_progress: Callable[[Progress], None] | None = None) -> None:
        self.schema: pa.Schema = query.schema
        """The result's columns, known before the first batch."""
        self._query = query
        self._on_progress = on_progress
        self._started = monotonic()
        self._rows = self._batches = 0
        self._complete = self._closed = False
        self._reading: Future[Any] | None = None  # begun by ``async for``, and not yet handed out
        # A finalizer runs in whatever thread drops the last reference or collects garbage, whatever locks that
        # holds: it must neither wait nor lock. Not at exit either: the JVM ends with this process.
        self._bar = on_progress if isinstance(on_progress, ProgressBar) else None
        self._finalizer = weakref.finalize(self, _dropped_queries().put, (self._query, self._bar))
        self._finalizer.atexit = False
        self._query.start()
        if self._bar is not None:
            self._bar.start()

    def read_next_batch(self) -> pa.RecordBatch:
        """The next batch; StopIteration at the end. Blocks until there is one.

        Raises the query's error, again if it is called again, and ResultClosedError after ``close()``.
        """
        if self._complete:
            raise StopIteration
        if self._closed:  # whatever the query would still say: a batch may have been lost on the way
            raise ResultClosedError("the result stream was closed before its end")
        try:
            batch = self._query.take()
            if batch is None:
                self._complete = True
            else:
                self._rows += batch.num_rows
                self._batches += 1
            self._report()
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                in_one_line(error)
            with suppress(Exception):  # the first error is the one to tell
                self.close()
            raise
        if batch is None:
            self.close()
            raise StopIteration
        return batch

    def close(self) -> None:
        """Cancel the query if it still runs, and wait until it has ended. Any thread. Idempotent."""
        self._finalizer.detach()
        self._closed = self._closed or not (self._complete or self._query.failed)
        self._query.cancel()
        if self._bar is not None:
            self._bar.close()

    def read_all(self) -> pa.Table:
        """All batches that are left, as one table (with the schema, also if there are none), and closes."""
        with self:
            return pa.Table.from_batches(self, self.schema)

    def to_pandas(self, **options: Any) -> pandas.DataFrame:
        """All that is left as a pandas frame; ``options`` are those of ``pa.Table.to_pandas``. Needs pandas."""
        required("pandas", "to_pandas()")
        return self.read_all().to_pandas(**options)

    def to_polars(self) -> polars.DataFrame:
        """All that is left as a polars frame. Needs polars."""
        frame: polars.DataFrame = required("polars", "to_polars()").from_arrow(self.read_all())
        return frame

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        return self.read_next_batch()

    def __enter__(self) -> ResultStream:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def __aiter__(self) -> ResultStream:
        return self

    async def __anext__(self) -> pa.RecordBatch:
        """``async for``: waits on a thread of its own, so the event loop goes on.

        If it is cancelled the batch is not lost: it comes next. Leave the loop early within ``async with stream``, or
        call ``close()``, to cancel the query.
        """
        reading = self._reading = self._reading or _in_thread(self._next_or_none)
        try:
            batch = await asyncio.wrap_future(reading)
        except asyncio.CancelledError:
            raise
        except BaseException:
            self._reading = None
            raise
        self._reading = None
        if batch is None:
            raise StopAsyncIteration
        return batch

    async def __aenter__(self) -> ResultStream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        await asyncio.wrap_future(_in_thread(self.close))

    def _next_or_none(self) -> pa.RecordBatch | None:
        return next(self, None)

    def __repr__(self) -> str:
        return f"<{self._title()}: {', '.join(self._lines())}>"

    def _repr_html_(self) -> str:
        done, count = self._query.progress()
        return html_lines(self._title(), self._lines(), filled=done / count if count else None)

    def _title(self) -> str:
        return f"ResultStream of {names_text(self.schema.names) or 'no columns'}"

    def _lines(self) -> list[str]:
        done, count = self._query.progress()
        return [
            self._state(),
            f"{done} of {'?' if count is None else count} partitions arrived",
            f"{counted(self._rows, 'row')} in {counted(self._batches, 'batch', 'batches')} read",
        ]

    def _state(self) -> str:
        if self._complete:
            return "read to its end"
        if self._closed:
            return "closed before its end"
        if self._query.failed:
            return "failed"
        return "complete, to be read" if self._query.is_over() else "running"

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return pa.RecordBatchReader.from_batches(self.schema, self).__arrow_c_stream__(requested_schema)

    def _report(self) -> None:
        if self._on_progress is not None:
            done, count = self._query.progress()
            self._on_progress(Progress(self._rows, self._batches, done, count, monotonic() - self._started))


@cache
def _dropped_queries() -> queue.SimpleQueue[Any]:
    """Queries whose stream was dropped are put here, and cancelled by a thread that may wait.

    ``SimpleQueue.put`` is the one thing that finalizers may call safely: it is reentrant and never blocks.
    """
    dropped: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def cancel(query: RunningQuery, bar: ProgressBar | None) -> None:
        query.cancel()
        if bar is not None:
            bar.close()

    def run() -> None:
        while True:
            threading.Thread(target=cancel, args=dropped.get(), name="headrace-cancel", daemon=True).start()

    threading.Thread(target=run, name="headrace-dropped", daemon=True).start()
    return dropped


def check_types(schema: pa.Schema) -> None:
    """Refuses year-month intervals: pyarrow carries them, but raises a bare KeyError when a value is read."""
    for field in schema:
        if any(str(kind) == "month_interval" for kind in with_nested(field.type)):
            raise HeadraceError(
                f"column {field.name!r} of the result has a year-month interval, which pyarrow cannot read; "
                "cast it in the query, e.g. to INT"
            )


def _in_thread(work: Callable[[], Any]) -> Future[Any]:
    """The outcome of ``work`` on a daemon thread of its own, which keeps no event loop and no exit waiting."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # handed over to who waits
            future.set_exception(error)

    threading.Thread(target=run, name="headrace-async", daemon=True).start()
    return future
