"""Rows of JSON as Arrow: their batch in a schema, and the schema that they tell; driver, and where ``execute`` runs."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headrace.arrow.batches import batch_without_columns
from headrace.arrow.data import table_of
from headrace.arrow.nested import with_nested_changed
from headrace.expr.nodes import Expr

_LOG = logging.getLogger("headrace")
_WARNED: set[tuple[str, str]] = set()
"""URLs and columns of which this process has warned."""


def inferred_schema(items: Sequence[Mapping[str, Any]], where: str) -> pa.Schema:
    """The columns of rows, in the order of their keys; where all values are null, text. Raises TypeError."""
    try:
        table = table_of(list(items))
        assert table is not None
    except TypeError as error:
        raise TypeError(f"{where}: the first page tells no schema: {error}; pass one as schema=") from error
    return pa.schema([_known(field) for field in table.schema])


def _known(field: pa.Field) -> pa.Field:
    if pa.types.is_null(field.type):
        return field.with_type(pa.string())
    return field.with_type(with_nested_changed(field.type, lambda _, fields: [_known(one) for one in fields]))


def warn_of_absent(items: Sequence[Mapping[str, Any]], schema: pa.Schema, url: str) -> None:
    """Once for each column that no row has: its name may be mistyped."""
    for name in schema.names:
        if not any(name in item for item in items) and (url, name) not in _WARNED:
            _WARNED.add((url, name))
            _LOG.warning(
                "%s: no row of the first page has the column %r, which is null then; the rows have %s",
                url,
                name,
                ", ".join(dict.fromkeys(key for item in items for key in item)),
            )


def batch_of(items: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    if not len(schema):
        return batch_without_columns(len(items), None)
    columns = [_column([item.get(field.name) for item in items], field) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


@dataclass(frozen=True)
class RowTest:
    """Conditions that rows have to fulfil, over columns that they have, whether these are read or not.

    ``last``: where a row does not fulfil this one of them, none after it does, as they are sorted.
    """

    conditions: tuple[Expr, ...] = ()
    schema: pa.Schema | None = None
    last: Expr | None = None

    def passing(self, items: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
        """Those for which every condition is true. Raises TypeError for values that are not of the schema's type."""
        if not self.conditions or not items:
            return items
        assert self.schema is not None
        batch = batch_of(items, self.schema)
        for expr in self.conditions:
            true = expr.evaluate(batch).to_pylist()
            items = [item for item, passes in zip(items, true, strict=True) if passes]
            batch = batch.filter(pa.array(true, pa.bool_()))
        return items

    def is_past(self, items: Sequence[Mapping[str, Any]]) -> bool:
        """Whether no row after these passes."""
        if self.last is None or not items:
            return False
        assert self.schema is not None
        return False in self.last.evaluate(batch_of(items[-1:], self.schema)).to_pylist()

    def __str__(self) -> str:
        return " and ".join(map(repr, self.conditions))


def _column(values: list[Any], field: pa.Field) -> pa.Array:
    """JSON has no dates and no decimals: text is read as one."""
    type_ = field.type
    as_text = pa.types.is_temporal(type_) or pa.types.is_decimal(type_)
    try:
        if as_text and any(isinstance(value, str) for value in values):
            return pa.array(values, pa.string()).cast(type_)
        return pa.array(values, type_)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"column {field.name!r} is not all {type_}, as the schema says: {error}") from error
