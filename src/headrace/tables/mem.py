"""MemTable: data that is in memory already; runs in the driver, where the data is."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.arrow.conversion import table_in_types, to_wire
from headrace.arrow.damage import DamageCheck
from headrace.arrow.data import table_of
from headrace.arrow.mismatch import mismatch
from headrace.arrow.rows import counted
from headrace.arrow.sending import is_light
from headrace.arrow.sizes import BATCH_ROWS, LARGE_BYTES, LARGE_ROWS
from headrace.arrow.sources import BatchSource
from headrace.arrow.types import filterable, is_view, wire_type
from headrace.arrow.views import plain_where_in_a_row
from headrace.display import names_text
from headrace.errors import SchemaMismatchError
from headrace.expr.nodes import Expr
from headrace.expr.semantics import is_comparable
from headrace.plan import ExecutionPlan, Placement, ScanRequest, Statistics, UnknownPartitioning
from headrace.provider import FilterPushdown, pushdown_exact_where_possible
from headrace.pruning.container_stats import ColumnStats, ContainerStats
from headrace.pruning.predicate import PruningPredicate
from headrace.tables.mem_write import MemWrite, without_rows
from headrace.write import WritableProvider, WriteMode, WritePlan, WriteRequest


class MemTable(WritableProvider):
    """A table over data in memory.

    ``data``: a pyarrow Table or RecordBatch, an iterable of RecordBatches, a RecordBatchReader (read to its end
    here), anything with ``__arrow_c_stream__`` or ``__arrow_c_array__`` (a polars frame, a duckdb relation, which runs
    here), a pandas frame (its index only where that has a name), a list of dicts or a dict of lists. Arrow's memory is
    not copied, except that small batches that stand next to each other are put together once.
    ``partitions``: how many tasks a scan may use; each gets an equal share of the rows, in order.

    Placement is DRIVER: nothing is pickled, only the needed columns and rows cross to Spark. Columns, filters that
    pyarrow decides as Spark does (those of joins too), and limits are used; row and byte counts are exact. String
    views and other types that pyarrow cannot filter are shown as the plain type. They are converted batch by batch when
    they are read, views only where a filter is used, or where text of more than 12 bytes lies far apart.

    It can be written to: rows are appended, or replace all rows or those of a filter, all at once when the statement
    ends; DELETE and TRUNCATE remove rows. Queries under way keep the rows that they began with, and the object that the
    table was made of never changes. What a streaming query commits twice is there once, for as long as the table is.

    Raises TypeError for what is no table, or has a column of mixed types, ValueError for fewer than one partition or
    for an iterable without batches (it has no schema), SchemaMismatchError for batches that differ in schema.
    """

    def __init__(self, data: Any, partitions: int = 1) -> None:
        if not isinstance(partitions, int) or isinstance(partitions, bool):
            raise TypeError(f"MemTable's partitions must be an int, not {type(partitions).__name__}")
        if partitions < 1:
            raise ValueError(f"MemTable needs at least one partition, not {partitions}")
        table = _as_table(data)
        views = [field.name for field in table.schema if is_view(_values(field.type))]
        buffers = DamageCheck(table.schema, read=views)  # here once, others whenever they are converted
        for batch in table.to_batches():
            _refuse(buffers.damage(batch))
        self._rows = _Rows(_without_small_batches(_with_plain_text(_with_plain_values(table))))
        self._schema = pa.schema([filterable(field) for field in self._rows.table.schema])
        self._partitions = partitions
        self._writing = threading.Lock()
        self._epochs: dict[str, int] = {}

    def __getstate__(self) -> dict[str, Any]:
        """For a copy in another process, which is then a table of its own."""
        return {key: value for key, value in vars(self).items() if key != "_writing"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _writing=threading.Lock())

    def __repr__(self) -> str:
        return f"<MemTable: {counted(self._rows.table.num_rows, 'row')} of {names_text(self._schema.names)}>"

    def schema(self) -> pa.Schema:
        return self._schema

    def supports_filters_pushdown(self, filters: Sequence[Expr]) -> Sequence[FilterPushdown]:
        return pushdown_exact_where_possible(filters, schema=self._schema)

    def scan(self, request: ScanRequest) -> ExecutionPlan:
        rows, partitions = self._rows, self._partitions
        table = rows.table
        if request.limit is not None and not request.filters and request.limit < table.num_rows:
            table = table.slice(0, request.limit)
            partitions = min(partitions, -(-max(1, request.limit) // BATCH_ROWS))
        shares = _shares(table.num_rows, partitions)
        learnt = [expr for expr in request.runtime_filters if expr.to_pyarrow(schema=self._schema) is not None]
        if learnt and partitions > 1:
            shares = self._kept(rows, shares, learnt)
        return MemPlan(table, self._schema, shares, (*request.filters, *learnt), request)

    def statistics(self) -> Statistics:
        table = self._rows.table
        return Statistics(table.num_rows, table.nbytes)

    def write_modes(self) -> set[WriteMode]:
        return {WriteMode.APPEND, WriteMode.TRUNCATE, WriteMode.OVERWRITE}

    def can_overwrite(self, filters: Sequence[Expr]) -> bool:
        return all(expr.to_pyarrow(schema=self._schema) is not None for expr in filters)

    def can_delete(self, filters: Sequence[Expr]) -> bool:
        return self.can_overwrite(filters)

    def insert(self, request: WriteRequest) -> WritePlan:
        return MemWrite(lambda batches: self._publish(request, batches))

    def delete(self, filters: tuple[Expr, ...]) -> None:
        with self._writing:
            self._rows = _Rows(without_rows(self._plain(filters), filters))

    def _publish(self, request: WriteRequest, batches: list[pa.RecordBatch]) -> None:
        with self._writing:
            if request.epoch is not None and self._epochs.get(request.query_id, -1) >= request.epoch:
                return
            kept = self._plain(request.filters)
            if request.mode is not WriteMode.APPEND:
                kept = without_rows(kept, request.filters)
            new = pa.Table.from_batches(batches, self._schema)
            self._rows = _Rows(_without_small_batches(pa.concat_tables([kept, new])))
            if request.epoch is not None:
                self._epochs[request.query_id] = request.epoch

    def _plain(self, filters: Sequence[Expr]) -> pa.Table:
        """The rows in the types of the schema, in which new ones come. Once the table was written to, it has these."""
        table = self._rows.table
        if table.schema.types == self._schema.types and not filters:
            return table
        return _in_types(table, self._schema, filtered=True).read_all()

    def _kept(self, rows: _Rows, shares: list[tuple[int, int]], learnt: list[Expr]) -> list[tuple[int, int]]:
        """The shares that may have a row for which all of ``learnt`` are true."""
        needed = {name for expr in learnt for name in expr.columns()}
        for name in needed - rows.ranges.keys():
            rows.ranges[name] = [_range(rows.table[name].slice(start, stop - start)) for start, stop in shares]
        ranges = {name: rows.ranges[name] for name in needed}  # another query may add to them meanwhile
        stats = [
            ContainerStats({name: of_shares[i] for name, of_shares in ranges.items()}, stop - start)
            for i, (start, stop) in enumerate(shares)
        ]
        kept = PruningPredicate(learnt, self._schema).keep(stats)
        return [share for share, keep in zip(shares, kept, strict=True) if keep]


@dataclasses.dataclass(frozen=True)
class _Rows:
    """What the table has at one time, and the ends of its shares, as far as they were looked for."""

    table: pa.Table
    ranges: dict[str, list[ColumnStats]] = dataclasses.field(default_factory=dict)


class MemPlan(ExecutionPlan):
    """A scan of rows that are in memory; never pickled."""

    placement = Placement.DRIVER

    def __init__(
        self,
        table: pa.Table,
        table_schema: pa.Schema,
        shares: list[tuple[int, int]],
        filters: tuple[Expr, ...],
        request: ScanRequest,
    ) -> None:
        self._table = table
        self._table_schema = table_schema
        self._shares = shares
        self._filters = filters
        self._columns = list(request.projection)
        shown = table_schema if filters else _with_light_views(table_schema, table)
        self.schema = pa.schema([shown.field(name) for name in self._columns])  # nested fields unpruned
        self.partitioning = UnknownPartitioning(len(shares))
        self.runtime_filter_columns = [field.name for field in table_schema if is_comparable(field.type)]

    def execute(self, partition: int) -> BatchSource:
        start, stop = self._shares[partition]
        share = self._table.slice(start, stop - start)
        return self._matching(share) if self._filters else _in_types(share.select(self._columns), self.schema)

    def describe(self) -> str:
        return f"{counted(self._table.num_rows, 'row')} in memory"

    def statistics(self) -> Statistics:
        """Exact without filters, an upper bound with them."""
        return Statistics(self._table.num_rows, self._table.select(self._columns).nbytes)

    def _matching(self, share: pa.Table) -> Iterator[pa.RecordBatch]:
        import pyarrow.dataset as ds  # takes a while to import, and only filters need it

        condition = ds.scalar(True)
        for expr in self._filters:
            condition &= expr.to_pyarrow(schema=self._table_schema)
        read = {*self._columns, *(name for expr in self._filters for name in expr.columns())}
        schema = pa.schema([field for field in self._table_schema if field.name in read])
        # Without threads the batches come in the table's order, one at a time.
        scanner = ds.Scanner.from_batches(
            _in_types(share.select(schema.names), schema, filtered=True),
            columns=self._columns,
            filter=condition,
            use_threads=False,
        )
        with scanner.to_reader() as reader:
            yield from (batch for batch in reader if batch.num_rows)


def _shares(rows: int, partitions: int) -> list[tuple[int, int]]:
    """The first row of each partition, and the one after its last."""
    return [(rows * i // partitions, rows * (i + 1) // partitions) for i in range(partitions)]


def _range(values: pa.ChunkedArray) -> ColumnStats:
    """Least and greatest value, where pyarrow and Python have an order of this type; NaN is neither."""
    if pa.types.is_timestamp(values.type) and values.type.tz is not None:
        values = values.cast(pa.timestamp(values.type.unit, "UTC"))  # for another zone Python would read a file
    try:
        found = pc.min_max(values)
        return ColumnStats(found["min"].as_py(), found["max"].as_py(), values.null_count)
    except (pa.ArrowNotImplementedError, OverflowError, ValueError):
        return ColumnStats()


def _in_types(table: pa.Table, schema: pa.Schema, *, filtered: bool = False) -> pa.RecordBatchReader:
    """The table's rows in batches of a good size, with the types of ``schema``, which has the same columns.

    What is converted here, or ``filtered`` afterwards, is checked first, or was when the table was made. Reading raises
    SchemaMismatchError.
    """
    reader = table.to_reader(max_chunksize=BATCH_ROWS)
    pairs = list(zip(schema, table.schema, strict=True))
    if not filtered and all(field.type == own.type for field, own in pairs):
        return reader
    read = [field.name for field, own in pairs if not is_view(own.type) and (filtered or field.type != own.type)]
    buffers = DamageCheck(table.schema, read)

    def converted(batch: pa.RecordBatch) -> pa.RecordBatch:
        _refuse(buffers.damage(batch))
        columns = [to_wire(batch.column(i), field.type, field.name) for i, field in enumerate(schema)]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, map(converted, reader))


def _values(type_: pa.DataType) -> pa.DataType:
    return type_.value_type if pa.types.is_dictionary(type_) else type_


def _with_plain_values(table: pa.Table) -> pa.Table:
    """The table with dictionaries of plain text for those of views (polars' categoricals): each value is cast once."""
    fields = [
        field.with_type(pa.dictionary(field.type.index_type, wire_type(field.type, field.name), field.type.ordered))
        if pa.types.is_dictionary(field.type) and is_view(field.type.value_type)
        else field
        for field in table.schema
    ]
    return table_in_types(table, pa.schema(fields, table.schema.metadata))


def _with_plain_text(table: pa.Table) -> pa.Table:
    """The table with plain text over the same memory for views of text that lies in a row, as polars' often does."""
    for i, field in enumerate(table.schema):
        if is_view(field.type):
            column = plain_where_in_a_row(table.column(i))
            table = table.set_column(i, field.with_type(column.type), column)
    return table


def _with_light_views(schema: pa.Schema, table: pa.Table) -> pa.Schema:
    """``schema`` with views where those of the table can be sent as they are."""

    def is_sent(name: str) -> bool:
        chunks = table[name].chunks
        return is_view(table[name].type) and all(is_light(chunk, min(len(chunk), BATCH_ROWS)) for chunk in chunks)

    return pa.schema([table.schema.field(field.name) if is_sent(field.name) else field for field in schema])


def _refuse(damage: str | None) -> None:
    if damage is not None:
        raise SchemaMismatchError(f"MemTable's data is broken: {damage}")


def _as_table(data: Any) -> pa.Table:
    table = table_of(data)
    if table is not None:
        return table
    if isinstance(data, Iterable) and not isinstance(data, (type, str, bytes)):
        return _table_of_batches(data)
    what = f"the class {data.__name__}" if isinstance(data, type) else type(data).__name__
    raise TypeError(
        f"MemTable takes data (a pyarrow Table, RecordBatches, a RecordBatchReader, a pandas or polars frame, a list "
        f"of dicts, a dict of lists, or another object with __arrow_c_stream__), not {what}"
    )


def _table_of_batches(data: Iterable[Any]) -> pa.Table:
    batches = list(data)
    if not batches:
        raise ValueError("MemTable got no batches, so it has no schema; for an empty table pass schema.empty_table()")
    schema: Any = getattr(batches[0], "schema", None)  # if it is no batch, the loop says so first
    for index, batch in enumerate(batches):
        if not isinstance(batch, pa.RecordBatch):
            hints = {pa.Table: "; join tables with pyarrow.concat_tables"}
            raise TypeError(
                f"MemTable takes RecordBatches, but item {index} of the {type(data).__name__} is a "
                f"{type(batch).__name__}{hints.get(type(batch), '')}"
            )
        if not batch.schema.equals(schema):
            raise SchemaMismatchError(
                f"batch {index} does not have the schema of the first one; cast it, or leave it out\n"
                f"{mismatch(schema, batch.schema)}"
            )
    return pa.Table.from_batches(batches, schema)


def _without_small_batches(table: pa.Table) -> pa.Table:
    """The same rows with runs of small batches merged: once here instead of in every scan."""
    batches: list[pa.RecordBatch] = table.to_batches()
    result: list[pa.RecordBatch] = []
    small: list[pa.RecordBatch] = []
    small_rows = 0
    for batch in batches:
        large = batch.num_rows >= LARGE_ROWS or batch.nbytes >= LARGE_BYTES
        if large or small_rows + batch.num_rows > BATCH_ROWS:
            result += _merged(small)
            small, small_rows = [], 0
        if large:
            result.append(batch)
        else:
            small.append(batch)
            small_rows += batch.num_rows
    result += _merged(small)
    return table if len(result) == len(batches) else pa.Table.from_batches(result, table.schema)


def _merged(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    if len(batches) < 2 or batches[0].num_columns == 0:
        return batches
    try:
        return [pa.concat_batches(batches)]
    except pa.ArrowNotImplementedError:  # a few nested types; they stay as they are
        return batches
