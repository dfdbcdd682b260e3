"""The promises of one scan, and the check of them on the rows of a partition; runs where the rows are read.

``verify`` checks rows while Spark reads them, the testing kit those of its own scans. Whether rows are missing (of a
filter, a limit, an aggregate) shows only beside all rows of the table: the kit alone checks that.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.arrow.rows import counted, row_keys, shown
from headrace.errors import EvaluationError
from headrace.expr.nodes import Expr
from headrace.plan import SortKey
from headrace.promises.ordering import first_disorder, order_text

SAMPLE_ROWS = 64
_MOST_KEYS = 1_000_000


class SeenKeys:
    """Which partition of a scan has rows of which hash key; shared by the partitions that run in one process.

    Remembers the first million keys, and says nothing of others. Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._partitions: dict[tuple[Any, ...], int] = {}

    def other_partition(self, key: tuple[Any, ...], partition: int) -> int | None:
        """A partition that had the key before, if it is another one."""
        with self._lock:
            if len(self._partitions) >= _MOST_KEYS:
                first = self._partitions.get(key, partition)
            else:
                first = self._partitions.setdefault(key, partition)
        return None if first == partition else first


@dataclass(frozen=True)
class Promises:
    """What Spark relies on in one scan, as far as the rows can show it. Pickled with the plan.

    ``schema``: the columns that are looked at, each in the plan's schema too. ``filters``: those answered EXACT.
    ``ordering``: within each partition; ``top_n``: it is the order of a top-n that was answered EXACT. ``keys``: row
    *i* is partition *i*'s key, in wire types. ``hash_columns``: rows that are equal in them are in one partition.
    """

    provider: str
    every_row: bool
    schema: pa.Schema
    filters: tuple[Expr, ...] = ()
    ordering: tuple[SortKey, ...] = ()
    top_n: bool = False
    keys: pa.RecordBatch | None = None
    hash_columns: tuple[str, ...] = ()
    seen_keys: SeenKeys = field(default_factory=SeenKeys, compare=False)

    def __reduce__(self) -> Any:
        """Without the hash and ``seen_keys``: a process does not know which keys another one has seen."""
        values = (self.provider, self.every_row, self.schema, self.filters, self.ordering, self.top_n, self.keys)
        return Promises, values


@dataclass(frozen=True)
class Violation:
    """Rows that break a promise. ``promise`` is a value of ``headrace.testing.Promise``, ``advice`` the remedy."""

    promise: str
    text: str
    advice: str


class PartitionCheck:
    """Checks the promises on the batches of one partition, in their order. Single-threaded.

    Of each batch either every row is looked at, or up to 64 adjacent ones at a place that is the same in every run.
    ``select`` turns a batch of the plan's into one with the columns of ``promises.schema``, in wire types.
    """

    def __init__(
        self,
        promises: Promises,
        partition: int,
        select: Callable[[pa.RecordBatch], pa.RecordBatch] = lambda batch: batch,
    ) -> None:
        self.promises = promises
        self._partition = partition
        self._select = select
        self._place = Random(partition)
        self._filters = list(promises.filters)
        self._last: pa.RecordBatch | None = None

    def violations(self, batch: pa.RecordBatch) -> Iterator[Violation]:
        """Each promise that a row of the next batch breaks."""
        promises = self.promises
        if not promises.every_row and batch.num_rows > SAMPLE_ROWS:
            batch = batch.slice(self._place.randint(0, batch.num_rows - SAMPLE_ROWS), SAMPLE_ROWS)
        if not batch.num_rows:
            return
        rows = self._select(batch)
        for expr in tuple(self._filters):
            yield from self._of_filter(expr, rows)
        if promises.keys is not None:
            yield from self._of_key(rows, promises.keys.slice(self._partition, 1))
        if promises.hash_columns:
            yield from self._of_hash(rows.select(list(promises.hash_columns)))
        if promises.ordering:
            yield from self._of_order(rows.select(list(dict.fromkeys(key.column for key in promises.ordering))))

    def _of_filter(self, expr: Expr, rows: pa.RecordBatch) -> Iterator[Violation]:
        try:
            wrong = pc.invert(pc.fill_null(expr.evaluate(rows), False))
        except (EvaluationError, NotImplementedError):  # whether Spark would fail here too, its settings decide
            self._filters.remove(expr)
            return
        if not pc.any(wrong).as_py():
            return
        text = f"answered EXACT for `{expr!r}`, but partition {self._partition} has {_counted(wrong, 'row')} for which "
        text += f"it is not true: {_shown(rows.select(sorted(expr.columns())), wrong)}"
        yield Violation("filters", text, "Filter these rows out in execute, or answer INEXACT")

    def _of_key(self, rows: pa.RecordBatch, key: pa.RecordBatch) -> Iterator[Violation]:
        columns = rows.select(key.schema.names)
        equal = pa.scalar(True)
        for column, stated in zip(columns.columns, key.columns, strict=True):
            equal = pc.and_(equal, _equals(column, stated[0]))
        wrong = pc.invert(equal)
        if pc.any(wrong).as_py():
            text = f"states that partition {self._partition} holds the rows with {_shown(key)}, but it has"
            text += f" {_counted(wrong, 'other row')}: {_shown(columns, wrong)}"
            yield Violation("partitioning", text, "Partition i must hold just the rows of keys[i]")

    def _of_hash(self, keys: pa.RecordBatch) -> Iterator[Violation]:
        distinct = pa.Table.from_batches([keys]).group_by(keys.schema.names).aggregate([])
        for row, key in enumerate(row_keys(distinct)):
            other = self.promises.seen_keys.other_partition(key, self._partition)
            if other is not None:
                text = (
                    f"states a partitioning by a hash of ({', '.join(keys.schema.names)}), but partitions {other} and "
                    f"{self._partition} have equal rows: {shown(distinct, [row])}"
                )
                yield Violation("partitioning", text, "Equal rows must be in one partition")
                return

    def _of_order(self, rows: pa.RecordBatch) -> Iterator[Violation]:
        """The last row that was looked at must not come after any of these."""
        compared = rows if self._last is None else pa.concat_batches([self._last, rows])
        self._last = rows.slice(rows.num_rows - 1)
        row = first_disorder(compared, self.promises.ordering)
        if row is not None:
            order = ", ".join(map(order_text, self.promises.ordering))
            place = f"{_shown(compared.slice(row, 1))} comes before {_shown(compared.slice(row + 1, 1))}"
            if self.promises.top_n:
                text = f"answered EXACT for the first rows by {order}, but {place}"
                yield Violation("top-n", text, "Sort the rows, or answer INEXACT")
            else:
                text = f"states that partition {self._partition} is sorted by {order}, but {place}"
                yield Violation("ordering", text, "Sort the rows, or do not state the order")


def _counted(wrong: pa.BooleanArray, noun: str) -> str:
    return counted(pc.sum(wrong).as_py(), noun)


def _equals(column: pa.Array, value: pa.Scalar) -> pa.Array:
    """As Spark groups: null is null, and NaN is NaN."""
    if not value.is_valid:
        return pc.is_null(column)
    equal = pc.equal(column, value)
    if pa.types.is_floating(column.type) and value.as_py() != value.as_py():
        equal = pc.is_nan(column)
    return pc.fill_null(equal, False)


def _shown(rows: pa.RecordBatch, chosen: pa.BooleanArray | None = None) -> str:
    indices = range(rows.num_rows) if chosen is None else pc.indices_nonzero(chosen).to_pylist()
    return shown(pa.Table.from_batches([rows]), indices)
