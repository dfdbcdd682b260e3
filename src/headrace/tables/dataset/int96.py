"""INT96, in which Spark writes timestamps to Parquet unless told otherwise; driver and executor Python.

Such a value is an instant of any year. pyarrow shows it as nanoseconds without a zone, which wrap outside of 1677 to
2262. Here it is read as microseconds, in UTC. Only the file's own schema tells it from a timestamp without a zone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.arrow.types import children, is_list

if TYPE_CHECKING:
    import pyarrow.dataset as ds

Path = tuple[str, ...]
"""A column, or a field in one: its names from the top, ``element`` in a list, ``key`` and ``value`` in a map."""


def leaves(schema: pa.Schema) -> Iterator[tuple[Path, pa.DataType]]:
    """What is not nested in ``schema``, in the order in which Parquet has it as columns."""
    for field in schema:
        yield from _leaves((field.name,), field.type)


def _leaves(path: Path, type_: pa.DataType) -> Iterator[tuple[Path, pa.DataType]]:
    plain = type_.num_fields == 0 and not isinstance(type_, pa.BaseExtensionType)  # most are
    nested = [] if plain else children(type_)
    if not nested:
        yield path, type_
    for name, field in nested:
        yield from _leaves((*path, name), field.type)


def type_at(schema: pa.Schema, path: Path) -> pa.DataType | None:
    """What ``schema`` has there; None if it has nothing."""
    return dict(leaves(schema)).get(path)


def is_naive(type_: pa.DataType | None) -> bool:
    """Whether it is a timestamp without a zone."""
    return type_ is not None and bool(pa.types.is_timestamp(type_) and type_.tz is None)


def int96_paths(metadata: Any, physical: pa.Schema) -> set[Path]:
    """Where a Parquet file stores INT96; ``physical`` is its own schema, as pyarrow shows it."""
    return {
        path
        for i, (path, type_) in enumerate(leaves(physical))
        if is_naive(type_) and metadata.schema.column(i).physical_type == "INT96"
    }


def with_instants(schema: pa.Schema, paths: Collection[Path]) -> pa.Schema:
    """``schema`` with microseconds in UTC for the timestamps at ``paths``."""
    if not paths:
        return schema
    return pa.schema([field.with_type(_with_instants((field.name,), field.type, paths)) for field in schema])


def _with_instants(path: Path, type_: pa.DataType, paths: Collection[Path]) -> pa.DataType:
    def changed(name: str, field: pa.Field) -> pa.Field:
        return field.with_type(_with_instants((*path, name), field.type, paths))

    if path in paths and pa.types.is_timestamp(type_):
        return pa.timestamp("us", type_.tz or "UTC")
    if not any(one[: len(path)] == path for one in paths):
        return type_
    if pa.types.is_struct(type_):
        return pa.struct([changed(field.name, field) for field in type_])
    if pa.types.is_map(type_):
        return pa.map_(changed("key", type_.key_field), changed("value", type_.item_field))
    return pa.list_(changed("element", type_.value_field)) if is_list(type_) else type_


def reading_instants(format: ds.FileFormat) -> ds.FileFormat:
    """The same format, by which INT96 is read in microseconds; only Parquet's is another."""
    import pyarrow.dataset as ds

    if not isinstance(format, ds.ParquetFileFormat) or format.read_options.coerce_int96_timestamp_unit == "us":
        return format
    asked = format.read_options
    options = ds.ParquetReadOptions(
        dictionary_columns=asked.dictionary_columns,
        coerce_int96_timestamp_unit="us",
        **{name: getattr(asked, name) for name in ("binary_type", "list_type") if hasattr(asked, name)},
    )
    return ds.ParquetFileFormat(options, default_fragment_scan_options=format.default_fragment_scan_options)
