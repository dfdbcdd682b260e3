"""Partition streams: one partition's batches, checked and in wire types; runs where ``execute`` runs."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headrace.errors import SchemaMismatchError
from headrace.plan import BatchSource, ExecutionPlan
from headrace.types import converter, forbidden_null, forbids_nulls, indented, wire_schema

_END = object()


class StopRequested(BaseException):
    """Raised inside user code when Spark needs no more rows, so that its ``finally`` blocks run."""


class StopFlag:
    """Stops a thread that runs user code: at its next batch, or inside the code through ``interrupt``.

    ``request`` may be called from any thread; ``interrupt`` must make the running thread raise StopRequested
    soon. The lock makes sure that it is never raised after the thread has left the user's code, where it could
    hit the user's clean-up. A source that has an ``interrupt(reason)`` method of its own (thread-safe; it makes a
    waiting ``next`` return or raise) is stopped through that instead: it knows best how to wake its thread.
    """

    def __init__(self, interrupt: Callable[[], None]) -> None:
        self.requested = False
        self.inside = False
        self._interrupt = interrupt
        self._interrupt_source: Callable[[str], None] | None = None
        self._leaving = threading.Lock()

    def watch(self, source: Any) -> None:
        """``source`` is what the user's code returned to be iterated over."""
        interrupt = getattr(source, "interrupt", None)
        self._interrupt_source = interrupt if callable(interrupt) else None

    def request(self, reason: str) -> None:
        """Stop the stream. Idempotent."""
        with self._leaving:
            already, self.requested = self.requested, True
            interrupt_source = self._interrupt_source
            if self.inside and not already and interrupt_source is None:
                self._interrupt()
        if interrupt_source is not None and not already:
            interrupt_source(reason)

    @contextlib.contextmanager
    def user_code(self) -> Iterator[None]:
        """Surrounds calls into user code. Raises StopRequested if a stop was asked for before or meanwhile."""
        self.inside = True
        try:
            if self.requested:
                raise StopRequested
            yield
        finally:
            with self._leaving:
                self.inside = False


class MergingSource(Iterator[pa.RecordBatch]):
    """A source whose next batch is all that waits for it, merged.

    ``patient``: so much can wait that it is best asked only when the batch before has been read.
    """

    patient: bool


@dataclass(frozen=True)
class ScanTask:
    """Everything needed to produce any partition of one scan; pickled for EXECUTORS placement."""

    table: str
    plan: ExecutionPlan
    plan_schema: pa.Schema
    request_schema: pa.Schema
    limit: int | None

    @property
    def plan_name(self) -> str:
        return type(self.plan).__name__

    def wire_schema(self) -> pa.Schema:
        return wire_schema(self.request_schema)


class PartitionStream:
    """Iterates over the wire batches of one partition and closes the user's iterator when done.

    Raises SchemaMismatchError where a batch breaks the plan's promise; user exceptions pass unchanged.
    Single-threaded, except that ``stop.request()`` may come from anywhere. ``source`` is what ``execute`` returned,
    where that was called already.
    """

    def __init__(self, task: ScanTask, partition: int, stop: StopFlag, source: BatchSource | None = None) -> None:
        self.schema = task.wire_schema()
        self.task = task
        self.partition = partition
        self.source: Any = source
        self._stop = stop
        stop.watch(source)
        self._batches: Iterator[pa.RecordBatch] | None = None
        self._remaining = task.limit
        self._select = _selector(task.plan_schema, task.request_schema, self.schema)
        self._not_null = [(index, field) for index, field in enumerate(self.schema) if forbids_nulls(field)]

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        with self._stop.user_code():
            if self.source is None:
                self.source = self.task.plan.execute(self.partition)
                self._stop.watch(self.source)
            self._batches = batch_iterator(self.source, f"{self.task.plan_name}.execute")
        while self._remaining is None or self._remaining > 0:
            with self._stop.user_code():
                batch = next(self._batches, _END)
            if batch is _END:
                return
            batch = self._checked(batch)
            if self._remaining is not None:
                batch = batch.slice(0, self._remaining)
                self._remaining -= batch.num_rows
            selected = self._select(batch)
            self._check_nulls(selected)
            yield selected

    def close(self) -> None:
        """Close the user's generator or reader; whatever that raises passes unchanged. Idempotent."""
        closables = {id(it): it for it in (self._batches, self.source)}
        self._batches = self.source = None
        with contextlib.ExitStack() as stack:  # one that raises must not keep the other open
            for closable in reversed(closables.values()):
                close = getattr(closable, "close", None)
                if callable(close):
                    stack.callback(close)

    def _checked(self, batch: Any) -> pa.RecordBatch:
        name = f"{self.task.plan_name}.execute"
        if not isinstance(batch, pa.RecordBatch):
            hint = "; use Table.to_batches()" if isinstance(batch, pa.Table) else ""
            raise SchemaMismatchError(
                f"{name} yielded {type(batch).__name__}, expected pyarrow.RecordBatch{hint} "
                f"(table {self.task.table!r}, partition {self.partition})"
            )
        expected = self.task.plan_schema
        if not batch.schema.equals(expected):
            if batch.schema.names != expected.names or batch.schema.types != expected.types:
                raise SchemaMismatchError(
                    f"{name} yielded a batch whose schema is not the plan's "
                    f"(table {self.task.table!r}, partition {self.partition})\n"
                    f"expected:\n{indented(expected)}\nfound:\n{indented(batch.schema)}"
                )
            # Only what is declared nullable differs; small batches can be merged only if their schemas are equal.
            batch = pa.RecordBatch.from_arrays(batch.columns, schema=expected)
        return batch

    def _check_nulls(self, batch: pa.RecordBatch) -> None:
        """Spark does not look for nulls where the table declares none, and would read garbage.

        Looks at the converted columns: a null may hide in a dictionary's values or in a run.
        """
        for index, field in self._not_null:
            path = forbidden_null(batch.column(index), field, field.name)
            if path is not None:
                raise SchemaMismatchError(
                    f"{self.task.plan_name}.execute yielded nulls in column {path!r}, which the schema declares not "
                    f"null (table {self.task.table!r}, partition {self.partition})\n"
                    f"expected:\n{indented(self.task.request_schema)}\nfound:\n{indented(batch.schema)}"
                )


def batch_iterator(source: Any, where: str) -> Iterator[pa.RecordBatch]:
    """Iterates over anything ``execute`` may return. Raises TypeError, naming ``where``, for other things."""
    if isinstance(source, pa.RecordBatch):
        return iter((source,))
    if isinstance(source, pa.RecordBatchReader):
        return iter(source)
    if hasattr(source, "__arrow_c_stream__"):
        return iter(pa.RecordBatchReader.from_stream(source))
    try:
        return iter(source)
    except TypeError:
        raise TypeError(
            f"{where} returned {type(source).__name__}, expected an iterable of pyarrow.RecordBatch, "
            "a RecordBatchReader or an object with __arrow_c_stream__"
        ) from None


def _selector(plan: pa.Schema, request: pa.Schema, wire: pa.Schema) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """A function from the plan's batches to the wire's: pick columns, prune nested fields, cast losslessly."""
    positions = [plan.get_field_index(name) for name in request.names]
    steps = [
        converter(plan.field(position).type, field.type, field.name)
        for position, field in zip(positions, wire, strict=True)
    ]
    in_order = positions == list(range(len(plan)))
    if not any(steps) and pa.schema([plan.field(position) for position in positions]).equals(wire):
        return (lambda batch: batch) if in_order else (lambda batch: batch.select(positions))

    def convert(batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [
            step(batch.column(position)) if step else batch.column(position)
            for position, step in zip(positions, steps, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=wire)

    return convert
