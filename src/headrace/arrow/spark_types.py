"""Wire types in Spark's own words, and schemas cut down to what Spark wants; driver and executor Python."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa

from headrace.arrow.nested import with_nested_changed
from headrace.arrow.types import DIRECT

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
_PARTS = {"key": "keyType", "value": "valueType", "element": "elementType"}


def spark_schema(schema: pa.Schema, declared: pa.Schema | None = None) -> dict[str, Any]:
    """Spark's StructType, in ``DataType.json`` form, for a *wire* schema; with the comments of ``declared``.

    A field's comment is its metadata's ``comment``, as in Parquet files that Spark or pyarrow wrote.
    """
    return _spark_struct(list(schema), None if declared is None else list(declared))


def spark_type(type_: pa.DataType, declared: pa.DataType | None = None) -> SparkType:
    """Spark's type, in ``DataType.json`` form, for a *wire* type, which ``declared`` was before it was converted."""
    if type_ in DIRECT:
        return DIRECT[type_]
    if pa.types.is_decimal(type_):
        return f"decimal({type_.precision},{type_.scale})"
    own = None if declared is None else _decoded(declared)
    if pa.types.is_struct(type_):
        return _spark_struct(_fields(type_), None if own is None else _fields(own))
    if pa.types.is_map(type_):
        return {
            "type": "map",
            "keyType": spark_type(type_.key_type, None if own is None else own.key_type),
            "valueType": spark_type(type_.item_type, None if own is None else own.item_type),
            "valueContainsNull": type_.item_field.nullable,
        }
    return {
        "type": "array",
        "elementType": spark_type(type_.value_type, None if own is None else own.value_type),
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
            "type": spark_type(field.type, None if own is None else own.type),
            "nullable": field.nullable,
            "metadata": {} if own is None else _comment(own),
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


def _comment(field: pa.Field) -> dict[str, str]:
    text = (field.metadata or {}).get(b"comment")
    return {} if not text else {"comment": text.decode("utf-8", "replace")}


def _pruned_field(field: pa.Field, wanted: SparkType) -> pa.Field:
    if isinstance(wanted, str):
        return field  # a plain type, in which nothing is nested

    def only_wanted(part: str, fields: list[pa.Field]) -> list[pa.Field]:
        if part != "fields":
            return [_pruned_field(fields[0], wanted[_PARTS[part]])]
        by_name = {inner.name: inner for inner in fields}
        return [_pruned_field(by_name[inner["name"]], inner["type"]) for inner in wanted["fields"]]

    return field.with_type(with_nested_changed(field.type, only_wanted))
