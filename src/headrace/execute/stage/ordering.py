"""Where rows stand in Spark's order; where ``execute`` runs."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from headrace.execute.stage.extremes import ordered
from headrace.plan import SortKey


def sorted_places(order: Sequence[SortKey], keys: Sequence[pa.ChunkedArray]) -> pa.Array:
    """The place of the first row, of the second, and so on. ``keys`` are the columns of ``order``, in wire types."""
    columns, sort_keys = _comparable(order, keys)
    return pc.sort_indices(columns, sort_keys)


def first_places(order: Sequence[SortKey], keys: Sequence[pa.ChunkedArray], limit: int) -> pa.Array:
    """The places of the first ``limit`` rows, by turns of the rows, not of the order."""
    columns, sort_keys = _comparable(order, keys)
    found = pc.select_k_unstable(columns, limit, sort_keys)
    return found.take(pc.sort_indices(found))


def comparable(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values in Arrow's order, which is Spark's: of floats and durations integers, of booleans too."""
    if pa.types.is_boolean(values.type):
        return values.cast(pa.int8())
    is_other = pa.types.is_floating(values.type) or pa.types.is_duration(values.type)
    return ordered(values) if is_other else values


def _comparable(order: Sequence[SortKey], keys: Sequence[pa.ChunkedArray]) -> tuple[pa.Table, list[tuple[str, str]]]:
    """A table and what it is sorted by: nulls are a key of their own, as Arrow has one place for those of all keys."""
    columns: dict[str, pa.ChunkedArray] = {}
    sort_keys: list[tuple[str, str]] = []
    for i, (key, values) in enumerate(zip(order, keys, strict=True)):
        if values.null_count:
            columns[f"null {i}"] = values.is_valid().cast(pa.int8())
            sort_keys.append((f"null {i}", "ascending" if key.nulls_first else "descending"))
        columns[f"key {i}"] = comparable(values)
        sort_keys.append((f"key {i}", "descending" if key.descending else "ascending"))
    return pa.table(columns), sort_keys
