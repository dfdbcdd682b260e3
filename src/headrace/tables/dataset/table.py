"""DatasetTable: what ``pyarrow.dataset`` reads (Parquet, CSV, ORC, Feather, JSON) as a table; runs in the driver."""

from __future__ import annotations

import copy
import dataclasses
import datetime
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from headrace.arguments import checked
from headrace.arrow.rows import counted
from headrace.arrow.schemas import SchemaLike, schema_of
from headrace.arrow.types import filterable, is_filterable
from headrace.display import names_text
from headrace.errors import EvaluationError, PlanError, WriteError
from headrace.expr.nodes import Expr, InList
from headrace.expr.semantics import is_comparable, spark_view
from headrace.plan import (
    Aggregation,
    ExecutionPlan,
    KeyPartitioning,
    Partitioning,
    ScanRequest,
    SortKey,
    Statistics,
    UnknownPartitioning,
)
from headrace.provider import (
    AggregatePushdown,
    CountingProvider,
    FilterPushdown,
    PerScanProvider,
    Pushdown,
    TableProvider,
    pushdown_exact_where_possible,
)
from headrace.stream import Offset, ReadLimit, StreamProvider
from headrace.tables.dataset.aggregate import DatasetAggregatePlan
from headrace.tables.dataset.chunks import has_exact_bounds
from headrace.tables.dataset.file_stream import FileStream
from headrace.tables.dataset.files import (
    IN_MEMORY,
    DatasetFile,
    DatasetMemory,
    dataset_files,
    dataset_memory,
    identity,
    in_memory,
)
from headrace.tables.dataset.footers import Footers
from headrace.tables.dataset.int96 import reading_instants
from headrace.tables.dataset.opening import DatasetSource, OpenedDataset
from headrace.tables.dataset.partial_aggregates import can_be_partial, operand_columns, ranged_columns
from headrace.tables.dataset.plan import DatasetPlan, MemoryPiece, Piece, can_read_dictionaries, has_views
from headrace.tables.dataset.row_groups import RowGroupPruning
from headrace.tables.dataset.scan import DatasetScan
from headrace.tables.dataset.selectivity import passing_share, worth_filtering
from headrace.tables.dataset.writing import DatasetWrite, WriteTarget, write_target
from headrace.tables.file_groups import PARTITION_BYTES, can_be_key, checked_order, grouped, packed, split_bytes
from headrace.write import WritableProvider, WriteLayout, WriteMode, WritePlan, WriteRequest

_NO_PARTITION = ("true", IN_MEMORY[1])


class DatasetTable(PerScanProvider, CountingProvider, StreamProvider, WritableProvider):
    """A table over a ``pyarrow.dataset.Dataset``, over a file, a folder or a glob, or over a list of paths.

    The dataset may be of files, of tables in memory, or a union of both. Files are read where Spark runs its tasks;
    a query that also needs data in memory reads all of it in this process.

    For a path ``format`` is told by the endings of the files (Parquet where they have none), ``partitioning`` is the
    hive style (``year=2024/``), and ``filesystem`` any of ``pyarrow.fs``; a glob (``logs/**/*.csv``) is of local files.
    Make the dataset yourself for other options.

    Filters that pyarrow decides as Spark does are exact: files are skipped by their partition, Parquet row groups
    by their statistics, and only the needed columns are read. What a join's other side rules out is skipped in the
    same way. ``count``, ``min`` and ``max`` come from Parquet footers where these tell them. Files are put together
    to partitions of about ``partition_bytes``, large Parquet files are split between row groups. Where a query reads
    partition columns, and their values make good tasks, each value is a partition and Spark is told so.

    ``sorted_by``: SortKeys by which the rows of every file are sorted. It is relied on: for the first rows in that
    order (ORDER BY ... LIMIT) no more rows of a file are read than the limit says.

    A table of a folder's path can be written to, in Parquet, CSV, ORC and Feather: on a disk that all machines share,
    not where a file system cannot rename a file at once (object stores). Tasks write files aside, and all of them are
    published when the statement ends; a record in ``_headrace/`` says which files count, so that tables of this class
    never show a part of a write, and an overwrite leaves the old files until the new ones are whole. A batch that a
    streaming query commits again is there once. What writers left that were killed, the next write removes.

    ``ctx.stream(name)`` reads the files of a folder or of a glob, and then those that come, each once, in the order of
    their modification times. A file has to be there whole at once (rename it into its place) and to stay as it is until
    it was read: one that is written anew is read anew, one that is removed too soon is an OffsetLostError.
    ``lookback``: how much older than files that were read one may be that comes after them. One that is still older is
    not read, and the logger ``headrace`` warns of it. ``maxRowsPerTrigger`` and ``maxBytesPerTrigger`` count whole
    files; CSV and JSON have to be read for their rows to be counted.

    ``schema`` (a ``pa.schema``, DDL text, or pairs of name and type): for a path, instead of that of the first file,
    with the partition columns. With it a folder may be empty, or not there yet; its rows go into hive partitions of the
    columns ``partition_by``: integers, text or dates. A folder that was written to remembers both.

    The constructor lists the files, asks for their sizes and looks into the footers of a few Parquet files, to
    estimate rows, and so does each write through this table; planning then does no I/O. The files are opened where
    Spark runs its tasks, and decoded by one thread for each task.

    Raises FileNotFoundError for a path without files and without ``schema``, ValueError for a folder with files of
    several formats or of unknown endings, TypeError for a dataset of an open file or of another kind, and what
    ``ds.dataset()`` raises.
    """

    @checked("partition_bytes", "partition_by", "lookback")
    def __init__(
        self,
        dataset: Any,
        *,
        format: Any = None,
        partitioning: Any = "hive",
        filesystem: Any = None,
        schema: SchemaLike | None = None,
        partition_by: Sequence[str] = (),
        partition_bytes: int = PARTITION_BYTES,
        sorted_by: Iterable[SortKey] = (),
        lookback: datetime.timedelta = datetime.timedelta(minutes=10),
    ) -> None:
        import pyarrow.dataset as ds  # takes a while to import, and only this table needs it

        if partition_bytes < 1:
            raise ValueError(f"partition_bytes must be positive, not {partition_bytes}")
        if lookback <= datetime.timedelta(0):
            raise ValueError(f"lookback must be positive, not {lookback}")
        given = None if schema is None else schema_of(schema, "DatasetTable's schema")
        self._source: DatasetSource | None = None
        if isinstance(dataset, ds.Dataset):
            if given is not None or partition_by:
                raise ValueError("schema and partition_by are for a path; a dataset has a schema already")
            opened = OpenedDataset(dataset, None)
        else:
            self._source = DatasetSource.of(
                dataset,
                format=format,
                partitioning=partitioning,
                filesystem=filesystem,
                schema=given,
                partition_by=_checked_partition_by(partition_by, given),
            )
            opened = self._source.open()
        self._partition_bytes = partition_bytes
        self._take(opened)
        self._sorted_by = checked_order(sorted_by, self._schema)
        self._stream: FileStream | None = None
        if self._source is not None and isinstance(self._source.source, str):
            look_back_us = lookback // datetime.timedelta(microseconds=1)
            dataset = self._dataset
            self._stream = FileStream(self._source.source, dataset, look_back_us, reading_instants(dataset.format))

    def _take(self, opened: OpenedDataset) -> None:
        """What the table has from now on."""
        self._opened = opened
        self._write_target: WriteTarget | WriteError | None = None  # looked for when it is needed
        self._dataset = dataset = opened.dataset
        fragments = opened.fragments()
        files = dataset_files(fragments)
        of_files = [fragment for fragment in fragments if not in_memory(fragment)]
        shown = pa.schema([filterable(field) for field in dataset.schema])
        self._footers = Footers.sampled(of_files, [file.size for file in files], shown)
        self._schema = self._footers.schema
        self._int96 = {one.name for one, other in zip(shown, self._schema, strict=True) if one != other}
        self._views = pa.schema([field.with_type(_as_view(field.type)) for field in self._schema])
        self._parts: list[DatasetFile | DatasetMemory] = [*files, *dataset_memory(fragments, self._schema)]
        self._keys = _partition_keys([part.keys for part in self._parts], self._schema)
        self._are_partitioned = any(part.identity[1] not in _NO_PARTITION for part in self._parts)
        self._comparable = [field.name for field in self._schema if is_comparable(field.type)]
        self._filterable = all(is_filterable(field.type) for field in self._schema)
        only_files = bool(of_files) and len(of_files) == len(fragments)
        self._has_dictionaries = only_files and can_read_dictionaries(of_files[0].format)  # others: when they are read

    def __repr__(self) -> str:
        return f"<DatasetTable: {counted(len(self._parts), 'file')} of {names_text(self._schema.names)}>"

    def schema(self) -> pa.Schema:
        return self._schema

    def for_scan(self) -> TableProvider:
        """For one scan the table stays as it is now, whatever is written meanwhile."""
        return DatasetScan(copy.copy(self))

    def insert(self, request: WriteRequest) -> WritePlan:
        return DatasetWrite(self._target(), request, self._refresh)

    def write_modes(self) -> set[WriteMode]:
        """Where the table can only be read: appending, of which ``insert`` says why it cannot be."""
        target = self._known_target()
        if isinstance(target, WriteError):
            return {WriteMode.APPEND}
        partitioned = {WriteMode.OVERWRITE, WriteMode.DYNAMIC} if target.partition_by else set()
        return {WriteMode.APPEND, WriteMode.TRUNCATE, *partitioned}

    def can_overwrite(self, filters: Sequence[Expr]) -> bool:
        """Where the partition of a file tells for all of its rows."""
        target = self._known_target()
        return isinstance(target, WriteTarget) and target.decides(filters)

    def layout(self, mode: WriteMode) -> WriteLayout | None:
        target = self._known_target()
        return target.layout() if isinstance(target, WriteTarget) else None

    def partition_columns(self) -> Sequence[str]:
        target = self._known_target()
        return target.partition_by if isinstance(target, WriteTarget) else ()

    def can_delete(self, filters: Sequence[Expr]) -> bool:
        return self.can_overwrite(filters)

    def delete(self, filters: tuple[Expr, ...]) -> None:
        """Removes whole files. Queries that read them fail, and name the file."""
        target = self._target()
        target.publish([], lambda: target.doomed(filters), "", None)
        self._refresh()

    def _target(self) -> WriteTarget:
        """Raises WriteError, saying why, where the table can only be read."""
        target = self._known_target()
        if isinstance(target, WriteError):
            raise target
        return target

    def _known_target(self) -> WriteTarget | WriteError:
        if self._write_target is None:
            self._write_target = write_target(self._source, self._opened, self._schema)
        return self._write_target

    def refresh(self) -> None:
        """Lists the files again. Raises PlanError for a dataset of files, which pyarrow does not list again, and
        FileNotFoundError where the folder or file is gone: a disk that is not mounted is no table without rows.
        """
        if self._source is not None:
            if self._parts and self._source.is_gone():
                raise FileNotFoundError(
                    f"{self._source.source!r} is not there any more: mount or make it, or register the table again"
                )
            self._refresh()
        elif any(isinstance(part, DatasetFile) for part in self._parts):
            raise PlanError(
                "a DatasetTable of a pyarrow dataset keeps that dataset's files: make it of a path, or register a new "
                "dataset with replace=True"
            )

    def _refresh(self) -> None:
        """What is in the folder now, all at once for scans that begin on other threads. The schema stays."""
        assert self._source is not None
        fresh = copy.copy(self)
        fresh._take(dataclasses.replace(self._source, schema=self._dataset.schema).open())
        self.__dict__.update(fresh.__dict__)

    def supports_filters_pushdown(self, filters: Sequence[Expr]) -> Sequence[FilterPushdown]:
        if not self._filterable:
            return [FilterPushdown.UNSUPPORTED] * len(filters)
        return pushdown_exact_where_possible(filters, schema=self._schema)

    def supports_top_n_pushdown(self, order: Sequence[SortKey], limit: int) -> Pushdown:
        sorted_alike = self._sorted_by[: len(order)] == tuple(order)
        return Pushdown.INEXACT if sorted_alike else Pushdown.UNSUPPORTED

    def supports_aggregate_pushdown(self, aggregation: Aggregation) -> AggregatePushdown:
        """Counts, least and greatest values: partial ones, as only the footers tell what has to be read for them."""
        can_count = self._filterable and can_be_partial(aggregation)
        return AggregatePushdown.PARTIAL if can_count else AggregatePushdown.UNSUPPORTED

    def scan(self, request: ScanRequest) -> ExecutionPlan:
        if request.aggregation is None:
            return self._rows(request, self._matching(self._parts, request.filters), repeated=True)
        columns = operand_columns(request.aggregation)
        of_columns = ScanRequest(pa.schema(map(self._schema.field, columns)), tuple(columns), request.filters)
        parts = self._decided(request.filters)
        assert parts is not None, "footers count rows only where no filter is left"
        told = self._told(request.aggregation)
        return DatasetAggregatePlan(request.aggregation, self._rows(of_columns, parts, together=told))

    def may_be_told(self, filters: Sequence[Expr]) -> bool:
        """Whether partitions decide all of ``filters``, so that footers count the rows that pass."""
        return self._decided(filters) is not None

    def _why_no_stream(self) -> str | None:
        if self._stream is not None:
            return None
        return "a DatasetTable of a dataset, or of a list of files, does not grow: make it of a folder or of a glob"

    def _file_stream(self) -> FileStream:
        if self._stream is None:
            raise PlanError(str(self._why_no_stream()))
        return self._stream

    def initial_offset(self) -> Offset:
        return self._file_stream().initial()

    def latest_offset(self, start: Offset, limit: ReadLimit) -> Offset:
        return self._file_stream().latest(start, limit)

    def scan_between(self, start: Offset, end: Offset, request: ScanRequest) -> ExecutionPlan:
        return self._rows(request, self._file_stream().between(start, end), of_range=True)

    def is_one_task(self, aggregation: Aggregation, filters: Sequence[Expr]) -> bool:
        """Whether footers are likely to tell all of it, and are so few that one task is to read them.

        Not for a class that has a ``scan`` of its own: its plans may have any number of partitions.
        """
        if type(self).scan is not DatasetTable.scan or not self._told(aggregation):
            return False
        parts = self._decided(filters)
        return parts is not None and len(parts) <= self._footers.in_a_task()

    def _told(self, aggregation: Aggregation) -> bool:
        """Whether footers are likely to tell all of it: those that were looked into would."""
        columns = set(operand_columns(aggregation)) - set(self._keys.schema.names)
        exact = all(has_exact_bounds(self._schema.field(name).type) for name in ranged_columns(aggregation))
        return exact and all(self._footers.facts(name) is not None for name in columns)

    def _rows(
        self,
        request: ScanRequest,
        parts: Sequence[DatasetFile | DatasetMemory],
        *,
        together: bool = False,
        repeated: bool = False,
        of_range: bool = False,
    ) -> DatasetPlan:
        """A scan of rows. ``together``: only footers are to be read, so partitions have many files.

        ``repeated``: columns with few values may be dictionaries. ``of_range``: ``parts`` are a range of a stream.
        """
        every = parts if of_range else self._parts
        learnt = [expr for expr in request.runtime_filters if expr.to_pyarrow(schema=self._schema) is not None]
        needed = self._matching(parts, learnt) if self._filterable else parts
        facts = self._footers.facts_for((*request.filters, *learnt))
        passing = passing_share(request.filters, self._schema, facts)
        asked = worth_filtering(learnt, passing, len(request.projection), facts)
        filters = (*request.filters, *(asked if self._filterable else ()))
        ranged = [expr for expr in learnt if self._filterable and expr not in asked]
        groups, partitioning = self._together(needed) if together else self._arranged(parts, needed, request)
        unpruned = pa.schema([self._schema.field(name) for name in request.projection])
        condition = _condition(filters, self._schema)
        return DatasetPlan(
            schema=unpruned,
            dataset_schema=self._schema,
            condition=condition,
            condition_on_views=self._condition_on_views(filters, condition),
            filtered={name for expr in (*request.filters, *learnt) for name in expr.columns()},
            limit=request.limit,
            partitions=groups,
            partitioning=partitioning,
            statistics=None if self._has_own_statistics else self._estimate(unpruned, needed, passing),
            total_files=len({part.whole.path for part in every if isinstance(part, DatasetFile)}),
            runtime_filter_columns=self._comparable if self._filterable else (),
            repeated=self._repeated(request, filters) if repeated else (),
            pruning=RowGroupPruning.of((*request.filters, *learnt), self._schema) if self._filterable else None,
            notes=[note for expr in ranged for note in _range_notes(expr)],
        )

    def _repeated(self, request: ScanRequest, filters: Sequence[Expr]) -> list[str]:
        """The columns that are better read as dictionaries; none on which pyarrow filters, for which it knows less."""
        if not self._has_dictionaries:
            return []
        filtered = {name for expr in filters for name in expr.columns()}
        return [
            name
            for name in request.projection
            if self._schema.field(name).type in (pa.string(), pa.binary())
            and name not in filtered
            and self._footers.has_few_values(name)
        ]

    def _decided(self, filters: Sequence[Expr]) -> Sequence[DatasetFile | DatasetMemory] | None:
        """The parts all of whose rows pass, if all rows of the others do not; None where partitions do not decide."""
        passing = list(range(len(self._parts)))
        for expr in filters:
            if not expr.columns() <= set(self._keys.schema.names):
                return None
            try:
                answers = expr.evaluate(self._keys).to_pylist()
            except (NotImplementedError, TypeError, EvaluationError):
                return None
            passing = [i for i in passing if answers[i]]
        return [self._parts[i] for i in passing]

    def _matching(
        self, parts: Sequence[DatasetFile | DatasetMemory], filters: Sequence[Expr]
    ) -> Sequence[DatasetFile | DatasetMemory]:
        """Those of ``parts`` whose partition does not rule out the filters. Opens nothing."""
        if not filters or not self._are_partitioned:
            return parts
        shown = [expr for expr in filters if not expr.columns() & self._int96]  # in pyarrow's type; no path sets them
        usable = _condition(shown, self._views if has_views(self._dataset.schema) else self._schema)
        kept = {identity(fragment) for fragment in self._dataset.get_fragments(filter=usable)}
        return [part for part in parts if part.identity in kept]

    def _condition_on_views(self, filters: Sequence[Expr], condition: Any) -> Any:
        """What ``condition`` is where text is stored as views; the same if the filters read no text."""
        read = {name for expr in filters for name in expr.columns()}
        alike = all(self._views.field(name).type == self._schema.field(name).type for name in read)
        return condition if alike else _condition(filters, self._views)

    def statistics(self) -> Statistics:
        return self._estimate(self._schema, self._parts)

    @property
    def _has_own_statistics(self) -> bool:
        """Whether a subclass says it better: then that counts for every scan, whatever is read and filtered."""
        return type(self).statistics is not DatasetTable.statistics

    def estimated(self, filters: Sequence[Expr]) -> Statistics | None:
        """Of all columns, in the rows that pass. A class that has ``statistics`` of its own is asked for these."""
        if self._has_own_statistics:
            return self.statistics()
        passing = passing_share(filters, self._schema, self._footers.facts_for(filters))
        return self._estimate(self._schema, self._matching(self._parts, filters), passing)

    def _estimate(
        self, schema: pa.Schema, parts: Sequence[DatasetFile | DatasetMemory], passing: float = 1.0
    ) -> Statistics:
        """Of the columns of ``schema``: estimated for files, of which a share passes; exact for what is in memory."""
        tables = [part.rows.select(schema.names) for part in parts if isinstance(part, DatasetMemory)]
        rows, size = sum(table.num_rows for table in tables), sum(table.nbytes for table in tables)
        files = [part.size for part in parts if isinstance(part, DatasetFile)]
        if not files and tables:
            return Statistics(rows, size)
        found = self._footers.estimate(schema, sum(files) * passing)
        assert found.size_in_bytes is not None
        return Statistics(None if found.num_rows is None else found.num_rows + rows, found.size_in_bytes + size)

    def _arranged(
        self,
        files: Sequence[DatasetFile | DatasetMemory],
        needed: Sequence[DatasetFile | DatasetMemory],
        request: ScanRequest,
    ) -> tuple[list[list[Piece | MemoryPiece]], Partitioning]:
        """Partitions of the ``needed`` ones among ``files``: arranged as those, so that a partitioning stays one."""
        columns = [name for name in request.projection if files and all(name in file.keys for file in files)]
        usable = columns and all(can_be_key(self._schema.field(name).type) for name in columns)
        if usable and request.limit is None:
            keys = [tuple(file.keys[name] for name in columns) for file in files]
            by_key = grouped(keys, [file.size for file in files], self._partition_bytes, force=False)
            if by_key is not None:
                kept: dict[tuple[Any, ...], list[Piece | MemoryPiece]] = {}
                for file in needed:
                    kept.setdefault(tuple(file.keys[name] for name in columns), []).append(file.whole)
                return list(kept.values()), KeyPartitioning(columns, kept)
        largest = split_bytes(sum(file.size for file in files), self._partition_bytes)
        pieces: list[Piece | MemoryPiece] = [piece for file in needed for piece in file.pieces(largest)]
        groups = [
            [pieces[i] for i in group] for group in packed([p.bytes_to_read for p in pieces], self._partition_bytes)
        ]
        return groups, UnknownPartitioning(len(groups))

    def _together(
        self, files: Sequence[DatasetFile | DatasetMemory]
    ) -> tuple[list[list[Piece | MemoryPiece]], Partitioning]:
        """One partition unless there are very many: what Spark does to merge two takes longer than 200 footers."""
        pieces = [file.whole for file in files]
        count = -(-len(pieces) // self._footers.in_a_task())
        groups = [pieces[len(pieces) * i // count : len(pieces) * (i + 1) // count] for i in range(count)]
        return groups, UnknownPartitioning(len(groups))


def _checked_partition_by(columns: Sequence[str], schema: pa.Schema | None) -> tuple[str, ...]:
    if columns and schema is None:
        raise ValueError("partition_by is for a new folder, and needs its schema; one with files keeps its own")
    for name in columns:
        if schema is not None and name not in schema.names:
            raise ValueError(f"partition_by: there is no column {name!r} ({', '.join(schema.names)})")
    return tuple(columns)


def _condition(filters: Sequence[Expr], schema: pa.Schema) -> Any:
    """All filters as one pyarrow expression for columns of these types; None without any."""
    condition = None
    for expr in filters:
        translated = expr.to_pyarrow(schema=schema)
        condition = translated if condition is None else condition & translated
    return condition


def _range_notes(learnt: Expr) -> list[str]:
    """What EXPLAIN says of a list that rows are not compared with."""
    if not isinstance(learnt, InList):
        return []
    return [
        f"of {len(learnt.values):,} values for {learnt.operand!r} the least and greatest are asked of rows "
        "(to look up all would leave out too few)"
    ]


def _partition_keys(keys: Sequence[dict[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    """A row for each part: the partition columns that all of them have, as Spark sees them."""
    names = [field.name for field in schema if keys and all(field.name in one for one in keys)]
    types = {name: spark_view(schema.field(name).type) for name in names}
    columns = {name: pa.array([one[name] for one in keys], type_) for name, type_ in types.items() if type_ is not None}
    return pa.RecordBatch.from_pydict(columns)


def _as_view(type_: pa.DataType) -> pa.DataType:
    """Strings and bytes in the type in which a file may store them whatever the other files do."""
    if pa.types.is_string(type_):
        return pa.string_view()
    if pa.types.is_binary(type_):
        return pa.binary_view()
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(_as_view(field.type)) for field in type_])
    return type_
