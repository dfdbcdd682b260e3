"""What counts as data: frames, rows and columns that become an Arrow table; driver Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa


def table_of(value: Any) -> pa.Table | None:
    """``value`` as an Arrow table, without copying where Arrow lends its memory; None where it is no data.

    Data: whatever has ``__arrow_c_stream__`` or ``__arrow_c_array__``, pandas frames (their index only where it has a
    name), a list of dicts, a dict of columns. A stream is read to its end.
    Raises TypeError for data that is no table: a single column, a column of mixed types, columns of several lengths.
    """
    if isinstance(value, type):
        return None
    if isinstance(value, pa.Table):
        return value
    if is_pandas_frame(value):
        return _converted(value, pandas_table)
    if hasattr(value, "__arrow_c_stream__") or hasattr(value, "__arrow_c_array__"):
        try:
            return pa.table(value)
        except pa.ArrowInvalid as error:  # a Series, an Array, a ChunkedArray: Arrow, but of one column
            raise TypeError(f"{type(value).__name__} is a single column, not a table: {error}") from error
    if is_rows(value):
        return _table_of_rows(value)
    if isinstance(value, dict):
        return _converted(value, pa.table)
    return None


def is_data(value: Any) -> bool:
    """Whether ``MemTable`` would take it for data that it can read again, without converting it."""
    exports = hasattr(value, "__arrow_c_stream__") or hasattr(value, "__arrow_c_array__") or is_pandas_frame(value)
    return not isinstance(value, type) and (exports or is_rows(value) or is_columns(value) or is_batches(value))


def is_one_shot(value: Any) -> bool:
    """Whether it can be read once only: a generator or another iterator, a RecordBatchReader."""
    if isinstance(value, type):
        return False
    return isinstance(value, pa.RecordBatchReader) or hasattr(value, "__next__") or hasattr(value, "__anext__")


def is_pandas_frame(value: Any) -> bool:
    library = type(value).__module__.partition(".")[0]
    return library == "pandas" and hasattr(value, "columns") and hasattr(value, "index")


def is_rows(value: Any) -> bool:
    """Whether it is a list of dicts; the first item tells."""
    return isinstance(value, (list, tuple)) and bool(value) and isinstance(value[0], Mapping)


def is_batches(value: Any) -> bool:
    """Whether it is a list of RecordBatches."""
    return isinstance(value, (list, tuple)) and bool(value) and isinstance(value[0], pa.RecordBatch)


def is_columns(value: Any) -> bool:
    """Whether it is a dict of columns."""
    return isinstance(value, dict) and bool(value) and all(map(_is_column, value.values()))


def _is_column(value: Any) -> bool:
    return isinstance(value, (list, tuple, range)) or hasattr(value, "__array__") or hasattr(value, "__arrow_c_array__")


def pandas_table(frame: Any) -> pa.Table:
    """A pandas frame with the levels of its index that have a name. Raises ArrowException."""
    unnamed = [i for i, name in enumerate(frame.index.names) if name is None]
    keep = len(unnamed) < frame.index.nlevels
    if keep and unnamed:
        frame = frame.droplevel(unnamed)
    return pa.Table.from_pandas(frame, preserve_index=keep)


def row_names(rows: Sequence[Mapping[Any, Any]]) -> list[str]:
    """Every key of the rows, in the order in which they come. Raises TypeError for what is no row, or no name."""
    names: dict[Any, None] = {}
    for index, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise TypeError(f"a list of rows has a dict for each row, but item {index} is a {type(row).__name__}")
        names.update(dict.fromkeys(row))
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"the names of columns are text, but a row has the key {name!r}")
    return list(names)


def _table_of_rows(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """``pa.Table.from_pylist`` would leave out the keys that the first row does not have."""
    names = row_names(rows)
    columns = {name: _column(name, [row.get(name) for row in rows]) for name in names}
    return pa.table(columns)


def _column(name: str, values: list[Any]) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"the values of column {name!r} are not of one type: {error}") from error


def _converted(value: Any, convert: Any) -> pa.Table:
    """Raises TypeError, for mixed columns and for columns of several lengths alike."""
    try:
        table: pa.Table = convert(value)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        if isinstance(value, dict):
            for name, column in value.items():
                if isinstance(column, (list, tuple)):
                    _column(name, list(column))
        text = ", ".join(map(str, error.args))
        raise TypeError(f"the {type(value).__name__} is no table: {text}") from error
    return table
