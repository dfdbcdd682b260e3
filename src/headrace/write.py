"""WritableProvider and WritePlan: what a user implements so that Spark can write to a table; driver, plans travel."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from headrace.arguments import check_fields
from headrace.expr.nodes import Expr
from headrace.plan import Placement, SortKey
from headrace.provider import TableProvider

Message = Any
"""What ``WritePlan.write`` tells ``commit``: any JSON value."""


class WriteMode(enum.Enum):
    """What becomes of the rows that a table has before a write."""

    APPEND = "append"
    """They stay: INSERT INTO."""
    TRUNCATE = "truncate"
    """All go: INSERT OVERWRITE."""
    OVERWRITE = "overwrite"
    """Those go for which ``WriteRequest.filters`` hold: REPLACE WHERE, ``overwrite(condition)``."""
    DYNAMIC = "dynamic"
    """Those of the partitions go in which new rows come: ``overwritePartitions()``."""


@dataclass(frozen=True)
class WriteRequest:
    """One statement that writes.

    ``schema`` is the table's own: batches have it exactly. ``filters``: the rows to replace, ANDed, with OVERWRITE.
    ``query_id`` and ``epoch`` are those of a streaming query, and the same when it commits a batch again; a statement
    has an id of its own and no epoch. ``options`` are those of the writer, with keys in lower case.
    """

    schema: pa.Schema
    mode: WriteMode = WriteMode.APPEND
    filters: tuple[Expr, ...] = ()
    query_id: str = ""
    epoch: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class WriteTask:
    """One attempt to write one partition. ``attempt`` is unique within the query: retries and rivals have others."""

    partition: int
    attempt: int
    epoch: int | None = None

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class WriteLayout:
    """How a table would like its rows to come: Spark shuffles and sorts for it.

    ``cluster_by``: rows with equal values of these columns come to the same task. ``order_by``: the order within each
    task. ``partitions``: how many tasks, where rows are clustered; None leaves that to Spark.
    """

    cluster_by: tuple[str, ...] = ()
    order_by: tuple[SortKey, ...] = ()
    partitions: int | None = None

    def __post_init__(self) -> None:
        check_fields(self)


class WritePlan(ABC):
    """One write, arranged. With ``Placement.EXECUTORS`` it is pickled (cloudpickle) for the tasks.

    ``commit`` and ``abort`` are called in the driver process, on the object that ``insert`` returned.
    """

    placement: Placement = Placement.EXECUTORS
    """Where ``write`` runs."""
    files_written: int | None = None
    """How many files ``commit`` has published, which Spark's SQL tab then shows; None where there are none to count."""

    @abstractmethod
    def write(self, task: WriteTask, batches: Iterator[pa.RecordBatch]) -> Message:
        """Take the rows of one task, to the end, and return a JSON value for ``commit``.

        Runs in a Spark Python worker (EXECUTORS) or on a thread of the user's process (DRIVER), possibly for several
        tasks at once, and again for a partition whose task failed or is speculated, with another ``attempt``. What it
        stores must not be seen by readers before ``commit``. A stream that was cut raises out of ``batches``; it never
        looks like an end. Whatever it raises fails the task.
        """

    @abstractmethod
    def commit(self, messages: Sequence[Message]) -> None:
        """Publish what the tasks of ``messages`` wrote, one for each partition: all or nothing, as readers see it.

        Messages come from workers: make names of files and SQL of what ``insert`` knows, not of them.
        Called once, when all tasks are done; for a streaming query again where it commits an epoch again, so it has to
        be idempotent. What it raises fails the statement, and ``abort`` follows.
        """

    def abort(self, messages: Sequence[Message | None]) -> None:  # noqa: B027 (to leave nothing behind is optional)
        """The write failed. Remove what was stored and not published; None stands for a task without a message.

        Not called where the driver dies. After a ``commit`` that raised it must remove nothing that was published.
        """

    def describe(self) -> str:
        """One line for the progress of a streaming query. Asked in the driver when the write begins."""
        return type(self).__name__


class WritableProvider(TableProvider):
    """A table that Spark can write to: INSERT INTO, ``df.writeTo``, ``writeStream.toTable``."""

    @abstractmethod
    def insert(self, request: WriteRequest) -> WritePlan:
        """Arrange one write. Called when the statement runs, not when it is planned, possibly on a thread that is not
        the caller's; for a streaming query once an epoch. What it raises fails the statement; nothing was written.
        """

    def write_modes(self) -> set[WriteMode]:
        """What this table can do. Asked at planning; a statement of another mode is refused. Default: APPEND alone."""
        return {WriteMode.APPEND}

    def can_overwrite(self, filters: Sequence[Expr]) -> bool:
        """Whether exactly the rows for which all ``filters`` hold can be replaced. At planning. Default: False."""
        return False

    def layout(self, mode: WriteMode) -> WriteLayout | None:
        """How the rows should come. Asked at planning. Default: as they are."""
        return None

    def partition_columns(self) -> Sequence[str]:
        """The columns that ``INSERT INTO t PARTITION (day = ...)`` may name. Asked whenever Spark looks the table up.

        With ``INSERT OVERWRITE`` their values are a condition of OVERWRITE. Default: none.
        """
        return ()

    def can_delete(self, filters: Sequence[Expr]) -> bool:
        """Whether ``delete`` can remove exactly those rows for which all ``filters`` hold. At planning. Default: no."""
        return False

    def delete(self, filters: tuple[Expr, ...]) -> None:
        """Remove the rows for which all ``filters`` hold; all rows where there are none. DELETE FROM, TRUNCATE TABLE.

        Called when the statement runs, once, after ``can_delete`` said so.
        """
        raise NotImplementedError(f"{type(self).__name__} has no delete")
