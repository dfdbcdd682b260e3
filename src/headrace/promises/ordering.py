"""Whether rows are in a stated order, as Spark sorts: NaN is the largest, strings go by their bytes; pure."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from headrace.plan import SortKey


def can_be_ordered(type_: pa.DataType) -> bool:
    """Whether ``first_disorder`` knows the order of this wire type."""
    return not (pa.types.is_nested(type_) or pa.types.is_interval(type_))


def first_disorder(rows: pa.RecordBatch | pa.Table, ordering: Sequence[SortKey]) -> int | None:
    """The first row that should not come before its successor; None where all are in order.

    ``rows`` are in wire types that ``can_be_ordered``.
    """
    if rows.num_rows < 2 or not ordering:
        return None
    undecided = pa.scalar(True)
    wrong = pa.scalar(False)
    for key in ordering:
        column = _plain(rows[key.column] if isinstance(rows, pa.Table) else rows.column(key.column))
        before, after = column.slice(0, len(column) - 1), column.slice(1)
        falls, same = _compared(before, after, key)
        wrong = pc.or_(wrong, pc.and_(undecided, falls))
        undecided = pc.and_(undecided, same)
    row = pc.index(wrong, True).as_py()
    return None if row < 0 else int(row)


def order_text(key: SortKey) -> str:
    return f"{key.column}{' DESC' if key.descending else ''} NULLS {'FIRST' if key.nulls_first else 'LAST'}"


def _compared(before: pa.ChunkedArray, after: pa.ChunkedArray, key: SortKey) -> tuple[pa.Array, pa.Array]:
    """Per pair of rows: whether the second comes first in the order, and whether both are the same to it."""
    low, high = (after, before) if not key.descending else (before, after)
    falls, same = pc.less(low, high), pc.equal(before, after)
    if pa.types.is_floating(before.type):
        low_nan, high_nan = pc.is_nan(low), pc.is_nan(high)
        falls = pc.or_(falls, pc.and_(high_nan, pc.invert(low_nan)))
        same = pc.or_(same, pc.and_(low_nan, high_nan))
    if not before.null_count and not after.null_count:
        return falls, same
    null_before, null_after = pc.is_null(before), pc.is_null(after)
    misplaced = pc.and_not(null_after, null_before) if key.nulls_first else pc.and_not(null_before, null_after)
    return pc.or_(pc.fill_null(falls, False), misplaced), pc.or_(
        pc.fill_null(same, False), pc.and_(null_before, null_after)
    )


def _plain(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Arrow compares no booleans and no nulls by order."""
    simple = pa.types.is_boolean(column.type) or pa.types.is_null(column.type)
    return column.cast(pa.int8()) if simple else column
