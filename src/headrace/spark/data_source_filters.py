"""Expr as the Filter objects that ``DataSourceReader.pushFilters`` takes; runs in the driver, pure."""

from __future__ import annotations

from typing import Any

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
            found = tuple(value for value in map(_value, values) if value is not None)
            return ds.In(_path(column), found) if found else None
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
