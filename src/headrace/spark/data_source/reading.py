"""What batch and stream readers of a provider share: its columns, and its batches as Spark takes them."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.types import StructType

from headrace.arrow.batches import halves, indented, same_columns
from headrace.arrow.conversion import to_wire
from headrace.errors import SchemaMismatchError
from headrace.execute.partition_stream import PartitionStream, ScanTask
from headrace.execute.stopping import StopFlag
from headrace.negotiate.registry import RegisteredTable
from headrace.spark.versions import arrow_schema
from headrace.transport.protocol import SPLIT_BYTES


def task_batches(task: ScanTask, partition: int, struct: StructType) -> Iterator[pa.RecordBatch]:
    """The batches of one partition in the types that Spark's worker compares with; runs in that worker."""
    schema = arrow_schema(struct)
    stream = PartitionStream(task, partition, StopFlag())
    try:
        for batch in stream:
            yield from _pieces(_relabelled(batch, schema))
    finally:
        stream.close()


def selected_columns(table: RegisteredTable, struct: StructType) -> pa.Schema:
    """The table's own columns by the names of ``struct``. Raises SchemaMismatchError where they differ otherwise."""
    wanted = arrow_schema(struct).remove_metadata()
    missing = [name for name in wanted.names if name not in table.wire_schema.names]
    found = pa.schema([field for name in wanted.names for field in table.wire_schema if field.name == name])
    nullable = [
        field.name for field in wanted if not missing and found.field(field.name).nullable and not field.nullable
    ]
    if missing or nullable or not same_columns(wanted, found):
        raise SchemaMismatchError(
            f"the schema that was given for {table.name!r} is not a selection of the table's columns: names, types and "
            f"NOT NULL must be the table's\ngiven:\n{indented(wanted)}\nthe table's:\n{indented(table.wire_schema)}"
        )
    return pa.schema([table.schema.field(name) for name in wanted.names])


def _relabelled(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same columns in just the types that Spark's worker compares with; names inside of lists and maps differ."""
    if not len(schema):
        return batch
    columns = [to_wire(column, field.type, field.name) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """No more at once than Spark should have to keep in memory."""
    if batch.num_rows <= 1 or batch.nbytes <= SPLIT_BYTES:
        yield batch
        return
    for half in halves(batch):
        yield from _pieces(half)
