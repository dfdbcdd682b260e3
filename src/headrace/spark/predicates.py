"""Spark's pushed predicates, from the connector's JSON to Expr and back to nothing else; driver Python."""

from __future__ import annotations

import base64
import datetime
import decimal
import re
from typing import Any

import pyarrow as pa

from headrace.expressions import (
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
_STRICT_FUNCTIONS = {"+", "-", "*", "/", "%", "ABS", "UPPER", "LOWER", "CHAR_LENGTH", "TRIM", "SUBSTRING"}
"""Functions of Spark's that are null when an argument is."""
_SIMPLE_TYPES = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
}


def decode(node: dict[str, Any] | None) -> Expr | None:
    """The expression behind ``node``; None for one that has no faithful form here."""
    if node is None:
        return None
    try:
        return _decoded(node)
    except (ValueError, OverflowError):  # a type that Headrace has no literals of; a year beyond 9999
        return None


def not_null_columns(expr: Expr) -> frozenset[Column]:
    """Columns that cannot be null in any row for which ``expr`` is true."""
    if isinstance(expr, And):
        return not_null_columns(expr.left) | not_null_columns(expr.right)
    if isinstance(expr, Or):
        return not_null_columns(expr.left) & not_null_columns(expr.right)
    if isinstance(expr, Comparison):
        if expr.op == "<=>":
            sides = (expr.left, expr.right)
            other = any(isinstance(side, Literal) and side.value is not None for side in sides)
            return _strict_columns(expr.left) | _strict_columns(expr.right) if other else frozenset()
        return _strict_columns(expr.left) | _strict_columns(expr.right)
    if isinstance(expr, InList):
        return _strict_columns(expr.operand)
    if isinstance(expr, StringMatch):
        return _strict_columns(expr.operand) | _strict_columns(expr.pattern)
    if isinstance(expr, Not):
        inner = expr.operand
        if isinstance(inner, IsNull):
            return _strict_columns(inner.operand)
        if isinstance(inner, (InList, StringMatch)) or (isinstance(inner, Comparison) and inner.op != "<=>"):
            return not_null_columns(inner)
    return frozenset()


def _strict_columns(expr: Expr) -> frozenset[Column]:
    """Columns whose null makes ``expr`` null; only forms that are certain."""
    if isinstance(expr, Column):  # a null struct has null fields
        return frozenset(Column(expr.name, expr.path[:depth]) for depth in range(len(expr.path) + 1))
    if isinstance(expr, Cast) or (isinstance(expr, Call) and _is_strict(expr.name)):
        return frozenset(column for child in expr.children() for column in _strict_columns(child))
    return frozenset()


def _is_strict(function: str) -> bool:
    return function in _STRICT_FUNCTIONS or function.startswith("EXTRACT_")


def _decoded(node: dict[str, Any]) -> Expr:
    if "column" in node:
        name, *path = node["column"]
        return Column(name, tuple(path))
    if "literal" in node:
        return _literal(node["literal"], node["type"])
    if "cast" in node:
        return Cast(_decoded(node["operand"]), node["cast"])
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
    if value is None:
        return Literal(None, type_)
    if pa.types.is_floating(type_):
        return Literal(float(value), type_)
    if pa.types.is_decimal(type_):
        return Literal(decimal.Decimal(value), type_)
    if pa.types.is_binary(type_):
        return Literal(base64.b64decode(value), type_)
    if pa.types.is_date(type_):
        return Literal(_EPOCH_DATE + datetime.timedelta(days=value), type_)
    if pa.types.is_timestamp(type_):
        epoch = _EPOCH if type_.tz is None else _EPOCH_UTC
        return Literal(epoch + datetime.timedelta(microseconds=value), type_)
    return Literal(value, type_)


def arrow_type(spark_type: str) -> pa.DataType:
    """The Arrow type of a literal from Spark's catalog string. Raises ValueError for one never sent."""
    if spark_type in _SIMPLE_TYPES:
        return _SIMPLE_TYPES[spark_type]
    match = re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", spark_type)
    if match:
        return pa.decimal128(int(match[1]), int(match[2]))
    raise ValueError(f"unknown Spark type {spark_type!r}")
