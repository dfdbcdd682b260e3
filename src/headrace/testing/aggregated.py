"""What an aggregation over given rows is in Spark, and how partial results merge; pure."""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.arrow.rows import NAN_KEY, column_keys
from headrace.expr.nodes import Column, Expr
from headrace.expr.semantics import is_nan
from headrace.plan import AggregateFunction, Aggregation

Groups = dict[tuple[Any, ...], tuple[Any, ...]]
"""Values of the functions by values of the groups, in the form of ``column_keys``, save that NaN is a float."""

_LONGEST = 2**63
_DECIMALS = decimal.Context(prec=80, rounding=decimal.ROUND_HALF_UP)


class Undecided(Exception):
    """Spark's own answer is an error, or depends on its settings: an overflow."""


def same_value(function: AggregateFunction, expected: Any, found: Any) -> bool:
    """Equal; a sum or an average of floating point numbers up to the order in which they were added."""
    if not isinstance(expected, float) or not isinstance(found, float):
        return bool(expected == found)
    if math.isnan(expected) or math.isnan(found):
        return math.isnan(expected) and math.isnan(found)
    close = function.name in ("sum", "avg") and math.isclose(expected, found, rel_tol=1e-6, abs_tol=1e-6)
    return expected == found or close


def aggregated(rows: pa.Table, aggregation: Aggregation) -> Groups:
    """The groups of ``rows`` (in wire types). Raises Undecided where Spark would raise, or wrap around."""
    keys = list(zip(*(column_keys(_values(rows, one)) for one in aggregation.group_by), strict=True))
    keys = keys if aggregation.group_by else [()] * rows.num_rows
    operands = [
        None if function.operand is None else list(map(_plain, column_keys(_values(rows, function.operand))))
        for function in aggregation.functions
    ]
    members: dict[tuple[Any, ...], list[int]] = {} if aggregation.group_by else {(): []}
    for row, key in enumerate(keys):
        members.setdefault(key, []).append(row)
    return {
        key: tuple(
            len(indices) if values is None else _result(function, [values[i] for i in indices])
            for function, values in zip(aggregation.functions, operands, strict=True)
        )
        for key, indices in members.items()
    }


def merged(parts: Sequence[Groups], aggregation: Aggregation) -> Groups:
    """What Spark makes of partial results: sums of counts and sums, the least and the greatest.

    Without any row the sum of the counts is null, not zero.
    """
    collected: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {} if aggregation.group_by else {(): []}
    for part in parts:
        for key, values in part.items():
            collected.setdefault(key, []).append(values)
    return {
        key: tuple(
            _MERGE[function.name]([row[i] for row in rows if row[i] is not None])
            for i, function in enumerate(aggregation.functions)
        )
        for key, rows in collected.items()
    }


def groups_of(rows: pa.Table, aggregation: Aggregation) -> list[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """Rows of an aggregated scan: groups and values; a group may be there twice."""
    width = len(aggregation.group_by)
    columns = [column_keys(column) for column in rows.columns]
    table = list(zip(*columns, strict=True)) if columns else [()] * rows.num_rows
    return [(row[:width], tuple(map(_plain, row[width:]))) for row in table]


def _values(rows: pa.Table, operand: Expr) -> pa.ChunkedArray:
    assert isinstance(operand, Column)  # the kit makes no others
    values = rows[operand.name]
    for part in operand.path:
        values = pc.struct_field(values, [values.type.get_field_index(part)])
    return values


def _plain(key: Any) -> Any:
    return math.nan if key == NAN_KEY else key


def _result(function: AggregateFunction, found: list[Any]) -> Any:
    values = [value for value in found if value is not None]
    if function.distinct:
        values = list({NAN_KEY if is_nan(value) else value: value for value in values}.values())
    if function.name == "count":
        return len(values)
    if not values:
        return None
    if function.name in ("min", "max"):
        return _MERGE[function.name](values)
    total = _summed(values)
    if function.name == "sum":
        return _fitting(total, function.type)
    if isinstance(total, decimal.Decimal):
        _fitting(total, pa.decimal128(38, function.type.scale - 4))  # the sum below the average
        unit = decimal.Decimal(1).scaleb(-function.type.scale)
        return _DECIMALS.quantize(_DECIMALS.divide(total, len(values)), unit)
    return float(total) / len(values)


def _summed(values: list[Any]) -> Any:
    if isinstance(values[0], float):
        finite = all(map(math.isfinite, values))
        return math.fsum(values) if finite else float(sum(values))
    if isinstance(values[0], decimal.Decimal):
        total = decimal.Decimal(0)
        for value in values:
            total = _DECIMALS.add(total, value)
        return total
    return sum(values)


def _fitting(total: Any, type_: pa.DataType) -> Any:
    if isinstance(total, int) and not -_LONGEST <= total < _LONGEST:
        raise Undecided
    if isinstance(total, decimal.Decimal) and total.copy_abs() >= decimal.Decimal(10) ** (
        type_.precision - type_.scale
    ):
        raise Undecided
    return total


def _order(value: Any) -> tuple[bool, Any]:
    return (True, 0) if is_nan(value) else (False, value)


_MERGE: dict[str, Callable[[list[Any]], Any]] = {
    "count": lambda values: sum(values) if values else None,
    "sum": lambda values: _summed(values) if values else None,
    "min": lambda values: min(values, key=_order) if values else None,
    "max": lambda values: max(values, key=_order) if values else None,
}
