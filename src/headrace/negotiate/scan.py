"""Negotiation: what the connector asks of a provider, checked against the contract; driver Python."""

from __future__ import annotations

import json
import operator
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headrace.arrow.batches import indented, same_columns
from headrace.arrow.spark_types import pruned_schema
from headrace.arrow.types import value_bytes, wire_type
from headrace.errors import HeadraceError, PlanError, SchemaMismatchError
from headrace.execute.failure import Failure
from headrace.expr.nodes import Expr, IsNull, Not
from headrace.expr.not_null import not_null_columns
from headrace.negotiate.registry import RegisteredTable
from headrace.plan import (
    ExecutionPlan,
    HashPartitioning,
    KeyPartitioning,
    Partitioning,
    Placement,
    ScanRequest,
    SortKey,
    Statistics,
    UnknownPartitioning,
)
from headrace.provider import FilterPushdown

IMPLIED = "implied"
"""Answer for an IS NOT NULL that another, EXACT, filter already guarantees."""


_BUCKETING = "spark.sql.sources.v2.bucketing"


class ProviderRaised(HeadraceError):
    """User code raised while planning; carries the Failure to send. Never reaches users."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.text())
        self.failure = failure


@dataclass(frozen=True)
class PlannedScan:
    """One negotiated scan: the record that EXPLAIN reads and that DRIVER placement serves from."""

    id: str
    table: RegisteredTable
    request: ScanRequest
    filters: tuple[tuple[Expr | None, str], ...]
    plan: ExecutionPlan
    plan_schema: pa.Schema
    plan_text: str
    partitioning: Partitioning
    partitioning_unused: str | None
    ordering: tuple[SortKey, ...]
    statistics: Statistics

    def description(self) -> str:
        """One line, for Spark's EXPLAIN."""
        parts = [
            f"{self.table.provider_name}({self.plan_text})",
            f"placement={self.plan.placement.name}",
            f"partitions={self.partitioning.n}",
            f"columns=[{', '.join(self.request.projection)}]",
            f"filters=[{', '.join(self.filter_texts())}]",
        ]
        if self.request.limit is not None:
            parts.append(f"limit={self.request.limit}")
        if not isinstance(self.partitioning, UnknownPartitioning):
            parts.append(f"partitioning={partitioning_text(self.partitioning)}")
        if self.ordering:
            parts.append(f"ordering=[{', '.join(map(sort_key_text, self.ordering))}]")
        return " ".join(parts)

    def filter_texts(self) -> list[str]:
        return [f"{expr!r}: {answer.upper()}" for expr, answer in self.filters if expr is not None]


def answer_filters(table: RegisteredTable, filters: Sequence[Expr | None]) -> list[str]:
    """Ask the provider about all conjuncts at once. Raises PlanError, ProviderRaised.

    A filter that could not be decoded is UNSUPPORTED without asking. An IS NOT NULL that an EXACT filter
    implies needs no filter of Spark's, whatever the provider said of it: Spark adds these by itself, and
    one left over would keep a limit from being pushed.
    """
    known = [expr for expr in filters if expr is not None]
    answers = _provider_answers(table, known)
    exact = [expr for expr, answer in zip(known, answers, strict=True) if answer is FilterPushdown.EXACT]
    guaranteed = frozenset(column for expr in exact for column in not_null_columns(expr))
    result: list[str] = []
    remaining = iter(answers)
    for expr in filters:
        if expr is None:
            result.append(FilterPushdown.UNSUPPORTED.value)
            continue
        answer = next(remaining)
        implied = isinstance(expr, Not) and isinstance(expr.operand, IsNull) and expr.operand.operand in guaranteed
        result.append(IMPLIED if implied and answer is not FilterPushdown.EXACT else answer.value)
    return result


def _provider_answers(table: RegisteredTable, filters: list[Expr]) -> list[FilterPushdown]:
    if not filters:
        return []
    where = f"{table.provider_name}.supports_filters_pushdown"
    try:
        answers = table.provider.supports_filters_pushdown(tuple(filters))
    except BaseException as error:  # user code may raise anything; it travels as data
        raise ProviderRaised(Failure.of(error, where=where, table=table.name)) from error
    if not isinstance(answers, Sequence) or isinstance(answers, str):
        raise PlanError(
            f"{where} returned {_kind(answers)}, expected a sequence with one FilterPushdown per filter "
            f"(table {table.name!r})"
        )
    if len(answers) != len(filters):
        raise PlanError(
            f"{where} returned {len(answers)} answers for {len(filters)} filters (table {table.name!r}); "
            f"the filters: {', '.join(map(repr, filters))}"
        )
    for expr, answer in zip(filters, answers, strict=True):
        if not isinstance(answer, FilterPushdown):
            raise PlanError(
                f"{where} answered {answer!r} for the filter {expr!r}, expected a FilterPushdown (table {table.name!r})"
            )
    return list(answers)


def plan_scan(
    table: RegisteredTable,
    filters: Sequence[Expr | None],
    answers: Sequence[str],
    columns: dict[str, Any],
    limit: int | None,
    settings: Mapping[str, bool],
) -> PlannedScan:
    """Ask the provider for a plan and check all it says. Raises PlanError, SchemaMismatchError, ProviderRaised."""
    used = (FilterPushdown.EXACT.value, FilterPushdown.INEXACT.value)
    schema = pruned_schema(table.schema, columns)
    request = ScanRequest(
        schema=schema,
        projection=tuple(schema.names),
        filters=tuple(e for e, answer in zip(filters, answers, strict=True) if e is not None and answer in used),
        limit=limit,
    )
    where = f"{table.provider_name}.scan"
    try:
        plan = table.provider.scan(request)
    except BaseException as error:  # user code may raise anything; it travels as data
        raise ProviderRaised(Failure.of(error, where=where, table=table.name)) from error
    if not isinstance(plan, ExecutionPlan):
        raise PlanError(f"{where} returned {_kind(plan)}, expected an ExecutionPlan (table {table.name!r})")
    name = f"{type(plan).__name__} (returned by {where}, table {table.name!r})"
    try:
        text = plan.describe()
        statistics = plan.statistics() or table.provider.statistics() or Statistics()
        plan_schema = getattr(plan, "schema", None)
        partitioning, ordering, placement = plan.partitioning, tuple(plan.ordering), plan.placement
    except BaseException as error:  # properties and methods of the user's plan
        raise ProviderRaised(Failure.of(error, where=name, table=table.name)) from error
    if not isinstance(placement, Placement):
        raise PlanError(f"{name} has placement {placement!r}, expected a Placement")
    if not isinstance(statistics, Statistics):
        raise PlanError(f"{name} gave statistics {statistics!r}, expected Statistics or None")
    checked_schema = _checked_schema(plan_schema, request, table, name)
    _check_partitioning(partitioning, table, name)
    return PlannedScan(
        id=uuid.uuid4().hex,
        table=table,
        request=request,
        filters=tuple(zip(filters, answers, strict=True)),
        plan=plan,
        plan_schema=checked_schema,
        plan_text=" ".join(str(text).split()),
        partitioning=partitioning,
        partitioning_unused=_unused_partitioning(partitioning, request, settings),
        ordering=_usable_ordering(ordering, table, request, name),
        statistics=_completed(statistics, request, name),
    )


def _checked_schema(schema: Any, request: ScanRequest, table: RegisteredTable, name: str) -> pa.Schema:
    if not isinstance(schema, pa.Schema):
        raise PlanError(f"{name} has schema {_kind(schema)}, expected a pyarrow.Schema")
    unpruned = pa.schema([table.schema.field(column) for column in request.projection])
    for allowed in (request.schema, table.schema, unpruned):
        if same_columns(schema, allowed):
            return schema
    raise SchemaMismatchError(
        f"{name} has a schema that is neither the request's nor the table's\n"
        f"requested:\n{indented(request.schema)}\nthe table's:\n{indented(table.schema)}\n"
        f"found:\n{indented(schema)}"
    )


def _check_partitioning(partitioning: Any, table: RegisteredTable, name: str) -> None:
    if not isinstance(partitioning, (UnknownPartitioning, KeyPartitioning, HashPartitioning)):
        raise PlanError(f"{name} has partitioning {partitioning!r}, expected a Partitioning")
    n = partitioning.n
    if not isinstance(n, int) or isinstance(n, bool) or n < 0:
        raise PlanError(f"{name} promises {n!r} partitions, expected a number that is not negative")
    if isinstance(partitioning, UnknownPartitioning):
        return
    if not partitioning.columns:
        raise PlanError(f"{name} has a partitioning without columns: {partitioning!r}")
    for column in partitioning.columns:
        if column not in table.schema.names:
            raise PlanError(
                f"{name} is partitioned by {column!r}, which is not a column of the table "
                f"({', '.join(table.schema.names)})"
            )
    if isinstance(partitioning, KeyPartitioning):
        for key in partitioning.keys:
            if len(key) != len(partitioning.columns):
                raise PlanError(
                    f"{name} has the partition key {key!r} for the columns {partitioning.columns!r}: "
                    "each key needs one value per column"
                )


def _unused_partitioning(partitioning: Partitioning, request: ScanRequest, settings: Mapping[str, bool]) -> str | None:
    """Why Spark is not told of the partitioning; None when it is.

    The settings are off by default. With each of them Spark does something that this partitioning cannot bear:
    evaluates the hash function, or compares single columns of its keys, or looks up binary keys by identity.
    """
    if isinstance(partitioning, UnknownPartitioning):
        return "the plan states none"
    if not settings.get(f"{_BUCKETING}.enabled", True):
        return f"{_BUCKETING}.enabled is off (the default of Spark 4.0)"
    hashed = isinstance(partitioning, HashPartitioning)
    several = len(partitioning.columns) > 1
    if hashed and several and settings.get(f"{_BUCKETING}.allowKeysSubsetOfPartitionKeys.enabled"):
        return f"a hash of several columns says nothing of one, and {_BUCKETING}.allowKeysSubset... is on"
    for setting in ("shuffle", "allowCompatibleTransforms"):
        if hashed and settings.get(f"{_BUCKETING}.{setting}.enabled"):
            return f"Spark cannot compute the provider's hash function, and {_BUCKETING}.{setting}.enabled is on"
    missing = [column for column in partitioning.columns if column not in request.projection]
    if missing:
        return f"the query does not read the partitioning column {missing[0]!r}"
    if settings.get(f"{_BUCKETING}.shuffle.enabled") and any(
        pa.types.is_binary(wire_type(request.schema.field(column).type, column)) for column in partitioning.columns
    ):
        return f"Spark cannot shuffle by binary keys, and {_BUCKETING}.shuffle.enabled is on"
    if partitioning.n == 0:
        return "there are no partitions"
    if hashed and not hash_keys(partitioning.n, len(partitioning.columns)):
        return f"{partitioning.n} partitions are too few to report a hash of {len(partitioning.columns)} columns"
    return None


def hash_keys(partitions: int, columns: int) -> list[list[int]]:
    """A key with a number per column for each hash partition; empty where no safe ones exist.

    Spark reads a partitioning by several columns as one value per column, and where a query drops a column it
    compares the remaining values alone. So keys that differ in one place only are needed for each place: with the
    others alone they look the same, and Spark then shuffles instead of believing rows with equal remaining
    columns to be together (which gave 17 groups for 5).
    """
    if columns == 1 or partitions == 1:
        return [[partition] * columns for partition in range(partitions)]
    if partitions <= columns:
        return []
    keys = [[0] * columns for _ in range(partitions)]
    for partition in range(1, partitions):
        place, value = (partition - 1, 1) if partition <= columns else (0, partition)
        keys[partition][place] = value
    return keys


def _usable_ordering(
    ordering: tuple[Any, ...], table: RegisteredTable, request: ScanRequest, name: str
) -> tuple[SortKey, ...]:
    """The leading sort keys that the query reads: an ordering ends where a column is missing."""
    usable: list[SortKey] = []
    for key in ordering:
        if not isinstance(key, SortKey):
            raise PlanError(f"{name} has the ordering {ordering!r}, expected SortKeys")
        if key.column not in table.schema.names:
            raise PlanError(f"{name} is ordered by {key.column!r}, which is not a column of the table")
    for key in ordering:
        if key.column not in request.projection:
            break
        usable.append(key)
    return tuple(usable)


def _completed(statistics: Statistics, request: ScanRequest, name: str) -> Statistics:
    """Rows capped by the limit; a size from the rows where only those are known."""
    rows, size = (_estimate(value, name) for value in (statistics.num_rows, statistics.size_in_bytes))
    if rows is not None and request.limit is not None:
        rows = min(rows, request.limit)
    if rows is not None and size is None:
        size = rows * (8 + sum(_width(field.type) for field in request.schema))
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


def _width(type_: pa.DataType) -> int:
    width = value_bytes(type_)
    return 20 if width is None else max(1, int(width))  # 20 is what Spark assumes for a string


def partitioning_text(partitioning: Partitioning) -> str:
    if isinstance(partitioning, KeyPartitioning):
        return f"KEY({', '.join(partitioning.columns)}; {partitioning.n} keys)"
    if isinstance(partitioning, HashPartitioning):
        return f"HASH({', '.join(partitioning.columns)}; {partitioning.n} by {partitioning.function})"
    return f"UNKNOWN({partitioning.n})"


def sort_key_text(key: SortKey) -> str:
    return f"{key.column} {'DESC' if key.descending else 'ASC'} NULLS {'FIRST' if key.nulls_first else 'LAST'}"


def _kind(value: Any) -> str:
    return "None" if value is None else f"{type(value).__name__} {json.dumps(str(value)[:80])}"
