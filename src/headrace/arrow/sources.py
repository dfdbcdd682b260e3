"""What ``execute`` may return: how it is iterated over and closed; driver and executor Python."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any, Protocol, TypeAlias

import pyarrow as pa


class ArrowStreamExportable(Protocol):
    """Anything that hands out an Arrow C stream: a polars or pandas frame, a duckdb result, a reader."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


BatchSource: TypeAlias = Iterable[pa.RecordBatch] | pa.RecordBatchReader | ArrowStreamExportable
"""What ``ExecutionPlan.execute`` may return."""


def batch_iterator(source: Any, where: str) -> Iterator[pa.RecordBatch]:
    """Iterates over anything ``execute`` may return. Raises TypeError, naming ``where``, for other things."""
    if isinstance(source, pa.RecordBatch):
        return iter((source,))
    if isinstance(source, pa.RecordBatchReader):
        return iter(source)
    if hasattr(source, "__arrow_c_stream__"):
        return iter(pa.RecordBatchReader.from_stream(source))
    try:
        return iter(source)
    except TypeError:
        raise TypeError(
            f"{where} returned {type(source).__name__}, expected an iterable of pyarrow.RecordBatch, "
            "a RecordBatchReader or an object with __arrow_c_stream__"
        ) from None


def close_sources(*sources: Any) -> None:
    """Close each source that can be closed, once; whatever that raises passes, after all of them were closed."""
    with contextlib.ExitStack() as stack:
        for source in reversed({id(source): source for source in sources}.values()):
            close = getattr(source, "close", None)
            if callable(close):
                stack.callback(close)
