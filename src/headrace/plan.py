"""What a scan is asked for and what it answers with; runs in the driver, and plans travel to executors."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from typing import Literal as OneOf

import pyarrow as pa

from headrace.arguments import check_fields, checked
from headrace.arrow.sources import BatchSource
from headrace.expr.nodes import Expr


@dataclass(frozen=True)
class Statistics:
    """Estimates for Spark's planner; None means unknown. A small table gets broadcast."""

    num_rows: int | None = None
    size_in_bytes: int | None = None

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class SortKey:
    """One column of an ordering."""

    column: str
    descending: bool = False
    nulls_first: bool = True

    def __post_init__(self) -> None:
        check_fields(self)


AggregateName = OneOf["count", "min", "max", "sum", "avg"]


@dataclass(frozen=True)
class AggregateFunction:
    """One aggregate of a query, e.g. ``sum(DISTINCT a)``; ``operand`` is None for ``count(*)``.

    ``type`` is the Arrow type of its result, as Spark expects it.
    """

    name: AggregateName
    operand: Expr | None
    distinct: bool
    type: pa.DataType

    def __post_init__(self) -> None:
        check_fields(self)

    def __repr__(self) -> str:
        operand = "*" if self.operand is None else repr(self.operand)
        return f"{self.name}({'DISTINCT ' if self.distinct else ''}{operand})"


@dataclass(frozen=True)
class Aggregation:
    """A GROUP BY. ``schema`` is that of the rows to yield: the groups' values, then the functions'."""

    group_by: tuple[Expr, ...]
    functions: tuple[AggregateFunction, ...]
    schema: pa.Schema

    def __post_init__(self) -> None:
        check_fields(self)

    def __repr__(self) -> str:
        groups = f"GROUP BY {', '.join(map(repr, self.group_by))}" if self.group_by else ""
        return " ".join(part for part in (", ".join(map(repr, self.functions)), groups) if part)


@dataclass(frozen=True)
class ScanRequest:
    """What Spark needs from one scan. Every field after ``projection`` is there only because the provider agreed.

    ``schema`` holds the needed columns, nested fields pruned, in the order Spark wants them;
    ``projection`` their top-level names; ``filters`` those the provider answered
    EXACT or INEXACT, ANDed; ``limit`` the most rows needed from the whole scan, over all partitions.

    ``projection`` is never empty. Where no column is needed (``count(*)``, ``EXISTS``), it has the cheapest one, and
    Headrace drops it again: the column of the smallest fixed-width type, the first column where there is none.

    ``order``: only the first ``limit`` rows in this order are needed (top-n). ``offset``: rows to leave out first,
    after filters and order; ``limit`` rows are needed after them. ``aggregation``: the scan yields aggregates, and
    ``schema`` is ``aggregation.schema``. ``runtime_filters``: learnt while the query runs, from the other side of a
    join; any of them may be used to skip rows that are false or null for it, and none has to be.
    """

    schema: pa.Schema
    projection: tuple[str, ...]
    filters: tuple[Expr, ...] = ()
    limit: int | None = None
    order: tuple[SortKey, ...] = ()
    offset: int = 0
    aggregation: Aggregation | None = None
    runtime_filters: tuple[Expr, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class UnknownPartitioning:
    """``n`` partitions about which nothing is promised."""

    n: int

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class KeyPartitioning:
    """Partition *i* holds exactly the rows whose ``columns`` equal ``keys[i]``.

    A key is a tuple with a value per column, or the bare value when there is one column. The promise is
    relied on: if it is broken, Spark's results are wrong.
    """

    columns: tuple[str, ...]
    keys: tuple[tuple[Any, ...], ...]

    @checked("columns", "keys")
    def __init__(self, columns: Sequence[str] | str, keys: Iterable[Any]) -> None:
        names = (columns,) if isinstance(columns, str) else tuple(columns)
        rows = tuple(tuple(key) if isinstance(key, (tuple, list)) else (key,) for key in keys)
        object.__setattr__(self, "columns", names)
        object.__setattr__(self, "keys", rows)
        check_fields(self)

    @property
    def n(self) -> int:
        return len(self.keys)


@dataclass(frozen=True)
class HashPartitioning:
    """Rows with equal ``columns`` are in the same one of ``n`` partitions, chosen by ``function``.

    ``function`` is a name: two tables are joined without a shuffle only when both name and ``n`` are equal.
    """

    columns: tuple[str, ...]
    n: int
    function: str

    @checked("columns")
    def __init__(self, columns: Sequence[str] | str, n: int, function: str) -> None:
        names = (columns,) if isinstance(columns, str) else tuple(columns)
        object.__setattr__(self, "columns", names)
        object.__setattr__(self, "n", n)
        object.__setattr__(self, "function", function)
        check_fields(self)


Partitioning = UnknownPartitioning | KeyPartitioning | HashPartitioning
"""What a plan may say of its partitions: UnknownPartitioning, KeyPartitioning or HashPartitioning."""


class Placement(enum.Enum):
    """Where ``execute`` runs."""

    EXECUTORS = "executors"
    """In Spark's Python workers; the plan is pickled."""
    DRIVER = "driver"
    """In the user's own process; nothing is pickled, and batches are served to the executors."""


class ExecutionPlan(ABC):
    """One arranged scan: how many partitions, what holds in each, and how to produce one.

    Made by ``TableProvider.scan`` while Spark plans, so making one must be cheap. With
    ``Placement.EXECUTORS`` the plan is pickled (cloudpickle); with ``Placement.DRIVER`` it stays where it is.
    """

    schema: pa.Schema
    """Of the batches: ``request.schema``, or the table's own, from which Headrace then selects."""
    partitioning: Partitioning = UnknownPartitioning(1)
    """How many partitions there are, and what is promised of them."""
    ordering: Sequence[SortKey] = ()
    """The order of the rows within each partition. Relied on, as the partitioning is."""
    placement: Placement = Placement.EXECUTORS
    """Where ``execute`` runs."""
    runtime_filter_columns: Sequence[str] = ()
    """On these columns a join's other side may narrow this scan: it is then planned again, ``scan`` with
    ``runtime_filters``, before a partition is opened. The new plan may have fewer partitions: of the same keys, if it
    is partitioned by keys; a hash partitioning keeps its number."""

    @abstractmethod
    def execute(self, partition: int) -> BatchSource:
        """Produce partition ``partition`` lazily, batch by batch, with the columns of ``self.schema``.

        What is yielded is best a RecordBatch of that schema, which is passed on as it is. It may also be a Table, a
        frame, an object with ``__arrow_c_array__`` or ``__arrow_c_stream__``, a list of dicts (a missing key is a null)
        or of tuples, or a dict of columns, with columns in any order and of other types: they are cast where no value
        changes, else the query fails with SchemaMismatchError. Such data may be returned too, as one batch.

        Runs in a Spark Python worker (EXECUTORS) or on a thread of the user's process (DRIVER), possibly
        for several partitions at once. It may run again for the same partition (task retry, ORDER BY
        sampling) and must then give the same rows. When Spark stops reading early the returned generator
        or reader is closed. Whatever it raises fails the query as ``ProviderError``.

        May be an async generator, or return an object with ``__aiter__``: each partition is then driven on an event
        loop and a thread of its own, all steps in one task. To stop early, what it awaits is cancelled, and it is
        closed on that loop.
        """

    def describe(self) -> str:
        """One line for EXPLAIN."""
        return type(self).__name__

    def statistics(self) -> Statistics | None:
        """Statistics of this scan, filters and limit considered; None falls back to the provider's."""
        return None
