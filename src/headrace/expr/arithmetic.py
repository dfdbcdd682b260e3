"""Spark's arithmetic over Arrow arrays, with the result types and the failures it has there; pure, runs anywhere.

Spark casts both sides to one type first, but for decimals, whose result types follow rules of their own. These are
the rules with ``spark.sql.decimalOperations.allowPrecisionLoss`` on, which is Spark's default.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import EvaluationError

_MAX_PRECISION = 38
_EXACT = decimal.Context(prec=200, rounding=decimal.ROUND_HALF_UP)
_KERNELS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "+": (pc.add, pc.add_checked),
    "-": (pc.subtract, pc.subtract_checked),
    "*": (pc.multiply, pc.multiply_checked),
}


OPERATIONS = {"+", "-", "*", "/", "%", "ABS"}


def call(name: str, arguments: Sequence[pa.Array], ansi: bool) -> pa.Array:
    """One of ``OPERATIONS``. Raises EvaluationError where Spark fails, NotImplementedError for what it never sends."""
    if len(arguments) == 2 and name != "ABS":
        return _binary(name, arguments[0], arguments[1], ansi)
    if len(arguments) == 1 and name == "-":
        return _unary(arguments[0], ansi, "-", pc.negate, pc.negate_checked)
    if len(arguments) == 1 and name == "ABS":
        return _unary(arguments[0], ansi, "ABS of", pc.abs, pc.abs_checked)
    raise NotImplementedError(f"no reference evaluation for {name} of {len(arguments)} arguments")


def _binary(op: str, left: pa.Array, right: pa.Array, ansi: bool) -> pa.Array:
    if pa.types.is_null(left.type) or pa.types.is_null(right.type):
        return pa.nulls(len(left), right.type if pa.types.is_null(left.type) else left.type)
    if pa.types.is_decimal(left.type) and pa.types.is_decimal(right.type):
        return _decimals(op, left, right, ansi)
    integers = pa.types.is_signed_integer(left.type) and op != "/"
    if left.type != right.type or not (integers or left.type in (pa.float32(), pa.float64())):
        raise NotImplementedError(f"no reference evaluation for {left.type} {op} {right.type}")
    if op in ("/", "%"):
        right = _without_zeros(op, left, right, pc.equal(right, pa.scalar(0, right.type)), ansi)
        return pc.divide(left, right) if op == "/" else _remainder(left, right)
    wrapping, checked = _KERNELS[op]
    if not (ansi and integers):
        return wrapping(left, right)
    try:
        return checked(left, right)
    except pa.ArrowInvalid:
        raise _overflow(left.type) from None


def _unary(
    array: pa.Array, ansi: bool, name: str, wrapping: Callable[..., Any], checked: Callable[..., Any]
) -> pa.Array:
    if pa.types.is_null(array.type):
        return array
    integers = pa.types.is_signed_integer(array.type)
    if not (integers or pa.types.is_decimal(array.type) or array.type in (pa.float32(), pa.float64())):
        raise NotImplementedError(f"no reference evaluation for {name} {array.type}")
    try:
        return checked(array) if ansi and integers else wrapping(array)
    except pa.ArrowInvalid:
        raise _overflow(array.type) from None


def _overflow(type_: pa.DataType) -> EvaluationError:
    narrow = type_ in (pa.int8(), pa.int16())
    condition = "BINARY_ARITHMETIC_OVERFLOW" if narrow else "ARITHMETIC_OVERFLOW"
    return EvaluationError(condition, f"a result does not fit {type_}")


def _without_zeros(op: str, left: pa.Array, right: pa.Array, zero: pa.Array, ansi: bool) -> pa.Array:
    """``right`` with null for zero; with ANSI on a zero under a value is the failure that it is in Spark."""
    if ansi and pc.any(pc.and_(pc.fill_null(zero, False), left.is_valid())).as_py():
        raise EvaluationError("DIVIDE_BY_ZERO" if op == "/" else "REMAINDER_BY_ZERO", "a divisor is zero")
    return pc.if_else(pc.fill_null(zero, False), pa.scalar(None, right.type), right)


def _remainder(left: pa.Array, right: pa.Array) -> pa.Array:
    """Java's remainder: it has the dividend's sign. No divisor is zero."""
    if pa.types.is_floating(left.type):
        return pa.array(_each(_float_rest, left.to_pylist(), right.to_pylist()), left.type)
    one = pa.scalar(1, right.type)
    right = pc.if_else(pc.equal(right, pa.scalar(-1, right.type)), one, right)  # the least value / -1 does not fit
    return pc.subtract(left, pc.multiply(pc.divide(left, right), right))


def _float_rest(a: float, b: float) -> float:
    if math.isnan(a) or math.isnan(b) or math.isinf(a):
        return math.nan
    return a if math.isinf(b) else math.fmod(a, b)


def _each(function: Callable[[Any, Any], Any], left: list[Any], right: list[Any]) -> list[Any]:
    return [None if a is None or b is None else function(a, b) for a, b in zip(left, right, strict=True)]


def decimal_result(op: str, left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """The type Spark gives ``left op right`` of two decimals."""
    p1, s1, p2, s2 = left.precision, left.scale, right.precision, right.scale
    if op in ("+", "-"):
        scale = max(s1, s2)
        precision = max(p1 - s1, p2 - s2) + scale + 1
    elif op == "*":
        precision, scale = p1 + p2 + 1, s1 + s2
    elif op == "/":
        scale = max(6, s1 + p2 + 1)
        precision = p1 - s1 + s2 + scale
    else:
        scale = max(s1, s2)
        precision = min(p1 - s1, p2 - s2) + scale
    if precision > _MAX_PRECISION:
        precision, scale = _MAX_PRECISION, max(_MAX_PRECISION - (precision - scale), min(scale, 6))
    return pa.decimal128(precision, scale)


def _decimals(op: str, left: pa.Array, right: pa.Array, ansi: bool) -> pa.Array:
    if op in ("/", "%"):
        zero = pa.array([None if value is None else value == 0 for value in right.to_pylist()], pa.bool_())
        right = _without_zeros(op, left, right, zero, ansi)
    type_ = decimal_result(op, left.type, right.type)
    exact = _each(_DECIMAL_OPERATIONS[op], left.to_pylist(), right.to_pylist())
    return decimals(exact, type_, ansi)


def decimals(values: list[decimal.Decimal | None], type_: pa.DataType, ansi: bool) -> pa.Array:
    """Each value rounded half up to the scale of ``type_``; one that is too large fails, or is null."""
    limit, unit = decimal.Decimal(10) ** (type_.precision - type_.scale), decimal.Decimal(1).scaleb(-type_.scale)
    found: list[decimal.Decimal | None] = []
    for value in values:
        rounded = None if value is None else value.quantize(unit, context=_EXACT)
        if rounded is not None and rounded.copy_abs() >= limit:  # abs() would round
            if ansi:
                raise EvaluationError("NUMERIC_VALUE_OUT_OF_RANGE", f"{value} does not fit {type_}")
            rounded = None
        found.append(rounded)
    return pa.array(found, type_)


def _quotient(a: decimal.Decimal, b: decimal.Decimal) -> decimal.Decimal:
    """Cut after the 39th decimal, as Spark does before it rounds to the result's scale."""
    sign = -1 if (a < 0) != (b < 0) else 1
    (n1, e1), (n2, e2) = _whole(a), _whole(b)
    shift = 39 + e1 - e2
    numerator, denominator = (n1 * 10**shift, n2) if shift >= 0 else (n1, n2 * 10**-shift)
    return decimal.Decimal(sign * (numerator // denominator)).scaleb(-39, _EXACT)


def _decimal_rest(a: decimal.Decimal, b: decimal.Decimal) -> decimal.Decimal:
    """Java's remainder to 39 digits: it fails, ANSI or not, where so many of the quotient do not leave a small rest."""
    (n1, e1), (n2, e2) = _whole(a), _whole(b)
    least = min(e1, e2)
    dividend, divisor = n1 * 10 ** (e1 - least), n2 * 10 ** (e2 - least)
    quotient = dividend // divisor
    cut = 10 ** max(0, len(str(quotient)) - 39)
    if dividend - quotient // cut * cut * divisor >= divisor:
        raise EvaluationError("DIVISION_IMPOSSIBLE", f"the quotient of {a} and {b} has more than 39 digits")
    return _EXACT.remainder(a, b)


def _whole(value: decimal.Decimal) -> tuple[int, int]:
    """``value`` without its sign as an integer times a power of ten."""
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    return int("".join(map(str, digits))), exponent


_39_DIGITS = decimal.Context(prec=39, rounding=decimal.ROUND_DOWN)
_DECIMAL_OPERATIONS: dict[str, Callable[[decimal.Decimal, decimal.Decimal], decimal.Decimal]] = {
    "+": _EXACT.add,
    "-": _EXACT.subtract,
    "*": _39_DIGITS.multiply,
    "/": _quotient,
    "%": _decimal_rest,
}
