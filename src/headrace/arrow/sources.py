"""What ``execute`` may return: how it is iterated over and closed; driver and executor Python."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import AsyncIterable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

from headrace.arrow.async_batches import AsyncBatches
from headrace.arrow.data import is_lazy_frame, is_pandas_frame, is_rows, is_tuples, opened
from headrace.errors import SchemaMismatchError


class ArrowStreamExportable(Protocol):
    """Anything that hands out an Arrow C stream: a polars or pandas frame, a duckdb result, a reader."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


@runtime_checkable
class Interruptible(Protocol):
    """What ``execute`` returns may have this method too: it is then told at once that Spark reads no more.

    Without it a thread of your own process (``Placement.DRIVER``) that waits inside one C call is stopped when that
    call returns. ``interrupt`` knows better how to wake it: it cancels a request, closes a socket, sets an event.
    """

    def interrupt(self, reason: str) -> None:
        """Make a ``next`` that waits return or raise soon; ``reason`` says why the query reads no more.

        Called at most once for each ``execute``, on a thread of Headrace's and never on the one that iterates: while
        ``next`` runs, between two calls of it, or just when the stream is being closed. It must not wait for the
        iterating thread. What ``next`` gives or raises afterwards reaches nobody; ``close`` is called as always.
        What it raises itself is logged, and the thread is then stopped as if it had no ``interrupt``. One that takes no
        argument, as the connections of sqlite3 and duckdb have it, is called without.
        """


class ArrowArrayExportable(Protocol):
    """Anything that hands out one Arrow batch, a struct of its columns."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> object: ...


Rows: TypeAlias = Sequence[Mapping[str, Any]] | Sequence[tuple[Any, ...]]
"""A list of dicts, in which a key that a row does not have is a null; or of tuples, in the order of the columns."""

Yielded: TypeAlias = pa.RecordBatch | ArrowArrayExportable | ArrowStreamExportable | Rows | Mapping[str, Any]
"""Data of any number of rows: also a pandas frame, and a dict of columns."""

BatchSource: TypeAlias = Iterable[Yielded] | AsyncIterable[Yielded] | Yielded
"""What ``ExecutionPlan.execute`` may return."""


def batch_iterator(source: Any, where: str) -> Iterator[Any]:
    """Iterates over anything ``execute`` may return. Raises TypeError, naming ``where``, for other things.

    Gives batches, or whatever else the source yields: ``arrow.data.opened`` knows what of it is data.
    To be closed with the source, by ``close_sources(iterator, source)``.
    """
    if isinstance(source, pa.RecordBatchReader):
        return iter(source)
    if isinstance(source, (pa.RecordBatch, dict)) or is_pandas_frame(source) or is_rows(source) or is_tuples(source):
        return iter((source,))
    if hasattr(source, "__arrow_c_stream__"):
        return iter(pa.RecordBatchReader.from_stream(source))
    if hasattr(source, "__arrow_c_array__"):
        return iter((source,))
    if _is_async(source):
        return AsyncBatches(source)
    try:
        return iter(source)
    except TypeError:
        hint = "; is a yield or return missing?" if source is None else hint_for(source)
        if inspect.iscoroutine(source):
            hint = "; an async def gives batches if it has a yield, without one it is a coroutine"
        raise TypeError(
            f"{where} returned {type(source).__name__}, expected an iterable or async iterable of "
            f"pyarrow.RecordBatch, a RecordBatchReader, a frame, rows or an object with __arrow_c_stream__{hint}"
        ) from None


def batches_within(item: Any, *schemas: pa.Schema) -> Iterator[Any]:
    """The batches of ``item``, which a source gave, in their own types; rows get the first of ``schemas`` that fits.

    What is no data, or does not fit, is given as it is: whoever checks it in the end says so.
    """
    if isinstance(item, pa.RecordBatch):
        yield item
        return
    for schema in schemas:
        with contextlib.suppress(TypeError, SchemaMismatchError):
            found = opened(item, schema, "")
            break
    else:
        found = None
    if found is None:
        yield item
        return
    try:
        yield from found[1]
    finally:
        close_sources(found[1])


def _is_async(source: Any) -> bool:
    """What can be read both ways is read without a loop."""
    return hasattr(source, "__aiter__") and not hasattr(source, "__iter__")


def hint_for(value: Any) -> str:
    """How to make a RecordBatch of something that is none, for the end of an error's sentence; empty if not known."""
    library = type(value).__module__.partition(".")[0]
    if isinstance(value, pa.Table):
        return "; use Table.to_batches()"
    if library == "pandas" and hasattr(value, "columns"):
        return "; use pyarrow.RecordBatch.from_pandas(frame, schema=schema, preserve_index=False)"
    if is_lazy_frame(value):  # before it is asked for its columns, which warns
        return "; use frame.collect()"
    if library == "polars" and hasattr(value, "columns"):
        return "; use frame.to_arrow().cast(schema).to_batches()"
    if isinstance(value, dict) and all(isinstance(column, (list, tuple)) for column in value.values()):
        return "; use pyarrow.RecordBatch.from_pydict(columns, schema=schema)"
    if isinstance(value, (dict, list, tuple)):
        return "; use pyarrow.RecordBatch.from_pylist(rows, schema=schema), where rows is a list of dicts"
    return ""


def close_sources(*sources: Any) -> None:
    """Close each source that can be closed, once; whatever that raises passes, after all of them were closed.

    An async source is closed by its iterator, on the loop where it was read.
    """
    with contextlib.ExitStack() as stack:
        for source in reversed({id(source): source for source in sources}.values()):
            close = None if _is_async(source) else getattr(source, "close", None)
            if callable(close):
                stack.callback(close)
