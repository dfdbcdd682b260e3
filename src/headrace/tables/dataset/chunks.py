"""What a Parquet footer tells of one column in one row group, and whether that can be relied on; runs anywhere."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

_WITH_DICTIONARIES = {"PLAIN", "PLAIN_DICTIONARY", "RLE_DICTIONARY", "RLE", "BIT_PACKED"}
"""Encodings from which pyarrow makes dictionaries. Of lengths and prefixes (DELTA_...) it does not."""


def column_position(metadata: Any, physical: pa.Schema, name: str, type_: pa.DataType) -> int | None:
    """Where in the file a column is that needs no cast; None if it is not there, is nested, or has another type."""
    indices = physical.get_all_field_indices(name)
    if len(indices) != 1 or physical.field(indices[0]).type != type_:
        return None
    if metadata.num_columns == len(physical):  # none is nested, so they are where the fields are
        return indices[0] if metadata.schema.column(indices[0]).path == name else None
    found = [i for i in range(metadata.num_columns) if metadata.schema.column(i).path == name]
    return found[0] if len(found) == 1 else None


def gives_dictionaries(fragment: Any, name: str, type_: pa.DataType) -> bool:
    """Whether a Parquet fragment, read with dictionaries, has this column in ``type_``, in encodings that allow it."""
    metadata = fragment.metadata
    position = column_position(metadata, fragment.physical_schema, name, type_)
    if position is None:
        return False
    columns = [metadata.row_group(group.id).column(position) for group in fragment.row_groups]
    return all(_WITH_DICTIONARIES.issuperset(column.encodings) for column in columns)


def has_exact_bounds(type_: pa.DataType) -> bool:
    """Whether every writer puts values of this type into the statistics as they are."""
    is_ = pa.types
    fixed = is_.is_boolean(type_) or is_.is_integer(type_) or is_.is_decimal(type_) or is_.is_date32(type_)
    return bool(fixed or (is_.is_timestamp(type_) and type_.unit != "ns"))


def is_text(type_: pa.DataType) -> bool:
    """Strings and bytes, whose bounds some writers cut to a few characters."""
    is_ = pa.types
    return bool(
        is_.is_string(type_) or is_.is_large_string(type_) or is_.is_binary(type_) or is_.is_large_binary(type_)
    )


def least_and_greatest(statistics: Any) -> tuple[Any, Any]:
    """The bounds of the values that are neither null nor NaN; None for both where these are not told."""
    if statistics is None or not statistics.has_min_max:
        return None, None
    try:
        return statistics.min, statistics.max
    except (OverflowError, ValueError, NotImplementedError):  # a moment, a text, or a kind of number, that Python lacks
        return None, None
