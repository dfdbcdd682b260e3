"""Expr as the Filter objects that ``DataSourceReader.pushFilters`` takes, and back; runs where Spark plans, pure."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import datasource as ds

from headrace.expr.nodes import Column, Comparison, Expr, InList, IsNull, Literal, Not, StringMatch

_COMPARISONS: dict[str, type[ds.Filter]] = {
    "=": ds.EqualTo,
    "<=>": ds.EqualNullSafe,
    ">": ds.GreaterThan,
    ">=": ds.GreaterThanOrEqual,
    "<": ds.LessThan,
    "<=": ds.LessThanOrEqual,
}
_MIRRORED = {"=": "=", "<=>": "<=>", ">": "<", ">=": "<=", "<": ">", "<=": ">="}
_STRING_MATCHES: dict[str, type[ds.Filter]] = {
    "STARTS_WITH": ds.StringStartsWith,
    "ENDS_WITH": ds.StringEndsWith,
    "CONTAINS": ds.StringContains,
}


def pushed_filter(expr: Expr) -> ds.Filter | None:
    """The same condition as Spark would give it; None for what Spark has no Filter of (OR, functions, casts)."""
    match expr:
        case Not(operand=IsNull(operand=Column() as column)):
            return ds.IsNotNull(_path(column))
        case Not(operand=InList(values=values)) if any(_value(value) is None for value in values):
            return None  # never true; a source that looks only for equal values would find rows
        case Not(operand=Not()):
            return None
        case Not(operand=operand):
            child = pushed_filter(operand)
            return None if child is None else ds.Not(child)
        case IsNull(operand=Column() as column):
            return ds.IsNull(_path(column))
        case Column():
            return ds.EqualTo(_path(expr), True)
        case Comparison(op=op, left=Column() as column, right=Literal(value=value)) if value is not None:
            return _binary(_COMPARISONS[op], column, value)
        case Comparison(op=op, left=Literal(value=value), right=Column() as column) if value is not None:
            return _binary(_COMPARISONS[_MIRRORED[op]], column, value)
        case InList(operand=Column() as column, values=values) if all(isinstance(v, Literal) for v in values):
            found: Any = [_value(value) for value in values]  # a list, as Spark gives it, and with its null
            return ds.In(_path(column), found) if any(value is not None for value in found) else None
        case StringMatch(op=match_, operand=Column() as column, pattern=Literal(value=str() as text)):
            return _binary(_STRING_MATCHES[match_], column, text)
    return None


def _binary(kind: Any, column: Column, value: Any) -> ds.Filter:
    made: ds.Filter = kind(_path(column), value)
    return made


def _path(column: Column) -> tuple[str, ...]:
    return (column.name, *column.path)


def _value(expr: Expr) -> Any:
    return expr.value if isinstance(expr, Literal) else None


def expression(filter_: ds.Filter, schema: pa.Schema) -> Expr | None:
    """What ``filter_`` says of columns of ``schema``, which has wire types; None where that has no faithful form.

    Its values have lost their types on the way: they are of the type of the column they are compared with.
    """
    match filter_:
        case ds.Not(child=child):
            operand = expression(child, schema)
            return None if operand is None else Not(operand)
        case ds.IsNull(attribute=path):
            return None if _found(path, schema) is None else IsNull(_column(path))
        case ds.IsNotNull(attribute=path):
            return None if _found(path, schema) is None else Not(IsNull(_column(path)))
        case ds.In(attribute=path, value=values):
            literals = [_literal(value, _found(path, schema)) for value in values]
            known = tuple(literal for literal in literals if literal is not None)
            return InList(_column(path), known) if literals and len(known) == len(literals) else None
    known_as = {kind: op for ops in (_COMPARISONS, _STRING_MATCHES) for op, kind in ops.items()}
    op: Any = known_as.get(type(filter_))
    compared: Any = filter_
    literal = None if op is None else _literal(compared.value, _found(compared.attribute, schema))
    if literal is None:
        return None
    node = Comparison if op in _COMPARISONS else StringMatch
    return node(op, _column(compared.attribute), literal)


def _column(path: tuple[str, ...]) -> Column:
    return Column(path[0], tuple(path[1:]))


def _found(path: tuple[str, ...], schema: pa.Schema) -> pa.DataType | None:
    """The type of the column, or of the field nested in structs."""
    field = next((field for field in schema if field.name == path[0]), None)
    for name in path[1:]:
        if field is None or not pa.types.is_struct(field.type):
            return None
        position = field.type.get_field_index(name)
        field = field.type.field(position) if position >= 0 else None
    return None if field is None else field.type


def _literal(value: Any, type_: pa.DataType | None) -> Literal | None:
    """None for a value of another kind, and for the types that Headrace has no literals of."""
    is_ = pa.types
    if type_ is None or is_.is_nested(type_) or is_.is_duration(type_) or is_.is_time(type_) or is_.is_null(type_):
        return None
    if value is None:
        return Literal(None, type_)
    try:
        plain = pa.scalar(value, type_).as_py()
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return None
    return Literal(
        plain.astimezone(datetime.UTC) if isinstance(plain, datetime.datetime) and type_.tz else plain, type_
    )
