"""Which share of a table's rows filters let pass, estimated from Parquet footers; runs in the driver.

Spark broadcasts what it takes for small, and shuffles both sides of a join otherwise. What a filter leaves of a table
often is small where the table is not, so a scan that filters has to say so.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headrace.expr.nodes import Column, Comparison, Expr, InList, Literal
from headrace.pruning.guarantee import Guarantee
from headrace.pruning.predicate import guarantees
from headrace.tables.dataset.chunks import least_and_greatest

_MOST_BITS = 48
_NUMBERS = (int, float, decimal.Decimal, datetime.date, datetime.datetime)
_LOOKED_UP = 2.0  # to look a value up in a list takes as long as to send so many on, and to join a row likewise
_LEAST_SHARE = 0.05  # values may be spread otherwise than thought: no table counts for less of what it is
_LONG = 8  # values; pyarrow compares with fewer one by one


@dataclass(frozen=True)
class ColumnFacts:
    """``distinct``: about how many values there are, rather too few; None where that is not known.

    ``low``, ``high``: the least and greatest value in the footers that were looked into; None where these do not tell.
    """

    distinct: float | None = None
    low: Any = None
    high: Any = None

    @classmethod
    def of_chunk(cls, chunk: Any) -> ColumnFacts:
        """From the footer's entry of one column in one row group."""
        return cls(_distinct(chunk), *least_and_greatest(chunk.statistics))

    def and_(self, other: ColumnFacts) -> ColumnFacts:
        """What holds for both row groups together."""
        return ColumnFacts(
            None if self.distinct is None or other.distinct is None else min(self.distinct, other.distinct),
            None if self.low is None or other.low is None else min(self.low, other.low),
            None if self.high is None or other.high is None else max(self.high, other.high),
        )


def _distinct(chunk: Any) -> float | None:
    """A dictionary's indices have as many bits as it takes to tell its values apart, or fewer where values repeat."""
    if not chunk.has_dictionary_page or not chunk.num_values:
        return None
    dictionary = chunk.data_page_offset - chunk.dictionary_page_offset
    packed = chunk.total_uncompressed_size / max(1, chunk.total_compressed_size)
    bits = 8 * (chunk.total_uncompressed_size - dictionary * packed) / chunk.num_values
    if bits < 1:
        return 1.0
    return float(min(chunk.num_values, 2 ** (min(bits, _MOST_BITS) - 1) + 1))


def passing_share(filters: Collection[Expr], schema: pa.Schema, facts: Mapping[str, ColumnFacts]) -> float:
    """The share of rows that pass all ``filters``, as far as these and ``facts`` tell.

    Values are taken to be spread evenly, which they need not be: so it is never less than a twentieth, but for filters
    that contradict each other. Columns often say the same: the narrowest counts in full, each further one by the root
    of the one before.
    """
    if not filters or not facts:
        return 1.0
    found = guarantees(filters, schema=schema)
    shares = sorted(_share(guarantee, facts[name]) for name, guarantee in found.items() if name in facts)
    result = 1.0
    for i, share in enumerate(shares):
        result *= share ** (0.5**i)
    return max(result, _LEAST_SHARE) if result else 0.0


def worth_filtering(
    learnt: Sequence[Expr], passing: float, columns: int, facts: Mapping[str, ColumnFacts]
) -> list[Expr]:
    """What to ask of each row because of ``learnt``, where a share ``passing`` of the rows is to be read otherwise.

    A value that is looked up costs, whatever comes of it. So a long list has to leave out enough rows that pass all
    the rest. Of any other its least and greatest value are left, which cost little and skip row groups too.
    """
    lists = [
        (density, expr)
        for expr in learnt
        if isinstance(expr, InList) and (density := _density(expr, facts)) is not None
    ]
    dropped: dict[Expr, list[Expr]] = {}
    for density, expr in sorted(lists, key=lambda pair: pair[0]):
        if passing * (1 - density) * (_LOOKED_UP + columns) < _LOOKED_UP:
            dropped[expr] = _ends(expr)
        else:
            passing *= density
    return [part for expr in learnt for part in dropped.get(expr, [expr])]


def _density(values: InList, facts: Mapping[str, ColumnFacts]) -> float | None:
    """How many of a column's possible values a long list has; None where these are not whole numbers."""
    column = values.operand
    if not isinstance(column, Column) or column.path or len(values.values) < _LONG:
        return None
    range_ = facts.get(column.name, ColumnFacts())
    if type(range_.low) is not int or type(range_.high) is not int or not all(map(_is_whole, values.values)):
        return None
    return min(1.0, len(values.values) / (range_.high - range_.low + 1))


def _is_whole(value: Expr) -> bool:
    return isinstance(value, Literal) and type(value.value) is int


def _ends(values: InList) -> list[Expr]:
    in_order = sorted((one for one in values.values if isinstance(one, Literal)), key=lambda one: one.value)
    return [Comparison(">=", values.operand, in_order[0]), Comparison("<=", values.operand, in_order[-1])]


def _share(guarantee: Guarantee, facts: ColumnFacts) -> float:
    if guarantee.is_empty:
        return 0.0
    if guarantee.values is not None:
        if facts.distinct is None or None in guarantee.values:  # how many are null is not known either
            return 1.0
        return min(1.0, len(guarantee.values) / facts.distinct)
    return _share_of_range(guarantee, facts.low, facts.high)


def _share_of_range(guarantee: Guarantee, low: Any, high: Any) -> float:
    if isinstance(low, bool) or not isinstance(low, _NUMBERS) or not isinstance(high, _NUMBERS):
        return 1.0
    lower: Any = low if guarantee.lower is None else guarantee.lower.value
    upper: Any = high if guarantee.upper is None else guarantee.upper.value
    return _overlap(lower, upper, low, high)


def _overlap(lower: Any, upper: Any, low: Any, high: Any) -> float:
    try:
        share = float((min(upper, high) - max(lower, low)) / (high - low))
    except (TypeError, ValueError, ArithmeticError):
        return 1.0  # values of two kinds, a single one, or moments too far apart for pandas' nanoseconds
    # No row in the files that were looked into: then the filter is about the others, of which nothing is known.
    return min(1.0, share) if share > 0 else 1.0
