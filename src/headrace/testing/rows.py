"""Tables compared as bags of rows, as Spark compares them; pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headrace.arrow.rows import counted, row_keys, shown


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
