"""What lives in the driver's process and Spark reads from there: the contract between it and all that serves it.

An ordinary plan with ``Placement.DRIVER`` needs none of this: its ``execute`` runs when a partition is opened. A live
table is more than its plans: it holds what somebody produces right now, gives it away once, and has to learn who reads
it and when that ends. The planner, the transport and the session know it by these classes only. Runs in driver Python.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

import pyarrow as pa

from headrace.errors import StreamError
from headrace.plan import ExecutionPlan, Placement
from headrace.provider import TableProvider


class MergingSource(Iterator[pa.RecordBatch]):
    """A source whose next batch is everything that was waiting, merged into one.

    ``patient``: many batches may be waiting, so it pays to ask for the next one only after the last has been read.
    """

    patient: bool


class LivePlan(ExecutionPlan):
    """A plan whose partitions are taken, not produced: each can be opened once, for one query.

    ``failure_place`` is who an error while reading is blamed on: not the plan, which only passes it on.
    """

    placement = Placement.DRIVER
    failure_place: str

    @abstractmethod
    def claim(self, partition: int, execution: int) -> MergingSource:
        """Open ``partition`` for the query that Spark numbers ``execution``, -1 for a job outside of SQL (``df.rdd``).

        Called for each task that opens the partition, on a thread of its own; must not wait. What it raises fails
        the task.
        """

    def execute(self, partition: int) -> MergingSource:
        """As a job outside of SQL does it."""
        return self.claim(partition, -1)

    @abstractmethod
    def released(self) -> None:
        """Nothing in Spark can run this plan any more. Called once, on a thread of the planner's."""


class LiveTable(TableProvider):
    """A table that somebody feeds while it is read. It can be scanned once; its plans are LivePlans."""

    @abstractmethod
    def query_ended(self, query: object, error: str = "", reason: str = "", *, planned: bool = False) -> None:
        """A query of the session ended, whichever it was. Any thread; must not wait. If it was the one that scans
        this table, nobody will read any more.

        ``error`` is Spark's, if it failed; ``reason`` tells why else it ended early; ``planned``: it was to scan this
        table, whether it has opened a partition or not.
        """

    @abstractmethod
    def reader_lost(self, reason: str) -> None:
        """Spark itself is gone, and with it every query. Any thread; must not wait. Idempotent."""

    @abstractmethod
    def abandon(self, error: StreamError) -> None:
        """The table is gone (deregistered, replaced, its context closed): its readers fail with ``error``, and so does
        whoever still feeds it. Any thread. Idempotent."""
