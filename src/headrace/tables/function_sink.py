"""FunctionSink: a function of the user's own that gets what Spark writes; runs in the driver process."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import pyarrow as pa

from headrace.arguments import checked
from headrace.arrow.schemas import SchemaLike, schema_of
from headrace.display import names_text
from headrace.errors import PlanError, WriteError
from headrace.plan import Placement, ScanRequest
from headrace.tables.simple import name_of
from headrace.write import Message, WritableProvider, WritePlan, WriteRequest, WriteTask


class FunctionSink(WritableProvider):
    """A table to write to, not to read: a function gets the rows of each task, in this process.

    ``schema``: a ``pa.schema``, DDL text (``"id BIGINT NOT NULL, name STRING"``) or a list of pairs of name and type.

    ``write(batches)`` is called once for each task, on a thread of its own, with an iterator of RecordBatches that have
    the schema; several calls may run at once. It reads them all: the write fails if it returns before the last one.
    What it returns is ignored, and what it raises fails the task.

    It is at-least-once. The function has acted before Spark commits, so a task that Spark runs again (a retry, a
    speculative rival, a batch of a stream after a restart) hands it the same rows again, and a statement that fails
    undoes nothing. Give rows a key, and let the receiver take each key once.

    Raises TypeError for something that is not a schema, or not such a function, ValueError for text that is no DDL.
    """

    @checked("write")
    def __init__(self, schema: SchemaLike, write: Callable[[Iterator[pa.RecordBatch]], Any]) -> None:
        self._schema = schema_of(schema, "FunctionSink's schema")
        if inspect.isgeneratorfunction(write) or inspect.iscoroutinefunction(write):
            kind = "a generator" if inspect.isgeneratorfunction(write) else "an async function"
            raise TypeError(f"FunctionSink calls write(batches) and waits for its end, but {name_of(write)} is {kind}")
        self._write = write

    def __repr__(self) -> str:
        return f"<FunctionSink: {name_of(self._write)} gets {names_text(self._schema.names)}>"

    def schema(self) -> pa.Schema:
        return self._schema

    def scan(self, request: ScanRequest) -> NoReturn:
        """There is nothing to read. Raises PlanError."""
        raise PlanError(
            f"a FunctionSink can only be written to: {name_of(self._write)} gets the rows, and nothing keeps them. To "
            "read them too, let the function store them, and register a table over that"
        )

    def insert(self, request: WriteRequest) -> WritePlan:
        return FunctionWrite(self._write)


class FunctionWrite(WritePlan):
    """Calls the function for each task; nothing is left to commit. Never pickled."""

    placement = Placement.DRIVER

    def __init__(self, function: Callable[[Iterator[pa.RecordBatch]], Any]) -> None:
        self._function = function

    def write(self, task: WriteTask, batches: Iterator[pa.RecordBatch]) -> Message:
        self._function(batches)
        if next(batches, None) is not None:
            raise WriteError(
                f"{name_of(self._function)} returned before it had read all batches of task {task.partition}: rows "
                "would be lost. Read them to the end: for batch in batches"
            )
        return None

    def commit(self, messages: Sequence[Message]) -> None:
        """Nothing: the function has the rows."""

    def describe(self) -> str:
        return f"{name_of(self._function)}(batches), at least once"
