"""ListingTable: many files of one format as one table; runs in the driver, and at planning without I/O."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from headrace.arguments import checked
from headrace.arrow.rows import counted
from headrace.arrow.types import cheapest_column, value_bytes
from headrace.display import names_text
from headrace.errors import EvaluationError
from headrace.expr.nodes import Expr
from headrace.plan import (
    ExecutionPlan,
    KeyPartitioning,
    Partitioning,
    Placement,
    ScanRequest,
    SortKey,
    Statistics,
    UnknownPartitioning,
)
from headrace.provider import CountingProvider, FilterPushdown, PerScanProvider, Pushdown, TableProvider
from headrace.pruning.container_stats import ColumnStats, ContainerStats
from headrace.pruning.predicate import PruningPredicate
from headrace.tables.file_groups import PARTITION_BYTES, can_be_key, checked_order, grouped, packed
from headrace.tables.listing.facts import file_parts, file_schema, file_statistics
from headrace.tables.listing.format import DataFile, FileFormat
from headrace.tables.listing.hive import partition_values
from headrace.tables.listing.paths import Paths, listed_files
from headrace.tables.listing.plan import ListingPlan, PlannedFile


class ListingTable(PerScanProvider, CountingProvider):
    """A table of all rows of many files.

    ``paths``: a file, a directory, a glob, a URL that fsspec knows (with ``storage_options``), or a list of these.
    ``format``: how one file is read. Directories named ``year=2024`` add columns after those of the files;
    ``partition_columns`` names them or gives their types, ``()`` adds none. A column that the files have too is
    taken from the path.

    Everything that needs to look at a file happens here, in the constructor: files are listed, the first one's
    schema becomes the table's, large files are split and every file's statistics are read (``statistics=False``
    spares that, and no file is skipped by them). Planning then does no I/O. Files that come later are not seen
    before ``REFRESH TABLE``.

    Filters on partition columns are exact and skip whole files; others skip files by their statistics. Files, or
    parts of them, are put together to partitions of about ``partition_bytes``. Where a query reads partition
    columns, and their values make good tasks, each value becomes a partition instead and Spark is told so (no
    shuffle to group or join by them); ``partition_by_key`` says always (True) or never (False).

    ``sorted_by``: SortKeys by which the rows of every file are sorted. It is relied on: for the first rows in that
    order (ORDER BY ... LIMIT) no more rows of a file are read than the limit says.

    ``placement``: EXECUTORS needs files that the executors can open by the same path or URL.

    Raises FileNotFoundError if there is no file, ValueError for paths whose partition columns do not fit together,
    TypeError for something that is not a FileFormat, and what the format raises.
    """

    @checked("paths", "partition_columns", "partition_by_key", "partition_bytes", "storage_options", "placement")
    def __init__(
        self,
        paths: Paths,
        format: FileFormat,
        *,
        partition_columns: Mapping[str, pa.DataType] | Iterable[str] | None = None,
        partition_by_key: bool | None = None,
        partition_bytes: int = PARTITION_BYTES,
        statistics: bool = True,
        storage_options: Mapping[str, Any] | None = None,
        placement: Placement = Placement.EXECUTORS,
        sorted_by: Iterable[SortKey] = (),
    ) -> None:
        if not isinstance(format, FileFormat):
            hint = f"; write {format.__name__}()" if isinstance(format, type) else ""
            raise TypeError(f"ListingTable takes a FileFormat second, not {format!r}{hint}")
        if partition_bytes < 1:
            raise ValueError(f"partition_bytes must be positive, not {partition_bytes}")
        self._source = paths, storage_options, statistics
        whole = listed_files(paths, storage_options)
        values = partition_values([file.path for file in whole], partition_columns)
        self._format = format
        self._placement = placement
        self._partition_bytes = partition_bytes
        self._partition_by_key = partition_by_key
        self._schema = _table_schema(file_schema(format, whole[0]), values.schema)
        self._sorted_by = checked_order(sorted_by, self._schema)
        self._take(whole, values)

    def _take(self, whole: Sequence[DataFile], values: pa.RecordBatch) -> None:
        """The files that the table has from now on, and the values of their partition columns."""
        self._total_files = len(whole)
        parts = file_parts(self._format, whole, self._partition_bytes)
        self._files = tuple(itertools.chain.from_iterable(parts))
        rows = pa.array(itertools.chain.from_iterable([i] * len(part) for i, part in enumerate(parts)), pa.int64())
        self._values = values.take(rows) if values.num_columns else values
        self._partition_columns = frozenset(values.schema.names)
        asked = self._source[2]
        found = file_statistics(self._format, self._files) if asked else [ContainerStats()] * len(self._files)
        self._stats = self._with_partition_values(found)
        self._described = frozenset(name.partition(".")[0] for stats in self._stats for name in stats.columns)

    def __repr__(self) -> str:
        return f"<ListingTable: {counted(self._total_files, 'file')} of {names_text(self._schema.names)}>"

    def schema(self) -> pa.Schema:
        return self._schema

    def for_scan(self) -> TableProvider:
        """For one scan the table keeps the files that it has now."""
        return copy.copy(self)

    def refresh(self) -> None:
        """Lists the files again. Raises what the constructor does, and keeps the files it has then."""
        paths, storage_options, _ = self._source
        whole = listed_files(paths, storage_options)
        types = {field.name: field.type for field in self._values.schema}
        fresh = copy.copy(self)
        fresh._take(whole, partition_values([file.path for file in whole], types))
        self.__dict__.update(fresh.__dict__)

    def supports_filters_pushdown(self, filters: Sequence[Expr]) -> Sequence[FilterPushdown]:
        ours = [expr for expr in filters if self._partition_columns.isdisjoint(expr.columns())]
        answers = self._format.supports_filters_pushdown(ours) if ours else []
        if len(answers) != len(ours):
            raise TypeError(
                f"{type(self._format).__name__}.supports_filters_pushdown gave {counted(len(answers), 'answer')} for "
                f"{counted(len(ours), 'filter')}"
            )
        given = dict(zip(map(id, ours), answers, strict=True))
        return [self._answer(expr, given.get(id(expr), FilterPushdown.UNSUPPORTED)) for expr in filters]

    def supports_top_n_pushdown(self, order: Sequence[SortKey], limit: int) -> Pushdown:
        sorted_alike = self._sorted_by[: len(order)] == tuple(order)
        return Pushdown.INEXACT if sorted_alike else Pushdown.UNSUPPORTED

    def scan(self, request: ScanRequest) -> ExecutionPlan:
        kept = self._kept(range(len(self._files)), request.filters, None if request.order else request.limit)
        needed = self._kept(kept, request.runtime_filters)
        partition_columns = [name for name in request.projection if name in self._partition_columns]
        keys = self._keys(partition_columns)
        groups, partitioning = self._arranged(kept, needed, partition_columns, keys, request)
        needed_of_files = [field for field in request.schema if field.name not in self._partition_columns]
        in_files = pa.schema([field for field in self._schema if field.name not in self._partition_columns])
        asked = pa.schema(needed_of_files) if needed_of_files else cheapest_column(in_files)
        file_request = ScanRequest(
            asked,
            tuple(asked.names),
            tuple(expr for expr in request.filters if self._partition_columns.isdisjoint(expr.columns())),
            request.limit,
            runtime_filters=tuple(
                e for e in request.runtime_filters if self._partition_columns.isdisjoint(e.columns())
            ),
        )
        # Without columns and filters nothing in the file matters but how many rows it has.
        countable = not needed_of_files and not file_request.filters
        rows = [stats.row_count for stats in self._stats]
        return ListingPlan(
            format=self._format,
            schema=request.schema,
            file_schema=pa.schema([self._schema.field(field.name) for field in needed_of_files]),
            request=file_request,
            partition_columns=tuple(partition_columns),
            partitions=[
                [PlannedFile(self._files[i], keys[i], rows[i] if countable else None) for i in group]
                for group in groups
            ],
            partitioning=partitioning,
            placement=self._placement,
            statistics=self._estimate(needed, request.schema),
            total_files=self._total_files,
            runtime_filter_columns=tuple(name for name in self._schema.names if name in self._described),
        )

    def statistics(self) -> Statistics:
        return self._estimate(range(len(self._files)), self._schema)

    def _answer(self, expr: Expr, of_format: FilterPushdown) -> FilterPushdown:
        if self._by_path(expr) is not None or of_format is FilterPushdown.EXACT:
            return FilterPushdown.EXACT
        prunes = not self._described.isdisjoint(expr.columns())
        return FilterPushdown.INEXACT if prunes else of_format

    def _by_path(self, expr: Expr) -> pa.BooleanArray | None:
        """Spark's answer for every file, where partition columns decide it; else None."""
        if not expr.columns() or not expr.columns() <= self._partition_columns:
            return None
        try:
            return expr.evaluate(self._values)
        except (NotImplementedError, TypeError, EvaluationError):
            return None  # also where Spark would not have evaluated it: for a value that another filter leaves out

    def _kept(self, kept: Sequence[int], filters: Sequence[Expr], limit: int | None = None) -> list[int]:
        """Those of the files ``kept`` so far that may hold a needed row, by their indexes."""
        others = []
        for expr in filters:
            passes = self._by_path(expr)
            if passes is None:
                others.append(expr)
            else:
                kept = [i for i in kept if passes[i].as_py()]
        if others:
            predicate = PruningPredicate(others, self._schema)
            keep = predicate.keep([self._stats[i] for i in kept])
            kept = [i for i, wanted in zip(kept, keep, strict=True) if wanted]
        elif limit is not None:
            kept = self._enough(kept, limit)
        return list(kept)

    def _enough(self, kept: Sequence[int], limit: int) -> Sequence[int]:
        """The first files that are known to have ``limit`` rows together; all of them if that is not known."""
        chosen, rows = [], 0
        for i in kept:
            if rows >= limit:
                break
            if self._stats[i].row_count:
                chosen.append(i)
                rows += self._stats[i].row_count or 0
        return chosen if rows >= limit else kept

    def _keys(self, columns: list[str]) -> list[tuple[Any, ...]]:
        if not columns:
            return [()] * len(self._files)
        return list(zip(*(self._values.column(name).to_pylist() for name in columns), strict=True))

    def _arranged(
        self,
        kept: list[int],
        needed: list[int],
        columns: list[str],
        keys: list[tuple[Any, ...]],
        request: ScanRequest,
    ) -> tuple[list[list[int]], Partitioning]:
        """Partitions of the ``needed`` ones among ``kept``: arranged as those, so that a partitioning stays one."""
        sizes = [self._files[i].size_in_bytes for i in kept]
        usable = columns and all(can_be_key(self._schema.field(name).type) for name in columns)
        if usable and request.limit is None and self._partition_by_key is not False and kept:
            by_key = grouped(
                [keys[i] for i in kept], sizes, self._partition_bytes, force=self._partition_by_key is True
            )
            if by_key is not None:
                by_needed: dict[tuple[Any, ...], list[int]] = {}
                for i in needed:
                    by_needed.setdefault(keys[i], []).append(i)
                return list(by_needed.values()), KeyPartitioning(columns, by_needed)
        sizes = [self._files[i].size_in_bytes for i in needed]
        groups = [[needed[n] for n in group] for group in packed(sizes, self._partition_bytes)]
        return groups, UnknownPartitioning(len(groups))

    def _estimate(self, kept: Sequence[int], schema: pa.Schema) -> Statistics:
        """The number of rows if every file's is known, and the bytes unless rows of fixed width tell them better."""
        counts = [self._stats[i].row_count for i in kept]
        rows = None if None in counts else sum(count or 0 for count in counts)
        if rows is not None and all(value_bytes(field.type) for field in schema):
            return Statistics(rows, None)
        return Statistics(rows, sum(self._files[i].size_in_bytes for i in kept))

    def _with_partition_values(self, stats: Sequence[ContainerStats]) -> list[ContainerStats]:
        """The statistics with each partition column as a column of one value, for filters that mix both kinds."""
        names = self._values.schema.names
        if not names:
            return list(stats)
        return [
            ContainerStats(
                {**one.columns, **{n: _constant(v, one.row_count) for n, v in zip(names, key, strict=True)}},
                one.row_count,
            )
            for one, key in zip(stats, self._keys(names), strict=True)
        ]


def _constant(value: Any, row_count: int | None) -> ColumnStats:
    return ColumnStats(null_count=row_count) if value is None else ColumnStats(value, value, 0)


def _table_schema(file: pa.Schema, partition: pa.Schema) -> pa.Schema:
    return pa.schema([*(field for field in file if field.name not in partition.names), *partition])
