"""What a format knows of files without reading them: schema, parts, statistics; driver, when a table is made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pyarrow as pa

from headrace.arrow.schemas import schema_of
from headrace.pruning.container_stats import ContainerStats
from headrace.tables.listing.format import DataFile, FileFormat
from headrace.tables.listing.plan import naming

_T = TypeVar("_T")
_THREADS = 16


def file_schema(format: FileFormat, file: DataFile) -> pa.Schema:
    """What the format says of ``file``. Raises TypeError or ValueError if that is not a schema."""
    with naming(file, f"{type(format).__name__}.schema"):
        schema = format.schema(file)
    return schema_of(schema, f"what {type(format).__name__}.schema returns")


def file_parts(format: FileFormat, files: Sequence[DataFile], partition_bytes: int) -> list[Sequence[DataFile]]:
    """For each file, in order, its parts: itself, unless it is larger than a partition should be."""
    return _in_threads(lambda file: _parts(format, file, partition_bytes), files)


def file_statistics(format: FileFormat, files: Sequence[DataFile]) -> list[ContainerStats]:
    """For each file or part, in order, what is known of it."""
    if type(format).statistics is FileFormat.statistics:
        return [ContainerStats()] * len(files)
    return _in_threads(lambda file: _statistics(format, file), files)


def _parts(format: FileFormat, file: DataFile, partition_bytes: int) -> Sequence[DataFile]:
    if file.size_in_bytes <= partition_bytes or type(format).split is FileFormat.split:
        return (file,)
    with naming(file, f"{type(format).__name__}.split"):
        parts = tuple(format.split(file))
        if not all(isinstance(part, DataFile) for part in parts):
            raise TypeError("split gives DataFiles: file.with_part(part, size_in_bytes)")
    return parts or (file,)


def _statistics(format: FileFormat, file: DataFile) -> ContainerStats:
    with naming(file, f"{type(format).__name__}.statistics"):
        stats = format.statistics(file)
        if stats is not None and not isinstance(stats, ContainerStats):
            raise TypeError(f"statistics returned {type(stats).__name__}, expected ContainerStats or None")
    return ContainerStats() if stats is None else stats


def _in_threads(function: Callable[[DataFile], _T], files: Sequence[DataFile]) -> list[_T]:
    """``function`` of every file, in order; where files are far away, one must not hold up the others."""
    with ThreadPoolExecutor(min(_THREADS, len(files)), "headrace-listing") as pool:
        return list(pool.map(function, files))
