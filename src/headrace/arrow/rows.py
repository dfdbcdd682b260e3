"""Rows as Spark compares them (NaN equals NaN), in a form that can be hashed, and as text; pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

_SHOWN_ROWS = 3
_READ_ROWS = 20
_SHOWN_CHARS = 200
NAN_KEY = ("NaN",)
"""What stands for NaN in ``row_keys``: like Spark's NaN it equals itself."""


def row_keys(table: pa.Table) -> list[tuple[Any, ...]]:
    """Something hashable per row that is equal for rows Spark calls equal."""
    if not table.num_columns:
        return [()] * table.num_rows
    return list(zip(*(column_keys(column) for column in table.columns), strict=True))


def column_keys(column: pa.ChunkedArray) -> list[Any]:
    """Like ``row_keys``, for one column of a wire type."""
    is_ = pa.types
    if is_.is_temporal(column.type):  # as numbers: Python's dates end in the year 9999
        column = column.cast(pa.int32() if is_.is_date32(column.type) else pa.int64())
    values: list[Any] = column.to_pylist()
    if is_.is_floating(column.type) or is_.is_nested(column.type):
        return [_key(value) for value in values]
    return values


def shown(table: pa.Table, rows: Iterable[int]) -> str:
    """``{'a': 1}, {'a': 2}``; at most three of them, equal ones once."""
    indices = list(rows)
    texts = list(dict.fromkeys(_row_text(table.slice(index, 1)) for index in indices[:_READ_ROWS]))
    more = len(texts) > _SHOWN_ROWS or len(indices) > _READ_ROWS
    return ", ".join(texts[:_SHOWN_ROWS] + ["..."] * more)


def _row_text(row: pa.Table) -> str:
    try:
        text = repr(row.to_pylist()[0]) if row.num_columns else "{}"
    except (OverflowError, ValueError):  # a date that Python has none of
        text = "{" + ", ".join(f"{name!r}: {row[name][0]}" for name in row.column_names) + "}"
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """``1 row``, ``1,000 rows``; ``plural`` where it is not the noun with an s."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def _key(value: Any) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return NAN_KEY
    if isinstance(value, dict):
        return tuple(_key(item) for item in value.values())
    if isinstance(value, (list, tuple)):
        return tuple(_key(item) for item in value)
    return value
