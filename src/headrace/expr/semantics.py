"""Which Arrow types Spark compares in which way, and which casts change no value; pure, runs anywhere."""

from __future__ import annotations

import datetime
import decimal
import enum
import functools
import math
import numbers
import operator
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from headrace.arrow.conversion import to_wire
from headrace.arrow.spark_types import named_type
from headrace.arrow.types import wire_type
from headrace.errors import SchemaMismatchError, UnsupportedTypeError
from headrace.expr.nodes import Cast, Column, Expr, Literal


class Kind(enum.Enum):
    """A family of types whose values Spark compares with each other, by one rule.

    In the Python form of each (see ``canonical``) Spark's order is Python's own, save that Spark's NaN equals
    itself and is greater than every other number. Strings: UTF-8 byte order is code point order.
    """

    BOOL = "boolean"
    INT = "integer"
    FLOAT = "float"
    DECIMAL = "decimal"
    STRING = "string"
    BINARY = "binary"
    DATE = "date"
    TIMESTAMP = "timestamp_ntz"
    TIMESTAMP_TZ = "timestamp"
    DURATION = "interval day to second"


def kind_of(type_: pa.DataType) -> Kind | None:
    """The kind of a *wire* type (or of a literal's); None for nested types and those Spark lacks."""
    is_ = pa.types
    if is_.is_timestamp(type_):
        return Kind.TIMESTAMP if type_.tz is None else Kind.TIMESTAMP_TZ
    for test, kind in (
        (is_.is_boolean, Kind.BOOL),
        (is_.is_integer, Kind.INT),
        (is_.is_floating, Kind.FLOAT),
        (is_.is_decimal, Kind.DECIMAL),
        (is_.is_string, Kind.STRING),
        (is_.is_large_string, Kind.STRING),
        (is_.is_string_view, Kind.STRING),
        (is_.is_binary, Kind.BINARY),
        (is_.is_large_binary, Kind.BINARY),
        (is_.is_date, Kind.DATE),
        (is_.is_duration, Kind.DURATION),
    ):
        if test(type_):
            return kind
    return None


def column_type(schema: pa.Schema, column: Column) -> pa.DataType | None:
    """The Arrow type ``schema`` gives the column or nested field; None if it has no such one (or two)."""
    if len(schema.get_all_field_indices(column.name)) != 1:
        return None
    type_ = schema.field(column.name).type
    for part in column.path:
        if not pa.types.is_struct(type_) or len(type_.get_all_field_indices(part)) != 1:
            return None
        type_ = type_.field(part).type
    return type_


def spark_view(type_: pa.DataType) -> pa.DataType | None:
    """The wire type in which Spark sees an Arrow type; None if Spark has no equal of it."""
    try:
        return wire_type(type_, "")
    except UnsupportedTypeError:
        return None


@functools.lru_cache(maxsize=1000)  # a table may have thousands of columns of a few types
def is_comparable(type_: pa.DataType) -> bool:
    """Whether Spark compares the values of a column of this Arrow type."""
    view = spark_view(type_)
    return view is not None and kind_of(view) is not None


def cast_target(spark_type: str) -> pa.DataType | None:
    """The wire type a Spark type name stands for; None for nested, collated and unknown ones, void and intervals."""
    target = named_type(spark_type)
    return None if target is None or kind_of(target) in (None, Kind.DURATION) else target


_INT_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}


def widens(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether a cast between wire types keeps every value and their order, whatever Spark's settings."""
    is_ = pa.types
    if source == target:
        return True
    if is_.is_decimal(target):
        room = target.precision - target.scale
        if is_.is_signed_integer(source):
            return bool(room >= _INT_DIGITS[source.bit_width])
        wide_enough = is_.is_decimal(source) and room >= source.precision - source.scale
        return bool(wide_enough and target.scale >= source.scale)
    if is_.is_signed_integer(source):
        if is_.is_signed_integer(target):
            return bool(target.bit_width > source.bit_width)
        exact_bits = {pa.float32(): 16, pa.float64(): 32}.get(target, 0)
        return bool(source.bit_width <= exact_bits)
    return (source, target) in ((pa.float32(), pa.float64()), (pa.date32(), pa.timestamp("us")))


def operand_type(expr: Expr, schema: pa.Schema | None) -> pa.DataType | None:
    """The wire type of a column, or of a lossless cast of one; None for anything else, or without schema."""
    if schema is None:
        return None
    if isinstance(expr, Column):
        type_ = column_type(schema, expr)
        return None if type_ is None else spark_view(type_)
    if isinstance(expr, Cast):
        source, target = operand_type(expr.operand, schema), cast_target(expr.spark_type)
        return target if source is not None and target is not None and widens(source, target) else None
    return None


def is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def canonical(value: Any, kind: Kind) -> Any:
    """``value`` as the one Python form in which values of ``kind`` are compared.

    Every NaN becomes ``math.nan`` itself, so that a set finds it; an aware datetime becomes UTC, and a naive
    one is taken to be UTC where the kind has a zone. Raises TypeError for a value of another kind.
    """
    if isinstance(value, pa.Scalar):
        value = value.as_py()
    if kind is Kind.FLOAT and isinstance(value, numbers.Real) and not isinstance(value, bool):
        number = float(value)
        return math.nan if math.isnan(number) else number
    if kind is Kind.INT and isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return operator.index(value)
    if kind is Kind.DECIMAL and isinstance(value, (decimal.Decimal, int)) and not isinstance(value, bool):
        return decimal.Decimal(value)
    if kind is Kind.BINARY and isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_TZ) and isinstance(value, datetime.datetime):
        aware = value.replace(tzinfo=datetime.UTC) if value.tzinfo is None else value.astimezone(datetime.UTC)
        return aware if kind is Kind.TIMESTAMP_TZ else aware.replace(tzinfo=None)
    if kind is Kind.DATE and isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return value
    plain = {Kind.BOOL: bool, Kind.STRING: str, Kind.DURATION: datetime.timedelta}.get(kind)
    if plain is not None and isinstance(value, plain):
        return value
    raise TypeError(f"{value!r} ({type(value).__name__}) is not a value of Spark's type {kind.value}")


def literal_value(literal: Literal) -> Any:
    """The literal's non-null value in canonical form, rounded to its type; None if Python cannot hold it."""
    kind = kind_of(literal.type)
    if kind is None:
        return None
    if kind is Kind.FLOAT or not isinstance(literal.value, (str, bytes, decimal.Decimal, datetime.date)):
        try:
            return canonical(literal.scalar().as_py(), kind)
        except (OverflowError, ValueError) as error:
            if isinstance(error, pa.ArrowInvalid):
                raise
            return None  # a timestamp beyond the year 9999
    return canonical(literal.value, kind)


def wire_literal(literal: Literal) -> Literal | None:
    """The literal as one of its wire type, which is what Spark sends; None where Spark has no such value."""
    wire = spark_view(literal.type)
    if wire is None or wire == literal.type:
        return literal if wire is not None else None
    try:
        array = to_wire(pa.array([literal.value], literal.type), wire, "a literal")
        return Literal(array[0].as_py(), wire)
    except (SchemaMismatchError, NotImplementedError):
        return None


_PLAIN: dict[Kind | None, type] = {
    Kind.INT: int,
    Kind.STRING: str,
    Kind.BINARY: bytes,
    Kind.DATE: datetime.date,
    Kind.DECIMAL: decimal.Decimal,
}


def plain_values(literals: Sequence[Expr]) -> list[Any] | None:
    """The values of literals of one type, if ``literal_value`` would change none of them; there may be thousands."""
    first = literals[0]
    if not isinstance(first, Literal):
        return None
    type_, plain = first.type, _PLAIN.get(kind_of(first.type))
    for one in literals:
        if (
            not isinstance(one, Literal)
            or type(one.value) is not plain
            or (one.type is not type_ and one.type != type_)
        ):
            return None
    return [one.value for one in literals if isinstance(one, Literal)]
