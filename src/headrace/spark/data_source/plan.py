"""Reads a data source's partitions: its tuples, Rows or Arrow batches as the batches Headrace sends; in the workers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import BinaryType, DataType, StringType, StructType

from headrace.arrow.batches import batch_without_columns, same_columns
from headrace.arrow.sizes import FIRST_PYTHON_ROWS, MOST_PYTHON_ROWS
from headrace.arrow.sources import close_sources
from headrace.plan import ExecutionPlan, ScanRequest, UnknownPartitioning
from headrace.spark.data_source.errors import invalid_return_type, schema_mismatch
from headrace.spark.versions import arrow_schema, converter

_NONE = type(None)
_RECORDS = "tuple, list, `pyspark.sql.types.Row`, `pyarrow.RecordBatch`"
_END = object()


class PartitionReader(Protocol):
    """What of a reader the tasks need: PySpark's two kinds of readers with partitions have it."""

    def read(self, partition: InputPartition) -> Any: ...


class DataSourcePlan(ExecutionPlan):
    """One ``InputPartition`` a partition. Only the columns that are read are turned into Arrow."""

    def __init__(
        self,
        reader: PartitionReader,
        partitions: tuple[InputPartition, ...],
        struct: StructType,
        projection: tuple[str, ...],
        name: str,
    ) -> None:
        whole = arrow_schema(struct).remove_metadata()
        self.schema = pa.schema([whole.field(column) for column in projection])
        self.partitioning = UnknownPartitioning(len(partitions))
        self._reader = reader
        self._partitions = partitions
        self._struct = struct
        self._name = name

    def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
        records = self._reader.read(self._partitions[partition])
        if not isinstance(records, Iterable):
            raise invalid_return_type(records, self._name, "iterator")
        iterator = iter(records)
        try:
            first = next(iterator, _END)
            if first is _END:
                return
            if isinstance(first, pa.RecordBatch):
                whole = arrow_schema(self._struct)
                for batch in itertools.chain([first], iterator):
                    yield self._selected(batch, whole)
            else:
                yield from RowsToArrow(self._struct, self.schema, self._name).batches(
                    itertools.chain([first], iterator)
                )
        finally:
            close_sources(records)

    def describe(self) -> str:
        return f"data source {self._name}"

    def _selected(self, batch: Any, whole: pa.Schema) -> pa.RecordBatch:
        if not isinstance(batch, pa.RecordBatch):
            raise invalid_return_type(batch, self._name, "`pyarrow.RecordBatch`")
        if batch.num_columns != len(whole):
            raise schema_mismatch(len(whole), batch.num_columns)
        if set(batch.schema.names) != set(whole.names):
            raise schema_mismatch(whole.names, batch.schema.names)
        if not same_columns(batch.schema, whole):
            raise schema_mismatch(whole, batch.schema)
        return batch.select(self.schema.names) if self.schema.names else batch_without_columns(batch.num_rows)


class FilteredPlan(ExecutionPlan):
    """The rows of a plan that pass all filters of a request, in its columns."""

    def __init__(self, plan: DataSourcePlan, request: ScanRequest) -> None:
        self._plan = plan
        self._filters = request.filters
        self.schema = pa.schema([plan.schema.field(name) for name in request.projection])
        self.partitioning, self.placement = plan.partitioning, plan.placement

    def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
        for batch in self._plan.execute(partition):
            for expr in self._filters:
                batch = batch.filter(expr.evaluate(batch))
            yield batch.select(self.schema.names) if self.schema.names else batch_without_columns(batch.num_rows)

    def describe(self) -> str:
        return self._plan.describe()


class RowsToArrow:
    """Turns rows into batches, with the values that Spark's own conversion gives.

    Spark calls a converter for each value. Here a whole column is turned by Arrow at once wherever the converter would
    leave every value as it is, which a look at the values' types tells.
    """

    def __init__(self, struct: StructType, schema: pa.Schema, name: str) -> None:
        self._names = struct.fieldNames()
        self._schema = schema
        self._name = name
        self._picked = [self._names.index(column) for column in schema.names]
        self._converters = [_column_converter(struct[column].dataType) for column in schema.names]
        self._orders: dict[tuple[str, ...], Callable[[Any], Any]] = {}

    def batches(self, rows: Iterator[Any]) -> Iterator[pa.RecordBatch]:
        """Raises PySparkRuntimeError for a row that does not fit, and what Arrow raises for a value that does not."""
        size = FIRST_PYTHON_ROWS
        while chunk := list(itertools.islice(rows, size)):
            yield self._batch(chunk)
            size = min(2 * size, MOST_PYTHON_ROWS)

    def _batch(self, rows: list[Any]) -> pa.RecordBatch:
        if not set(map(type, rows)) <= {tuple, list}:
            rows = [row if type(row) in (tuple, list) else self._by_position(row) for row in rows]
        if set(map(len, rows)) != {len(self._names)}:
            wrong = next(row for row in rows if len(row) != len(self._names))
            raise schema_mismatch(len(self._names), len(wrong))
        if not self._picked:
            return batch_without_columns(len(rows))
        if len(self._picked) == 1:
            columns: list[Sequence[Any]] = [list(map(itemgetter(self._picked[0]), rows))]
        else:
            transposed = list(zip(*rows, strict=True))
            columns = [transposed[position] for position in self._picked]
        arrays = [
            pa.array(convert(values), field.type)
            for values, convert, field in zip(columns, self._converters, self._schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _by_position(self, row: Any) -> Any:
        """A Row's values in the schema's order, by their names if it has any."""
        if not isinstance(row, (tuple, list)):
            raise invalid_return_type(row, self._name, _RECORDS)
        if not isinstance(row, Row) or not hasattr(row, "__fields__"):
            return row
        fields = tuple(row.__fields__)
        order = self._orders.get(fields)
        if order is None:
            order = self._orders[fields] = self._order(fields)
        return order(row)

    def _order(self, fields: tuple[str, ...]) -> Callable[[Any], Any]:
        if set(fields) != set(self._names) or len(fields) != len(self._names):
            raise schema_mismatch(self._names, list(fields))
        if list(fields) == self._names:
            return tuple
        positions = [fields.index(name) for name in self._names]
        return lambda row: [tuple.__getitem__(row, position) for position in positions]


def _column_converter(type_: DataType) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """From a column's Python values to those that Arrow takes."""
    convert = converter(type_)
    if convert is None:
        return lambda values: values
    untouched: set[type] = set()
    if isinstance(type_, (StringType, BinaryType)):
        untouched = {str if isinstance(type_, StringType) else bytes, _NONE}

    def converted(values: Sequence[Any]) -> Sequence[Any]:
        if untouched and set(map(type, values)) <= untouched:
            return values
        return [convert(value) for value in values]

    return converted
