"""Checks of a plan that a provider returned, against the contract; driver Python."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headrace.arrow.batches import indented, same_columns
from headrace.arrow.mismatch import nearest_difference
from headrace.arrow.types import same_in_spark, value_bytes
from headrace.errors import PlanError, SchemaMismatchError
from headrace.negotiate.asking import asking, kind_of
from headrace.negotiate.partitioning import check_partitioning
from headrace.negotiate.registry import RegisteredTable
from headrace.plan import ExecutionPlan, Partitioning, Placement, ScanRequest, SortKey, Statistics
from headrace.provider import TableProvider
from headrace.stream import Offset, stream_of


@dataclass(frozen=True)
class CheckedPlan:
    """What a plan says of itself, each thing asked once and checked. ``name`` is for messages."""

    name: str
    plan: ExecutionPlan
    schema: pa.Schema
    text: str
    partitioning: Partitioning
    ordering: tuple[SortKey, ...]
    statistics: Statistics
    runtime_filter_columns: tuple[str, ...]


def checked_plan(
    table: RegisteredTable,
    provider: TableProvider,
    request: ScanRequest,
    *,
    estimates: Callable[[], Statistics | None],
    read: tuple[str, ...] | None = None,
    one_partition: bool = False,
    between: tuple[Offset, Offset] | None = None,
) -> CheckedPlan:
    """Ask the provider for a plan and check all it says. Raises PlanError, SchemaMismatchError, ProviderRaised.

    ``estimates``: those of the provider, for a plan that has none. ``read``: the columns that Spark reads, where the
    request has others too.
    ``one_partition``: the provider agreed to a top-n or an offset that only one partition can keep.
    ``between``: the range of a stream that is read; the provider is a StreamProvider then.
    """
    read = request.projection if read is None else read
    where = f"{table.provider_name}.{'scan' if between is None else 'scan_between'}"
    with asking(where, table.name):
        plan = provider.scan(request) if between is None else stream_of(provider).scan_between(*between, request)
    if not isinstance(plan, ExecutionPlan):
        raise PlanError(f"{where} returned {kind_of(plan)}, expected an ExecutionPlan (table {table.name!r})")
    name = f"{type(plan).__name__} (returned by {where}, table {table.name!r})"
    with asking(name, table.name):  # properties and methods of the user's plan
        text = plan.describe()
        statistics = plan.statistics()
        schema = getattr(plan, "schema", None)
        partitioning, ordering, placement = plan.partitioning, tuple(plan.ordering), plan.placement
        narrowed_by = tuple(plan.runtime_filter_columns)
    statistics = statistics or estimates() or Statistics()
    if not isinstance(placement, Placement):
        raise PlanError(f"{name} has placement {placement!r}, expected a Placement")
    if not isinstance(statistics, Statistics):
        raise PlanError(f"{name} gave statistics {statistics!r}, expected Statistics or None")
    checked_schema = _checked_schema(schema, request, table, name)
    check_partitioning(partitioning, table, name)
    if one_partition and partitioning.n > 1:
        raise PlanError(
            f"{name} has {partitioning.n} partitions, expected one: the provider agreed to order the rows, or to leave "
            "out the first ones, for Spark"
        )
    return CheckedPlan(
        name=name,
        plan=plan,
        schema=checked_schema,
        text=" ".join(str(text).split()),
        partitioning=partitioning,
        ordering=_usable_ordering(ordering, table, read, name),
        statistics=_completed(statistics, request, name),
        runtime_filter_columns=_usable_columns(narrowed_by, table, request, read, name),
    )


def provider_statistics(table: RegisteredTable, provider: TableProvider) -> Statistics | None:
    """What the provider says of its table. Raises PlanError, ProviderRaised."""
    where = f"{table.provider_name}.statistics"
    with asking(where, table.name):
        statistics = provider.statistics()
    if statistics is not None and not isinstance(statistics, Statistics):
        raise PlanError(f"{where} gave statistics {statistics!r}, expected Statistics or None (table {table.name!r})")
    return statistics


def table_bytes(table: RegisteredTable, statistics: Statistics | None, columns: Collection[str], unknown: int) -> int:
    """How large a table is by its ``statistics``, as to these columns; ``unknown`` where they do not say.

    Raises PlanError.
    """
    if statistics is None:
        return unknown
    where = f"{table.provider_name}.statistics"
    size = _completed(statistics, ScanRequest(table.schema, tuple(table.schema.names)), where).size_in_bytes
    if size is None:
        return unknown
    read = pa.schema([field for field in table.schema if field.name in columns])
    return size * _row_width(read) // _row_width(table.schema)  # as Spark does with its own tables


def _usable_columns(
    columns: tuple[Any, ...], table: RegisteredTable, request: ScanRequest, read: tuple[str, ...], name: str
) -> tuple[str, ...]:
    """The columns for runtime filters that the query reads: Spark sends none for others.

    None below a limit, a top-n, an offset or an aggregation: other rows would be cut, or added up, than without them.
    """
    if request.limit is not None or request.offset > 0 or request.aggregation is not None:
        return ()
    for column in columns:
        if column not in table.schema.names:
            raise PlanError(f"{name} takes runtime filters on {column!r}, which is not a column of the table")
    return tuple(column for column in columns if column in read)


def _checked_schema(schema: Any, request: ScanRequest, table: RegisteredTable, name: str) -> pa.Schema:
    if not isinstance(schema, pa.Schema):
        raise PlanError(f"{name} has schema {kind_of(schema)}, expected a pyarrow.Schema")
    if request.aggregation is not None:
        if same_columns(schema, request.schema):
            return schema
        raise SchemaMismatchError(
            f"{name} has a schema that is not the aggregation's\n"
            f"requested:\n{indented(request.schema)}\nfound:\n{indented(schema)}"
        )
    unpruned = pa.schema([table.schema.field(column) for column in request.projection])
    for allowed in (request.schema, table.schema, unpruned):
        if same_columns(schema, allowed) or same_in_spark(schema, allowed):
            return schema
    raise SchemaMismatchError(
        f"{name} has a schema that is neither the request's nor the table's\n"
        f"requested:\n{indented(request.schema)}\nthe table's:\n{indented(table.schema)}\n"
        f"found:\n{indented(schema)}\n{nearest_difference((request.schema, table.schema), schema)}"
    )


def _usable_ordering(
    ordering: tuple[Any, ...], table: RegisteredTable, read: tuple[str, ...], name: str
) -> tuple[SortKey, ...]:
    """The leading sort keys that the query reads: an ordering ends where a column is missing."""
    usable: list[SortKey] = []
    for key in ordering:
        if not isinstance(key, SortKey):
            raise PlanError(f"{name} has the ordering {ordering!r}, expected SortKeys, such as (hr.SortKey('day'),)")
        if key.column not in table.schema.names:
            raise PlanError(f"{name} is ordered by {key.column!r}, which is not a column of the table")
    for key in ordering:
        if key.column not in read:
            break
        usable.append(key)
    return tuple(usable)


def _completed(statistics: Statistics, request: ScanRequest, name: str) -> Statistics:
    """Rows capped by the limit; a size from the rows where only those are known."""
    rows, size = (_estimate(value, name) for value in (statistics.num_rows, statistics.size_in_bytes))
    if rows is not None and request.limit is not None:
        rows = min(rows, request.limit)
    if rows is not None and size is None:
        size = rows * _row_width(request.schema)
    return Statistics(rows, size)


def _estimate(value: Any, name: str) -> int | None:
    if value is None:
        return None
    try:
        number = operator.index(value)  # numpy's integers too
    except TypeError:
        number = -1
    if number < 0:
        raise PlanError(f"{name} gave the statistic {value!r}, expected an integer that is not negative, or None")
    return number


def _row_width(schema: pa.Schema) -> int:
    return 8 + sum(_width(field.type) for field in schema)


def _width(type_: pa.DataType) -> int:
    width = value_bytes(type_)
    return 20 if width is None else max(1, int(width))  # 20 is what Spark assumes for a string
