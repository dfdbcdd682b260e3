"""Columns and nested fields that a file spells in another case than the table; runs on executors."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import pyarrow as pa

from headrace.arrow.nested import with_nested_changed
from headrace.arrow.types import children, is_list
from headrace.errors import SchemaMismatchError


def spelled_fields(table: pa.Schema, stored: pa.Schema, names: Iterable[str], path: str) -> dict[str, pa.Field]:
    """Those columns of ``names`` that the file spells otherwise, they or fields in them: the table's types, with the
    file's names.

    Raises SchemaMismatchError where the file at ``path`` has several such names for one of the table's.
    """
    spelled: dict[str, pa.Field] = {}
    for name in names:
        field = table.field(name)
        own = _own_name(name, stored.names, table.names, name, path)
        if own is not None:
            type_ = _respelled(field.type, stored.field(stored.names.index(own)).type, name, path)
            if own != name or not type_.equals(field.type):
                spelled[name] = field.with_name(own).with_type(type_)
    return spelled


def with_names_of(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same values under the names of ``schema``, also of nested fields."""
    columns = [
        column if column.type.equals(field.type) or not pa.types.is_nested(field.type) else column.view(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema.names)


def _own_name(name: str, stored: Collection[str], others: Collection[str], shown: str, path: str) -> str | None:
    """How the file spells ``name``; None where it has no such field."""
    if name in stored:
        return name
    alike = [one for one in stored if one.lower() == name.lower() and one not in others]
    if len(alike) > 1:
        raise SchemaMismatchError(
            f"column {shown!r} of the table is not in file {path}, which has {', '.join(map(repr, alike))}: Spark does "
            "not tell them apart. Rename the columns of the file, or give the table one of these names"
        )
    return alike[0] if alike else None


def _respelled(type_: pa.DataType, stored: pa.DataType, shown: str, path: str) -> pa.DataType:
    """``type_`` with the names of ``stored``, where the two are nested alike."""
    if not pa.types.is_nested(type_) or type_.equals(stored) or not _are_alike(type_, stored):
        return type_
    theirs = dict(children(stored))

    def change(part: str, fields: list[pa.Field]) -> list[pa.Field]:
        if part != "fields":
            below = f"{shown}.{part}"
            return [one.with_type(_respelled(one.type, theirs[part].type, below, path)) for one in fields]
        names, respelled = [one.name for one in fields], []
        for one in fields:
            own = _own_name(one.name, theirs, names, f"{shown}.{one.name}", path)
            if own is not None:
                below = _respelled(one.type, theirs[own].type, f"{shown}.{one.name}", path)
                one = one.with_name(own).with_type(below)
            respelled.append(one)
        return respelled

    return with_nested_changed(type_, change)


def _are_alike(type_: pa.DataType, stored: pa.DataType) -> bool:
    kinds = (pa.types.is_struct, pa.types.is_map, is_list)
    return any(kind(type_) and kind(stored) for kind in kinds)
