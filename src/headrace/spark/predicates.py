"""Spark's pushed predicates, decoded from the connector's JSON to Expr; driver Python."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
from typing import Any

import pyarrow as pa

from headrace.arrow.spark_types import named_type, type_of
from headrace.arrow.types import with_nested
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

_EPOCH_DATE = datetime.date(1970, 1, 1)
_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH_UTC = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_COMPARISONS = {"=", "<", "<=", ">", ">=", "<=>"}
_STRING_MATCHES = {"STARTS_WITH", "ENDS_WITH", "CONTAINS"}


def decode(node: dict[str, Any] | None, *, nested: bool = False) -> Expr | None:
    """The expression behind ``node``; None for one that has no faithful form here.

    ``nested``: whether it may have literals that are whole arrays or structs.
    """
    if node is None:
        return None
    try:
        expr = _decoded(node)
    except (ValueError, OverflowError):  # a type that Headrace has no literals of; a year beyond 9999
        return None
    if not nested and any(isinstance(part, Literal) and pa.types.is_nested(part.type) for part in expr.walk()):
        return None
    return expr


def _decoded(node: dict[str, Any]) -> Expr:
    if "column" in node:
        name, *path = node["column"]
        return Column(name, tuple(path))
    if "literal" in node:
        return _literal(node["literal"], node["type"])
    if "cast" in node:
        return Cast(_decoded(node["operand"]), node["cast"])
    if "in" in node:
        type_ = arrow_type(node["type"])
        return InList(_decoded(node["in"]), tuple(Literal(value, type_) for value in _values(node["values"], type_)))
    name = node["call"]
    args = tuple(_decoded(arg) for arg in node["args"])
    if name in _COMPARISONS and len(args) == 2:
        return Comparison(name, args[0], args[1])
    if name in ("AND", "OR") and len(args) == 2:
        return And(*args) if name == "AND" else Or(*args)
    if name == "NOT" and len(args) == 1:
        return Not(args[0])
    if name == "IS_NULL":
        return IsNull(args[0])
    if name == "IS_NOT_NULL":
        return Not(IsNull(args[0]))
    if name == "IN":
        return InList(args[0], args[1:])
    if name in _STRING_MATCHES:
        return StringMatch(name, args[0], args[1])
    return Call(name, args)


def _literal(value: Any, spark_type: str) -> Literal:
    type_ = arrow_type(spark_type)
    return Literal(_value(value, type_), type_)


def _values(values: list[Any], type_: pa.DataType) -> list[Any]:
    """The Python values of many literals of one type."""
    if pa.types.is_integer(type_) or pa.types.is_string(type_):
        return values
    return [_value(value, type_) for value in values]


def _value(value: Any, type_: pa.DataType) -> Any:
    """The Python value of a literal, or of a part of one."""
    if value is None:
        return None
    if pa.types.is_floating(type_):
        return float(value)
    if pa.types.is_decimal(type_):
        return decimal.Decimal(value)
    if pa.types.is_binary(type_):
        return base64.b64decode(value)
    if pa.types.is_date(type_):
        return _EPOCH_DATE + datetime.timedelta(days=value)
    if pa.types.is_timestamp(type_):
        epoch = _EPOCH if type_.tz is None else _EPOCH_UTC
        return epoch + datetime.timedelta(microseconds=value)
    if pa.types.is_list(type_):
        return [_value(part, type_.value_type) for part in value]
    if pa.types.is_struct(type_):
        fields = [type_.field(i) for i in range(type_.num_fields)]
        return {field.name: _value(part, field.type) for field, part in zip(fields, value, strict=True)}
    return value


def arrow_type(spark_type: str) -> pa.DataType:
    """The Arrow type of a literal from Spark's catalog string, or from its JSON where it is an array or a struct.

    Raises ValueError for a type without literals here.
    """
    type_ = type_of(json.loads(spark_type)) if spark_type.startswith("{") else named_type(spark_type)
    if type_ is not None and not any(map(pa.types.is_duration, with_nested(type_))):  # there are none of intervals
        return type_
    raise ValueError(f"unknown Spark type {spark_type!r}")
