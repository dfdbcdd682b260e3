"""Run-time verification: promises of a provider, checked on the rows of a partition; runs where ``execute`` runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.arrow.rows import counted, row_keys, shown
from headrace.errors import BrokenPromiseError, EvaluationError
from headrace.execute.ordering import first_disorder, order_text
from headrace.expr.nodes import Expr
from headrace.plan import SortKey

SAMPLE_ROWS = 64
_MOST_KEYS = 1_000_000


class SeenKeys:
    """Which partition of a scan has rows of which hash key; shared by the partitions that run in one process.

    Knows the first million keys, and says nothing of others. Thread-safe.
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
        """Without ``seen_keys``: what another process has seen cannot be known."""
        values = (self.provider, self.every_row, self.schema, self.filters, self.ordering, self.top_n, self.keys)
        return Promises, values


class PromiseCheck:
    """Checks the promises on the batches of one partition, in their order. Single-threaded.

    Of each batch either every row is looked at, or up to 64 adjacent ones at a place that is the same in every run.
    """

    def __init__(
        self,
        promises: Promises,
        select: Callable[[pa.RecordBatch], pa.RecordBatch],
        *,
        plan: str,
        table: str,
        partition: int,
    ) -> None:
        """``select`` turns a batch of the plan's into one of ``promises.schema``, in wire types."""
        self._promises = promises
        self._select = select
        self._plan = plan
        self._where = f"(table {table!r}, partition {partition})"
        self._partition = partition
        self._place = Random(partition)
        self._filters = list(promises.filters)
        self._last: pa.RecordBatch | None = None

    def check(self, batch: pa.RecordBatch) -> None:
        """Raises BrokenPromiseError for a batch, as ``execute`` yielded it, that breaks one."""
        if not self._promises.every_row and batch.num_rows > SAMPLE_ROWS:
            batch = batch.slice(self._place.randint(0, batch.num_rows - SAMPLE_ROWS), SAMPLE_ROWS)
        if not batch.num_rows:
            return
        rows = self._select(batch)
        for expr in tuple(self._filters):
            self._check_filter(expr, rows)
        if self._promises.keys is not None:
            self._check_key(rows, self._promises.keys.slice(self._partition, 1))
        if self._promises.hash_columns:
            self._check_hash(rows.select(list(self._promises.hash_columns)))
        if self._promises.ordering:
            self._check_order(rows.select(list(dict.fromkeys(key.column for key in self._promises.ordering))))

    def _check_filter(self, expr: Expr, rows: pa.RecordBatch) -> None:
        try:
            wrong = pc.invert(pc.fill_null(expr.evaluate(rows), False))
        except (EvaluationError, NotImplementedError):  # whether Spark would fail here too, its settings decide
            self._filters.remove(expr)
            return
        if pc.any(wrong).as_py():
            count = pc.sum(wrong).as_py()
            raise BrokenPromiseError(
                "filters",
                f"{self._promises.provider} answered EXACT for the filter `{expr!r}`, but {self._plan}.execute yielded "
                f"{counted(count, 'row')} for which it is not true {self._where}: "
                f"{_shown(rows, pc.indices_nonzero(wrong))}. Filter these rows out in execute, or answer INEXACT",
            )

    def _check_key(self, rows: pa.RecordBatch, key: pa.RecordBatch) -> None:
        columns = rows.select(key.schema.names)
        equal = pa.scalar(True)
        for column, stated in zip(columns.columns, key.columns, strict=True):
            equal = pc.and_(equal, _equals(column, stated[0]))
        wrong = pc.invert(equal)
        if pc.any(wrong).as_py():
            raise BrokenPromiseError(
                "partitioning",
                f"{self._plan} is partitioned by keys, and this partition's is {_shown(key, [0])}, but execute yielded "
                f"{counted(pc.sum(wrong).as_py(), 'other row')} {self._where}: "
                f"{_shown(columns, pc.indices_nonzero(wrong))}. Partition i must hold just the rows of keys[i]",
            )

    def _check_hash(self, keys: pa.RecordBatch) -> None:
        distinct = pa.Table.from_batches([keys]).group_by(keys.schema.names).aggregate([])
        for row, key in enumerate(row_keys(distinct)):
            other = self._promises.seen_keys.other_partition(key, self._partition)
            if other is not None:
                raise BrokenPromiseError(
                    "partitioning",
                    f"{self._plan} is partitioned by a hash of ({', '.join(keys.schema.names)}), but partition {other} "
                    f"has rows with {shown(distinct, [row])} too {self._where}. Equal rows must be in one partition",
                )

    def _check_order(self, rows: pa.RecordBatch) -> None:
        """The last row that was looked at must not come after any of these."""
        compared = rows if self._last is None else pa.concat_batches([self._last, rows])
        self._last = rows.slice(rows.num_rows - 1)
        row = first_disorder(compared, self._promises.ordering)
        if row is not None:
            order = ", ".join(map(order_text, self._promises.ordering))
            stated = "a top-n was answered EXACT, in the order" if self._promises.top_n else "partitions are sorted by"
            raise BrokenPromiseError(
                "ordering",
                f"{self._plan}: {stated} {order}, but execute yielded {_shown(compared, [row])} before "
                f"{_shown(compared, [row + 1])} {self._where}. Sort the rows, or do not state the order",
            )


def _equals(column: pa.Array, value: pa.Scalar) -> pa.Array:
    """As Spark groups: null is null, and NaN is NaN."""
    if not value.is_valid:
        return pc.is_null(column)
    equal = pc.equal(column, value)
    if pa.types.is_floating(column.type) and value.as_py() != value.as_py():
        equal = pc.is_nan(column)
    return pc.fill_null(equal, False)


def _shown(rows: pa.RecordBatch, which: Any) -> str:
    indices = which.to_pylist() if isinstance(which, pa.Array) else which
    return shown(pa.Table.from_batches([rows]), indices)
