"""Batches whose buffers contradict each other, found before anything reads them; driver and executor Python.

Arrow believes its buffers. An offset that points outside of them makes whoever reads the value read other memory, or
crash. Slicing, concatenating and writing IPC look at a column's first and last offset alone, and so does
``RecordBatch.validate``, in less than a microsecond: that is done to every batch. Where offsets lie inside of lists,
maps or structs, a slice has its ends anywhere in them: all are looked at. Else that is for whoever reads the values:
the JVM for everything that goes to Spark, and Python for the columns that it converts or filters itself.
"""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa

_DAMAGE = (pa.ArrowInvalid, pa.ArrowIndexError)
_BYTES = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary(), pa.string_view(): pa.binary_view()}


class DamageCheck:
    """Checks batches of one schema. ``read``: the columns whose values are read in this process. Thread-safe.

    Of one batch some of them may not be read: ``unread``.
    """

    def __init__(self, schema: pa.Schema, read: Collection[str] = ()) -> None:
        self._needed = not all(_is_flat(field.type) for field in schema)
        self._in_full = [
            (index, _without_text(field.type))
            for index, field in enumerate(schema)
            if (field.name in read and not _is_flat(field.type)) or _is_deep(field.type)
        ]

    def damage(self, batch: pa.RecordBatch, unread: Collection[str] = ()) -> str | None:
        """What is wrong with ``batch``, naming the column; None where nothing is."""
        if not self._needed:
            return None
        try:
            batch.validate()
        except _DAMAGE as error:
            return _named(batch, error)
        for index, kind in self._in_full:
            if unread and batch.schema.names[index] in unread:
                continue
            try:
                batch.column(index).view(kind).validate(full=True)
            except _DAMAGE as error:
                return f"column {batch.schema.field(index).name!r}: {error}"
        return None


def _named(batch: pa.RecordBatch, error: BaseException) -> str:
    for field, column in zip(batch.schema, batch.columns, strict=True):
        try:
            column.validate()
        except _DAMAGE as found:
            return f"column {field.name!r}: {found}"
    return str(error)


def _is_flat(kind: pa.DataType) -> bool:
    """Whether value i stands at i times a width, so that there is nothing that could point elsewhere."""
    return bool(pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind))


def _is_deep(kind: pa.DataType) -> bool:
    """Whether anything nested in ``kind`` points elsewhere."""
    return any(not _is_flat(kind.field(i).type) for i in range(kind.num_fields))


def _without_text(kind: pa.DataType) -> pa.DataType:
    """``kind`` with bytes in place of text: Arrow would look at every character, which costs twenty times as much."""
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return _without_text(kind.storage_type)
    if kind in _BYTES:
        return _BYTES[kind]
    if types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, _without_text(kind.value_type), kind.ordered)
    if types.is_run_end_encoded(kind):
        return pa.run_end_encoded(kind.run_end_type, _without_text(kind.value_type))
    if types.is_struct(kind):
        return pa.struct([_field(kind.field(i)) for i in range(kind.num_fields)])
    if types.is_map(kind):
        return pa.list_(pa.struct([_field(kind.key_field), _field(kind.item_field)]))
    if types.is_fixed_size_list(kind):
        return pa.list_(_field(kind.value_field), kind.list_size)
    for is_list, make in _LISTS:
        if is_list(kind):
            return make(_field(kind.value_field))
    return kind


_LISTS = [
    (pa.types.is_list, pa.list_),
    (pa.types.is_large_list, pa.large_list),
    (pa.types.is_list_view, pa.list_view),
    (pa.types.is_large_list_view, pa.large_list_view),
]


def _field(field: pa.Field) -> pa.Field:
    return field.with_type(_without_text(field.type)).with_nullable(True)  # nulls are no damage
