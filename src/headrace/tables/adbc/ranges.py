"""A table cut into ranges of one column, without a gap and without an overlap; pure, runs in the driver."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headrace.expr.nodes import And, Column, Comparison, Expr, IsNull, Literal, Or
from headrace.pruning.container_stats import ColumnStats

_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)


@dataclass(frozen=True)
class KeyRange:
    """The rows with ``low <= column < high``; None is open. ``nulls``: those without a value too."""

    low: Any = None
    high: Any = None
    nulls: bool = False

    def predicate(self, column: str, type_: pa.DataType) -> Expr | None:
        """What a row of this range fulfils; None for all rows."""
        key = Column(column)
        parts: list[Expr] = []
        if self.low is not None:
            parts.append(Comparison(">=", key, Literal(self.low, type_)))
        if self.high is not None:
            parts.append(Comparison("<", key, Literal(self.high, type_)))
        if not parts:
            return None
        inside = parts[0] if len(parts) == 1 else And(*parts)
        return Or(IsNull(key), inside) if self.nulls else inside

    def stats(self) -> ColumnStats:
        return ColumnStats(self.low, self.high, None if self.nulls else 0)


def supports_ranges(type_: pa.DataType) -> bool:
    kind = pa.types
    timestamp = kind.is_timestamp(type_) and type_.unit == "us"
    return bool(timestamp or kind.is_signed_integer(type_) or kind.is_date32(type_))


def key_ranges(low: Any, high: Any, count: int) -> list[KeyRange]:
    """Up to ``count`` ranges of equal width between the least and the greatest value seen, None if there was none.

    The first and the last are open, so that rows added since are in exactly one; the first has the nulls.
    """
    bounds: list[Any] = []
    if low is not None and high is not None:
        number, value = _linear(low)
        first, width = number(low), number(high) - number(low) + 1
        points = {first + width * i // count for i in range(1, count)}
        bounds = [value(point) for point in sorted(points) if first < point < first + width]
    return [
        KeyRange(start, end, nulls=start is None) for start, end in zip([None, *bounds], [*bounds, None], strict=True)
    ]


def _linear(sample: Any) -> tuple[Callable[[Any], int], Callable[[int], Any]]:
    """To whole numbers and back: days for dates, microseconds for timestamps."""
    if isinstance(sample, datetime.datetime):
        epoch = _EPOCH if sample.tzinfo is None else _EPOCH.replace(tzinfo=datetime.UTC)
        return lambda value: (value - epoch) // _MICROSECOND, lambda number: epoch + number * _MICROSECOND
    if isinstance(sample, datetime.date):
        return datetime.date.toordinal, datetime.date.fromordinal
    return int, int
