"""Lossless casts of arrays to their wire types; driver and executor Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute

from headrace.arrow.types import is_list, is_variant, wire_type
from headrace.errors import SchemaMismatchError, UnsupportedTypeError

_MAX_OFFSET = 2**31 - 1  # of strings, binary and lists in their wire types


def to_wire(array: pa.Array, target: pa.DataType, column: str) -> pa.Array:
    """``array`` as its wire type ``target``.

    Raises SchemaMismatchError, naming ``column``, if a value would change, or if all of them together are too large.
    """
    if array.type == target:
        return array
    try:
        return _converted(array, target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError) as error:
        raise SchemaMismatchError(
            f"column {column!r}: a value of type {array.type} does not fit the Spark type it was registered as "
            f"({target}): {error}"
        ) from error


def table_in_types(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table's rows with the types of ``schema``, which has the same columns. Raises as ``to_wire`` does."""
    if table.schema.types == schema.types:
        return table
    columns = [
        pa.chunked_array([to_wire(chunk, field.type, field.name) for chunk in table[field.name].chunks], field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def converter(source: pa.DataType, target: pa.DataType, column: str) -> Callable[[pa.Array], pa.Array] | None:
    """A function from arrays of ``source`` to ``target``, pruning nested fields; None where nothing changes."""
    if source == target:
        return None
    return lambda array: to_wire(array, target, column)


def batch_converter(source: pa.Schema, target: pa.Schema) -> Callable[[pa.RecordBatch], pa.RecordBatch] | None:
    """A function from batches of ``source`` to batches of ``target``; None where columns or types do not fit.

    Both have the same names, in any order. Each pair of types is one to Spark (``string`` and ``large_string``, a view,
    a dictionary of strings; timestamps of any unit), or both are numbers, or one has nulls alone. The function raises
    SchemaMismatchError, naming the column and a value, if a value would change.
    """
    if sorted(source.names) != sorted(target.names) or len(set(source.names)) < len(source.names):
        return None
    try:
        wires = [wire_type(field.type, field.name) for field in target]
        found = [wire_type(source.field(field.name).type, field.name) for field in target]
    except UnsupportedTypeError:
        return None
    if not all(map(_may_fit, found, wires)):
        return None
    order = [source.get_field_index(field.name) for field in target]

    def convert(batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [
            column if column.type == field.type else _encoded(to_wire(column, wire, field.name), field)
            for column, wire, field in zip((batch.column(i) for i in order), wires, target, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=target)

    return convert


def _may_fit(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether values of a wire type may be values of another one."""
    kind = pa.types
    if source == target or kind.is_null(source) or (_is_number(source) and _is_number(target)):
        return True
    if kind.is_struct(source) and kind.is_struct(target) and not is_variant(target):
        names = [source.field(i).name for i in range(source.num_fields)]
        fields = [target.field(i) for i in range(target.num_fields)]
        same = sorted(names) == sorted(field.name for field in fields)
        return same and all(_may_fit(source.field(field.name).type, field.type) for field in fields)
    if kind.is_map(source) and kind.is_map(target):
        return _may_fit(source.key_type, target.key_type) and _may_fit(source.item_type, target.item_type)
    return bool(kind.is_list(source) and kind.is_list(target) and _may_fit(source.value_type, target.value_type))


def _is_number(type_: pa.DataType) -> bool:
    kind = pa.types
    return bool(kind.is_integer(type_) or kind.is_floating(type_) or kind.is_decimal(type_))


def _encoded(array: pa.Array, field: pa.Field) -> pa.Array:
    """An array of a wire type in the type of ``field``, which has that wire type."""
    try:
        return _in_type(array, field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SchemaMismatchError(
            f"column {field.name!r}: values of type {array.type} cannot be turned into {field.type}: {error}"
        ) from error


def _in_type(array: pa.Array, target: pa.DataType) -> pa.Array:
    """An array of a wire type in a type that has it.

    pyarrow casts only what is not nested: of lists to lists of a fixed size it makes wrong offsets inside, and it
    crashes where a list without values came in a message (seen in pyarrow 26).
    """
    if array.type == target:
        return array
    if isinstance(target, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(target, _in_type(array, target.storage_type))
    nested = _rebuilt(array, target, _in_type)
    return array.cast(target) if nested is None else nested


def _converted(array: pa.Array, target: pa.DataType) -> pa.Array:
    source = array.type
    if source == target:
        return array
    kind = pa.types
    if isinstance(source, pa.BaseExtensionType):
        return _converted(array.storage, target)
    if kind.is_dictionary(source) and kind.is_dictionary(target):  # the values alone
        values = _converted(array.dictionary, target.value_type)
        return pa.DictionaryArray.from_arrays(array.indices, values, ordered=target.ordered, safe=False)
    if kind.is_dictionary(source):
        # The values first: each once, and pyarrow cannot decode string views (polars' categoricals).
        values = _converted(array.dictionary, target)
        return pa.DictionaryArray.from_arrays(array.indices, values).dictionary_decode()
    if kind.is_run_end_encoded(source):
        values = _converted(array.values, target)  # first, for the same reasons
        runs = pa.RunEndEncodedArray.from_arrays(array.run_ends, values)
        return _in_range(pa.compute.run_end_decode(runs.slice(array.offset, len(array))))
    nested = _rebuilt(array, target, _converted)
    if nested is not None:
        return nested
    if kind.is_timestamp(source) and source.tz is not None and source.unit == "us":
        return array.view(target)
    return _cast_number(array, target) if _is_number(source) else _in_range(array.cast(target))


def _rebuilt(
    array: pa.Array, target: pa.DataType, part: Callable[[pa.Array, pa.DataType], pa.Array]
) -> pa.Array | None:
    """A struct, a map or a list in the type ``target``, its children by ``part``; None for other types."""
    source = array.type
    kind = pa.types
    if kind.is_struct(source) and kind.is_struct(target):
        wanted = [target.field(i) for i in range(target.num_fields)]
        children = [part(_child(array, field), field.type) for field in wanted]
        return (
            pa.StructArray.from_arrays(children, fields=wanted, mask=array.is_null())
            if wanted
            else (array.cast(target))
        )
    if kind.is_map(source) and kind.is_map(target):
        keys = part(array.keys, target.key_type)
        items = part(array.items, target.item_type)
        offsets, mask = _parts(array)
        return pa.MapArray.from_arrays(offsets, keys, items, type=target, mask=mask)
    if not (is_list(source) and is_list(target)):
        return None
    if kind.is_fixed_size_list(target):
        return _of_fixed_size(array, target, part)
    if kind.is_list_view(source) or kind.is_large_list_view(source):
        values, offsets, mask = _of_view(array)
    else:
        array = array if kind.is_list(source) else array.cast(pa.list_(source.value_field))
        values, (offsets, mask) = array.values, _parts(array)
    values = part(values, target.value_type)
    if kind.is_list(target):
        return pa.ListArray.from_arrays(offsets, values, type=target, mask=mask)
    if kind.is_large_list(target):
        return pa.LargeListArray.from_arrays(offsets.cast(pa.int64()), values, type=target, mask=mask)
    index = pa.int32() if kind.is_list_view(target) else pa.int64()
    sizes = pa.compute.subtract(offsets[1:], offsets[:-1]).cast(index)
    view = pa.ListViewArray if kind.is_list_view(target) else pa.LargeListViewArray
    return view.from_arrays(pa.compute.add(offsets[:-1], 0).cast(index), sizes, values, type=target, mask=mask)


def _child(struct: pa.StructArray, wanted: pa.Field) -> pa.Array:
    """The child for ``wanted``; with the struct's nulls where values need some size: what lies under a null has any."""
    type_ = wanted.type.storage_type if isinstance(wanted.type, pa.BaseExtensionType) else wanted.type
    kind = pa.types
    sized = kind.is_fixed_size_list(type_) or kind.is_fixed_size_binary(type_) or kind.is_struct(type_)
    position = struct.type.get_field_index(wanted.name)
    return struct.flatten()[position] if sized and struct.null_count else struct.field(position)


def _of_fixed_size(
    array: pa.ListArray, target: pa.DataType, part: Callable[[pa.Array, pa.DataType], pa.Array]
) -> pa.Array:
    """Lists as lists of a fixed size. Raises ArrowInvalid where one has another size."""
    lengths = pa.compute.list_value_length(array)
    unfit = pa.compute.index(pa.compute.not_equal(lengths, target.list_size), True).as_py()
    if unfit >= 0:
        raise pa.ArrowInvalid(f"a list of {lengths[unfit]} values, expected {target.list_size}")
    valid = None
    if array.null_count:
        valid = array.is_valid().buffers()[1]
        array = array.fill_null(pa.scalar([None] * target.list_size, array.type))  # a null takes as much room
    values = part(array.flatten(), target.value_type)
    return pa.Array.from_buffers(target, len(array), [valid], children=[values])


def _cast_number(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Raises ArrowInvalid, with a value that would change: pyarrow itself rounds to shorter floats and decimals."""
    kind = pa.types
    if kind.is_integer(array.type) and kind.is_decimal(target):  # it wants room for any integer in the result
        array = array.cast(pa.decimal128(min(38, 20 + target.scale), target.scale))
    source = array.type
    try:
        cast = array.cast(target)
    except pa.ArrowInvalid as error:
        raise pa.ArrowInvalid(f"{error} (the value {_first_unfit(array, target)})") from None
    shorter = kind.is_floating(source) and kind.is_floating(target) and target.bit_width < source.bit_width
    of_tens = kind.is_floating(source) != kind.is_floating(target) and kind.is_decimal(source) != kind.is_decimal(
        target
    )
    if shorter or of_tens:
        changed = pa.compute.not_equal(cast.cast(source), array)
        if kind.is_floating(source):
            changed = pa.compute.and_not(changed, pa.compute.is_nan(array))
        if (first := changed.index(True).as_py()) >= 0:
            raise pa.ArrowInvalid(f"{array[first].as_py()!r} would become {cast[first].as_py()!r}")
    return cast


def _first_unfit(array: pa.Array, target: pa.DataType) -> Any:
    """A value that cannot be cast, in an array that has one."""
    while len(array) > 1:
        half = array.slice(0, len(array) // 2)
        try:
            half.cast(target)
            array = array.slice(len(half))
        except pa.ArrowInvalid:
            array = half
    return array[0].as_py()


def _in_range(array: pa.Array) -> pa.Array:
    """Raises ArrowInvalid for strings whose offsets have wrapped around, which pyarrow does not notice everywhere."""
    if (pa.types.is_string(array.type) or pa.types.is_binary(array.type)) and array.buffers()[2] is not None:
        size = array.buffers()[2].size
        if size > _MAX_OFFSET:
            raise pa.ArrowInvalid(f"{size} bytes of {array.type} in one batch are too many")
    return array


def _parts(array: pa.Array) -> tuple[pa.Array, pa.Array | None]:
    """Offsets and null mask. ``from_arrays`` takes a mask only beside offsets that are not themselves a slice."""
    if array.null_count == 0:
        return array.offsets, None
    return pa.compute.add(array.offsets, 0).cast(array.offsets.type), array.is_null()


def _of_view(array: pa.Array) -> tuple[pa.Array, pa.Array, pa.Array | None]:
    """Values, offsets and null mask of a list view; pyarrow's own cast leaves the last offset unset (in pyarrow 26)."""
    lengths = pa.compute.fill_null(pa.compute.list_value_length(array), 0).cast(pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pa.compute.cumulative_sum(lengths)])
    return array.flatten(), offsets, array.is_null() if array.null_count else None
