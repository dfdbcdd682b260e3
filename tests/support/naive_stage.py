"""What the source stage has to find, computed row by row over Python values, with nothing of Arrow's engine in it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa

from headrace.expr.nodes import (
    And,
    Call,
    Cast,
    Column,
    Comparison,
    Expr,
    InList,
    IsNull,
    Literal,
    Not,
    Or,
    StringMatch,
)
from headrace.plan import AggregateFunction, AggregateName, Aggregation, SortKey

Row = dict[str, Any]


def aggregation(
    groups: Sequence[tuple[Expr, pa.DataType]], functions: Sequence[tuple[AggregateName, Expr | None, pa.DataType]]
) -> Aggregation:
    """As the negotiation makes one, with its names."""
    fields = [pa.field(f"group_{i}", type_) for i, (_, type_) in enumerate(groups)]
    fields += [pa.field(f"{name}_{i}", type_) for i, (name, _, type_) in enumerate(functions)]
    asked = tuple(AggregateFunction(name, operand, False, type_) for name, operand, type_ in functions)
    return Aggregation(tuple(group for group, _ in groups), asked, pa.schema(fields))


def comparable(value: Any) -> Any:
    """Something that Python orders as Spark orders values of one type, and whose equals are Spark's."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value + 0.0)
    return value


def value(expr: Expr, row: Row) -> Any:
    """The value of ``expr``; None for null."""
    match expr:
        case Column(name=name):
            return row[name]
        case Literal(value=constant):
            return constant
        case Cast(operand=operand, spark_type=target):
            found = value(operand, row)
            return float(found) if found is not None and target in ("double", "float") else found
        case Call(name=name, args=args):
            left, right = (value(arg, row) for arg in args)
            return None if left is None or right is None else _ARITHMETIC[name](left, right)
        case And() | Or():
            sides = [value(expr.left, row), value(expr.right, row)]
            decisive = isinstance(expr, Or)
            return decisive if decisive in sides else None if None in sides else not decisive
        case Not(operand=operand):
            found = value(operand, row)
            return None if found is None else not found
        case IsNull(operand=operand):
            return value(operand, row) is None
        case Comparison(op=op, left=left_side, right=right_side):
            left, right = value(left_side, row), value(right_side, row)
            if op == "<=>":
                return comparable(left) == comparable(right)
            return None if left is None or right is None else _COMPARE[op](comparable(left), comparable(right))
        case InList(operand=operand, values=values):
            found = value(operand, row)
            constants = [value(one, row) for one in values]
            if found is None and constants:
                return None
            if comparable(found) in [comparable(one) for one in constants if one is not None]:
                return True
            return None if None in constants else False
        case StringMatch(op=op, operand=operand, pattern=pattern):
            text, part = (_bytes(value(one, row)) for one in (operand, pattern))
            return None if text is None or part is None else _MATCH[op](text, part)
    raise AssertionError(f"no naive value of {expr!r}")


def _bytes(text: Any) -> bytes | None:
    return text.encode() if isinstance(text, str) else text


def _remainder(a: int, b: int) -> int:
    return int(math.fmod(a, b)) if abs(a) < 2**50 else abs(a) % abs(b) * (1 if a > 0 else -1)


_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "%": _remainder,
}
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
_MATCH: dict[str, Callable[[bytes, bytes], bool]] = {
    "STARTS_WITH": bytes.startswith,
    "ENDS_WITH": bytes.endswith,
    "CONTAINS": lambda text, part: part in text,
}


def passing(rows: Iterable[Row], filters: Sequence[Expr]) -> list[Row]:
    return [row for row in rows if all(value(expr, row) is True for expr in filters)]


def aggregated(rows: Iterable[Row], asked: Aggregation) -> dict[Any, list[Any]]:
    """The results of each group, by the comparable values of its keys."""
    groups: dict[Any, list[list[Any]]] = {} if asked.group_by else {(): [[] for _ in asked.functions]}
    for row in rows:
        key = tuple(comparable(value(one, row)) for one in asked.group_by)
        collected = groups.setdefault(key, [[] for _ in asked.functions])
        for values, one in zip(collected, asked.functions, strict=True):
            values.append(1 if one.operand is None else value(one.operand, row))
    names = [one.name for one in asked.functions]
    return {
        key: [_folded(name, values) for name, values in zip(names, columns, strict=True)]
        for key, columns in groups.items()
    }


def merged(rows: Iterable[Row], asked: Aggregation) -> dict[Any, list[Any]]:
    """What Spark makes of partial groups: counts are added up, and all else as it is for rows."""
    keys = len(asked.group_by)
    groups: dict[Any, list[list[Any]]] = {}
    for row in rows:
        values = list(row.values())
        collected = groups.setdefault(tuple(map(comparable, values[:keys])), [[] for _ in asked.functions])
        for column, found in zip(collected, values[keys:], strict=True):
            column.append(found)
    names = ["sum" if one.name == "count" else one.name for one in asked.functions]
    return {
        key: [_folded(name, values) for name, values in zip(names, columns, strict=True)]
        for key, columns in groups.items()
    }


def _folded(name: str, values: list[Any]) -> Any:
    present = [one for one in values if one is not None]
    if name == "count":
        return len(present)
    if not present:
        return None
    if name == "sum":
        return (
            math.fsum(present) if isinstance(present[0], float) and all(map(math.isfinite, present)) else sum(present)
        )
    return (min if name == "min" else max)(present, key=comparable)


def same(found: dict[Any, list[Any]], expected: dict[Any, list[Any]]) -> bool:
    """Whether both have the same groups and results; sums of floats may differ in the last digits."""
    return found.keys() == expected.keys() and all(
        all(map(_is_close, found[key], results)) for key, results in expected.items()
    )


def _is_close(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float) and math.isfinite(one) and math.isfinite(other):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    return bool(comparable(one) == comparable(other))


def sort_key(row: Row, order: Sequence[SortKey]) -> list[_Place]:
    return [_Place(comparable(row[key.column]), key) for key in order]


class _Place:
    """A value of one sort key, to be compared with others of that key."""

    def __init__(self, found: Any, key: SortKey) -> None:
        self._found = found
        self._key = key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Place) and bool(self._found == other._found)

    def __lt__(self, other: _Place) -> bool:
        if self._found is None or other._found is None:
            return (self._found is None) is self._key.nulls_first and self._found is not other._found
        return bool(other._found < self._found if self._key.descending else self._found < other._found)
