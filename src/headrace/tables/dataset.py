"""DatasetTable: what ``pyarrow.dataset`` reads (Parquet, CSV, ORC, Feather, JSON) as a table; runs in the driver."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.expressions import Expr
from headrace.plan import (
    ExecutionPlan,
    KeyPartitioning,
    Partitioning,
    ScanRequest,
    Statistics,
    UnknownPartitioning,
)
from headrace.provider import FilterPushdown, TableProvider
from headrace.pushdown import pushdown_exact_where_possible
from headrace.tables.dataset_plan import DatasetPlan, Piece
from headrace.tables.packing import PARTITION_BYTES, grouped, packed, split_bytes
from headrace.tables.parquet_footers import Footers, is_parquet

if TYPE_CHECKING:
    import pyarrow.dataset as ds

_SUFFIXES = {".csv": "csv", ".orc": "orc", ".feather": "feather", ".arrow": "ipc", ".json": "json", ".jsonl": "json"}


class DatasetTable(TableProvider):
    """A table over a ``pyarrow.dataset.Dataset`` of files, or over a path or list that ``ds.dataset()`` takes.

    For a path ``format`` is told by its ending (Parquet where that says nothing), ``partitioning`` is the hive style
    (``year=2024/``), and ``filesystem`` any of ``pyarrow.fs``. Make the dataset yourself for other options.

    Filters that pyarrow decides as Spark does are exact: files are skipped by their partition, Parquet row groups by
    their statistics, and only the needed columns are read. Files are put together to partitions of about
    ``partition_bytes``, large Parquet files are split between row groups. Where a query reads partition columns,
    and their values make good tasks, each value is a partition and Spark is told so.

    The constructor lists the files, asks for their sizes and looks into the footers of a few Parquet files, to estimate
    rows; planning then does no I/O. The files are opened where Spark runs its tasks, one thread for each task.

    Raises FileNotFoundError for a path without files, TypeError for a dataset that is not one of files (use
    MemTable for data in memory), and what ``ds.dataset()`` raises.
    """

    def __init__(
        self,
        dataset: Any,
        *,
        format: Any = None,
        partitioning: Any = "hive",
        filesystem: Any = None,
        partition_bytes: int = PARTITION_BYTES,
    ) -> None:
        import pyarrow.dataset as ds  # takes a while to import, and only this table needs it

        if not isinstance(dataset, ds.Dataset):
            paths = [dataset] if isinstance(dataset, (str, os.PathLike)) else list(dataset)
            sources = [os.fspath(path) if isinstance(path, os.PathLike) else path for path in paths]
            kind = format or _SUFFIXES.get(os.path.splitext(str(sources[0]))[1].lower()) if sources else format
            one = sources[0] if isinstance(dataset, (str, os.PathLike)) else sources
            dataset = ds.dataset(one, format=kind, partitioning=partitioning, filesystem=filesystem)
            if not dataset.schema.names:
                raise FileNotFoundError(f"there is no file with columns at or below {one!r}")
        if partition_bytes < 1:
            raise ValueError(f"partition_bytes must be positive, not {partition_bytes}")
        self._dataset: ds.Dataset = dataset
        self._schema: pa.Schema = dataset.schema
        self._partition_bytes = partition_bytes
        fragments = list(dataset.get_fragments())
        self._files = _files(fragments)
        self._filterable = all(_is_filterable(field.type) for field in self._schema)
        self._footers = Footers.sampled(fragments, [file.size for file in self._files])

    def schema(self) -> pa.Schema:
        return self._schema

    def supports_filters_pushdown(self, filters: Sequence[Expr]) -> Sequence[FilterPushdown]:
        if not self._filterable:
            return [FilterPushdown.UNSUPPORTED] * len(filters)
        return pushdown_exact_where_possible(filters, schema=self._schema)

    def scan(self, request: ScanRequest) -> ExecutionPlan:
        import pyarrow.dataset as ds

        condition = None
        for expr in request.filters:
            translated = expr.to_pyarrow(schema=self._schema)
            condition = translated if condition is None else condition & translated
        # Fragments are known already: this compares their partitions with the filter and opens nothing.
        kept = {_identity(fragment) for fragment in self._dataset.get_fragments(filter=condition)}
        files = [file for file in self._files if file.identity in kept]
        groups, partitioning = self._arranged(files, request)
        unpruned = pa.schema([self._schema.field(name) for name in request.projection])
        size = sum(file.size for file in files)
        return DatasetPlan(
            schema=unpruned,
            dataset_schema=self._schema,
            condition=ds.scalar(True) if condition is None else condition,
            limit=request.limit,
            filtered=condition is not None,
            partitions=groups,
            partitioning=partitioning,
            statistics=self._footers.estimate(unpruned, size),
            total_files=len(self._files),
        )

    def statistics(self) -> Statistics:
        return self._footers.estimate(self._schema, sum(file.size for file in self._files))

    def _arranged(self, files: list[_File], request: ScanRequest) -> tuple[list[list[Piece]], Partitioning]:
        columns = [name for name in request.projection if files and all(name in file.keys for file in files)]
        if columns and request.limit is None:
            keys = [tuple(file.keys[name] for name in columns) for file in files]
            by_key = grouped(keys, [file.size for file in files], self._partition_bytes, force=False)
            if by_key is not None:
                groups = [[files[i].whole() for i in group] for group in by_key.values()]
                return groups, KeyPartitioning(columns, by_key)
        largest = split_bytes(sum(file.size for file in files), self._partition_bytes)
        pieces = [piece for file in files for piece in file.pieces(largest)]
        groups = [[pieces[i] for i in group] for group in packed([p.size for p in pieces], self._partition_bytes)]
        return groups, UnknownPartitioning(len(groups))


@dataclass(frozen=True)
class _File:
    """One fragment of the dataset, its size in bytes and its partition's values."""

    identity: tuple[str, str]
    path: str
    format: Any
    filesystem: Any
    partition: Any
    row_groups: tuple[int, ...] | None
    keys: dict[str, Any]
    size: int

    def whole(self) -> Piece:
        return Piece(self.path, self.format, self.filesystem, self.partition, self.row_groups, self.size)

    def pieces(self, largest: int) -> Iterator[Piece]:
        """Parquet files in ranges of bytes: a task reads the row groups whose middle is in its range.

        Which those are is not known here: that is in the footer, and planning opens no file.
        """
        count = max(1, -(-self.size // largest)) if is_parquet(self.format) else 1
        for i in range(count):
            span = (self.size * i // count, self.size * (i + 1) // count) if count > 1 else None
            yield Piece(
                self.path, self.format, self.filesystem, self.partition, self.row_groups, self.size // count, span
            )


def _identity(fragment: ds.Fragment) -> tuple[str, str]:
    return fragment.path, str(fragment.partition_expression)


def _files(fragments: list[ds.Fragment]) -> list[_File]:
    """Fragments as plain data. Equal formats, filesystems and partitions are one object each, and pickled once."""
    import pyarrow.dataset as ds

    formats: list[Any] = []
    filesystems: list[Any] = []
    partitions: dict[str, tuple[Any, dict[str, Any]]] = {}
    files = []
    for fragment in fragments:
        if not isinstance(fragment, ds.FileFragment) or fragment.filesystem is None:
            raise TypeError(
                f"DatasetTable reads datasets of files, not a {type(fragment).__name__}; for data in memory use MemTable"
            )
        text = str(fragment.partition_expression)
        if text not in partitions:
            expression = fragment.partition_expression
            partitions[text] = expression, ds.get_partition_keys(expression)
        partition, keys = partitions[text]
        row_groups = fragment.__reduce__()[1][3] if isinstance(fragment, ds.ParquetFileFragment) else None
        files.append(
            _File(
                _identity(fragment),
                fragment.path,
                _shared(fragment.format, formats),
                _shared(fragment.filesystem, filesystems),
                partition,
                None if row_groups is None else tuple(row_groups),
                keys,
                0,
            )
        )
    return _with_sizes(files, filesystems)
