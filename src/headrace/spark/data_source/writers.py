"""Writes through a data source's own writers: of rows or Arrow batches, of statements or streams; driver and workers.

PySpark's contract decides what runs where: ``write`` in the workers, on a copy of the writer, ``commit`` and ``abort``
in the driver. Commit messages travel as data (``messages.py``): the driver unpickles nothing that a task answers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.conversion import ArrowTableToRowsConversion
from pyspark.sql.datasource import (
    CaseInsensitiveDict,
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamWriter,
    DataSourceWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from headrace.arrow.sizes import MOST_PYTHON_ROWS
from headrace.errors import WriteError
from headrace.spark.data_source.errors import no_commit_message, type_mismatch
from headrace.spark.data_source.messages import MessageReader, encode_message
from headrace.spark.versions import arrow_schema, stream_arrow_writer
from headrace.write import Message, WritableProvider, WriteMode, WritePlan, WriteRequest, WriteTask

Writer: TypeAlias = DataSourceWriter | DataSourceStreamWriter
_OF_THE_FORMAT = {"table", "catalog"}
"""Options by which ``format("headrace")`` found the table: the data source may have others of these names."""


def has_writer(cls: type[DataSource]) -> bool:
    """Whether a data source can be written to, by statements or by streaming queries."""
    return cls.writer is not DataSource.writer or cls.streamWriter is not DataSource.streamWriter


class DataSourceWrites(WritableProvider):
    """Of a table over a data source: a writer is made for each statement, and for each epoch of a streaming query."""

    _source: DataSource

    @property
    def name(self) -> str:
        raise NotImplementedError

    def struct(self) -> StructType:
        raise NotImplementedError

    def write_modes(self) -> set[WriteMode]:
        return {WriteMode.APPEND, WriteMode.TRUNCATE}

    def insert(self, request: WriteRequest) -> WritePlan:
        """As Spark does: a data source of its own, with the options of the writer beside those that it has."""
        options = {**self._source.options}
        options |= {key: value for key, value in request.options.items() if key not in _OF_THE_FORMAT}
        source = type(self._source)(options=CaseInsensitiveDict(options))
        overwrite = request.mode is WriteMode.TRUNCATE
        if request.epoch is not None:
            stream_writer = source.streamWriter(self.struct(), overwrite)
            if not isinstance(stream_writer, DataSourceStreamWriter):
                raise type_mismatch("an instance of DataSourceStreamWriter", stream_writer)
            return StreamWriterPlan(stream_writer, self.struct(), self.name, request.epoch)
        writer = source.writer(self.struct(), overwrite)
        if not isinstance(writer, DataSourceWriter):
            raise type_mismatch("an instance of DataSourceWriter", writer)
        return WriterPlan(writer, self.struct(), self.name)


class WriterPlan(WritePlan):
    """One write of a statement."""

    def __init__(self, writer: Writer, struct: StructType, name: str) -> None:
        self._writer: Any = writer
        self._struct = struct
        self._name = name

    def write(self, task: WriteTask, batches: Iterator[pa.RecordBatch]) -> Message:
        """Raises PySparkRuntimeError for what is no commit message, WriteError for one that is not data. A writer may
        stop early, as in Spark.
        """
        schema = arrow_schema(self._struct)
        given = (pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in batches)
        takes_arrow = isinstance(self._writer, (DataSourceArrowWriter, *stream_arrow_writer()))
        message = self._writer.write(given if takes_arrow else self._rows(given))
        if not isinstance(message, WriterCommitMessage):
            raise no_commit_message(message)
        for _ in batches:
            pass  # Spark does not mind a writer that leaves rows
        return encode_message(message)

    def _rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Row]:
        for batch in batches:
            for start in range(0, batch.num_rows, MOST_PYTHON_ROWS):
                table = pa.Table.from_batches([batch.slice(start, MOST_PYTHON_ROWS)])
                yield from ArrowTableToRowsConversion.convert(table, self._struct)

    def commit(self, messages: Sequence[Message]) -> None:
        self._writer.commit(_decoded(messages))

    def abort(self, messages: Sequence[Message | None]) -> None:
        self._writer.abort(_readable(messages))

    def describe(self) -> str:
        return f"data source {self._name}"


class StreamWriterPlan(WriterPlan):
    """One epoch of a streaming query."""

    def __init__(self, writer: DataSourceStreamWriter, struct: StructType, name: str, epoch: int) -> None:
        super().__init__(writer, struct, name)
        self._epoch = epoch

    def commit(self, messages: Sequence[Message]) -> None:
        self._writer.commit(_decoded(messages), self._epoch)

    def abort(self, messages: Sequence[Message | None]) -> None:
        self._writer.abort(_readable(messages), self._epoch)


def _decoded(messages: Sequence[Message]) -> list[WriterCommitMessage]:
    """Raises WriteError for what no writer's task has sent."""
    return list(map(MessageReader().read, messages))


def _readable(messages: Sequence[Message | None]) -> list[WriterCommitMessage | None]:
    """For ``abort``, which is called all the same: None for a message that cannot be read."""
    reader, found = MessageReader(), list[WriterCommitMessage | None]([None] * len(messages))
    for i, message in enumerate(messages):
        with contextlib.suppress(WriteError):
            found[i] = reader.read(message)
    return found
