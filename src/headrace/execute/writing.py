"""A write at work: one task's batches, in the table's own types, through the plan's ``write``; runs where that runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headrace.arrow.conversion import batch_converter
from headrace.arrow.nulls import NullCheck
from headrace.errors import SchemaMismatchError, WriteError
from headrace.execute.receiving import ReceivingTask
from headrace.write import WritePlan, WriteTask

_SHOWN_CHARS = 80


@dataclass(frozen=True)
class WriteCode:
    """What a ReceivingTask calls for a write plan; pickled for EXECUTORS placement."""

    plan: WritePlan
    table: str
    schema: pa.Schema
    """The table's own."""
    wire: pa.Schema
    epoch: int | None = None

    @property
    def place(self) -> str:
        return f"{type(self.plan).__name__}.write"

    def task(self) -> ReceivingTask:
        return ReceivingTask(self.table, self.wire, self.place, self)

    def __call__(self, partition: int, attempt: int, batches: Iterator[pa.RecordBatch]) -> bytes:
        """Raises what ``write`` does, WriteError for a message that is no JSON, SchemaMismatchError for values that the
        table's types cannot hold, even where ``write`` passes over it.
        """
        where = f"(table {self.table!r}, partition {partition})"
        rows = TableBatches(batches, self.wire, self.schema, where)
        message = self.plan.write(WriteTask(partition, attempt, self.epoch), rows)
        rows.check()
        return message_bytes(message, self.place, where)


class TableBatches(Iterator[pa.RecordBatch]):
    """Batches that Spark sent, in the table's own types. Once it has raised an error, ``check`` raises it again."""

    def __init__(self, received: Iterator[pa.RecordBatch], wire: pa.Schema, schema: pa.Schema, where: str) -> None:
        self._received = received
        self._schema = schema
        self._convert = None if wire.equals(schema, check_metadata=True) else batch_converter(wire, schema)
        self._nulls = NullCheck(wire)
        self._where = where
        self._error: SchemaMismatchError | None = None

    def __next__(self) -> pa.RecordBatch:
        self.check()
        batch = next(self._received)
        try:
            return self._converted(batch)
        except SchemaMismatchError as error:
            self._error = error
            raise

    def check(self) -> None:
        if self._error is not None:
            raise self._error

    def _converted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        path = self._nulls.path(batch)
        if path is not None:
            raise SchemaMismatchError(
                f"a null came for column {path!r}, which the table declares not null {self._where}; nothing of this "
                "write is published. Filter such rows out, or give them a value (coalesce)"
            )
        if self._convert is None:
            return pa.RecordBatch.from_arrays(batch.columns, schema=self._schema) if batch.num_columns else batch
        try:
            return self._convert(batch)
        except SchemaMismatchError as error:
            raise SchemaMismatchError(f"{error} {self._where}; nothing of this write is published") from error


def message_bytes(message: Any, place: str, where: str = "") -> bytes:
    """What ``write`` returned, as JSON. Raises WriteError, naming ``place``, for what ``commit`` would not get back."""
    try:
        text = json.dumps(message, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise _no_message(message, place, where, str(error)) from None
    if json.loads(text) != _plain(message):
        raise _no_message(message, place, where, "the keys of an object are strings")
    return text.encode()


def _no_message(message: Any, place: str, where: str, why: str) -> WriteError:
    try:
        shown = f"{type(message).__name__} {str(message)[:_SHOWN_CHARS]!r}"
    except Exception:  # of a list in a list in a list, or of an object of the user's
        shown = type(message).__name__
    return WriteError(
        f"{place} returned {shown}, which is no JSON value ({why}), so commit cannot be told of it {where}; return "
        "None, or what json.dumps takes: a string, a number, a list, a dict with strings as keys"
    )


def _plain(value: Any) -> Any:
    """``value`` with lists in place of tuples, as JSON has them."""
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return value
