"""Rows on their way through the stage, whose columns are made when they are needed; where ``execute`` runs."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from headrace.arrow.batches import batch_without_columns
from headrace.arrow.conversion import to_wire
from headrace.arrow.types import is_encoded, is_filterable, is_view, wire_type
from headrace.expr.evaluation import Evaluation, Rows
from headrace.expr.nodes import Column, Expr

_VIEW = pa.binary(16)  # a view of text or bytes, whatever it points at


class StageRows:
    """Some rows of one batch of the plan's. Columns are picked and converted when they are asked for.

    ``picked`` says which: a mask of all rows, or the places of some; None for all of them. One thread.
    """

    def __init__(self, batch: pa.RecordBatch, picked: pa.Array | None = None) -> None:
        self.count = batch.num_rows if picked is None else _count(picked)
        self._batch = batch
        self._picked = picked
        self._wire: dict[str, pa.Array] = {}

    def where(self, mask: pa.BooleanArray) -> StageRows:
        """The rows for which ``mask``, which has one value for each, is true; it has no nulls."""
        if mask.true_count == self.count:
            return self
        if self._picked is None:
            return StageRows(self._batch, mask)
        return self.at(pc.indices_nonzero(mask))

    def at(self, places: pa.Array) -> StageRows:
        """The rows at these places."""
        picked = self._picked
        if picked is not None:
            found = pc.indices_nonzero(picked) if pa.types.is_boolean(picked.type) else picked
            places = found.take(places)
        return StageRows(self._batch, places)

    def column(self, name: str) -> pa.Array:
        """As the plan has it: a dictionary stays one, and views too."""
        array = self._batch.column(name)
        return array if self._picked is None else taken(array, self._picked)

    def wire_column(self, name: str) -> pa.Array:
        """In its wire type. Raises SchemaMismatchError as ``to_wire``."""
        if name not in self._wire:
            array = self.column(name)
            self._wire[name] = to_wire(array, wire_type(array.type, name), name)
        return self._wire[name]

    def nulls_of(self, name: str) -> pa.Array:
        """Null where the column is, and true elsewhere. What is not null is not read, but for runs and the like."""
        array = self.column(name)
        if pa.types.is_dictionary(array.type) and not array.dictionary.null_count:
            array = array.indices
        elif is_encoded(array.type):
            array = self.wire_column(name)
        yes = pa.scalar(True)
        return (
            pc.if_else(array.is_valid(), yes, pa.scalar(None, yes.type))
            if array.null_count
            else pa.repeat(yes, len(array))
        )

    def value(self, expr: Expr, evaluation: Evaluation) -> pa.Array:
        """``expr`` for each row, in its wire type. Raises as ``wire_column``."""
        columns = evaluation.columns(expr)
        if len(columns) == 1 and self._picked is None and not isinstance(expr, Column):
            (column,) = columns
            array = self._batch.column(column.name)
            if pa.types.is_dictionary(array.type) and len(array.dictionary) <= len(array):
                return _of_dictionary(expr, column, array, evaluation)
        values = {column: self.wire_column(column.name) for column in columns}
        return evaluation.value(expr, Rows(values, self.count))

    def batch(self, schema: pa.Schema) -> pa.RecordBatch:
        """The columns of ``schema``, of which each has the plan's type or its ``kept_type``."""
        if self._picked is None and self._batch.schema.equals(schema):
            return self._batch
        if not len(schema):
            return batch_without_columns(self.count)
        arrays = [to_wire(self.column(field.name), field.type, field.name) for field in schema]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def kept_type(type_: pa.DataType) -> pa.DataType:
    """The type that values have when some of them were picked: the same, but for the few that pyarrow cannot pick."""
    storage = type_.storage_type if isinstance(type_, pa.BaseExtensionType) else type_
    if pa.types.is_dictionary(storage) or is_view(storage) or is_filterable(storage):
        return type_
    return wire_type(type_, "")


def taken(array: pa.Array, picked: pa.Array) -> pa.Array:
    """The values that ``picked`` names. Neither what a dictionary holds nor what views point at is touched."""
    type_ = array.type
    if isinstance(type_, pa.BaseExtensionType):
        storage = taken(array.storage, picked)
        return pa.ExtensionArray.from_storage(type_, storage) if storage.type == type_.storage_type else storage
    if pa.types.is_dictionary(type_):
        indices = _picked_of(array.indices, picked)
        return pa.DictionaryArray.from_arrays(indices, array.dictionary, ordered=type_.ordered, safe=False)
    if is_view(type_):
        valid, views, *data = array.buffers()
        words = _picked_of(pa.Array.from_buffers(_VIEW, len(array), [valid, views], offset=array.offset), picked)
        return pa.Array.from_buffers(type_, len(words), [*words.buffers(), *data])
    if not is_filterable(type_):
        array = to_wire(array, wire_type(type_, ""), "")
    return _picked_of(array, picked)


def _picked_of(array: pa.Array, picked: pa.Array) -> pa.Array:
    return array.filter(picked) if pa.types.is_boolean(picked.type) else array.take(picked)


def _count(picked: pa.Array) -> int:
    return int(picked.true_count if pa.types.is_boolean(picked.type) else len(picked))


def _of_dictionary(expr: Expr, column: Column, array: pa.Array, evaluation: Evaluation) -> pa.Array:
    """``expr`` is computed for each value of the dictionary and for null, and each row looks its result up."""
    values = array.dictionary
    wire = to_wire(values, wire_type(values.type, column.name), column.name)
    with_null = pa.concat_arrays([wire, pa.nulls(1, wire.type)])
    results = evaluation.value(expr, Rows({column: with_null}, len(with_null)))
    indices = array.indices
    if indices.null_count:
        indices = pc.fill_null(indices.cast(pa.int64()), len(values))
    return results.take(indices)
