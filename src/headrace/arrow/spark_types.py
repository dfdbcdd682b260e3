"""Wire types in Spark's own words, and schemas cut down to what Spark wants; driver and executor Python."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa

from headrace.arrow.nested import with_nested_changed
from headrace.arrow.types import DIRECT, is_variant
from headrace.errors import UnsupportedTypeError

SparkType = str | dict[str, Any]

_BY_NAME = {name: type_ for type_, name in DIRECT.items()}
_SQL_NAMES = {
    "tinyint": "byte",
    "smallint": "short",
    "int": "integer",
    "bigint": "long",
    "real": "float",
    "timestamp_ltz": "timestamp",
}
"""Other names that Spark has for the same types."""
SPARK_TYPE = "headrace.spark_type"
"""In a field's metadata: the name of its Spark type, where one Arrow type stands for several of Spark's."""
_TIME = "time(6)"
_UNITS = ("day", "hour", "minute", "second")
INTERVALS = {f"interval {unit}" for unit in _UNITS} | {
    f"interval {first} to {last}" for i, first in enumerate(_UNITS) for last in _UNITS[i + 1 :]
}
_PARTS = {"key": "keyType", "value": "valueType", "element": "elementType"}


def spark_schema(schema: pa.Schema, declared: pa.Schema | None = None) -> dict[str, Any]:
    """Spark's StructType, in ``DataType.json`` form, for a *wire* schema; with the comments of ``declared``.

    A field's comment is its metadata's ``comment``, as in Parquet files that Spark or pyarrow wrote.
    """
    return _spark_struct(list(schema), None if declared is None else list(declared))


def spark_type(type_: pa.DataType, declared: pa.Field | None = None) -> SparkType:
    """Spark's type, in ``DataType.json`` form, for a *wire* type; ``declared`` is the field before it was converted.

    Raises UnsupportedTypeError for a ``headrace.spark_type`` in the field's metadata that its type cannot be.
    """
    if (named := _metadata(declared, SPARK_TYPE)) is not None:
        return _named_spark_type(type_, named, declared)
    if type_ in DIRECT:
        return DIRECT[type_]
    if pa.types.is_decimal(type_):
        return f"decimal({type_.precision},{type_.scale})"
    if pa.types.is_time(type_):
        return _TIME
    if is_variant(type_):
        return "variant"
    own = None if declared is None else _decoded(declared.type)
    if pa.types.is_struct(type_):
        return _spark_struct(_fields(type_), None if own is None else _fields(own))
    if pa.types.is_map(type_):
        return {
            "type": "map",
            "keyType": spark_type(type_.key_type, None if own is None else own.key_field),
            "valueType": spark_type(type_.item_type, None if own is None else own.item_field),
            "valueContainsNull": type_.item_field.nullable,
        }
    return {
        "type": "array",
        "elementType": spark_type(type_.value_type, None if own is None else own.value_field),
        "containsNull": type_.value_field.nullable,
    }


def named_type(name: str) -> pa.DataType | None:
    """The wire type of a Spark type by its name, in JSON's words or in SQL's; None for nested and unknown ones."""
    name = name.strip().lower()
    if match := re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", name):
        precision, scale = int(match[1]), int(match[2])
        return pa.decimal128(precision, scale) if 0 < precision <= 38 and scale <= precision else None
    return _BY_NAME.get(_SQL_NAMES.get(name, name))


def type_of(spark: SparkType) -> pa.DataType | None:
    """The wire type of a Spark type in JSON form; None for maps and for what ``named_type`` does not know."""
    if isinstance(spark, str):
        return named_type(spark)
    if spark["type"] == "array":
        element = type_of(spark["elementType"])
        return None if element is None else pa.list_(pa.field("element", element, spark["containsNull"]))
    if spark["type"] != "struct":
        return None
    types = [(field, type_of(field["type"])) for field in spark["fields"]]
    if any(type_ is None for _, type_ in types):
        return None
    return pa.struct([pa.field(field["name"], type_, field["nullable"]) for field, type_ in types])


def pruned_schema(schema: pa.Schema, wanted: dict[str, Any]) -> pa.Schema:
    """``schema`` cut down to the columns and nested fields of ``wanted``, a StructType in JSON form."""
    return pa.schema([_pruned_field(schema.field(field["name"]), field["type"]) for field in wanted["fields"]])


def _spark_struct(fields: list[pa.Field], declared: list[pa.Field] | None) -> dict[str, Any]:
    described = [
        {
            "name": field.name,
            "type": spark_type(field.type, own),
            "nullable": field.nullable,
            "metadata": {"comment": comment} if (comment := _metadata(own, "comment")) else {},
        }
        for field, own in zip(fields, declared or [None] * len(fields), strict=True)
    ]
    return {"type": "struct", "fields": described}


def _fields(struct: pa.DataType) -> list[pa.Field]:
    return [struct.field(i) for i in range(struct.num_fields)]


def _decoded(type_: pa.DataType) -> pa.DataType:
    """The type of the values, however they are stored."""
    while True:
        if isinstance(type_, pa.BaseExtensionType):
            type_ = type_.storage_type
        elif pa.types.is_dictionary(type_) or pa.types.is_run_end_encoded(type_):
            type_ = type_.value_type
        else:
            return type_


def _metadata(field: pa.Field | None, key: str) -> str | None:
    text = None if field is None else (field.metadata or {}).get(key.encode())
    return None if text is None else text.decode("utf-8", "replace")


def _named_spark_type(type_: pa.DataType, name: str, declared: pa.Field | None) -> str:
    is_interval = pa.types.is_duration(type_) and name in INTERVALS
    if is_interval or (pa.types.is_time(type_) and re.fullmatch(r"time\([0-9]\)", name)):
        return name
    raise UnsupportedTypeError(
        f"column {getattr(declared, 'name', '')!r} has Arrow type {getattr(declared, 'type', type_)}, which is not "
        f"Spark's {name!r}, as its metadata's {SPARK_TYPE!r} says: that may name the parts of an interval (of a "
        "duration), 'interval hour to second', or the digits of a time, 'time(3)'"
    )


def _pruned_field(field: pa.Field, wanted: SparkType) -> pa.Field:
    if isinstance(wanted, str):
        return field  # a plain type, in which nothing is nested

    def only_wanted(part: str, fields: list[pa.Field]) -> list[pa.Field]:
        if part != "fields":
            return [_pruned_field(fields[0], wanted[_PARTS[part]])]
        by_name = {inner.name: inner for inner in fields}
        return [_pruned_field(by_name[inner["name"]], inner["type"]) for inner in wanted["fields"]]

    return field.with_type(with_nested_changed(field.type, only_wanted))
