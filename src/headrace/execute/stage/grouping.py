"""The groups of one partition, in bounded memory; where ``execute`` runs.

Rows are collected to chunks, since Arrow groups many at once much faster, and a chunk's groups are kept until there are
many. Then they are merged; those that are still many are handed out, and it begins anew. Where groups hardly repeat,
rows are handed out as groups of one.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from headrace.arrow.batches import batch_without_columns, merged
from headrace.arrow.conversion import to_wire
from headrace.arrow.sending import is_same_memory
from headrace.arrow.sizes import BATCH_ROWS
from headrace.arrow.types import wire_type
from headrace.execute.stage.ordering import sorted_places
from headrace.execute.stage.reduction import SUM_LIMIT, Reduction
from headrace.execute.stage.rows import StageRows
from headrace.expr.evaluation import Evaluation
from headrace.expr.nodes import Column, Expr
from headrace.plan import Aggregation, SortKey

_LEAST_CHUNK_ROWS, _MOST_CHUNK_ROWS = 256 * 1024, 1024 * 1024
_CHUNK_BYTES = 32 << 20
_MOST_GROUPS = 1024 * 1024
_GROUPS_BYTES = 64 << 20
_FEW = 1 / 16
"""With so few groups in a row a larger chunk is faster."""
_HARDLY_ANY_REPEATED = 0.6
"""With so many groups in a row it costs more to find them than Spark saves."""
_TRIED_AGAIN_ROWS = 8 * 1024 * 1024
"""After so many rows it is tried again whether groups repeat."""
_VALUES_PER_ROW = 4
"""A dictionary with more values is no help."""
_MOST_CHANGES = 8
"""Each dictionary has chunks of its own. If small ones end so often, keys are looked up beforehand."""


class Groups:
    """Takes rows, and hands out groups: some when they become many, the others at the end. One thread."""

    def __init__(self, aggregation: Aggregation, order: tuple[SortKey, ...], evaluation: Evaluation) -> None:
        """``order``: that of the rows that come, which groups are to keep, by the names of ``aggregation.schema``."""
        self._order = order
        self._reduction = Reduction(aggregation)
        self._evaluation = evaluation
        self._dictionaries: list[pa.Array | None] = []  # of the keys of the rows that wait
        self._looked_up: list[pa.Array | None] = []  # the same in wire types
        self._changes_left = _MOST_CHANGES
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = self._waiting_bytes = 0
        self._chunk_rows = _LEAST_CHUNK_ROWS
        self._groups: list[pa.Table] = []
        self._merged_groups = 0
        self._most = 0  # what the absolute values in any of their sums add up to
        self._passing_rows = 0  # so many more rows are handed out as groups of one
        self._is_empty = True

    def add(self, rows: StageRows) -> Iterator[pa.RecordBatch]:
        """Raises SchemaMismatchError, and has taken none of them, where rows are too large to be converted at once."""
        if not rows.count:
            return
        keys = [self._key(key, rows) for key in self._reduction.keys]
        operands = [self._operand(operand, rows) for operand in self._reduction.operands]
        dictionaries = [key.dictionary if pa.types.is_dictionary(key.type) else None for key in keys]
        if len(self._dictionaries) != len(keys) or not all(map(_is_same, dictionaries, self._dictionaries)):
            looked_up = [_wire(values) for values in dictionaries]  # may raise, so before anything changes
            if self._waiting:
                self._changes_left -= self._waiting_rows < BATCH_ROWS
                yield from self._reduce()
            self._dictionaries, self._looked_up = dictionaries, looked_up
        columns = [key.indices if pa.types.is_dictionary(key.type) else key for key in keys] + operands
        names = self._reduction.key_names + self._reduction.operand_names
        batch = pa.RecordBatch.from_arrays(columns, names) if names else batch_without_columns(rows.count)
        self._waiting.append(batch)
        self._waiting_rows += rows.count
        self._waiting_bytes += batch.nbytes
        if self._passing_rows or self._waiting_rows >= self._chunk_rows or self._waiting_bytes >= _CHUNK_BYTES:
            yield from self._reduce()

    def _key(self, key: Expr, rows: StageRows) -> pa.Array:
        """In its wire type; a dictionary stays one where it has not too many values, and comes again often enough."""
        if isinstance(key, Column) and self._changes_left > 0:
            array = rows.column(key.name)
            if pa.types.is_dictionary(array.type) and len(array.dictionary) <= _VALUES_PER_ROW * rows.count:
                return array
        return rows.value(key, self._evaluation)

    def _operand(self, operand: Expr, rows: StageRows) -> pa.Array:
        if operand in self._reduction.only_counted and isinstance(operand, Column):
            return rows.nulls_of(operand.name)
        return rows.value(operand, self._evaluation)

    def finish(self) -> Iterator[pa.RecordBatch]:
        """The groups that are left; without keys at least one row, also over no rows."""
        yield from self._reduce()
        if self._groups:
            yield from self._handed_out([self._reduction.merged(self._groups)])
        elif self._is_empty and not self._reduction.keys:
            yield from self._handed_out([self._reduction.of_no_rows()])
        self._groups = []

    def _reduce(self) -> Iterator[pa.RecordBatch]:
        if not self._waiting:
            return
        rows, dictionaries = self._table(), self._looked_up
        if self._passing_rows:
            self._passing_rows = max(0, self._passing_rows - rows.num_rows)
            yield from self._handed_out([self._reduction.one_each(rows, dictionaries)])
            return
        most = self._reduction.most(rows)
        if most >= SUM_LIMIT:
            yield from self._hand_out()  # rows that came sorted by their keys stay so as groups
            yield from self._handed_out(self._reduction.pieces(rows, dictionaries))
            return
        if self._most + most >= SUM_LIMIT:
            yield from self._hand_out()
        groups = self._reduction.reduced(rows, dictionaries)
        self._judge(groups.num_rows / rows.num_rows, rows.num_rows)
        self._groups.append(groups)
        self._most += most
        yield from self._merge()

    def _judge(self, ratio: float, rows: int) -> None:
        if ratio <= _FEW:
            self._chunk_rows = min(2 * self._chunk_rows, _MOST_CHUNK_ROWS)
        elif ratio >= _HARDLY_ANY_REPEATED and rows >= _LEAST_CHUNK_ROWS // 2:
            self._passing_rows = _TRIED_AGAIN_ROWS

    def _merge(self) -> Iterator[pa.RecordBatch]:
        """Merges the groups that are kept when they have doubled, so that each is merged a few times only."""
        kept = sum(groups.num_rows for groups in self._groups)
        is_large = kept >= _MOST_GROUPS or sum(groups.nbytes for groups in self._groups) >= _GROUPS_BYTES
        if self._passing_rows:
            yield from self._hand_out()
        if not (is_large or kept >= max(2 * self._merged_groups, BATCH_ROWS)) or not self._groups:
            return
        merged_groups = self._reduction.merged(self._groups)
        self._groups, self._merged_groups = [merged_groups], merged_groups.num_rows
        if is_large and (2 * merged_groups.num_rows >= _MOST_GROUPS or 2 * merged_groups.nbytes >= _GROUPS_BYTES):
            yield from self._hand_out()

    def _hand_out(self) -> Iterator[pa.RecordBatch]:
        groups, self._groups = self._groups, []
        self._merged_groups = self._most = 0
        if groups:
            yield from self._handed_out([self._reduction.merged(groups)])

    def _handed_out(self, tables: Iterator[pa.Table] | list[pa.Table]) -> Iterator[pa.RecordBatch]:
        self._is_empty = False
        for table in tables:
            if self._order and table.num_rows > 1:  # Arrow finds groups nearly in the order of their first rows
                table = table.take(sorted_places(self._order, [table[key.column] for key in self._order]))
            yield from table.combine_chunks().to_batches(max_chunksize=BATCH_ROWS)

    def _table(self) -> pa.Table:
        """The rows that wait, as a table; it takes them."""
        waiting, self._waiting = self._waiting, []
        self._waiting_rows = self._waiting_bytes = 0
        return pa.Table.from_batches(waiting if waiting[0].num_columns else [merged(waiting)])


def _is_same(one: pa.Array | None, other: pa.Array | None) -> bool:
    return one is other if one is None or other is None else is_same_memory(one, other)


def _wire(values: pa.Array | None) -> pa.Array | None:
    return None if values is None else to_wire(values, wire_type(values.type, "a key"), "a key")
