"""AdbcSpooledWrite: a write to a database in a file, which one process at a time can write to; runs in the driver."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from typing import IO

import pyarrow as pa

from headrace.plan import Placement
from headrace.tables.adbc.target import AdbcTarget
from headrace.write import Message, WritePlan, WriteRequest, WriteTask


class AdbcSpooledWrite(WritePlan):
    """Rows wait in files without names, which no crash leaves behind, and go to the database in one transaction.

    The database is locked for that time only: what reads it meanwhile may be the query that is being written.
    """

    placement = Placement.DRIVER

    def __init__(self, target: AdbcTarget, request: WriteRequest, where: str) -> None:
        self._target = target
        self._request = request
        self._where = where
        self._spools: dict[str, IO[bytes]] = {}
        self._committed = False

    def write(self, task: WriteTask, batches: Iterator[pa.RecordBatch]) -> Message:
        spool = tempfile.TemporaryFile(prefix="headrace-")  # noqa: SIM115 (it is closed when the write ends)
        try:
            with pa.ipc.new_stream(pa.PythonFile(spool, "w"), self._target.schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)
        except BaseException:
            spool.close()
            raise
        attempt = f"{task.partition}_{task.attempt}"
        self._spools[attempt] = spool
        return attempt

    def commit(self, messages: Sequence[Message]) -> None:
        if self._committed:
            return
        with self._target.transaction(self._request, self._where) as cursor:
            for attempt in messages if cursor is not None else ():
                spool = self._spools[attempt]
                spool.seek(0)
                with pa.ipc.open_stream(pa.PythonFile(spool, "r")) as reader:
                    self._target.fill(cursor, iter(reader), f"headrace_stage_{attempt}")
        self._committed = True
        self._close()

    def abort(self, messages: Sequence[Message | None]) -> None:
        self._close()

    def describe(self) -> str:
        return f"{self._target.access.driver} {'.'.join(self._target.table)}, in one transaction at the end"

    def _close(self) -> None:
        for spool in self._spools.values():
            spool.close()
        self._spools.clear()
