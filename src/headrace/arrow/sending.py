"""Columns that cross to Spark as they are, dictionaries and views of text or bytes; driver and executor Python.

Where that is cheaper than their wire type, in batches that are large enough to be sent alone. Everything else about
them, each index and each view, is checked by the JVM.
"""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from headrace.arrow.conversion import to_wire
from headrace.arrow.damage import DamageCheck
from headrace.arrow.sizes import LARGE_ROWS
from headrace.arrow.types import is_view

_MAX_SHARED_BYTES = 16 << 20  # of a dictionary, or of the data behind views
_ROWS_PER_NEW_VALUE = 8  # a dictionary that is used once is worth its way if its values come so often
_KNOWN_VALUES_PER_ROW = 4  # one that comes again with every batch may be larger
_MAX_VALUES = 256 * 1024  # each is an object in the JVM, of some fifty bytes
_DATA_BYTES_PER_ROW = 64  # views may drag along no more; what a slice was cut from, for instance
_TEXT_OR_BYTES = (pa.string(), pa.binary())


class _Column(Protocol):
    def as_it_is(self, array: pa.Array) -> pa.Array | None:
        """What to send of one batch's column; None where its wire type is better."""


class ColumnsAsTheyAre:
    """Which columns of one stream's batches need no conversion. ``wire`` has the names and types of what is needed.

    One thread: it remembers the dictionaries it has seen.
    """

    def __init__(self, plan: pa.Schema, wire: pa.Schema) -> None:
        self._columns: dict[str, _Column] = {}
        for field in wire:
            own = plan.field(field.name).type
            if field.type not in _TEXT_OR_BYTES:
                continue
            if pa.types.is_dictionary(own):
                self._columns[field.name] = _DictionaryColumn(field)
            elif is_view(own):
                self._columns[field.name] = _ViewColumn()

    def of(self, batch: pa.RecordBatch) -> dict[str, pa.Array]:
        """The columns to be sent as they are, by their names; none that is seen to be broken."""
        if not self._columns or batch.num_rows < LARGE_ROWS:
            return {}
        sent = {}
        for name, column in self._columns.items():
            array = batch.column(name)
            if _is_sound(array) and (kept := column.as_it_is(array)) is not None:
                sent[name] = kept
        return sent


class _DictionaryColumn:
    """The dictionary is looked at once; it may be read here, to compare it with the next one."""

    def __init__(self, wire: pa.Field) -> None:
        self._wire = wire
        self._seen: pa.Array | None = None
        self._values: pa.Array | None = None  # what is sent of it; None where it cannot be

    def as_it_is(self, array: pa.Array) -> pa.Array | None:
        values = array.dictionary
        known = self._seen is not None and is_same_memory(values, self._seen)
        if not known:
            self._seen, self._values = values, self._checked(values)
        most = len(array) * _KNOWN_VALUES_PER_ROW if known else len(array) // _ROWS_PER_NEW_VALUE
        if self._values is None or len(values) > most:
            return None
        indices = array.indices
        if indices.type.bit_width > 32:
            try:
                indices = indices.cast(pa.int32())
            except pa.ArrowInvalid:
                return None  # an index that is out of range
        elif self._values is values:
            return array
        return pa.DictionaryArray.from_arrays(indices, self._values, safe=False)

    def _checked(self, values: pa.Array) -> pa.Array | None:
        name = self._wire.name
        batch = pa.RecordBatch.from_arrays([values], [name])
        if DamageCheck(batch.schema, read=[name]).damage(batch) is not None:
            return None  # what converts the column says so
        if len(values) > _MAX_VALUES or values.nbytes > _MAX_SHARED_BYTES:
            return None
        if values.null_count and not self._wire.nullable:
            return None  # in the converted column a null is found
        return to_wire(values, self._wire.type, name)


class _ViewColumn:
    """Sends the views, and all of the data behind them: no matter to which of it they point."""

    def as_it_is(self, array: pa.Array) -> pa.Array | None:
        return array if is_light(array, len(array)) else None


def is_light(views: pa.Array, rows: int) -> bool:
    """Whether ``rows`` of an array of views can be sent with all the data behind them."""
    data = sum(buffer.size for buffer in views.buffers()[2:] if buffer is not None)
    return bool(data <= min(_MAX_SHARED_BYTES, _DATA_BYTES_PER_ROW * rows))


def _is_sound(array: pa.Array) -> bool:
    try:
        array.validate()  # sizes and ends, in no time
    except pa.ArrowInvalid:
        return False
    return True


def is_same_memory(one: pa.Array, other: pa.Array) -> bool:
    """Whether both are the same values in the same place: a dictionary that came with one batch, and with the next."""
    return bool(one.offset == other.offset and len(one) == len(other) and _addresses(one) == _addresses(other))


def _addresses(array: pa.Array) -> list[int]:
    return [0 if buffer is None else buffer.address for buffer in array.buffers()]
