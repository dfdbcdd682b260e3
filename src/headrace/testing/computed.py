"""Filters over functions, arithmetic, CASE and casts of one column, as Spark types and pushes them; pure."""

from __future__ import annotations

import decimal
from collections.abc import Iterator
from random import Random
from typing import Any

import pyarrow as pa

from headrace.errors import EvaluationError
from headrace.expr.evaluation import value_of
from headrace.expr.nodes import Call, Cast, Column, Comparison, Expr, Literal
from headrace.expr.semantics import Kind, kind_of

_OPERATIONS = ("+", "-", "*", "/", "%")
_FROM_TEXT = ("int", "bigint", "double", "decimal(10,2)", "decimal(38,18)", "date", "boolean")
_FACTORS = (
    Literal(decimal.Decimal("1.5"), pa.decimal128(2, 1)),
    Literal(decimal.Decimal("-0.003"), pa.decimal128(3, 3)),
    Literal(decimal.Decimal("12345678901234567890.12"), pa.decimal128(38, 2)),
)


def computed_filters(column: Column, type_: pa.DataType, value: Any, another: Any, rng: Random) -> Iterator[Expr]:
    """Those that ``value``, of the column, fulfils, or nearly so. In some rows Spark may fail for them."""
    some, other = Literal(value, type_), Literal(another, type_)
    yield Comparison("=", Call("COALESCE", (column, other)), other)
    yield Comparison("=", Call("CASE_WHEN", (Comparison("=", column, some), other, column)), other)
    match kind_of(type_):
        case Kind.INT:
            yield from _of_integers(column, type_, some)
        case Kind.FLOAT:
            yield Comparison(">", Call("*", (column, Literal(-1.0, type_))), some)
            yield from _quotients(column if type_ == pa.float64() else Cast(column, "double"), value)
        case Kind.DECIMAL:
            yield from _of_decimals(column, some, rng)
        case Kind.STRING:
            yield from _of_text(column, type_, some, other)
        case Kind.DATE:
            yield Comparison("=", Call("EXTRACT_YEAR", (column,)), Literal(value.year, pa.int32()))
            yield Comparison("=", Call("EXTRACT_MONTH", (column,)), Literal(value.month, pa.int32()))
        case Kind.TIMESTAMP:
            day = Cast(column, "date")
            yield Comparison("=", Call("EXTRACT_YEAR", (day,)), Literal(value.year, pa.int32()))
            yield Comparison("=", day, Literal(value.date(), pa.date32()))


def _of_integers(column: Column, type_: pa.DataType, some: Literal) -> Iterator[Expr]:
    zero, two = (Literal(number, type_) for number in (0, 2))
    yield Comparison("=", Call("%", (column, two)), zero)
    yield Comparison(">", Call("+", (column, two)), some)
    yield Comparison("=", Call("ABS", (column,)), Literal(abs(some.value), type_))
    yield Comparison("<=", Cast(column, "double"), Literal(float(some.value), pa.float64()))
    yield Comparison("=", Cast(column, "string"), Literal(str(some.value), pa.string()))
    yield from _quotients(Cast(column, "double"), float(some.value))
    yield from _compared(Call("+", (Cast(column, "decimal(20,0)"), _FACTORS[0])), column, some, ("=", ">"))


def _quotients(number: Expr, value: float) -> Iterator[Expr]:
    """Spark divides doubles, whatever it is given, but for decimals; by zero it fails."""
    three = Literal(3.0, pa.float64())
    yield Comparison("=", Call("/", (number, three)), Literal(value / 3.0, pa.float64()))
    yield Comparison(">", Call("/", (number, three)), Literal(1.0, pa.float64()))
    yield Comparison("<", Call("/", (three, number)), Literal(1.0, pa.float64()))


def _of_decimals(column: Column, some: Literal, rng: Random) -> Iterator[Expr]:
    for operation in _OPERATIONS:
        yield from _compared(Call(operation, (column, rng.choice(_FACTORS))), column, some, ("=", "<"))
    yield from _compared(Call("/", (_FACTORS[0], column)), column, some, (">",))
    yield from _compared(Call("ABS", (column,)), column, some, ("=",))
    for target in ("double", "bigint", "string", "decimal(38,1)"):
        yield from _compared(Cast(column, target), column, some, ("=",))


def _of_text(column: Column, type_: pa.DataType, some: Literal, other: Literal) -> Iterator[Expr]:
    for name, changed in (("UPPER", str.upper), ("LOWER", str.lower), ("TRIM", lambda text: text.strip(" "))):
        yield Comparison("=", Call(name, (column,)), Literal(changed(some.value), type_))
    yield Comparison(">=", Call("CHAR_LENGTH", (column,)), Literal(len(some.value), pa.int32()))
    span = (Literal(1, pa.int32()), Literal(2, pa.int32()))
    yield Comparison("=", Call("SUBSTRING", (column, *span)), Literal(some.value[:2], type_))
    yield Comparison("=", Call("CONCAT", (column, other)), Literal(some.value + other.value, type_))
    for target in _FROM_TEXT:
        yield from _compared(Cast(column, target), column, some, ("=", ">"))


def _compared(computed: Expr, column: Column, some: Literal, operators: tuple[Any, ...]) -> Iterator[Expr]:
    """``computed`` against what it is for ``some``, in its own type; nothing where Spark fails for that."""
    try:
        (constant,) = value_of(computed, {column: pa.repeat(some.scalar(), 1)}, 1)
    except (EvaluationError, NotImplementedError):
        return
    if constant.as_py() is not None:
        yield from (Comparison(op, computed, Literal(constant.as_py(), constant.type)) for op in operators)
