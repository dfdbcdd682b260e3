"""Nulls where a schema declares none, found before Spark would read garbage there; driver and executor Python."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute

from headrace.arrow.conversion import to_wire
from headrace.arrow.types import children, is_encoded, wire_type


class NullCheck:
    """Finds nulls in batches of ``schema`` where it declares none. False where it allows nulls everywhere."""

    def __init__(self, schema: pa.Schema) -> None:
        checked = [(index, field) for index, field in enumerate(schema) if _forbids_nulls(field)]
        self._deep = [(index, field) for index, field in checked if children(field.type) or is_encoded(field.type)]
        self.reads = frozenset(field.name for _, field in self._deep)
        """The columns whose values it reads: all that their buffers point at must be there."""
        self._flat = [(index, field.name) for index, field in checked if (index, field) not in self._deep]

    def __bool__(self) -> bool:
        return bool(self._flat or self._deep)

    def path(self, batch: pa.RecordBatch) -> str | None:
        """The path of a null that is declared not to be there; None where there is none.

        What lies under a null parent, or outside a slice, does not count; a null in a dictionary's values or in a run
        does.
        """
        for index, name in self._flat:
            if batch.column(index).null_count:
                return str(name)
        for index, field in self._deep:
            path = _forbidden_null(batch.column(index), field, field.name)
            if path is not None:
                return path
        return None


def _forbids_nulls(field: pa.Field) -> bool:
    """Whether ``field`` or anything nested in it is declared not null."""
    return not field.nullable or any(_forbids_nulls(child) for _, child in children(field.type))


def _forbidden_null(array: pa.Array, field: pa.Field, path: str) -> str | None:
    nested = any(_forbids_nulls(child) for _, child in children(field.type))
    if nested or is_encoded(array.type):
        array = to_wire(array, wire_type(array.type, path), path)
    if not field.nullable and array.null_count:
        return path
    if not nested:
        return None
    if array.null_count:
        array = array.drop_null()
    if pa.types.is_struct(array.type):
        arrays = [array.field(index) for index in range(array.type.num_fields)]
    else:
        start, end = (array.offsets[0].as_py(), array.offsets[-1].as_py()) if len(array) else (0, 0)
        values = [array.keys, array.items] if pa.types.is_map(array.type) else [array.values]
        arrays = [value.slice(start, end - start) for value in values]
    for child, (name, child_field) in zip(arrays, children(field.type), strict=True):
        found = _forbidden_null(child, child_field, f"{path}.{name}")
        if found is not None:
            return found
    return None
