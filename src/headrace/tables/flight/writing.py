"""FlightWrite: what Spark writes goes to a Flight server by ``do_put``; the plan travels to executors."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from headrace.tables.flight.stream import FlightAccess
from headrace.write import Message, WritePlan, WriteTask


class FlightWrite(WritePlan):
    """One ``do_put`` for each attempt. The server has the rows when it has ended the call: nothing is left to commit.

    pyarrow cannot cancel a ``do_put``: to the server, that of an attempt that fails ends with the rows sent until then.
    """

    def __init__(
        self, location: str, descriptor: bytes, schema: pa.Schema, access: FlightAccess, written: Callable[[], None]
    ) -> None:
        """``written`` is called in the driver when all tasks are done."""
        self._location = location
        self._descriptor = descriptor
        self._schema = schema
        self._access = access
        self._written: Callable[[], None] | None = written

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_written": None}

    def write(self, task: WriteTask, batches: Iterator[pa.RecordBatch]) -> Message:
        from pyarrow import flight

        client, options = self._access.connect(self._location)
        rows = 0
        with client:
            descriptor = flight.FlightDescriptor.deserialize(self._descriptor)
            writer, answers = client.do_put(descriptor, self._schema, options)
            try:
                for batch in batches:
                    writer.write_batch(batch)
                    rows += batch.num_rows
                writer.done_writing()
                while answers.read() is not None:  # until the server has ended the call, well or not
                    pass
            except BaseException:
                with contextlib.suppress(Exception):
                    writer.close()
                raise
            writer.close()
        return rows

    def commit(self, messages: Sequence[Message]) -> None:
        """Nothing: the server has the rows."""
        if self._written is not None:
            self._written()

    def describe(self) -> str:
        return f"flight at {self._location}, at least once"
