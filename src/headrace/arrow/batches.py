"""Batches and schemas as they are compared, merged and shown; driver and executor Python."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute

from headrace.arrow.damage import DamageCheck
from headrace.errors import SchemaMismatchError


def batch_without_columns(rows: int, metadata: dict[bytes, bytes] | None = None) -> pa.RecordBatch:
    """``rows`` rows and nothing in them: what ``count(*)`` reads. ``from_arrays([])`` would have none."""
    batch = pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), rows, [None]))
    return batch.replace_schema_metadata(metadata)


def same_columns(schema: pa.Schema, other: pa.Schema) -> bool:
    """Whether both have the same names and types in the same order; nullability and metadata may differ."""
    return bool(schema.names == other.names and schema.types == other.types)


def indented(schema: Iterable[pa.Field]) -> str:
    """A schema for error messages, a field a line."""
    lines = [f"  {field.name}: {field.type}{'' if field.nullable else ' not null'}" for field in schema]
    return "\n".join(lines) or "  (no columns)"


def compacted(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A copy that holds its own rows alone: a slice still counts, and drags along, all of what it was cut from."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return pa.ipc.open_stream(sink.getvalue()).read_next_batch()


def halves(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """The batch cut in the middle. Raises SchemaMismatchError for a broken one: the cut would become an end."""
    damage = DamageCheck(batch.schema, read=batch.schema.names).damage(batch)
    if damage is not None:
        raise SchemaMismatchError(f"a broken batch: {damage}")
    half = batch.num_rows // 2
    return batch.slice(0, half), batch.slice(half)


def merged(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """One batch with the rows of all, in order; batches without columns keep their row count."""
    if len(batches) == 1:
        return batches[0]
    if batches[0].num_columns == 0:
        return batch_without_columns(sum(batch.num_rows for batch in batches))
    return pa.concat_batches(batches)
