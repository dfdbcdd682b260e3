"""How small batches wait in a channel that holds many: packed, in one piece of memory; driver Python.

A RecordBatch of a hundred rows is some forty objects. One thread makes them and another takes them apart, and when the
two run on two cores, fetching each object from the other core's cache costs more than the rows do. Written behind one
another into an Arrow IPC stream they are no objects at all, and become one batch in a few calls that do not hold the
interpreter's lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import pyarrow as pa

from headrace.arrow.sizes import BATCH_ROWS, PACKED_BYTES, PACKED_ROWS, PUSHED_BYTES
from headrace.arrow.types import with_nested

MANY_BATCHES = 128  # a channel that holds fewer is emptied a few at a time, and then a pack costs more than it saves

_REFERRING = [
    pa.types.is_dictionary,
    pa.types.is_string_view,
    pa.types.is_binary_view,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
]

Packed: TypeAlias = "pa.RecordBatch | pa.Buffer"
"""A batch, or several as an IPC stream."""


class Packing:
    """How batches of ``schema`` are packed for a channel that holds ``capacity`` of them. Thread-safe.

    ``many``: the channel holds enough batches that merging the small ones pays.
    """

    def __init__(self, schema: pa.Schema, capacity: int) -> None:
        self.many = capacity >= MANY_BATCHES
        self._most_rows = PACKED_ROWS if self.many and _can_be_packed(schema) else 0
        self.schema = schema

    def small_size(self, batch: pa.RecordBatch) -> int:
        """How many bytes the batch has, if it is small enough to be packed; 0 if it is not."""
        if not 0 < batch.num_rows <= self._most_rows:
            return 0
        size: int = batch.get_total_buffer_size()
        if size > PACKED_BYTES:  # that of the parent, if it is a slice; what it shows costs more to find out
            size = pa.ipc.get_record_batch_size(batch)
        return size if size <= PACKED_BYTES else 0

    def new_pack(self) -> Pack:
        return Pack(self.schema)

    def merged(self, items: Sequence[Packed]) -> list[pa.RecordBatch]:
        """All rows in order: as one batch, or as several where they do not fit into one."""
        batches: list[pa.RecordBatch] = []
        for item in items:
            batches.extend(_unpacked(item) if isinstance(item, pa.Buffer) else [item])
        if len(batches) == 1:
            return batches
        try:
            return [pa.concat_batches(batches)]
        except pa.ArrowInvalid:  # dictionaries that have more values together than their index type can count
            return batches


class Pack:
    """Batches of one schema, behind one another. One thread at a time."""

    def __init__(self, schema: pa.Schema) -> None:
        self.batches = self.rows = self.size = 0
        self.full = False
        self._stream = pa.BufferOutputStream()
        self._write = pa.ipc.new_stream(self._stream, schema).write_batch

    def add(self, batch: pa.RecordBatch, rows: int, size: int) -> None:
        """Copies what the batch shows and no more: its parent need not stay. Its schema must be the pack's."""
        self._write(batch)
        self.batches += 1
        self.rows += rows
        self.size += size
        self.full = self.rows >= BATCH_ROWS or self.size >= PUSHED_BYTES

    def sealed(self) -> pa.Buffer:
        """Everything, as an IPC stream. Nothing can be added after that."""
        return self._stream.getvalue()


def _unpacked(pack: pa.Buffer) -> list[pa.RecordBatch]:
    return list(pa.ipc.open_stream(pack).read_all().combine_chunks().to_batches())


def _can_be_packed(schema: pa.Schema) -> bool:
    """Not if a stream would hold more than what a batch shows of its parent, or bring back another type."""
    if not len(schema) or any(refers_to_a_whole(field.type) for field in schema):
        return False
    return bool(pa.ipc.read_schema(schema.serialize()).equals(schema, check_metadata=True))  # extension types may not


def refers_to_a_whole(kind: pa.DataType) -> bool:
    """Whether a slice, or a concatenation, keeps a dictionary or the data behind views as they are."""
    return any(refers(each) for each in with_nested(kind) for refers in _REFERRING)
