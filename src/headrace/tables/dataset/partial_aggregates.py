"""Counts and extremes of one partition, for Spark to merge: of batches, or of what is known without them; executors."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.arrow.conversion import to_wire
from headrace.expr.nodes import Column
from headrace.expr.semantics import Kind, kind_of
from headrace.plan import AggregateFunction, Aggregation

_ORDERED_ALIKE = {
    *(Kind.BOOL, Kind.INT, Kind.DECIMAL, Kind.STRING, Kind.BINARY),
    *(Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_TZ),
}
"""Kinds of which pyarrow's least and greatest value are Spark's. To pyarrow NaN is neither."""


def can_be_partial(aggregation: Aggregation) -> bool:
    """Whether it asks for counts, least and greatest values of plain columns, and for no groups."""
    return bool(aggregation.functions) and not aggregation.group_by and all(map(_is_known, aggregation.functions))


def operand_columns(aggregation: Aggregation) -> list[str]:
    """The columns that it needs, each once."""
    operands = [one.operand for one in aggregation.functions]
    return list(dict.fromkeys(operand.name for operand in operands if isinstance(operand, Column)))


def ranged_columns(aggregation: Aggregation) -> set[str]:
    """The columns whose least or greatest value it needs."""
    operands = [one.operand for one in aggregation.functions if one.name != "count"]
    return {operand.name for operand in operands if isinstance(operand, Column)}


def _is_known(function: AggregateFunction) -> bool:
    operand = function.operand
    if function.distinct or not (operand is None or (isinstance(operand, Column) and not operand.path)):
        return False
    return function.name == "count" or (function.name in ("min", "max") and kind_of(function.type) in _ORDERED_ALIKE)


class PartialAggregate:
    """Adds up the rows of one partition; then ``row()`` is what the scan yields for it, also over no rows."""

    def __init__(self, aggregation: Aggregation) -> None:
        self._aggregation = aggregation
        self._counts = [0] * len(aggregation.functions)
        self._values: list[list[pa.Scalar]] = [[] for _ in aggregation.functions]

    def add_batch(self, batch: pa.RecordBatch) -> None:
        """Rows with at least the columns that the aggregation needs."""
        for i, function in enumerate(self._aggregation.functions):
            if not isinstance(function.operand, Column):
                self._counts[i] += batch.num_rows
                continue
            column = batch.column(function.operand.name)
            if function.name == "count":
                self._counts[i] += batch.num_rows - _nulls(column)
            else:
                self._add_value(i, pc.min_max(to_wire(column, function.type, function.operand.name))[function.name])

    def add_known(self, rows: int, nulls: dict[str, int], extremes: dict[str, tuple[Any, Any]]) -> None:
        """``rows`` rows that were not read: nulls by column, and the least and greatest values, None for none."""
        for i, function in enumerate(self._aggregation.functions):
            if not isinstance(function.operand, Column):
                self._counts[i] += rows
            elif function.name == "count":
                self._counts[i] += rows - nulls[function.operand.name]
            else:
                value = extremes[function.operand.name][0 if function.name == "min" else 1]
                self._add_value(i, pa.scalar(value, function.type))

    def row(self) -> pa.RecordBatch:
        arrays = [
            pa.array([self._counts[i] if function.name == "count" else self._extreme(i)], function.type)
            for i, function in enumerate(self._aggregation.functions)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._aggregation.schema)

    def _add_value(self, i: int, value: pa.Scalar) -> None:
        if value.is_valid:
            self._values[i].append(value)
        if len(self._values[i]) > 1000:
            self._values[i] = [self._extreme(i)]

    def _extreme(self, i: int) -> pa.Scalar:
        function = self._aggregation.functions[i]
        return pc.min_max(pa.array(self._values[i], function.type))[function.name]


def _nulls(column: pa.Array) -> int:
    """Of a dictionary also those whose value is null."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return int(column.null_count)
