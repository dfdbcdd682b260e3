"""Partition columns from directory names such as ``year=2024/month=01``; pure, runs in the driver."""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import unquote

import pyarrow as pa

NULL_DIRECTORY = "__HIVE_DEFAULT_PARTITION__"

_INTEGER = re.compile(r"[+-]?[0-9]+")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def partition_values(
    paths: Sequence[str], columns: Mapping[str, pa.DataType] | Iterable[str] | None = None
) -> pa.RecordBatch:
    """The partition columns of ``paths``: a row for each path, a column for each ``name=value`` directory.

    ``columns``: None for all there are; names for just these; a mapping gives their types too. Types are inferred
    otherwise: an integer (int32 where all fit, else int64) if all values are whole numbers, a date if all are
    dates as 2024-01-31, else a string. ``__HIVE_DEFAULT_PARTITION__`` is null, ``%3A`` and the like are decoded.

    Raises ValueError, naming the file, where a column is missing, stands twice, or has a value of another type.
    """
    raw = [_directories(path) for path in paths]
    types = dict(columns) if isinstance(columns, Mapping) else {}
    names = list(raw[0]) if columns is None else list(columns)
    for path, values in zip(paths, raw, strict=True):
        if columns is None and values.keys() != raw[0].keys():
            raise ValueError(
                f"{path} has the partition columns ({', '.join(values)}), but {paths[0]} has ({', '.join(names)})"
                "; list them apart, or name those that all files have: partition_columns=[...]"
            )
        if missing := [name for name in names if name not in values]:
            raise ValueError(f"{path} has no directory {missing[0]}=..., a partition column of the table")
    arrays = [_typed(name, [values[name] for values in raw], types.get(name), paths) for name in dict.fromkeys(names)]
    if not names:  # a batch without columns still has a row for each path
        return pa.RecordBatch.from_arrays([pa.nulls(len(paths))], names=["nothing"]).select([])
    return pa.RecordBatch.from_arrays(arrays, names=names)


def _directories(path: str) -> dict[str, str | None]:
    """The ``name=value`` directories of a path, from the outermost to the innermost."""
    found: dict[str, str | None] = {}
    for segment in path.replace(os.sep, "/").split("/")[:-1]:
        name, equals, value = segment.partition("=")
        if not equals or not name:
            continue
        name = unquote(name)
        if name in found:
            raise ValueError(f"{path} names the partition column {name!r} twice")
        found[name] = None if value in (NULL_DIRECTORY, "") else unquote(value)
    return found


def _typed(name: str, values: list[str | None], type_: pa.DataType | None, paths: Sequence[str]) -> pa.Array:
    array = pa.array(values, pa.string())
    type_ = _inferred({value for value in values if value is not None}) if type_ is None else type_
    try:
        return array.cast(type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        for path, value in zip(paths, values, strict=True):  # find the one that is to blame
            try:
                pa.scalar(value, pa.string()).cast(type_)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                raise ValueError(
                    f"{path}: the partition column {name!r} is a {type_}, which {value!r} is not; give it another "
                    f"type: partition_columns={{{name!r}: pa.string()}}"
                ) from None
        raise ValueError(f"the partition column {name!r} cannot be read as {type_}: {error}") from None


def _inferred(values: set[str]) -> pa.DataType:
    if values and all(map(_INTEGER.fullmatch, values)):
        numbers = [int(value) for value in values]
        for type_, bits in ((pa.int32(), 31), (pa.int64(), 63)):
            if min(numbers) >= -(1 << bits) and max(numbers) < 1 << bits:
                return type_
    if values and all(map(_is_date, values)):
        return pa.date32()
    return pa.string()


def _is_date(value: str) -> bool:
    if not _DATE.fullmatch(value):
        return False
    try:
        datetime.date.fromisoformat(value)
    except ValueError:
        return False
    return True
