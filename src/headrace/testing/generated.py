"""Filters made from a table's own values, of the kinds Spark sends; pure, and the same for the same seed."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, get_args

import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import EvaluationError
from headrace.expr.arithmetic import OPERATIONS
from headrace.expr.nodes import (
    And,
    Call,
    Cast,
    Column,
    Comparison,
    ComparisonOp,
    Expr,
    InList,
    IsNull,
    Literal,
    Not,
    Or,
    StringMatch,
    StringMatchOp,
)
from headrace.expr.semantics import Kind, canonical, is_nan, kind_of
from headrace.testing.computed import computed_filters

_UNIT = datetime.timedelta(microseconds=1)
_DAY = datetime.timedelta(days=1)
_SPARK_SENDS_NO_LITERALS = (Kind.DURATION,)

_SPECIAL: dict[Kind, list[Any]] = {
    Kind.BOOL: [False, True],
    Kind.INT: [0],
    Kind.FLOAT: [0.0, -0.0, math.nan, math.inf, -math.inf],
    Kind.DECIMAL: [decimal.Decimal(0)],
    Kind.STRING: ["", "%", "_", "'", "\U0001f600"],
    Kind.BINARY: [b"", b"\xff"],
    Kind.DATE: [datetime.date(1970, 1, 1)],
    Kind.TIMESTAMP: [datetime.datetime(1970, 1, 1)],
    Kind.TIMESTAMP_TZ: [datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)],
}
_NEIGHBOURS: dict[Kind, Callable[[Any], list[Any]]] = {
    Kind.INT: lambda value: [value - 1, value + 1],
    Kind.FLOAT: lambda value: [value - 1, value + 1, value / 2],
    Kind.DECIMAL: lambda value: [value - 1, value + 1],
    Kind.STRING: lambda value: [value[:-1], value + "a", value.swapcase()],
    Kind.BINARY: lambda value: [value[:-1], value + b"\x00"],
    Kind.DATE: lambda value: [value - _DAY, value + _DAY],
    Kind.TIMESTAMP: lambda value: [value - _UNIT, value + _UNIT],
    Kind.TIMESTAMP_TZ: lambda value: [value - _UNIT, value + _UNIT],
}


@dataclass(frozen=True)
class GeneratedFilters:
    """``single``: to be asked about one by one; ``together``: conjuncts of one query each."""

    single: tuple[Expr, ...]
    together: tuple[tuple[Expr, ...], ...]


def generated_filters(rows: pa.Table, rng: Random, samples: int, *, whole: bool = True) -> GeneratedFilters:
    """Filters on every column of ``rows`` (in wire types); ``samples`` values for each kind of filter.

    ``whole``: the table has no other rows. Else none is made that Spark might fail for in one of those.
    """
    single: list[Expr] = []
    by_kind: dict[Kind, list[Column]] = {}
    for column, type_, values in _columns(rows):
        kind = kind_of(type_)
        single += [IsNull(column), Not(IsNull(column))]
        if kind is not None and kind not in _SPARK_SENDS_NO_LITERALS:
            single += _comparable(column, type_, kind, values, rng, samples)
            computed = computed_filters(column, type_, *_constants(type_, kind, values, rng), rng)
            single += [expr for expr in computed if (whole or not _may_fail(expr)) and _is_decided(expr, rows)]
            by_kind.setdefault(kind, []).append(column)
    for left, right in (rng.sample(columns, 2) for columns in by_kind.values() if len(columns) > 1):
        single += [Comparison(op, left, right) for op in rng.sample(get_args(ComparisonOp), 2)]
    together: list[tuple[Expr, ...]] = []
    for _ in range(samples * len(rows.schema)):
        one, other, third = (rng.choice(single) for _ in range(3))
        single.append(rng.choice([And(one, other), Or(one, other), Not(Or(one, other)), Not(And(one, other))]))
        together += [(_not_null(one), one), (one, other), (one, Or(other, third))]
    return GeneratedFilters(tuple(dict.fromkeys(single)), tuple(dict.fromkeys(together)))


def comparable_columns(rows: pa.Table) -> list[tuple[Column, pa.DataType]]:
    """Every column and every field of a struct whose values Spark compares."""
    return [(column, type_) for column, type_, _ in _columns(rows) if kind_of(type_) is not None]


def runtime_filters(rows: pa.Table, rng: Random, samples: int) -> list[Expr]:
    """What a join's other side says of each top-level column while a query runs: IN lists, and ranges."""
    found: list[Expr] = []
    for column, type_, array in _columns(rows):
        kind = kind_of(type_)
        if column.path or kind is None or kind in _SPARK_SENDS_NO_LITERALS:
            continue
        inside, outside = _values(type_, kind, array, rng, samples)
        some = [Literal(value, type_) for value in (*inside, *rng.sample(outside, min(samples, len(outside))))]
        lists = [rng.sample(some, min(len(some), size)) for size in (1, 2, len(some))] if some else []
        found += [InList(column, tuple(values)) for values in lists]
        found.append(InList(column, tuple(Literal(value, type_) for value in outside[:1])))
        found += [Comparison(op, column, rng.choice(some)) for op in get_args(ComparisonOp) if some and op != "<=>"]
    return list(dict.fromkeys(found))


def _not_null(expr: Expr) -> Expr:
    """What Spark adds by itself beside nearly every filter."""
    columns = [node for node in expr.walk() if isinstance(node, Column)]
    return Not(IsNull(columns[0]))


def _columns(rows: pa.Table) -> Iterator[tuple[Column, pa.DataType, pa.ChunkedArray]]:
    """Every column and every field of a struct, with its type and its values."""
    pending = [(Column(field.name), rows[field.name]) for field in rows.schema]
    while pending:
        column, values = pending.pop(0)
        yield column, values.type, values
        if pa.types.is_struct(values.type):
            for index in range(values.type.num_fields):
                name = values.type.field(index).name
                pending.append((Column(column.name, (*column.path, name)), pc.struct_field(values, [index])))


def _comparable(
    column: Column, type_: pa.DataType, kind: Kind, array: pa.ChunkedArray, rng: Random, samples: int
) -> Iterator[Expr]:
    inside, outside = _values(type_, kind, array, rng, samples)

    def literals() -> list[Literal]:
        """At least one value that is in the data, where boundary mistakes show."""
        first = rng.choice(inside or outside)
        others = [value for value in inside + outside if value is not first]
        return [Literal(value, type_) for value in (first, *rng.sample(others, min(samples - 1, len(others))))]

    for op in get_args(ComparisonOp):
        yield from (Comparison(op, column, literal) for literal in literals())
    for literal in literals():
        yield Not(Comparison("=", column, literal))
        yield Not(Comparison("<", column, literal))
    yield Comparison("<", literals()[0], column)
    several = tuple(literals() + literals())
    yield InList(column, several)
    yield Not(InList(column, several))
    yield InList(column, (*several, Literal(None, type_)))
    yield Not(InList(column, (*several, Literal(None, type_))))
    if kind is Kind.STRING:
        for match in get_args(StringMatchOp):
            texts = [_part(literal.value, match, rng) for literal in literals()]
            yield from (StringMatch(match, column, Literal(text, type_)) for text in (*texts, "%", "_"))
            yield Not(StringMatch(match, column, Literal(texts[0], type_)))
    if kind in _NEIGHBOURS:
        low, high = sorted((rng.choice(inside or outside) for _ in range(2)), key=lambda v: (is_nan(v), v))
        yield And(Comparison(">=", column, Literal(low, type_)), Comparison("<", column, Literal(high, type_)))


def _constants(type_: pa.DataType, kind: Kind, array: pa.ChunkedArray, rng: Random) -> tuple[Any, Any]:
    """A value of the column, where it has any, and one that is rather not of it."""
    inside, outside = _values(type_, kind, array, rng, 1)
    return rng.choice(inside or outside), rng.choice(outside or inside)


def _may_fail(expr: Expr) -> bool:
    return any(isinstance(node, Cast) or (isinstance(node, Call) and node.name in OPERATIONS) for node in expr.walk())


def _is_decided(expr: Expr, rows: pa.Table) -> bool:
    """Whether Spark has an answer for every row: no overflow among them."""
    try:
        for batch in rows.to_batches():
            expr.evaluate(batch)
    except (EvaluationError, NotImplementedError):
        return False
    return True


def _part(text: str, match: str, rng: Random) -> str:
    length = rng.randint(1, max(1, len(text)))
    if match == "STARTS_WITH":
        return text[:length]
    if match == "ENDS_WITH":
        return text[-length:]
    start = rng.randint(0, max(0, len(text) - length))
    return text[start : start + length]


def _values(
    type_: pa.DataType, kind: Kind, array: pa.ChunkedArray, rng: Random, samples: int
) -> tuple[list[Any], list[Any]]:
    """Some values of the column, smallest and largest among them; and some that are next to these, or special."""
    present = sorted(_distinct(array, kind), key=lambda value: (is_nan(value), value))
    inside = rng.sample(present, min(samples, len(present))) + present[:1] + present[-1:]
    near = [other for value in inside for other in _around(value, kind)]
    outside = [value for value in (*near, *_SPECIAL[kind]) if _fits(value, type_)]
    return inside, [_rounded(value, type_) for value in outside]


def _distinct(array: pa.ChunkedArray, kind: Kind) -> list[Any]:
    found = []
    for scalar in pc.unique(array.combine_chunks()):
        try:
            value = scalar.as_py()
        except (OverflowError, ValueError):  # a year beyond 9999, of which Spark's literals do not arrive either
            continue
        if value is not None:
            found.append(canonical(value, kind))
    return found


def _around(value: Any, kind: Kind) -> list[Any]:
    try:
        return _NEIGHBOURS[kind](value) if kind in _NEIGHBOURS else []
    except OverflowError:
        return []


def _fits(value: Any, type_: pa.DataType) -> bool:
    try:
        pa.scalar(value, type_)
    except (pa.ArrowInvalid, OverflowError):
        return False
    return True


def _rounded(value: Any, type_: pa.DataType) -> Any:
    """As Spark would send it: a float of 32 bits has no more of them."""
    return pa.scalar(value, type_).as_py() if pa.types.is_float32(type_) else value
