"""Rows compared as Spark compares them (NaN equals NaN, order does not matter) and shown; pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headrace.testing.report import counted

_SHOWN_ROWS = 3
_SHOWN_CHARS = 200
NAN_KEY = ("NaN",)
"""What stands for NaN in ``row_keys``: like Spark's NaN it equals itself."""


@dataclass(frozen=True)
class Difference:
    """Rows of ``expected`` that are missing in ``found``, and those of ``found`` that are too many."""

    expected: pa.Table
    found: pa.Table
    missing: tuple[int, ...]
    extra: tuple[int, ...]

    def __bool__(self) -> bool:
        return bool(self.missing or self.extra)

    def __str__(self) -> str:
        """``2 rows are missing: {...}, {...}; 1 row is new: {...}``."""
        parts = []
        for table, rows, how in ((self.expected, self.missing, "missing"), (self.found, self.extra, "new")):
            if rows:
                verb = "is" if len(rows) == 1 else "are"
                parts.append(f"{counted(len(rows), 'row')} {verb} {how}: {shown(table, rows)}")
        return "; ".join(parts)


def difference(expected: pa.Table, found: pa.Table) -> Difference:
    """Compare two tables of one schema as bags of rows."""
    if _same_in_order(expected, found):
        return Difference(expected, found, (), ())
    expected_keys, found_keys = row_keys(expected), row_keys(found)
    return Difference(
        expected, found, _surplus(expected_keys, Counter(found_keys)), _surplus(found_keys, Counter(expected_keys))
    )


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
    """``{'a': 1}, {'a': 2}``; at most three of them."""
    indices = list(rows)
    texts = [_row_text(table.slice(index, 1)) for index in indices[:_SHOWN_ROWS]]
    return ", ".join(texts + ["..."] * (len(indices) > _SHOWN_ROWS))


def _row_text(row: pa.Table) -> str:
    try:
        text = repr(row.to_pylist()[0]) if row.num_columns else "{}"
    except (OverflowError, ValueError):  # a date that Python has none of
        text = "{" + ", ".join(f"{name!r}: {row[name][0]}" for name in row.column_names) + "}"
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."


def _same_in_order(left: pa.Table, right: pa.Table) -> bool:
    """Quickly true for most equal tables; false says nothing."""
    if left.num_rows != right.num_rows or left.schema.types != right.schema.types:
        return False
    return all(_bits(one).equals(_bits(other)) for one, other in zip(left.columns, right.columns, strict=True))


def _bits(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Floats as integers of the same bits, so that NaN equals NaN."""
    integers = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}.get(column.type)
    return column if integers is None else pa.chunked_array([c.view(integers) for c in column.chunks], integers)


def _surplus(keys: list[tuple[Any, ...]], others: Counter[tuple[Any, ...]]) -> tuple[int, ...]:
    """Positions of the rows that the others have not, or have less often."""
    left = others.copy()
    surplus = []
    for position, key in enumerate(keys):
        if left[key] > 0:
            left[key] -= 1
        else:
            surplus.append(position)
    return tuple(surplus)


def _key(value: Any) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return NAN_KEY
    if isinstance(value, dict):
        return tuple(_key(item) for item in value.values())
    if isinstance(value, (list, tuple)):
        return tuple(_key(item) for item in value)
    return value
