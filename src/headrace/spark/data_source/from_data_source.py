"""from_data_source: a ``pyspark.sql.datasource.DataSource`` as a provider, unchanged; runs in the driver."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkNotImplementedError
from pyspark.sql.datasource import CaseInsensitiveDict, DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import ArrayType, AtomicType, DataType, MapType, StringType, StructField, StructType
from pyspark.sql.utils import to_str

from headrace.arrow.spark_types import SPARK_TYPE
from headrace.errors import HeadraceError, PlanError, RegistrationError, UnsupportedTypeError
from headrace.expr.nodes import Expr
from headrace.plan import ExecutionPlan, ScanRequest
from headrace.provider import CountingProvider, FilterPushdown, NestedLiterals, PerScanProvider, TableProvider
from headrace.spark.data_source.errors import extraneous_filters, pushdown_disabled, type_mismatch
from headrace.spark.data_source.plan import DataSourcePlan, FilteredPlan
from headrace.spark.data_source.stream_reader import PartitionedStream, SimpleStream, has_stream, stream_of_source
from headrace.spark.data_source.writers import DataSourceWrites, has_writer
from headrace.spark.planning_settings import source_filters_are_off
from headrace.spark.versions import (
    arrow_schema,
    has_arrow_type,
    inherited_push_filters,
    named_beside_arrow,
    pushes_filters,
    types_without_arrow,
)
from headrace.stream import Offset, ReadLimit, StreamProvider


def from_data_source(
    cls: type[DataSource], options: Mapping[str, Any] | None = None, *, schema: StructType | str | None = None
) -> TableProvider:
    """``cls``, which you have for ``spark.read.format(...)``, as a table for ``register_table``. No change is needed.

    ``options`` are those of ``spark.read.options(...)``. ``schema`` (a StructType or DDL text), where you would call
    ``spark.read.schema(...)``. Faster than Spark's own way: rows become Arrow once, column by column, of only the
    columns that the query reads; Arrow batches are passed on as they are.

    As in Spark: a reader is made for each scan; its ``pushFilters`` and ``partitions`` run while Spark plans (here in
    the driver's process), ``read`` in Spark's Python workers. Filters that ``pushFilters`` does not return are exact;
    those that it does may still have been used to skip data. ``spark.sql.python.filterPushdown.enabled`` is not
    needed; where the session sets it to false, a reader with ``pushFilters`` is refused, as in Spark.

    A data source with a ``streamReader`` or a ``simpleStreamReader`` is a stream too: ``ctx.stream(name)``. All queries
    of the table ask one reader: register the source once for each query if its reader counts what it gave. The limits
    of ``ctx.stream`` reach a reader whose ``latestOffset`` takes them (Spark 4.2); its ``getDefaultReadLimit`` is not
    asked. With the trigger availableNow all that there is comes in the steps in which the reader answers.

    A class with ``writer`` or ``streamWriter`` makes a table for INSERT INTO, INSERT OVERWRITE and streaming queries.
    Its writers get rows or Arrow batches with the table's columns, and the options of the writer beside ``options``;
    ``write`` runs in Spark's Python workers, ``commit`` and ``abort`` in the driver's process. Messages hold data:
    numbers, text, bytes, dates, lists, dicts, and dataclasses, named tuples or enums of these. Where the class has no
    ``schema()``, or takes any columns, give ``schema``.

    Raises TypeError if ``cls`` is not such a class; ``register_table`` raises what ``schema()`` does, ParseException
    for bad DDL and UnsupportedTypeError for a type that would not arrive as itself.
    """
    if not isinstance(cls, type) or not issubclass(cls, DataSource):
        raise TypeError(f"from_data_source takes a subclass of pyspark's DataSource (the class itself), not {cls!r}")
    texts = {name: to_str(value) for name, value in (options or {}).items() if value is not None}
    source = cls(options=CaseInsensitiveDict(texts))
    only_stream = has_stream(source) and cls.reader is DataSource.reader
    if has_writer(cls):
        return (WritableStreamOnlyTable if only_stream else WritableDataSourceTable)(source, schema)
    return (StreamOnlyTable if only_stream else DataSourceTable)(source, schema)


class DataSourceTable(PerScanProvider, StreamProvider):
    """What ``from_data_source`` returns."""

    def __init__(self, source: DataSource, schema: StructType | str | None) -> None:
        self._source = source
        self._given = schema
        self._struct: StructType | None = None
        self._lock = threading.Lock()
        self._stream: PartitionedStream | SimpleStream | None = None

    def schema(self) -> pa.Schema:
        struct: Any = self._source.schema() if self._given is None else self._given
        if isinstance(struct, str):
            struct = DataType.fromDDL(struct)  # by Spark's own parser, which needs a running session
        if not isinstance(struct, StructType):
            raise RegistrationError(
                f"{self.name}.schema() returned {type(struct).__name__}, expected a StructType or its DDL text"
            )
        for field in struct:
            _check_type(field.dataType, field.name)
        self._struct = struct
        return pa.schema(list(map(_described, arrow_schema(struct), struct)))

    def for_scan(self) -> DataSourceScan:
        return DataSourceScan(self)

    def supports_filters_pushdown(self, filters: Sequence[Expr]) -> Sequence[FilterPushdown]:
        return self.for_scan().supports_filters_pushdown(filters)

    def scan(self, request: ScanRequest) -> ExecutionPlan:
        return self.for_scan().scan(request)

    def _why_no_stream(self) -> str | None:
        if has_stream(self._source):
            return None
        return f"the data source {self.name} has neither streamReader nor simpleStreamReader"

    def initial_offset(self) -> Offset:
        return self.stream().reader.initialOffset()

    def latest_offset(self, start: Offset, limit: ReadLimit) -> Offset:
        return self.stream().latest(start, limit)

    def scan_between(self, start: Offset, end: Offset, request: ScanRequest) -> ExecutionPlan:
        return self.for_scan().scan_between(start, end, request)

    def commit(self, end: Offset) -> None:
        self.stream().commit(end)

    def stream(self) -> PartitionedStream | SimpleStream:
        """Made when it is first needed; its reader is stopped when this table is gone."""
        if (reason := self._why_no_stream()) is not None:
            raise PlanError(reason)
        with self._lock:
            if self._stream is None:
                self._stream = stream_of_source(self._source, self.struct(), self.name)
                weakref.finalize(self, self._stream.stop)
            return self._stream

    @property
    def name(self) -> str:
        return str(type(self._source).name())

    def struct(self) -> StructType:
        if self._struct is None:
            raise HeadraceError(f"data source {self.name}: schema() has not been called; register the table first")
        return self._struct

    def reader(self) -> DataSourceReader:
        reader = self._source.reader(schema=self.struct())
        if not isinstance(reader, DataSourceReader):
            raise type_mismatch("an instance of DataSourceReader", reader)
        inherited = inherited_push_filters()
        if inherited is not None and type(reader).pushFilters is not inherited and source_filters_are_off():
            raise pushdown_disabled(reader)
        return reader


class StreamOnlyTable(DataSourceTable):
    """A data source without ``reader``: there is no batch scan."""

    scan = StreamProvider.scan


class WritableDataSourceTable(DataSourceTable, DataSourceWrites):
    """As DataSourceTable, of a data source with a writer."""


class WritableStreamOnlyTable(StreamOnlyTable, DataSourceWrites):
    """As StreamOnlyTable, of a data source with a writer."""


class DataSourceScan(NestedLiterals, CountingProvider, StreamProvider):
    """One scan of a data source: the reader that is given the filters is the one that reads."""

    def __init__(self, table: DataSourceTable) -> None:
        self._table = table
        self._reader: DataSourceReader | None = None

    def schema(self) -> pa.Schema:
        return self._table.schema()

    def supports_filters_pushdown(self, filters: Sequence[Expr]) -> Sequence[FilterPushdown]:
        if isinstance(self._table, StreamOnlyTable):  # no stream reader takes any
            return [FilterPushdown.UNSUPPORTED] * len(filters)
        self._reader = reader = self._table.reader()
        return self._push(reader, filters) if pushes_filters(reader) else [FilterPushdown.UNSUPPORTED] * len(filters)

    def initial_offset(self) -> Offset:
        return self._table.initial_offset()

    def latest_offset(self, start: Offset, limit: ReadLimit) -> Offset:
        return self._table.latest_offset(start, limit)

    def scan_between(self, start: Offset, end: Offset, request: ScanRequest) -> ExecutionPlan:
        """Stream readers take no filters: those that the batch reader took are applied to the rows."""
        filtered = dict.fromkeys(name for expr in request.filters for name in sorted(expr.columns()))
        columns = tuple(dict.fromkeys((*request.projection, *filtered)))
        plan = self._table.stream().plan(start, end, columns)
        return FilteredPlan(plan, request) if request.filters else plan

    def scan(self, request: ScanRequest) -> ExecutionPlan:
        if isinstance(self._table, StreamOnlyTable):
            return self._table.scan(request)
        reader = self._reader
        if reader is None:
            reader = self._table.reader()
            if request.filters:
                self._push(reader, request.filters)
        name, struct = self._table.name, self._table.struct()
        return DataSourcePlan(reader, self._partitions(reader), struct, request.projection, name)

    def _push(self, reader: DataSourceReader, filters: Sequence[Expr]) -> list[FilterPushdown]:
        """EXACT for those the reader keeps, INEXACT for those it returns: it may have used them in part."""
        from headrace.spark.data_source.filters import pushed_filter  # of Filter classes that 4.0 does not have

        given = {index: made for index, expr in enumerate(filters) if (made := pushed_filter(expr)) is not None}
        answered = list(reader.pushFilters(list(given.values()))) if given else []
        returned = set(map(id, answered))
        if not returned <= {id(filter_) for filter_ in given.values()}:
            raise extraneous_filters(reader, list(given.values()), answered)
        answers = [FilterPushdown.UNSUPPORTED] * len(filters)
        for index, filter_ in given.items():
            answers[index] = FilterPushdown.INEXACT if id(filter_) in returned else FilterPushdown.EXACT
        return answers

    def _partitions(self, reader: DataSourceReader) -> tuple[InputPartition, ...]:
        try:
            partitions = reader.partitions()
        except (NotImplementedError, PySparkNotImplementedError):  # what the method did in Spark 4.0
            return (InputPartition(None),)
        if not isinstance(partitions, Sequence):
            raise type_mismatch("'partitions' to return a list", partitions)
        if wrong := [p for p in partitions if not isinstance(p, InputPartition)]:
            raise type_mismatch("elements in 'partitions' to be of type 'InputPartition'", wrong[0])
        return tuple(partitions) or (InputPartition(None),)


def _described(field: pa.Field, described: StructField) -> pa.Field:
    """``field`` with the comments of Spark's own field and those in it, and their types where Arrow has no word."""
    comment = (described.metadata or {}).get("comment")
    metadata = {"comment": str(comment)} if comment else {}
    return _typed(field.with_metadata(metadata or None), described.dataType)


def _typed(field: pa.Field, described: DataType) -> pa.Field:
    if isinstance(described, named_beside_arrow()):
        return field.with_metadata({**(field.metadata or {}), SPARK_TYPE: described.jsonValue()})
    return field.with_type(_described_type(field.type, described))


def _described_type(type_: pa.DataType, described: DataType) -> pa.DataType:
    if isinstance(described, StructType):
        return pa.struct([_described(type_.field(i), field) for i, field in enumerate(described)])
    if isinstance(described, ArrayType):
        return pa.list_(_typed(type_.value_field, described.elementType))
    if isinstance(described, MapType):
        return pa.map_(_typed(type_.key_field, described.keyType), _typed(type_.item_field, described.valueType))
    return type_


def _check_type(type_: DataType, column: str) -> None:
    """Raises UnsupportedTypeError for what Arrow alone would turn into something else."""
    if isinstance(type_, StructType):
        for field in type_:
            _check_type(field.dataType, f"{column}.{field.name}")
    elif isinstance(type_, ArrayType):
        _check_type(type_.elementType, f"{column}.element")
    elif isinstance(type_, MapType):
        _check_type(type_.keyType, f"{column}.key")
        _check_type(type_.valueType, f"{column}.value")
    collated = isinstance(type_, StringType) and isinstance(type_, AtomicType) and not type_.isUTF8BinaryCollation()
    if isinstance(type_, types_without_arrow()) or collated or not has_arrow_type(type_):
        raise UnsupportedTypeError(
            f"column {column!r} has type {type_.simpleString()}, which from_data_source cannot pass on; read this "
            "source with spark.read.format(...)"
        )
