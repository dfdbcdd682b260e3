"""Partition keys as Arrow arrays, in the values that Spark compares; driver Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute

from headrace.arrow.conversion import to_wire
from headrace.errors import PlanError, SchemaMismatchError
from headrace.negotiate.partitioning import hash_keys
from headrace.negotiate.registry import RegisteredTable
from headrace.plan import HashPartitioning, KeyPartitioning


def key_batch(table: RegisteredTable, partitioning: KeyPartitioning | HashPartitioning) -> pa.RecordBatch:
    """A row for each partition: the values of its columns, or the numbers that stand for a hash's.

    Raises PlanError for a value that is not of its column's type.
    """
    if isinstance(partitioning, HashPartitioning):
        numbers = zip(*hash_keys(partitioning.n, len(partitioning.columns)), strict=True)
        arrays = [pa.array(column, pa.int32()) for column in numbers]
    else:
        values = zip(*partitioning.keys, strict=True)
        arrays = [key_array(table, column, each) for column, each in zip(partitioning.columns, values, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=list(partitioning.columns))


def key_array(table: RegisteredTable, column: str, values: Sequence[Any]) -> pa.Array:
    """Values of one key column in its wire type. Raises PlanError where one is not of the column's type."""
    type_, wire = table.schema.field(column).type, table.wire_schema.field(column).type
    if pa.types.is_nested(wire):
        raise PlanError(f"column {column!r} has the type {type_}, by which Spark cannot partition")
    plain = _plain(type_)
    arrays = []
    for value in values:
        try:
            arrays.append(to_wire(pa.array([value], wire if pa.types.is_float16(plain) else plain), wire, column))
        except (pa.ArrowException, SchemaMismatchError, TypeError, ValueError, OverflowError) as error:
            raise PlanError(f"the partition key {value!r} is not a {plain}, the type of column {column!r}") from error
    array = pa.concat_arrays(arrays)
    # Spark holds -0.0 for equal to 0.0.
    return pa.compute.add(array, pa.scalar(0.0, wire)) if pa.types.is_floating(wire) else array


def _plain(type_: pa.DataType) -> pa.DataType:
    """What is behind an encoding or an extension."""
    if pa.types.is_dictionary(type_) or pa.types.is_run_end_encoded(type_):
        return _plain(type_.value_type)
    return _plain(type_.storage_type) if isinstance(type_, pa.BaseExtensionType) else type_
