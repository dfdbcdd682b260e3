"""Aggregates and orders in the SQL of a database, where they mean what they mean in Spark; driver, pure.

What decides: text is compared by its bytes (a collation says so), an average of integers is a division of doubles,
sums of decimals get Spark's own type, and NaN, where a database has it, is the greatest number. Refused is all else:
averages of decimals (databases round at other places), groups of floats (-0.0), sums in SQLite (where text is zero),
and in PostgreSQL averages of floats, where a quotient that is too small for a double is an error.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

import pyarrow as pa

from headrace.expr.nodes import Column, Expr
from headrace.expr.semantics import Kind, kind_of
from headrace.plan import AggregateFunction, Aggregation, SortKey
from headrace.tables.adbc.columns import DatabaseColumn, compared_sql

_GROUPED = {Kind.BOOL, Kind.INT, Kind.DECIMAL, Kind.STRING, Kind.BINARY, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_TZ}
_RANGED = {Kind.INT, Kind.DECIMAL, Kind.STRING, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_TZ}
_ORDERED = _GROUPED
_AVERAGED = {"sqlite": set[Kind](), "postgres": {Kind.INT}, "duckdb": {Kind.INT, Kind.FLOAT}}
_WITHOUT_FLOATS = "sqlite"
"""A column declared REAL may hold integers there that no double equals, and they are compared as they are."""


def aggregate_items(
    aggregation: Aggregation, columns: Mapping[str, DatabaseColumn], dialect: str
) -> tuple[list[DatabaseColumn], list[str]] | None:
    """What to SELECT and what to GROUP BY; None where the database would answer otherwise than Spark."""
    groups = [_grouped(group, columns, dialect) for group in aggregation.group_by]
    functions = [_function(function, columns, dialect) for function in aggregation.functions]
    items = [item for item in (*groups, *functions) if item is not None]
    if len(items) < len(groups) + len(functions):
        return None
    selected = [
        DatabaseColumn(field.name, field.type, sql) for field, sql in zip(aggregation.schema, items, strict=True)
    ]
    return selected, [column.sql for column in selected[: len(groups)]]


def orders_alike(order: Sequence[SortKey], columns: Mapping[str, DatabaseColumn], dialect: str) -> bool:
    """Whether the database sorts by these columns as Spark does."""
    kinds = [kind_of(columns[key.column].type) for key in order]
    return all(kind in _ORDERED or (kind is Kind.FLOAT and dialect != _WITHOUT_FLOATS) for kind in kinds)


def _column(operand: Expr | None, columns: Mapping[str, DatabaseColumn]) -> DatabaseColumn | None:
    return columns.get(operand.name) if isinstance(operand, Column) and not operand.path else None


def _grouped(group: Expr, columns: Mapping[str, DatabaseColumn], dialect: str) -> str | None:
    column = _column(group, columns)
    if column is None or kind_of(column.type) not in _GROUPED:
        return None
    return compared_sql(column, dialect, equality=True)


def _function(function: AggregateFunction, columns: Mapping[str, DatabaseColumn], dialect: str) -> str | None:
    if function.operand is None:
        return "count(*)"
    column = _column(function.operand, columns)
    kind = None if column is None else kind_of(column.type)
    if column is None or kind is None or (function.distinct and kind not in _GROUPED):
        return None
    distinct = "DISTINCT " if function.distinct else ""
    match function.name:
        case "count":
            return f"count({distinct}{compared_sql(column, dialect, equality=True)})"
        case "min" | "max" if kind in _RANGED or (kind is Kind.FLOAT and dialect != _WITHOUT_FLOATS):
            return f"{function.name}({compared_sql(column, dialect)})"
        case "sum" if dialect != "sqlite":
            return _sum(function, kind, column, distinct, dialect)
        case "avg" if kind in _AVERAGED[dialect]:
            total = f"CAST(sum({distinct}{column.sql}) AS DOUBLE PRECISION)"
            if kind is Kind.FLOAT:
                total = f"sum(CAST({column.sql} AS DOUBLE PRECISION))"
            return f"{total} / nullif(count({distinct}{column.sql}), 0)"
    return None


def _sum(function: AggregateFunction, kind: Kind, column: DatabaseColumn, distinct: str, dialect: str) -> str | None:
    """In the type that Spark gives a sum: more than that is an error there as here."""
    if kind is Kind.INT:
        return f"CAST(sum({distinct}{column.sql}) AS BIGINT)"
    if kind is Kind.FLOAT and dialect == "postgres" and column.type == pa.float64():
        return _postgres_sum(column.sql)
    if kind is Kind.FLOAT:
        return f"sum({distinct}CAST({column.sql} AS DOUBLE PRECISION))"
    if kind is Kind.DECIMAL and pa.types.is_decimal(function.type):
        return f"CAST(sum({distinct}{column.sql}) AS DECIMAL({function.type.precision}, {function.type.scale}))"
    return None


def _postgres_sum(x: str) -> str:
    """A sum of doubles that is infinite where a double has no room for it; PostgreSQL's own is an error then.

    Numbers so large that 2^63 of them may overflow are added up as decimals, which are exact: there are few of them.
    """
    large = f"abs({x}) > 1e280 AND abs({x}) < 'Infinity'"
    rest = f"sum({x}) FILTER (WHERE NOT ({large}))"
    infinite = f"abs({rest}) >= 'Infinity'"  # or NaN
    exact = f"sum(CAST(CAST({x} AS TEXT) AS NUMERIC)) FILTER (WHERE {large})"
    total = f"({exact} + CAST(CAST(coalesce({rest}, 0) AS TEXT) AS NUMERIC))"
    most = repr(sys.float_info.max)
    return (
        f"CASE WHEN count(*) FILTER (WHERE {large}) = 0 OR {infinite} THEN {rest} "
        f"WHEN abs({total}) > CAST('{most}' AS NUMERIC) THEN sign({total}) * CAST('Infinity' AS DOUBLE PRECISION) "
        f"ELSE CAST({total} AS DOUBLE PRECISION) END"
    )
