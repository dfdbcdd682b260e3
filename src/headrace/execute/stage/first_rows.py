"""The first rows of one partition in an order, in bounded memory; where ``execute`` runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from headrace.arrow.types import wire_type
from headrace.execute.stage.ordering import comparable, first_places
from headrace.execute.stage.rows import StageRows
from headrace.plan import SortKey

_MOST_BYTES = 64 << 20


class FirstRows:
    """Takes rows, and keeps those that may be among the first ``limit`` in ``order``; hands them out at the end.

    They stay in the order in which they came: Spark sorts them. Where they take too much memory, those kept are handed
    out before, and it begins anew. One thread.
    """

    def __init__(self, order: Sequence[SortKey], limit: int, plan: pa.Schema, schema: pa.Schema) -> None:
        """``plan`` is the schema of the rows that come, ``schema`` of those to hand out, in wire types."""
        self._order = tuple({key.column: key for key in reversed(order)}[name] for name in _once(order))
        self._limit = limit
        self._schema = schema
        others = [name for name in _once(order) if name not in schema.names]
        self._kept_schema = pa.schema(
            [*schema, *(pa.field(name, wire_type(plan.field(name).type, name)) for name in others)]
        )
        self._kept: list[pa.RecordBatch] = []
        self._kept_rows = self._kept_bytes = 0
        self._last: pa.Scalar | None = None  # the greatest of the kept rows' first keys, or the least if descending

    def add(self, rows: StageRows) -> Iterator[pa.RecordBatch]:
        """Raises SchemaMismatchError, and has taken none of them, where rows are too large to be converted at once."""
        if not self._limit:
            return
        if self._last is not None and rows.count:
            rows = rows.where(self._may_be_first(rows.wire_column(self._order[0].column), self._last))
        if rows.count > self._limit:
            keys = [pa.chunked_array([rows.wire_column(key.column)]) for key in self._order]
            rows = rows.at(first_places(self._order, keys, self._limit))
        if not rows.count:
            return
        batch = rows.batch(self._kept_schema)
        self._kept.append(batch)
        self._kept_rows += batch.num_rows
        self._kept_bytes += batch.nbytes
        if self._kept_rows >= 2 * self._limit or self._kept_bytes >= _MOST_BYTES:
            self._cut()
            if 2 * self._kept_bytes >= _MOST_BYTES:
                yield from self._hand_out()

    def finish(self) -> Iterator[pa.RecordBatch]:
        """The first rows of all that came since some were handed out."""
        if self._kept_rows > self._limit:
            self._cut()
        yield from self._hand_out()

    def _cut(self) -> None:
        kept = pa.Table.from_batches(self._kept).combine_chunks()
        places = first_places(self._order, [kept[key.column] for key in self._order], self._limit)
        kept = kept.take(places).combine_chunks()
        self._kept = kept.to_batches()
        self._kept_rows, self._kept_bytes = kept.num_rows, kept.nbytes
        first = self._order[0]
        keys = kept[first.column]
        if kept.num_rows == self._limit and keys.null_count == 0:
            ends = pc.min_max(comparable(keys))
            self._last = ends["min" if first.descending else "max"]

    def _hand_out(self) -> Iterator[pa.RecordBatch]:
        kept, self._kept = self._kept, []
        self._kept_rows = self._kept_bytes = 0
        self._last = None
        for batch in kept:
            yield batch.select(self._schema.names)

    def _may_be_first(self, keys: pa.Array, last: pa.Scalar) -> pa.BooleanArray:
        """Rows whose first key is not behind that of ``limit`` others."""
        first = self._order[0]
        (values,) = comparable(pa.chunked_array([keys])).chunks
        before = pc.greater_equal(values, last) if first.descending else pc.less_equal(values, last)
        return pc.fill_null(before, first.nulls_first)


def _once(order: Sequence[SortKey]) -> list[str]:
    return list(dict.fromkeys(key.column for key in order))
