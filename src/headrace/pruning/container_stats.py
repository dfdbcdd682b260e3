"""ColumnStats and ContainerStats: what is known of a file, row group or shard without reading it; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.arguments import check_fields
from headrace.expr.semantics import Kind, canonical, is_nan
from headrace.pruning.guarantee import Bound, Guarantee, after_prefix, one_of


@dataclass(frozen=True, slots=True)
class ColumnStats:
    """What is known of one column in one container; None is "not known" everywhere.

    ``min`` and ``max``: no non-null value is less or greater. They need not occur. NaN is left out of them,
    as in Parquet; a NaN given as a bound counts as not known. Plain Python values or Arrow scalars of the
    column's type; a naive datetime is UTC where the column has a zone.

    ``null_count``, ``nan_count``: how many values are null, or NaN. Without ``nan_count`` a float column may
    hold NaN, which in Spark passes every ``>``.

    ``truncated``: ``min`` and ``max`` of strings or binary may be cut to a prefix, ``max`` without having
    been raised to cover what was cut off. They are then used as prefixes.
    """

    min: Any = None
    max: Any = None
    null_count: int | None = None
    nan_count: int | None = None
    truncated: bool = False

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True)
class ContainerStats:
    """What is known of one container: statistics by column name and the number of rows.

    A nested field's name is its dotted path, ``"a.b"``. Columns may be left out.
    """

    columns: Mapping[str, ColumnStats] = field(default_factory=dict)
    row_count: int | None = None

    def __post_init__(self) -> None:
        check_fields(self)


def held_values(stats: ColumnStats, kind: Kind | None, row_count: int | None, name: str) -> tuple[Guarantee, bool]:
    """What holds for every value of a column but NaN, and whether NaN may be among them.

    ``kind`` is the column's, None where its values cannot be compared; ``name`` is for the error text. Raises
    TypeError for a bound that is not of that kind.
    """
    not_null = stats.null_count == 0
    if row_count is not None and stats.null_count is not None and stats.null_count >= row_count:
        return one_of([None]), False
    nan_possible = kind is Kind.FLOAT and stats.nan_count != 0
    if kind is None:
        return Guarantee(not_null=not_null), nan_possible
    low, high = (_bound(value, kind, name) for value in (stats.min, stats.max))
    upper = None if high is None else Bound(high, True)
    if stats.truncated and isinstance(high, (str, bytes)):
        following = after_prefix(high)
        upper = None if following is None else Bound(following, False)
    lower = None if low is None else Bound(low, True)
    return Guarantee(lower=lower, upper=upper, not_null=not_null), nan_possible


def _bound(value: Any, kind: Kind, name: str) -> Any:
    if value is None:
        return None
    try:
        bound = canonical(value, kind)
    except TypeError as error:
        raise TypeError(f"statistics of column {name!r}: {error}") from None
    return None if is_nan(bound) else bound
