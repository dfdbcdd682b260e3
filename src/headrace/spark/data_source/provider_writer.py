"""A WritableProvider's writes on PySpark's own Python Data Source, of ``as_data_source``; processes of Spark's.

A write plan holds locks from its beginning to its commit, and a Python Data Source has no process that lives as long:
Spark pickles a writer for each task, and once more for the commit. So tasks send their rows along with their commit
messages, and the write happens where Spark commits: the plan is begun, written through and committed in one process.
"""

from __future__ import annotations

import contextlib
import json
import pickle
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from headrace.arrow.conversion import to_wire
from headrace.errors import SchemaMismatchError, WriteError
from headrace.negotiate.asking import ProviderRaised
from headrace.negotiate.registry import RegisteredTable
from headrace.negotiate.writing import checked_columns, planned_write
from headrace.plan import Placement
from headrace.spark.data_source.errors import original
from headrace.spark.data_source.plan import RowsToArrow
from headrace.spark.versions import arrow_schema, stream_arrow_writer
from headrace.write import WriteMode

_QUERY_ID = "sql.streaming.queryId"
"""The property by which Spark tells its tasks of which streaming query they are."""


@dataclass
class WrittenRows(WriterCommitMessage):
    """The rows of one task, as an Arrow stream in the table's wire types."""

    partition: int
    attempt: int
    query_id: str | None
    rows: bytes


class ProviderWriter(DataSourceArrowWriter):
    """One write of a statement. What the provider refuses by its modes, it refuses before a task runs."""

    def __init__(
        self, table: bytes, name: str, struct: StructType, options: Mapping[str, str], *, overwrite: bool
    ) -> None:
        """``table``: the pickled RegisteredTable. Raises what the provider does; WriteError, SchemaMismatchError."""
        self._table = table
        self._name = name
        self._struct = struct
        self._mode = WriteMode.TRUNCATE if overwrite else WriteMode.APPEND
        self._options = dict(options)
        opened: RegisteredTable = pickle.loads(table)
        self._wire = opened.wire_schema
        self._order = _order(opened, struct)
        try:
            planned_write(opened, self._mode)
        except ProviderRaised as error:
            raise original(error) from None

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenRows:
        context = TaskContext.get()
        assert context is not None, "a task of Spark's calls this"
        buffer = pa.BufferOutputStream()
        with pa.ipc.new_stream(buffer, self._wire, options=pa.ipc.IpcWriteOptions(compression="lz4")) as stream:
            for batch in iterator:
                stream.write_batch(self._received(batch))
        query_id = context.getLocalProperty(_QUERY_ID)
        return WrittenRows(context.partitionId(), context.taskAttemptId(), query_id, buffer.getvalue().to_pybytes())

    def _received(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Spark's batch, in the table's order and wire types: its timestamps are in the session's time zone."""
        columns = [
            to_wire(batch.column(position), field.type, field.name)
            for position, field in zip(self._order, self._wire, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._wire)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self._publish(messages, uuid.uuid4().hex, None)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Nothing has begun; or ``commit`` raised, and has aborted the plan itself."""

    def _publish(self, messages: Sequence[Any], query_id: str, epoch: int | None) -> None:
        """Raises what the provider does, after the plan was aborted; WriteError."""
        table: RegisteredTable = pickle.loads(self._table)
        try:
            planned = planned_write(table, self._mode)
            plan = planned.begin(query_id, epoch, self._options)
        except ProviderRaised as error:
            raise original(error) from None
        code, told = planned.code(plan, epoch), []
        try:
            if plan.placement is Placement.DRIVER:
                raise WriteError(
                    f"{type(plan).__name__} writes to an object of the process that its table lives in "
                    f"(Placement.DRIVER), and this is a copy of it, in a process of Spark's. Nothing was written; "
                    f"register {self._name!r} with a SessionContext"
                )
            for message in messages:
                with pa.ipc.open_stream(message.rows) as rows:
                    told.append(json.loads(code(message.partition, message.attempt, iter(rows))))
            plan.commit(told)
        except BaseException:
            with contextlib.suppress(Exception):  # the first error is the one to tell
                plan.abort([*told, *[None] * (len(messages) - len(told))])
            raise


class ProviderStreamWriter(
    *(stream_arrow_writer() or (DataSourceStreamWriter,))  # type: ignore[misc]
):
    """The writes of a streaming query: each of its epochs is one write."""

    def __init__(self, writer: ProviderWriter) -> None:
        self._writer = writer

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Gets Arrow batches, but rows in Spark 4.0."""
        if not stream_arrow_writer():
            struct = self._writer._struct
            iterator = RowsToArrow(struct, arrow_schema(struct), self._writer._name).batches(iterator)
        return self._writer.write(iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        query_ids = {message.query_id for message in messages if isinstance(message, WrittenRows)}
        query_id = query_ids.pop() if len(query_ids) == 1 else None
        if query_id is None:
            raise WriteError(f"Spark's tasks do not tell which streaming query writes to {self._writer._name!r}")
        self._writer._publish(messages, query_id, batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """As ``ProviderWriter.abort``."""


def _order(table: RegisteredTable, struct: StructType) -> list[int]:
    """Where the table's columns are in what is written. Raises SchemaMismatchError where that is not its columns."""
    names = struct.names
    if sorted(names) != sorted(table.wire_schema.names):
        raise SchemaMismatchError(
            f"the columns that are written to {table.name!r} are {', '.join(names)}; the table has "
            f"{', '.join(table.wire_schema.names)}. Select these, by these names"
        )
    order = [names.index(name) for name in table.wire_schema.names]
    checked_columns(table, StructType([struct[position] for position in order]).jsonValue())
    return order
