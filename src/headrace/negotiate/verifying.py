"""The promises that Spark relies on in a scan, and the columns that ``verify`` needs to check them; driver Python."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import pyarrow as pa

from headrace.arrow.types import wire_schema
from headrace.errors import EvaluationError
from headrace.expr.nodes import Expr
from headrace.negotiate.keys import key_batch
from headrace.negotiate.registry import RegisteredTable
from headrace.plan import HashPartitioning, KeyPartitioning, Partitioning, Placement, ScanRequest, SortKey
from headrace.promises.checks import Promises
from headrace.promises.ordering import can_be_ordered

HASH_UNVERIFIED = "verify is on, and a hash partitioning cannot be verified across Spark's Python workers"


def with_verified_columns(table: RegisteredTable, request: ScanRequest, exact: Iterable[Expr]) -> ScanRequest:
    """``request``, with the columns that the EXACT filters and a top-n are about, if the query does not read them."""
    if table.verify is None or request.aggregation is not None:
        return request
    needed = {name for expr in exact for name in expr.columns()} | {key.column for key in request.order}
    fields = [table.schema.field(field.name) if field.name in needed else field for field in request.schema]
    fields += [field for field in table.schema if field.name in needed and field.name not in request.schema.names]
    schema = pa.schema(fields)
    return dataclasses.replace(request, schema=schema, projection=tuple(schema.names))


def promises_of(
    table: RegisteredTable,
    request: ScanRequest,
    exact: Iterable[Expr],
    partitioning: Partitioning,
    ordering: tuple[SortKey, ...],
    *,
    exact_top_n: bool,
) -> Promises | None:
    """The promises that are to be verified and that the columns of ``request`` can show; None where there are none.

    ``partitioning`` and ``ordering`` are those that Spark is told of. Raises PlanError as ``key_batch`` does.
    """
    if table.verify is None or request.aggregation is not None:
        return None
    wire = wire_schema(request.schema)
    read = set(wire.names)
    filters = tuple(expr for expr in exact if expr.columns() <= read and _can_be_evaluated(expr, wire))
    order = request.order if exact_top_n else ordering
    for position, key in enumerate(order):
        if key.column not in read or not can_be_ordered(wire.field(key.column).type):
            order = order[:position]
            break
    stated = partitioning.columns if isinstance(partitioning, (KeyPartitioning, HashPartitioning)) else ()
    stated = stated if partitioning.n and read.issuperset(stated) else ()
    keys = key_batch(table, partitioning) if stated and isinstance(partitioning, KeyPartitioning) else None
    if not (filters or order or stated):
        return None
    named = {name for expr in filters for name in expr.columns()} | {key.column for key in order} | set(stated)
    return Promises(
        provider=table.provider_name,
        every_row=table.verify == "all",
        schema=pa.schema([field for field in request.schema if field.name in named]),
        filters=filters,
        ordering=order,
        top_n=exact_top_n,
        keys=keys,
        hash_columns=stated if keys is None else (),
    )


def hash_unverified(table: RegisteredTable, partitioning: Partitioning, placement: Placement) -> str | None:
    """Why Spark is not told of a partitioning that would have to be verified and cannot be."""
    hashed = isinstance(partitioning, HashPartitioning) and partitioning.n > 1
    return HASH_UNVERIFIED if table.verify is not None and hashed and placement is Placement.EXECUTORS else None


def _can_be_evaluated(expr: Expr, wire: pa.Schema) -> bool:
    try:
        expr.evaluate(pa.RecordBatch.from_pylist([], wire))
    except (NotImplementedError, EvaluationError, KeyError, TypeError):
        return False
    return True
