"""Aggregations that Spark offers for a scan: their types, those refused, and the provider's answers; driver Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from headrace.errors import PlanError
from headrace.expr.nodes import Expr
from headrace.expr.semantics import Kind, kind_of, operand_type
from headrace.negotiate.asking import asking
from headrace.negotiate.registry import RegisteredTable
from headrace.plan import AggregateFunction, AggregateName, Aggregation
from headrace.provider import AggregatePushdown, TableProvider

FILTERED_HERE = "Headrace filters the rows first"
"""Why a provider is not asked for what depends on which rows there are."""
_MAX_PRECISION = 38


@dataclass(frozen=True)
class OfferedFunction:
    """An aggregate function as Spark offers it: without a type of its result."""

    name: AggregateName
    operand: Expr | None
    distinct: bool = False


@dataclass(frozen=True)
class OfferedAggregation:
    """An aggregation that Spark offered, and what became of it. ``aggregation`` is None where no type is known.

    ``here``: Headrace's stage aggregates, else ``why_not_here`` says why it does not.
    """

    group_by: tuple[Expr, ...]
    functions: tuple[OfferedFunction, ...]
    aggregation: Aggregation | None
    answer: AggregatePushdown
    why_not: str = ""
    here: bool = False
    why_not_here: str = ""


def answered_aggregation(
    table: RegisteredTable,
    provider: TableProvider | None,
    group_by: Sequence[Expr],
    functions: Sequence[OfferedFunction],
) -> OfferedAggregation:
    """Ask the provider, unless the answer would be wrong anyway. Raises PlanError, ProviderRaised.

    ``provider`` is None where Headrace filters its rows: groups of all of them would be of no use.
    """
    groups, offered = tuple(group_by), tuple(functions)
    aggregation = typed_aggregation(groups, offered, lambda expr: operand_type(expr, table.schema))
    if aggregation is None:
        why = "Headrace does not know the type of its result"
        return OfferedAggregation(groups, offered, None, AggregatePushdown.UNSUPPORTED, why)
    if provider is None:
        return OfferedAggregation(groups, offered, aggregation, AggregatePushdown.UNSUPPORTED, FILTERED_HERE)
    where = f"{table.provider_name}.supports_aggregate_pushdown"
    with asking(where, table.name):
        answer = provider.supports_aggregate_pushdown(aggregation)
    if not isinstance(answer, AggregatePushdown):
        raise PlanError(f"{where} returned {answer!r}, expected an AggregatePushdown (table {table.name!r})")
    why = "the provider does not aggregate" if answer is AggregatePushdown.UNSUPPORTED else ""
    if answer is AggregatePushdown.PARTIAL:
        why = _why_not_partial(aggregation)
        answer = AggregatePushdown.UNSUPPORTED if why else answer
    return OfferedAggregation(groups, offered, aggregation, answer, why)


def averaged_operands(asked: Iterable[OfferedAggregation]) -> set[Expr]:
    """The operands of averages that were asked about: Spark may ask for their sum and count instead."""
    functions = (function for one in asked for function in one.functions)
    return {one.operand for one in functions if one.name == "avg" and one.operand is not None}


def refused_after_average(asked: Iterable[OfferedAggregation]) -> bool:
    """Whether an aggregation with an average was not taken as a whole: Spark then asks for sum and count instead."""
    return any(
        one.answer is not AggregatePushdown.COMPLETE and any(function.name == "avg" for function in one.functions)
        for one in asked
    )


def typed_aggregation(
    group_by: tuple[Expr, ...], functions: tuple[OfferedFunction, ...], type_of: Callable[[Expr], pa.DataType | None]
) -> Aggregation | None:
    """The aggregation with the types that Spark gives its results; None where one of them is not known."""
    fields: list[pa.Field] = []
    for index, group in enumerate(group_by):
        type_ = type_of(group)
        if type_ is None or kind_of(type_) is None:
            return None
        fields.append(pa.field(f"group_{index}", type_))
    typed: list[AggregateFunction] = []
    for index, offered in enumerate(functions):
        type_ = _result_type(offered, None if offered.operand is None else type_of(offered.operand))
        if type_ is None:
            return None
        typed.append(AggregateFunction(offered.name, offered.operand, offered.distinct, type_))
        fields.append(pa.field(f"{offered.name}_{index}", type_))
    return Aggregation(group_by, tuple(typed), pa.schema(fields))


def _result_type(function: OfferedFunction, operand: pa.DataType | None) -> pa.DataType | None:
    """The type that Spark gives the result, which its own V2 functions do not say."""
    if function.name == "count" and function.operand is None:
        return pa.int64()
    kind = None if operand is None else kind_of(operand)
    if kind is None:
        return None
    match function.name:
        case "count":
            return pa.int64()
        case "min" | "max":
            return operand
        case "sum" if kind is Kind.INT:
            return pa.int64()
        case "sum" if kind is Kind.DECIMAL and operand is not None:
            return pa.decimal128(min(operand.precision + 10, _MAX_PRECISION), operand.scale)
        case "avg" if kind is Kind.DECIMAL and operand is not None:
            return _average_of_decimals(operand)
        case "sum" | "avg" if kind in (Kind.INT, Kind.FLOAT):
            return pa.float64()
    return None


def _average_of_decimals(operand: pa.DataType) -> pa.DataType | None:
    precision, scale = operand.precision + 4, operand.scale + 4
    return pa.decimal128(precision, scale) if precision <= _MAX_PRECISION else None


def _why_not_partial(aggregation: Aggregation) -> str:
    """What Spark would get wrong, or not understand, when it merges partial results."""
    for function in aggregation.functions:
        if function.distinct:
            return f"{function!r} of each partition cannot be merged: a value may be in several"
        if function.name == "avg":
            return f"{function!r} of each partition cannot be merged; Spark asks again for sum and count"
        if function.name == "sum" and pa.types.is_decimal(function.type):
            return f"Spark casts a partial {function!r} of decimals back to the column's own type, where it may not fit"
    return ""
