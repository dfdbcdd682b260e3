"""What counts as data: frames, rows and columns that become an Arrow table; driver Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from headrace.arrow.batches import batch_without_columns
from headrace.arrow.python_values import VALUE_ERRORS, array_of, arrow_array, field_names, first_changed, may_change
from headrace.arrow.rows import counted
from headrace.errors import SchemaMismatchError


def table_of(value: Any) -> pa.Table | None:
    """``value`` as an Arrow table, without copying where Arrow lends its memory; None where it is no data.

    Data: whatever has ``__arrow_c_stream__`` or ``__arrow_c_array__``, pandas frames (their index only where it has a
    name), a list of dicts, a dict of columns. A stream is read to its end.
    Raises TypeError for data that is no table: a single column, a column of mixed types, columns of several lengths,
    an index with the name of a column.
    """
    if isinstance(value, type):
        return None
    if isinstance(value, pa.Table):
        return value
    if is_pandas_frame(value):
        return _converted(value, pandas_table)
    if hasattr(value, "__arrow_c_stream__"):
        return reader_of(value).read_all()
    if hasattr(value, "__arrow_c_array__"):
        return _exported(value, pa.table)
    if is_rows(value):
        return _table_of_rows(value)
    if isinstance(value, dict):
        return _table_of_columns(value)
    return None


def opened(value: Any, schema: pa.Schema, misfit: str) -> tuple[pa.Schema, Iterator[pa.RecordBatch]] | None:
    """The batches of ``value`` and their schema, in its own types; None where it is no data.

    Data is what ``table_of`` takes, of which a stream is read batch by batch, and rows: a list of dicts, in which a key
    that a row does not have is a null, or of tuples. Rows get the types of ``schema``; ``misfit`` stands in the error
    for those that do not fit: "cannot be written to x".
    Raises TypeError as ``table_of`` does; SchemaMismatchError for rows that ``schema`` does not fit.
    """
    if isinstance(value, pa.RecordBatch):
        return value.schema, iter((value,))
    if (isinstance(value, list) and not value) or is_rows(value) or is_tuples(value):
        return schema, iter((_batch_of_rows(value, schema, misfit),))
    if hasattr(value, "__arrow_c_stream__") and not isinstance(value, type) and not is_pandas_frame(value):
        reader = reader_of(value)
        return reader.schema, iter(reader)
    if isinstance(value, dict) and not is_columns(value):
        raise TypeError("it is a dict of no columns: one row is a list of one dict, [row]")
    table = table_of(value)
    return None if table is None else (table.schema, iter(table.to_batches()))


def _batch_of_rows(rows: Sequence[Any], schema: pa.Schema, misfit: str) -> pa.RecordBatch:
    which = f"{misfit}, which has the columns {', '.join(schema.names)}"
    if is_tuples(rows):
        names = [field_names(row) or schema.names for row in rows]
        if wrong := [row for row, its in zip(rows, names, strict=True) if len(row) != len(its)]:
            raise SchemaMismatchError(f"rows with {counted(len(wrong[0]), 'value')} {which}")
        # Named tuples, PySpark's Row for one, by their own names; others in the order of the columns.
        rows = [dict(zip(its, row, strict=True)) for row, its in zip(rows, names, strict=True)]
    if unknown := [name for name in row_names(rows) if name not in schema.names]:
        raise SchemaMismatchError(f"rows with the key {unknown[0]!r} {which}")
    if not schema.names:
        return batch_without_columns(len(rows))
    columns = [array_of([row.get(field.name) for row in rows], field) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def reader_of(value: Any) -> pa.RecordBatchReader:
    """What ``__arrow_c_stream__`` gives. Raises TypeError where that is no table, or holds Python's own objects."""
    if type(value).__module__.partition(".")[0] == "polars":
        for name, type_ in getattr(value, "schema", {}).items():
            if str(type_) == "Object":  # polars would hand out their addresses
                raise TypeError(f"the column {name!r} has Python objects, which Arrow does not know; cast it in polars")
    return _exported(value, pa.RecordBatchReader.from_stream)


def _exported(value: Any, read: Callable[[Any], Any]) -> Any:
    try:
        return read(value)
    except pa.ArrowInvalid as error:
        if "non-struct" in str(error):  # a Series, an Array, a ChunkedArray: Arrow, but of one column
            raise TypeError(f"{type(value).__name__} is a single column, not a table: {error}") from error
        raise TypeError(f"Arrow cannot read the {type(value).__name__}: {error}") from error


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


def is_lazy_frame(value: Any) -> bool:
    """Whether it is one of polars'."""
    return type(value).__module__.partition(".")[0] == "polars" and type(value).__name__ == "LazyFrame"


def is_rows(value: Any) -> bool:
    """Whether it is a list of dicts; the first item tells."""
    return isinstance(value, (list, tuple)) and bool(value) and isinstance(value[0], Mapping)


def is_tuples(value: Any) -> bool:
    """Whether it is rows that are tuples; what their values are called is not known."""
    return isinstance(value, (list, tuple)) and bool(value) and all(isinstance(row, tuple) for row in value)


def is_batches(value: Any) -> bool:
    """Whether it is a list of RecordBatches."""
    return isinstance(value, (list, tuple)) and bool(value) and isinstance(value[0], pa.RecordBatch)


def is_columns(value: Any) -> bool:
    """Whether it is a dict of columns."""
    return isinstance(value, dict) and bool(value) and all(map(_is_column, value.values()))


def _is_column(value: Any) -> bool:
    return isinstance(value, (list, tuple, range)) or hasattr(value, "__array__") or hasattr(value, "__arrow_c_array__")


def pandas_table(frame: Any) -> pa.Table:
    """A pandas frame with the levels of its index that have a name. Raises ArrowException or TypeError."""
    names = [*map(str, frame.columns), *(str(name) for name in frame.index.names if name is not None)]
    if twice := [name for name in names[len(frame.columns) :] if names.count(name) > 1]:
        raise TypeError(
            f"its index has the name {twice[0]!r}, and so has a column or another level; give it another one with "
            "frame.rename_axis(...), or leave it out with frame.reset_index(drop=True)"
        )
    unnamed = [i for i, name in enumerate(frame.index.names) if name is None]
    keep = len(unnamed) < frame.index.nlevels
    if keep and unnamed:
        frame = frame.droplevel(unnamed)
    table = pa.Table.from_pandas(frame, preserve_index=keep)
    for i, name in enumerate(frame.columns):
        if frame.dtypes.iloc[i].kind == "O":  # of Python's values, as in a list
            _check_kept(str(name), frame.iloc[:, i].tolist(), table.column(i))
    return table


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
    if not names:
        raise TypeError("the rows are dicts without a key, so the table has no columns")
    return pa.table({name: _column(name, [row.get(name) for row in rows]) for name in names})


def _table_of_columns(columns: Mapping[str, Any]) -> pa.Table:
    for name in columns:
        if not isinstance(name, str):
            raise TypeError(f"the names of columns are text, but the dict has the key {name!r}")
    lists = {name: _column(name, values) for name, values in columns.items() if isinstance(values, (list, tuple))}
    return _converted({**columns, **lists}, pa.table)


def _column(name: str, values: Sequence[Any]) -> pa.Array:
    try:
        return arrow_array(values)
    except VALUE_ERRORS as error:
        raise TypeError(f"the values of column {name!r} are not of one type that Arrow knows: {error}") from error


def _check_kept(name: str, values: Sequence[Any], array: pa.Array | pa.ChunkedArray) -> None:
    if may_change(array.type) and (found := first_changed(values, array.to_pylist())):
        value, kept = found
        raise TypeError(
            f"the values of column {name!r} are not of one type that Arrow knows: {value!r} would become {kept!r} as "
            f"{array.type}"
        )


def _converted(value: Any, convert: Any) -> pa.Table:
    """Raises TypeError, for mixed columns and for columns of several lengths alike."""
    try:
        table: pa.Table = convert(value)
    except VALUE_ERRORS as error:
        text = ", ".join(map(str, error.args))
        raise TypeError(f"the {type(value).__name__} is no table: {text}") from error
    return table
