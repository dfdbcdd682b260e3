"""What the source stage does, and why not what it does not; asked at planning, in driver Python.

Each answer is None where the stage does it with exactly Spark's meaning and where that pays, else a few words for
EXPLAIN. It is decided from types and columns alone: when Spark offers a filter, it has not yet offered what else the
query needs.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from headrace.expr.exact import NotExact, exact_type
from headrace.expr.nodes import Column, Comparison, Expr, InList
from headrace.expr.normal_form import normal_form
from headrace.expr.semantics import Kind, column_type, kind_of, spark_view
from headrace.plan import AggregateFunction, Aggregation, SortKey

MOST_FIRST_ROWS = 64 * 1024
"""Of a top-n each partition keeps no more rows: for more of them Spark's own sort is the better one."""
MOST_KEYS = 10_000
"""Of a runtime filter: a longer list takes longer to look up than the rows that it drops take to be sent."""


def why_not_filter(expr: Expr, schema: pa.Schema, ansi: bool = True) -> str | None:
    """``schema`` is the table's."""
    return _why_not_computed(normal_form(expr), schema, ansi, pa.bool_())


def why_not_aggregate(aggregation: Aggregation, schema: pa.Schema, ansi: bool = True) -> str | None:
    """``schema`` is the table's; the answer is for a PARTIAL aggregation."""
    for group, field in zip(aggregation.group_by, aggregation.schema, strict=False):
        why = _why_not_computed(group, schema, ansi, field.type)
        if why is not None:
            return why
    for function in aggregation.functions:
        why = _why_not_function(function, schema, ansi)
        if why is not None:
            return why
    return None


def why_not_order(order: Sequence[SortKey], limit: int, schema: pa.Schema) -> str | None:
    """``schema`` is the table's; the answer is for the first ``limit`` rows of each partition."""
    if limit > MOST_FIRST_ROWS:
        return f"{limit:,} rows a partition are too many to be kept"
    for key in order:
        type_ = column_type(schema, Column(key.column))
        wire = None if type_ is None else spark_view(type_)
        if wire is None or kind_of(wire) is None:
            return f"Arrow does not order values of {key.column}"
    return None


def why_not_runtime_filter(expr: Expr, schema: pa.Schema) -> str | None:
    """Of keys that a join has learnt. ``schema`` is the table's."""
    tests = normal_form(expr)
    if isinstance(tests, InList) and len(tests.values) > MOST_KEYS:
        return f"{len(tests.values):,} keys take longer to look up than rows to send"
    if not isinstance(tests, (Comparison, InList)):
        return "it is no list or range of keys"
    return _why_not_computed(tests, schema, True, pa.bool_())


def _why_not_function(function: AggregateFunction, schema: pa.Schema, ansi: bool) -> str | None:
    if function.name == "avg":
        return f"{function!r} of each partition cannot be merged; Spark asks again for sum and count"
    if function.distinct:
        return f"{function!r} of each partition cannot be merged: a value may be in several"
    if function.operand is None:
        return None
    if function.name == "count" and isinstance(function.operand, Column) and not function.operand.path:
        return None  # of any type
    try:
        operand = exact_type(function.operand, schema, ansi)
    except NotExact as why:
        return str(why)
    if function.name == "count":
        return None
    if function.name in ("min", "max"):
        return None if operand == function.type else f"{function!r} has another type in Arrow"
    if kind_of(operand) is Kind.DECIMAL:
        return f"Spark casts a partial {function!r} of decimals back to the column's own type, where it may not fit"
    return None if kind_of(operand) in (Kind.INT, Kind.FLOAT) else f"Arrow does not compute {function!r}"


def _why_not_computed(expr: Expr, schema: pa.Schema, ansi: bool, type_: pa.DataType) -> str | None:
    try:
        found = exact_type(expr, schema, ansi)
    except NotExact as why:
        return str(why)
    return None if found == type_ else f"{expr!r} has the type {found} in Arrow, and {type_} in Spark"
