"""What each Arrow type becomes in Spark, and the lossless casts on the way; runs in driver and executor Python.

Three schemas meet here: the *table's* (what the provider declared), the *wire's* (the Arrow types Spark's
columnar readers understand) and *Spark's* (as the JSON that ``DataType.fromJson`` reads on the JVM).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute

from headrace.errors import RegistrationError, SchemaMismatchError, UnsupportedTypeError

SparkType = str | dict[str, Any]
_MAX_DECIMAL_PRECISION = 38

_DIRECT: dict[pa.DataType, SparkType] = {
    pa.null(): "void",
    pa.bool_(): "boolean",
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us", tz="UTC"): "timestamp",
    pa.timestamp("us"): "timestamp_ntz",
    pa.duration("us"): "interval day to second",
}

_WIDENED: dict[pa.DataType, pa.DataType] = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.date64(): pa.date32(),
}


def wire_type(type_: pa.DataType, column: str) -> pa.DataType:
    """The Arrow type in which values of ``type_`` cross to Spark.

    Raises UnsupportedTypeError, naming ``column``, where no Spark type keeps every value.
    """
    if type_ in _DIRECT:
        return type_
    if type_ in _WIDENED:
        return _WIDENED[type_]
    kind = pa.types
    if kind.is_timestamp(type_):
        return pa.timestamp("us", tz="UTC" if type_.tz else None)
    if kind.is_duration(type_):
        return pa.duration("us")
    if kind.is_decimal(type_):
        scale = max(0, type_.scale)  # Spark has no hundreds or thousandths as units: write the zeros out
        precision = max(type_.precision + max(0, -type_.scale), scale)
        if precision > _MAX_DECIMAL_PRECISION:
            raise _unsupported(column, type_, "Spark's decimals hold 38 digits: cast to decimal128(38, s) or string")
        return pa.decimal128(precision, scale)
    if kind.is_fixed_size_binary(type_):
        return pa.binary()
    if kind.is_dictionary(type_) or kind.is_run_end_encoded(type_):
        return wire_type(type_.value_type, column)
    if isinstance(type_, pa.BaseExtensionType):
        return wire_type(type_.storage_type, column)
    if kind.is_struct(type_):
        fields = [_wire_field(type_.field(i), f"{column}.{type_.field(i).name}") for i in range(type_.num_fields)]
        _refuse_duplicates([field.name for field in fields], f"struct column {column!r}")
        return pa.struct(fields)
    if kind.is_map(type_):
        key = _wire_field(type_.key_field, f"{column}.key").with_nullable(False)
        return pa.map_(key, _wire_field(type_.item_field, f"{column}.value"))
    if _is_list(type_):
        return pa.list_(_wire_field(type_.value_field, f"{column}.element"))
    if kind.is_time(type_):
        raise _unsupported(column, type_, "cast it to a string, or to int64 microseconds")
    if kind.is_union(type_):
        raise _unsupported(column, type_, "split it into one nullable column per alternative")
    if kind.is_interval(type_):
        raise _unsupported(column, type_, "use a duration for times, or an int32 of months")
    raise _unsupported(column, type_, "cast it to a type in docs/types.md")


def wire_schema(schema: pa.Schema) -> pa.Schema:
    """``schema`` with every type replaced by its wire type. Raises RegistrationError or UnsupportedTypeError."""
    _refuse_duplicates(schema.names, "the schema")
    return pa.schema([_wire_field(field, field.name) for field in schema])


def indented(schema: Iterable[pa.Field]) -> str:
    """A schema for error messages, a field a line."""
    return "\n".join(f"  {field}" for field in schema) or "  (no columns)"


def spark_schema_json(schema: pa.Schema) -> str:
    """The Spark StructType, as JSON, for a *wire* schema."""
    return json.dumps(_spark_struct(list(schema)))


def spark_type(type_: pa.DataType) -> SparkType:
    """Spark's type, in ``DataType.json`` form, for a *wire* type."""
    if type_ in _DIRECT:
        return _DIRECT[type_]
    if pa.types.is_decimal(type_):
        return f"decimal({type_.precision},{type_.scale})"
    if pa.types.is_struct(type_):
        return _spark_struct([type_.field(i) for i in range(type_.num_fields)])
    if pa.types.is_map(type_):
        return {
            "type": "map",
            "keyType": spark_type(type_.key_type),
            "valueType": spark_type(type_.item_type),
            "valueContainsNull": type_.item_field.nullable,
        }
    return {
        "type": "array",
        "elementType": spark_type(type_.value_type),
        "containsNull": type_.value_field.nullable,
    }


def pruned_schema(schema: pa.Schema, wanted: dict[str, Any]) -> pa.Schema:
    """``schema`` cut down to the columns and nested fields of ``wanted``, a StructType in JSON form."""
    return pa.schema([_pruned_field(schema.field(field["name"]), field["type"]) for field in wanted["fields"]])


def to_wire(array: pa.Array, target: pa.DataType, column: str) -> pa.Array:
    """``array`` as its wire type ``target``.

    Raises SchemaMismatchError, naming ``column``, if a value would change.
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


def converter(source: pa.DataType, target: pa.DataType, column: str) -> Callable[[pa.Array], pa.Array] | None:
    """A function from arrays of ``source`` to ``target``, pruning nested fields; None where nothing changes."""
    if source == target:
        return None
    return lambda array: to_wire(array, target, column)


def batch_without_columns(rows: int, metadata: dict[bytes, bytes] | None = None) -> pa.RecordBatch:
    """``rows`` rows and nothing in them: what ``count(*)`` reads. ``from_arrays([])`` would have none."""
    batch = pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), rows, [None]))
    return batch.replace_schema_metadata(metadata)


def forbids_nulls(field: pa.Field) -> bool:
    """Whether ``field``, of a wire type, or anything nested in it is declared not null."""
    return not field.nullable or any(forbids_nulls(child) for _, child in _children(field.type))


def forbidden_null(array: pa.Array, field: pa.Field, path: str) -> str | None:
    """The path of a null that ``field``, of a wire type, declares not to be there; None where there is none.

    What lies under a null parent, or outside a slice, does not count.
    """
    if not field.nullable and array.null_count:
        return path
    if not forbids_nulls(field.with_nullable(True)):
        return None
    if array.null_count:
        array = array.drop_null()
    if pa.types.is_struct(array.type):
        arrays = [array.field(index) for index in range(array.type.num_fields)]
    else:
        start, end = (array.offsets[0].as_py(), array.offsets[-1].as_py()) if len(array) else (0, 0)
        values = [array.keys, array.items] if pa.types.is_map(array.type) else [array.values]
        arrays = [value.slice(start, end - start) for value in values]
    for child, (name, child_field) in zip(arrays, _children(field.type), strict=True):
        found = forbidden_null(child, child_field, f"{path}.{name}")
        if found is not None:
            return found
    return None


def _children(type_: pa.DataType) -> list[tuple[str, pa.Field]]:
    """The nested fields of a wire type, by the name they have in paths."""
    if pa.types.is_struct(type_):
        return [(type_.field(i).name, type_.field(i)) for i in range(type_.num_fields)]
    if pa.types.is_map(type_):
        return [("key", type_.key_field), ("value", type_.item_field)]
    return [("element", type_.value_field)] if pa.types.is_list(type_) else []


def _converted(array: pa.Array, target: pa.DataType) -> pa.Array:
    source = array.type
    if source == target:
        return array
    kind = pa.types
    if isinstance(source, pa.BaseExtensionType):
        return _converted(array.storage, target)
    if kind.is_dictionary(source):
        # The values first: each once, and pyarrow cannot decode string views (polars' categoricals).
        values = _converted(array.dictionary, target)
        return pa.DictionaryArray.from_arrays(array.indices, values).dictionary_decode()
    if kind.is_run_end_encoded(source):
        values = _converted(array.values, target)  # first, for the same reasons
        runs = pa.RunEndEncodedArray.from_arrays(array.run_ends, values)
        return pa.compute.run_end_decode(runs.slice(array.offset, len(array)))
    if kind.is_struct(source) and kind.is_struct(target):
        wanted = [target.field(i) for i in range(target.num_fields)]
        children = [_converted(array.field(field.name), field.type) for field in wanted]
        return (
            pa.StructArray.from_arrays(children, fields=wanted, mask=array.is_null())
            if wanted
            else (array.cast(target))
        )
    if kind.is_map(source) and kind.is_map(target):
        keys = _converted(array.keys, target.key_type)
        items = _converted(array.items, target.item_type)
        offsets, mask = _parts(array)
        return pa.MapArray.from_arrays(offsets, keys, items, type=target, mask=mask)
    if _is_list(source) and kind.is_list(target):
        if kind.is_list_view(source) or kind.is_large_list_view(source):
            return _from_view(array, target)
        if not kind.is_list(source):
            array = array.cast(pa.list_(source.value_field))
        values = _converted(array.values, target.value_type)
        offsets, mask = _parts(array)
        return pa.ListArray.from_arrays(offsets, values, type=target, mask=mask)
    if kind.is_timestamp(source) and source.tz is not None and source.unit == "us":
        return array.view(target)
    return array.cast(target)


def _parts(array: pa.Array) -> tuple[pa.Array, pa.Array | None]:
    """Offsets and null mask. ``from_arrays`` takes a mask only beside offsets that are not themselves a slice."""
    if array.null_count == 0:
        return array.offsets, None
    return pa.compute.add(array.offsets, 0).cast(array.offsets.type), array.is_null()


def _from_view(array: pa.Array, target: pa.DataType) -> pa.Array:
    """A list array from a list view; pyarrow's own cast leaves the last offset unset (seen in pyarrow 26)."""
    lengths = pa.compute.fill_null(pa.compute.list_value_length(array), 0).cast(pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pa.compute.cumulative_sum(lengths)])
    values = _converted(array.flatten(), target.value_type)
    mask = array.is_null() if array.null_count else None
    return pa.ListArray.from_arrays(offsets, values, type=target, mask=mask)


def _wire_field(field: pa.Field, column: str) -> pa.Field:
    return pa.field(field.name, wire_type(field.type, column), field.nullable)


def _spark_struct(fields: list[pa.Field]) -> dict[str, Any]:
    return {
        "type": "struct",
        "fields": [
            {"name": field.name, "type": spark_type(field.type), "nullable": field.nullable, "metadata": {}}
            for field in fields
        ],
    }


def _pruned_field(field: pa.Field, wanted: SparkType) -> pa.Field:
    return field.with_type(_pruned_type(field.type, wanted))


def _pruned_type(type_: pa.DataType, wanted: SparkType) -> pa.DataType:
    if not isinstance(wanted, dict):
        return type_
    kind = pa.types
    if isinstance(type_, pa.BaseExtensionType):
        return _pruned_type(type_.storage_type, wanted)  # an extension type cannot be made of other fields
    if kind.is_dictionary(type_):
        return pa.dictionary(type_.index_type, _pruned_type(type_.value_type, wanted), type_.ordered)
    if kind.is_run_end_encoded(type_):
        return pa.run_end_encoded(type_.run_end_type, _pruned_type(type_.value_type, wanted))
    if kind.is_struct(type_):
        by_name = {type_.field(i).name: type_.field(i) for i in range(type_.num_fields)}
        return pa.struct([_pruned_field(by_name[field["name"]], field["type"]) for field in wanted["fields"]])
    if kind.is_map(type_):
        key = _pruned_field(type_.key_field, wanted["keyType"])
        return pa.map_(key, _pruned_field(type_.item_field, wanted["valueType"]), type_.keys_sorted)
    if _is_list(type_):
        element = _pruned_field(type_.value_field, wanted["elementType"])
        if kind.is_fixed_size_list(type_):
            return pa.list_(element, type_.list_size)
        if kind.is_large_list(type_):
            return pa.large_list(element)
        if kind.is_list_view(type_):
            return pa.list_view(element)
        return pa.large_list_view(element) if kind.is_large_list_view(type_) else pa.list_(element)
    return type_


def _is_list(type_: pa.DataType) -> bool:
    kind = pa.types
    return bool(
        kind.is_list(type_)
        or kind.is_large_list(type_)
        or kind.is_fixed_size_list(type_)
        or kind.is_list_view(type_)
        or kind.is_large_list_view(type_)
    )


def _refuse_duplicates(names: list[str], where: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise RegistrationError(f"{where} has two fields named {name!r}; Spark needs unique names")
        seen.add(name)


def _unsupported(column: str, type_: pa.DataType, advice: str) -> UnsupportedTypeError:
    return UnsupportedTypeError(f"column {column!r} has Arrow type {type_}, which Spark has no equal of: {advice}")


def with_nested(kind: pa.DataType) -> Iterator[pa.DataType]:
    """``kind`` and every type inside it."""
    yield kind
    for i in range(kind.num_fields):
        yield from with_nested(kind.field(i).type)


def is_filterable(kind: pa.DataType) -> bool:
    """Whether pyarrow can take rows of a column of this type."""
    try:
        pa.nulls(0, kind).take(pa.array([], pa.uint16()))
    except pa.ArrowNotImplementedError:
        return False
    return True


def filterable(field: pa.Field) -> pa.Field:
    """``field``, for string views and the few other types that pyarrow cannot filter with the plain type."""
    values = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    if is_filterable(values):
        return field
    try:
        return field.with_type(wire_type(field.type, field.name))
    except UnsupportedTypeError:
        return field  # registration will say so
