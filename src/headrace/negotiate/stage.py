"""What Headrace's own stage takes over of a scan where the provider does not do it; driver Python.

The provider is asked first. Once the stage filters, the provider may neither cut nor order nor add up: it would do so
with rows that the stage has not looked at yet.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from headrace.execute.stage.ability import why_not_aggregate, why_not_filter, why_not_order, why_not_runtime_filter
from headrace.execute.stage.work import StageWork
from headrace.expr.exact import NotExact, exact_type
from headrace.expr.nodes import Column, Expr, IsNull, Not
from headrace.expr.not_null import not_null_columns
from headrace.expr.semantics import Kind, kind_of, operand_type
from headrace.negotiate.aggregates import OfferedAggregation, averaged_operands, typed_aggregation
from headrace.negotiate.filters import OfferedFilter
from headrace.negotiate.partitioning import ScanSettings
from headrace.negotiate.top_n import OfferedTopN
from headrace.plan import (
    Aggregation,
    ExecutionPlan,
    HashPartitioning,
    KeyPartitioning,
    Partitioning,
    Placement,
    UnknownPartitioning,
)
from headrace.provider import AggregatePushdown, FilterPushdown, Pushdown

WORK_AT_SOURCE = "spark.headrace.workAtSource"
"""The session's setting that switches the stage off."""
_OFF = f"{WORK_AT_SOURCE} is off"
_KEY_KINDS = {Kind.INT, Kind.STRING, Kind.DATE, Kind.DECIMAL, Kind.TIMESTAMP, Kind.TIMESTAMP_TZ}
"""Kinds of columns by which tables are joined."""


def staged_filters(
    offered: Sequence[OfferedFilter], schema: pa.Schema, settings: ScanSettings, *, visible: bool
) -> tuple[OfferedFilter, ...]:
    """``offered``, with those that the stage does: what the provider does not filter exactly and the stage can.

    An IS NOT NULL that one of them implies needs nobody's work. ``visible``: Spark is to filter again all the same, so
    that joins learn from the filter.
    """

    def staged(one: OfferedFilter) -> OfferedFilter:
        if one.expr is None or one.implied or one.answer is FilterPushdown.EXACT:
            return one
        why = why_not_filter(one.expr, schema, settings.ansi) if settings.work_at_source else _OFF
        return replace(one, here=why is None, visible=why is None and visible, why_not_here=why or "")

    tested = [one if _is_not_null(one.expr) else staged(one) for one in offered]
    guaranteed = frozenset(
        column for one in tested if one.here and one.expr is not None for column in not_null_columns(one.expr)
    )
    result = []
    for one in tested:
        if _is_not_null(one.expr) and one.answer is not FilterPushdown.EXACT and not one.implied:
            assert isinstance(one.expr, Not)
            assert isinstance(one.expr.operand, IsNull)
            one = replace(one, implied=True) if one.expr.operand.operand in guaranteed else staged(one)
        result.append(one)
    return tuple(result)


def _is_not_null(expr: Expr | None) -> bool:
    return isinstance(expr, Not) and isinstance(expr.operand, IsNull)


def staged_aggregation(
    offered: OfferedAggregation, asked: Iterable[OfferedAggregation], schema: pa.Schema, settings: ScanSettings
) -> OfferedAggregation:
    """``offered``, which the provider does not do, as the stage answers it: PARTIAL where it can.

    ``asked``: what Spark has asked about before.
    """
    if not settings.work_at_source:
        return replace(offered, why_not_here=_OFF)
    aggregation = offered.aggregation or typed_aggregation(
        offered.group_by, offered.functions, lambda expr: _type_here(expr, schema, settings)
    )
    if aggregation is None:
        return replace(offered, why_not_here="Headrace does not know the type of its result")
    averaged = averaged_operands(asked)
    for function in aggregation.functions:
        if function.name == "sum" and function.operand in averaged:
            type_ = operand_type(function.operand, schema)
            if type_ is not None and pa.types.is_int64(type_):
                why = f"{function!r} stands for an average, and may overflow where that does not"
                return replace(offered, why_not_here=why)
    why_not = why_not_aggregate(aggregation, schema, settings.ansi)
    if why_not is not None:
        return replace(offered, why_not_here=why_not)
    return replace(offered, aggregation=aggregation, answer=AggregatePushdown.PARTIAL, why_not="", here=True)


def _type_here(expr: Expr, schema: pa.Schema, settings: ScanSettings) -> pa.DataType | None:
    """The type of what is grouped by, or added up: also of expressions that only the stage knows."""
    try:
        return operand_type(expr, schema) or exact_type(expr, schema, settings.ansi)
    except NotExact:
        return None


def staged_top_n(offered: OfferedTopN, schema: pa.Schema, settings: ScanSettings) -> OfferedTopN:
    """``offered``, which the provider does not do: INEXACT where the stage finds each partition's first rows."""
    why = why_not_order(offered.order, offered.limit, schema) if settings.work_at_source else _OFF
    if why is not None:
        return replace(offered, why_not_here=why)
    return replace(offered, answer=Pushdown.INEXACT, here=True)


def key_columns(schema: pa.Schema) -> tuple[str, ...]:
    """Those of ``schema`` by whose values tables are joined, and whose keys the stage looks up."""
    types = {name: operand_type(Column(name), schema) for name in schema.names}
    return tuple(name for name, type_ in types.items() if type_ is not None and kind_of(type_) in _KEY_KINDS)


def looked_up(learnt: Iterable[Expr], schema: pa.Schema, partitioning: Partitioning) -> tuple[Expr, ...]:
    """The runtime filters that the stage does: not those of which whole partitions were chosen already."""
    keyed = frozenset(() if isinstance(partitioning, UnknownPartitioning) else partitioning.columns)
    return tuple(
        expr for expr in learnt if not expr.columns() <= keyed and why_not_runtime_filter(expr, schema) is None
    )


def with_stage_columns(schema: pa.Schema, work: StageWork, table: pa.Schema) -> pa.Schema:
    """``schema``, with the columns that the stage needs for ``work`` behind it, in the table's order."""
    needed = work.columns()
    return pa.schema([*schema, *(field for field in table if field.name in needed and field.name not in schema.names)])


def group_names(aggregation: Aggregation) -> dict[str, str]:
    """The columns that are groups, each with its name among the aggregated rows."""
    named = zip(aggregation.group_by, aggregation.schema.names, strict=False)
    return {group.name: name for group, name in reversed(list(named)) if isinstance(group, Column) and not group.path}


def partitioning_of_groups(partitioning: Partitioning, groups: Collection[str]) -> Partitioning:
    """What holds for groups of the partitions: rows of one key are together by any part of it, those of a hash by all.

    The partitioning itself where none of its columns are groups.
    """
    if isinstance(partitioning, UnknownPartitioning):
        return partitioning
    places = [place for place, column in enumerate(partitioning.columns) if column in groups]
    columns = tuple(partitioning.columns[place] for place in places)
    if isinstance(partitioning, KeyPartitioning) and columns:
        return KeyPartitioning(columns, [tuple(key[place] for place in places) for key in partitioning.keys])
    if isinstance(partitioning, HashPartitioning) and columns and partitioning.n == 1:
        return HashPartitioning(columns, 1, partitioning.function)
    return partitioning


class NoRows(ExecutionPlan):
    """One partition without rows, in place of a plan that has none: a count of nothing is 0, and somebody says so."""

    def __init__(self, schema: pa.Schema, placement: Placement, text: str) -> None:
        self.schema = schema
        self.placement = placement
        self._text = text

    def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
        return iter(())

    def describe(self) -> str:
        return self._text
