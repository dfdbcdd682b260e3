"""MemTable: Arrow data that is in memory already; runs in the driver, where the data is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.arrow.conversion import table_in_types, to_wire
from headrace.arrow.damage import DamageCheck
from headrace.arrow.mismatch import mismatch
from headrace.arrow.sending import is_light
from headrace.arrow.sources import BatchSource
from headrace.arrow.types import filterable, is_view, wire_type
from headrace.arrow.views import plain_where_in_a_row
from headrace.display import names_text
from headrace.errors import SchemaMismatchError
from headrace.expr.nodes import Expr
from headrace.expr.semantics import is_comparable
from headrace.plan import Aggregation, ExecutionPlan, Placement, ScanRequest, Statistics, UnknownPartitioning
from headrace.provider import AggregatePushdown, FilterPushdown, TableProvider, pushdown_exact_where_possible
from headrace.pruning.container_stats import ColumnStats, ContainerStats
from headrace.pruning.predicate import PruningPredicate
from headrace.tables.partial_aggregates import PartialAggregate, can_be_partial, operand_columns

_BATCH_ROWS = 64 * 1024
_SMALL_ROWS = 8 * 1024
_SMALL_BYTES = 256 * 1024


class MemTable(TableProvider):
    """A table over Arrow data in memory.

    ``data``: a pyarrow Table or RecordBatch, an iterable of RecordBatches, a RecordBatchReader (read to its end
    here), or anything with ``__arrow_c_stream__`` or ``__arrow_c_array__``: a polars or pandas frame, a duckdb
    result. It is not copied, except that small batches that stand next to each other are put together once.
    ``partitions``: how many tasks a scan may use; each gets an equal share of the rows, in order.

    Placement is DRIVER: nothing is pickled, only the needed columns and rows cross to Spark. Columns, filters that
    pyarrow decides as Spark does (those of joins too), and limits are used; counts, least and greatest values are
    taken here; row and byte counts are exact. String views and other types that pyarrow cannot filter are shown as the
    plain type. They are converted batch by batch when they are read, views only where a filter is used, or where text
    of more than 12 bytes lies far apart.

    Raises TypeError for data that is not an Arrow table, ValueError for fewer than one partition or for an
    iterable without batches (it has no schema), SchemaMismatchError for batches that differ in schema.
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
        self._table = _without_small_batches(_with_plain_text(_with_plain_values(table)))
        self._schema = pa.schema([filterable(field) for field in self._table.schema])
        self._partitions = partitions
        self._ranges: dict[str, list[ColumnStats]] = {}

    def __repr__(self) -> str:
        return f"<MemTable: {self._table.num_rows:,} rows of {names_text(self._schema.names)}>"

    def schema(self) -> pa.Schema:
        return self._schema

    def supports_filters_pushdown(self, filters: Sequence[Expr]) -> Sequence[FilterPushdown]:
        return pushdown_exact_where_possible(filters, schema=self._schema)

    def supports_aggregate_pushdown(self, aggregation: Aggregation) -> AggregatePushdown:
        return AggregatePushdown.PARTIAL if can_be_partial(aggregation) else AggregatePushdown.UNSUPPORTED

    def scan(self, request: ScanRequest) -> ExecutionPlan:
        table, partitions = self._table, self._partitions
        if request.limit is not None and not request.filters and request.limit < table.num_rows:
            table = table.slice(0, request.limit)
            partitions = min(partitions, -(-max(1, request.limit) // _BATCH_ROWS))
        shares = _shares(table.num_rows, partitions)
        learnt = [expr for expr in request.runtime_filters if expr.to_pyarrow(schema=self._schema) is not None]
        if learnt and partitions > 1:
            shares = self._kept(shares, learnt)
        return MemPlan(table, self._schema, shares, (*request.filters, *learnt), request)

    def statistics(self) -> Statistics:
        return Statistics(self._table.num_rows, self._table.nbytes)

    def _kept(self, shares: list[tuple[int, int]], learnt: list[Expr]) -> list[tuple[int, int]]:
        """The shares that may have a row for which all of ``learnt`` are true."""
        needed = {name for expr in learnt for name in expr.columns()}
        for name in needed - self._ranges.keys():
            self._ranges[name] = [_range(self._table[name].slice(start, stop - start)) for start, stop in shares]
        ranges = {name: self._ranges[name] for name in needed}  # another query may add to them meanwhile
        stats = [
            ContainerStats({name: of_shares[i] for name, of_shares in ranges.items()}, stop - start)
            for i, (start, stop) in enumerate(shares)
        ]
        kept = PruningPredicate(learnt, self._schema).keep(stats)
        return [share for share, keep in zip(shares, kept, strict=True) if keep]


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
        self._aggregation = request.aggregation
        columns = request.projection if request.aggregation is None else operand_columns(request.aggregation)
        self._columns = list(columns)
        computed = filters or request.aggregation is not None
        shown = table_schema if computed else _with_light_views(table_schema, table)
        self._read = pa.schema([shown.field(name) for name in columns])  # nested fields unpruned
        self.schema = self._read if request.aggregation is None else request.schema
        self.partitioning = UnknownPartitioning(len(shares))
        self.runtime_filter_columns = [field.name for field in table_schema if is_comparable(field.type)]

    def execute(self, partition: int) -> BatchSource:
        start, stop = self._shares[partition]
        share = self._table.slice(start, stop - start)
        rows = self._matching(share) if self._filters else _in_types(share.select(self._columns), self._read)
        return rows if self._aggregation is None else _aggregated(rows, self._aggregation)

    def describe(self) -> str:
        return f"{self._table.num_rows:,} rows in memory"

    def statistics(self) -> Statistics:
        """Exact without filters, an upper bound with them."""
        if self._aggregation is not None:
            return Statistics(len(self._shares))
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


def _aggregated(rows: Iterable[pa.RecordBatch], aggregation: Aggregation) -> Iterator[pa.RecordBatch]:
    total = PartialAggregate(aggregation)
    for batch in rows:
        total.add_batch(batch)
    yield total.row()


def _in_types(table: pa.Table, schema: pa.Schema, *, filtered: bool = False) -> pa.RecordBatchReader:
    """The table's rows in batches of a good size, with the types of ``schema``, which has the same columns.

    What is converted here, or ``filtered`` afterwards, is checked first, or was when the table was made. Reading raises
    SchemaMismatchError.
    """
    reader = table.to_reader(max_chunksize=_BATCH_ROWS)
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
        return is_view(table[name].type) and all(is_light(chunk, min(len(chunk), _BATCH_ROWS)) for chunk in chunks)

    return pa.schema([table.schema.field(field.name) if is_sent(field.name) else field for field in schema])


def _refuse(damage: str | None) -> None:
    if damage is not None:
        raise SchemaMismatchError(f"MemTable's data is broken: {damage}")


def _as_table(data: Any) -> pa.Table:
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, (dict, str, bytes)) or (isinstance(data, type) and hasattr(data, "__arrow_c_stream__")):
        raise _no_arrow(data)
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
        try:
            return pa.table(data)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            if hasattr(data, "columns"):  # a pandas frame, of which Arrow says the column
                what = "has a column whose values are not of one type: cast it, as with frame.astype({'a': 'string'})"
                raise TypeError(
                    f"this {type(data).__name__} {what}. Arrow says: {'; '.join(map(str, error.args))}"
                ) from None
            # a Series, an Array, a ChunkedArray: Arrow, but of one column
            raise TypeError(f"{type(data).__name__} is a single column, not a table: {error}") from error
    if isinstance(data, Iterable):
        return _table_of_batches(data)
    raise _no_arrow(data)


def _table_of_batches(data: Iterable[Any]) -> pa.Table:
    batches = list(data)
    if not batches:
        raise ValueError("MemTable got no batches, so it has no schema; for an empty table pass schema.empty_table()")
    schema: Any = getattr(batches[0], "schema", None)  # if it is no batch, the loop says so first
    for index, batch in enumerate(batches):
        if not isinstance(batch, pa.RecordBatch):
            hints = {
                pa.Table: "; join tables with pyarrow.concat_tables",
                dict: "; use pyarrow.Table.from_pylist(rows)",
            }
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
        large = batch.num_rows >= _SMALL_ROWS or batch.nbytes >= _SMALL_BYTES
        if large or small_rows + batch.num_rows > _BATCH_ROWS:
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


def _no_arrow(data: Any) -> TypeError:
    what = f"the class {data.__name__}" if isinstance(data, type) else type(data).__name__
    return TypeError(
        f"MemTable takes Arrow data (a pyarrow Table, RecordBatches, a RecordBatchReader, or an object with "
        f"__arrow_c_stream__ such as a polars or pandas frame), not {what}; pyarrow.table(...) makes one from "
        "dicts and lists"
    )
