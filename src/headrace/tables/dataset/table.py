"""DatasetTable: what ``pyarrow.dataset`` reads (Parquet, CSV, ORC, Feather, JSON) as a table; runs in the driver."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.arrow.types import filterable, is_filterable
from headrace.display import names_text
from headrace.expr.nodes import Expr
from headrace.plan import (
    ExecutionPlan,
    KeyPartitioning,
    Partitioning,
    ScanRequest,
    Statistics,
    UnknownPartitioning,
)
from headrace.provider import FilterPushdown, TableProvider, pushdown_exact_where_possible
from headrace.tables.dataset.files import DatasetFile, DatasetMemory, dataset_files, dataset_memory, identity, in_memory
from headrace.tables.dataset.footers import Footers
from headrace.tables.dataset.plan import DatasetPlan, MemoryPiece, Piece, has_views
from headrace.tables.file_groups import PARTITION_BYTES, can_be_key, grouped, packed, split_bytes

if TYPE_CHECKING:
    import pyarrow.dataset as ds

_FORMATS = {".csv": "csv", ".orc": "orc", ".feather": "feather", ".arrow": "ipc", ".json": "json", ".jsonl": "json"}


class DatasetTable(TableProvider):
    """A table over a ``pyarrow.dataset.Dataset``, or over a path or list that ``ds.dataset()`` takes.

    The dataset may be of files, of tables in memory, or a union of both. Files are read where Spark runs its tasks;
    a query that also needs data in memory reads all of it in this process.

    For a path ``format`` is told by its ending (Parquet where that says nothing), ``partitioning`` is the hive
    style (``year=2024/``), and ``filesystem`` any of ``pyarrow.fs``. Make the dataset yourself for other options.

    Filters that pyarrow decides as Spark does are exact: files are skipped by their partition, Parquet row groups
    by their statistics, and only the needed columns are read. Files are put together to partitions of about
    ``partition_bytes``, large Parquet files are split between row groups. Where a query reads partition columns,
    and their values make good tasks, each value is a partition and Spark is told so.

    The constructor lists the files, asks for their sizes and looks into the footers of a few Parquet files, to
    estimate rows; planning then does no I/O. The files are opened where Spark runs its tasks, and decoded by one
    thread for each task.

    Raises FileNotFoundError for a path without files, TypeError for a dataset of an open file or of another kind,
    and what ``ds.dataset()`` raises.
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

        if partition_bytes < 1:
            raise ValueError(f"partition_bytes must be positive, not {partition_bytes}")
        if not isinstance(dataset, ds.Dataset):
            dataset = _opened(dataset, format, partitioning, filesystem)
        self._dataset = dataset
        self._schema = pa.schema([filterable(field) for field in dataset.schema])
        self._views = pa.schema([field.with_type(_as_view(field.type)) for field in self._schema])
        self._partition_bytes = partition_bytes
        fragments = list(dataset.get_fragments())
        files = dataset_files(fragments)
        self._parts: list[DatasetFile | DatasetMemory] = [*files, *dataset_memory(fragments, self._schema)]
        self._filterable = all(is_filterable(field.type) for field in self._schema)
        of_files = [fragment for fragment in fragments if not in_memory(fragment)]
        self._footers = Footers.sampled(of_files, [file.size for file in files])

    def __repr__(self) -> str:
        return f"<DatasetTable: {len(self._parts):,} files of {names_text(self._schema.names)}>"

    def schema(self) -> pa.Schema:
        return self._schema

    def supports_filters_pushdown(self, filters: Sequence[Expr]) -> Sequence[FilterPushdown]:
        if not self._filterable:
            return [FilterPushdown.UNSUPPORTED] * len(filters)
        return pushdown_exact_where_possible(filters, schema=self._schema)

    def scan(self, request: ScanRequest) -> ExecutionPlan:
        condition = _condition(request.filters, self._schema)
        on_views = _condition(request.filters, self._views)
        parts = self._parts
        if condition is not None:
            # Fragments are known already: this compares their partitions with the filter and opens nothing.
            usable = on_views if has_views(self._dataset.schema) else condition
            kept = {identity(fragment) for fragment in self._dataset.get_fragments(filter=usable)}
            parts = [part for part in parts if part.identity in kept]
        groups, partitioning = self._arranged(parts, request)
        unpruned = pa.schema([self._schema.field(name) for name in request.projection])
        return DatasetPlan(
            schema=unpruned,
            dataset_schema=self._schema,
            condition=condition,
            condition_on_views=on_views,
            limit=request.limit,
            partitions=groups,
            partitioning=partitioning,
            statistics=self._estimate(unpruned, parts),
            total_files=sum(isinstance(part, DatasetFile) for part in self._parts),
        )

    def statistics(self) -> Statistics:
        return self._estimate(self._schema, self._parts)

    def _estimate(self, schema: pa.Schema, parts: Sequence[DatasetFile | DatasetMemory]) -> Statistics:
        """Of the columns of ``schema``: estimated for files, exact for what is in memory."""
        tables = [part.rows.select(schema.names) for part in parts if isinstance(part, DatasetMemory)]
        rows, size = sum(table.num_rows for table in tables), sum(table.nbytes for table in tables)
        files = [part.size for part in parts if isinstance(part, DatasetFile)]
        if not files and tables:
            return Statistics(rows, size)
        found = self._footers.estimate(schema, sum(files))
        assert found.size_in_bytes is not None
        return Statistics(None if found.num_rows is None else found.num_rows + rows, found.size_in_bytes + size)

    def _arranged(
        self, files: Sequence[DatasetFile | DatasetMemory], request: ScanRequest
    ) -> tuple[list[list[Piece | MemoryPiece]], Partitioning]:
        columns = [name for name in request.projection if files and all(name in file.keys for file in files)]
        usable = columns and all(can_be_key(self._schema.field(name).type) for name in columns)
        if usable and request.limit is None:
            keys = [tuple(file.keys[name] for name in columns) for file in files]
            by_key = grouped(keys, [file.size for file in files], self._partition_bytes, force=False)
            if by_key is not None:
                return [[files[i].whole for i in group] for group in by_key.values()], KeyPartitioning(columns, by_key)
        largest = split_bytes(sum(file.size for file in files), self._partition_bytes)
        pieces: list[Piece | MemoryPiece] = [piece for file in files for piece in file.pieces(largest)]
        groups = [
            [pieces[i] for i in group] for group in packed([p.bytes_to_read for p in pieces], self._partition_bytes)
        ]
        return groups, UnknownPartitioning(len(groups))


def _condition(filters: Sequence[Expr], schema: pa.Schema) -> Any:
    """All filters as one pyarrow expression for columns of these types; None without any."""
    condition = None
    for expr in filters:
        translated = expr.to_pyarrow(schema=schema)
        condition = translated if condition is None else condition & translated
    return condition


def _as_view(type_: pa.DataType) -> pa.DataType:
    """Strings and bytes in the type in which a file may store them whatever the other files do."""
    if pa.types.is_string(type_):
        return pa.string_view()
    if pa.types.is_binary(type_):
        return pa.binary_view()
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(_as_view(field.type)) for field in type_])
    return type_


def _opened(source: Any, format: Any, partitioning: Any, filesystem: Any) -> ds.Dataset:
    """The dataset of a path or of a list of paths (or of datasets)."""
    import pyarrow.dataset as ds

    if isinstance(source, (str, os.PathLike)):
        source = first = os.fspath(source)
    else:
        source = [os.fspath(item) if isinstance(item, os.PathLike) else item for item in source]
        first = source[0] if source and isinstance(source[0], str) else ""
    format = format or _FORMATS.get(os.path.splitext(first)[1].lower())
    dataset = ds.dataset(source, format=format, partitioning=partitioning, filesystem=filesystem)
    if not dataset.schema.names:
        raise FileNotFoundError(f"there is no file with columns at or below {source!r}")
    return dataset
