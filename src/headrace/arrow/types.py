"""The wire type of each Arrow type, in which it crosses to Spark, and what is nested in it; driver and executor Python.

Three schemas meet in this room: the *table's* (what the provider declared), the *wire's* (the Arrow types Spark's
columnar readers understand) and *Spark's* (in ``spark_types``).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute

from headrace.errors import RegistrationError, UnsupportedTypeError

_MAX_DECIMAL_PRECISION = 38


DIRECT: dict[pa.DataType, str] = {
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


VARIANT = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False, metadata={"variant": "true"}),
    ]
)
"""Spark's variant, in the form that Spark itself has for it in Arrow. The mark makes the difference to a struct."""

TIME = pa.time64("ns")
"""Spark's TIME, from 4.1 on and where it is switched on."""

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
    pa.time32("s"): TIME,
    pa.time32("ms"): TIME,
    pa.time64("us"): TIME,
    pa.time64("ns"): TIME,
}


def wire_type(type_: pa.DataType, column: str) -> pa.DataType:
    """The Arrow type in which values of ``type_`` cross to Spark.

    Raises UnsupportedTypeError, naming ``column``, where no Spark type keeps every value.
    """
    if type_ in DIRECT:
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
    if is_variant(type_):
        return VARIANT
    if kind.is_struct(type_):
        fields = [_wire_field(type_.field(i), f"{column}.{type_.field(i).name}") for i in range(type_.num_fields)]
        _refuse_duplicates([field.name for field in fields], f"struct column {column!r}")
        return pa.struct(fields)
    if kind.is_map(type_):
        key = _wire_field(type_.key_field, f"{column}.key").with_nullable(False)
        return pa.map_(key, _wire_field(type_.item_field, f"{column}.value"))
    if is_list(type_):
        return pa.list_(_wire_field(type_.value_field, f"{column}.element"))
    if kind.is_union(type_):
        raise _unsupported(column, type_, "split it into one nullable column per alternative")
    if kind.is_interval(type_):
        raise _unsupported(column, type_, "use a duration for times, or an int32 of months")
    raise _unsupported(column, type_, "cast it to a type in docs/types.md")


def wire_schema(schema: pa.Schema) -> pa.Schema:
    """``schema`` with every type replaced by its wire type. Raises RegistrationError or UnsupportedTypeError."""
    _refuse_duplicates(schema.names, "the schema")
    return pa.schema([_wire_field(field, field.name) for field in schema])


def _wire_field(field: pa.Field, column: str) -> pa.Field:
    return pa.field(field.name, wire_type(field.type, column), field.nullable)


def same_in_spark(schema: pa.Schema, other: pa.Schema) -> bool:
    """Whether both have the same names in the same order, and types of one wire type: text as text or as views, say."""
    if schema.names != other.names:
        return False
    try:
        return all(
            wire_type(one.type, one.name) == wire_type(two.type, two.name)
            for one, two in zip(schema, other, strict=True)
        )
    except UnsupportedTypeError:
        return False


def is_variant(type_: pa.DataType) -> bool:
    """Whether a struct has the mark of Spark's variants."""
    if not pa.types.is_struct(type_) or {type_.field(i).name for i in range(type_.num_fields)} != {"value", "metadata"}:
        return False
    return bool((type_.field("metadata").metadata or {}).get(b"variant") == b"true")


def is_view(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string_view(type_) or pa.types.is_binary_view(type_))


def is_list(type_: pa.DataType) -> bool:
    kind = pa.types
    return bool(
        kind.is_list(type_)
        or kind.is_large_list(type_)
        or kind.is_fixed_size_list(type_)
        or kind.is_list_view(type_)
        or kind.is_large_list_view(type_)
    )


def is_encoded(type_: pa.DataType) -> bool:
    """Whether values of another type stand behind this one: a dictionary, runs, an extension type."""
    kind = pa.types
    return bool(kind.is_dictionary(type_) or kind.is_run_end_encoded(type_) or isinstance(type_, pa.BaseExtensionType))


def children(type_: pa.DataType) -> list[tuple[str, pa.Field]]:
    """The nested fields of a type, by the name they have in paths."""
    if is_encoded(type_):
        extension = isinstance(type_, pa.BaseExtensionType)
        return children(type_.storage_type if extension else type_.value_type)
    if pa.types.is_struct(type_):
        return [(type_.field(i).name, type_.field(i)) for i in range(type_.num_fields)]
    if pa.types.is_map(type_):
        return [("key", type_.key_field), ("value", type_.item_field)]
    return [("element", type_.value_field)] if is_list(type_) else []


def value_bytes(type_: pa.DataType) -> float | None:
    """How many bytes each value of this type takes; None where that depends on the value."""
    try:
        return int(type_.bit_width) / 8
    except ValueError:
        return None


def cheapest_column(schema: pa.Schema) -> pa.Schema:
    """The column of the smallest fixed-width type, the first column where there is none; no column of an empty schema.

    Dictionaries and extension types are not of a fixed width here: what their values cost depends on more.
    """

    def width(field: pa.Field) -> float:
        plain = not pa.types.is_dictionary(field.type) and not isinstance(field.type, pa.BaseExtensionType)
        size = value_bytes(field.type) if plain else None
        return math.inf if size is None else size

    return pa.schema([min(schema, key=width)] if len(schema) else [])


def with_nested(kind: pa.DataType) -> Iterator[pa.DataType]:
    """``kind`` and every type inside it."""
    yield kind
    for i in range(kind.num_fields):
        yield from with_nested(kind.field(i).type)


@functools.lru_cache(maxsize=1000)  # a table may have thousands of columns of a few types
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


def _refuse_duplicates(names: list[str], where: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise RegistrationError(f"{where} has two fields named {name!r}; Spark needs unique names")
        seen.add(name)


def _unsupported(column: str, type_: pa.DataType, advice: str) -> UnsupportedTypeError:
    return UnsupportedTypeError(f"column {column!r} has Arrow type {type_}, which Spark has no equal of: {advice}")
