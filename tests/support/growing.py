"""A table that grows, and what tests do with streams of it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

import headrace as hr
from headrace.stream import listeners_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

Sink: TypeAlias = "Callable[[DataFrame, int], None]"
SCHEMA = pa.schema([("n", pa.int64()), ("square", pa.int64()), ("text", pa.string()), ("odd", pa.bool_())])


class Numbers(hr.ExecutionPlan):
    """The rows of the numbers from ``first`` on, up to ``last``, in equal parts."""

    def __init__(self, first: int, last: int, request: hr.ScanRequest, parts: int, placement: hr.Placement) -> None:
        self.first, self.last = first, last
        self.schema = request.schema
        self.filters = request.filters
        self.partitioning = hr.UnknownPartitioning(parts)
        self.placement = placement

    def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
        numbers = range(self.first + partition, self.last, self.partitioning.n)
        rows = pa.RecordBatch.from_pylist(
            [{"n": n, "square": n * n, "text": f"number {n}", "odd": n % 2 == 1} for n in numbers], SCHEMA
        )
        for one in self.filters:
            rows = rows.filter(one.evaluate(rows))
        yield rows.select(self.schema.names)

    def describe(self) -> str:
        return f"{self.first} to {self.last}"


class Counter(hr.StreamProvider):
    """The numbers from 0 up to ``head``; offsets are numbers. Records what it was asked for."""

    def __init__(
        self,
        head: int = 0,
        *,
        parts: int = 2,
        placement: hr.Placement = hr.Placement.DRIVER,
        filters: hr.FilterPushdown = hr.FilterPushdown.UNSUPPORTED,
        schema: pa.Schema = SCHEMA,
    ) -> None:
        self.head = head
        self.parts = parts
        self.placement = placement
        self.filters = filters
        self.declared = schema
        self.asked: list[tuple[int, hr.ReadLimit]] = []
        self.ranges: list[tuple[int, int, hr.ScanRequest]] = []
        self.committed: list[int] = []

    def schema(self) -> pa.Schema:
        return self.declared

    def grow(self, rows: int = 1) -> None:
        self.head += rows
        self.advanced()

    def initial_offset(self) -> hr.Offset:
        return 0

    def latest_offset(self, start: hr.Offset, limit: hr.ReadLimit) -> hr.Offset:
        self.asked.append((start, limit))
        head = self.head if limit.until is None else min(self.head, limit.until)
        return head if limit.max_rows is None else min(head, start + limit.max_rows)

    def supports_filters_pushdown(self, filters: Sequence[hr.Expr]) -> Sequence[hr.FilterPushdown]:
        return [self.filters] * len(filters)

    def scan_between(self, start: hr.Offset, end: hr.Offset, request: hr.ScanRequest) -> hr.ExecutionPlan:
        self.ranges.append((start, end, request))
        return Numbers(start, end, request, self.parts, self.placement)

    def commit(self, end: hr.Offset) -> None:
        self.committed.append(end)


class Batches:
    """What foreachBatch was given, as tables of Arrow; wakes whoever waits."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.tables: dict[int, pa.Table] = {}

    def __call__(self, frame: DataFrame, batch: int) -> None:
        rows = frame.toArrow()
        with self.changed:
            self.tables[batch] = rows
            self.changed.notify_all()

    @property
    def rows(self) -> list[dict[str, Any]]:
        with self.changed:
            return [row for _, table in sorted(self.tables.items()) for row in table.to_pylist()]

    def column(self, name: str) -> list[Any]:
        return sorted(row[name] for row in self.rows)

    def wait(self, enough: Callable[[], bool], seconds: float = 60) -> None:
        with self.changed:
            assert self.changed.wait_for(enough, seconds), f"only {len(self.tables)} batches came"

    def wait_for_rows(self, rows: int) -> None:
        self.wait(lambda: sum(len(table) for table in self.tables.values()) >= rows)


@contextlib.contextmanager
def running(
    frame: DataFrame, directory: Path | str, sink: Callable[[DataFrame, int], None], **trigger: Any
) -> Iterator[StreamingQuery]:
    """A query that feeds ``sink``, stopped in the end."""
    query = (
        frame.writeStream.foreachBatch(sink)
        .option("checkpointLocation", str(directory))
        .trigger(**(trigger or {"processingTime": "0 seconds"}))
        .start()
    )
    try:
        yield query
    finally:
        query.stop()


def read_available(frame: DataFrame, directory: Path | str, sink: Sink | None = None) -> Batches:
    """All that is there now, by one query."""
    batches = Batches()
    with running(frame, directory, sink or batches, availableNow=True) as query:
        assert query.awaitTermination(120), "the query did not end"
    return batches


def is_quiet(ctx: hr.SessionContext, counter: Counter) -> bool:
    """Whether nothing of a stream is held any more."""
    planner: Any = ctx._attached.planner
    return len(planner.streams) == 0 and listeners_of(counter) == []
