"""AdbcStagedWrite, AdbcTransactionWrite: a write to PostgreSQL; driver, and where Spark runs its tasks."""

from __future__ import annotations

import contextlib
import re
import threading
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from headrace.errors import WriteError
from headrace.plan import Placement
from headrace.tables.adbc.columns import qualified, text_literal
from headrace.tables.adbc.target import AdbcTarget
from headrace.write import Message, WritePlan, WriteRequest, WriteTask

_STAGE = "headrace_stage_"


class AdbcStagedWrite(WritePlan):
    """Each attempt fills a table of its own; ``commit`` copies those that count, in one transaction.

    While the write runs, this process holds a lock of the database's for it. The database drops the lock of a process
    that is gone, so the tables beside a lock that is free were left behind, and the next write drops them.
    """

    def __init__(self, target: AdbcTarget, request: WriteRequest, where: str) -> None:
        self._target = target
        self._request = request
        self._where = where
        self._id = uuid.uuid4().hex[:15]
        self._committed = False
        self._alive: Any = target.access.connect(writes=True)
        try:
            with target.access.scrubbing(), self._alive.cursor() as cursor:
                cursor.execute(f"SELECT pg_advisory_lock({_lock(self._id)})")
                cursor.fetchall()
                self._drop_left_behind(cursor)
        except BaseException:
            self._alive.close()
            raise

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_alive": None}

    def write(self, task: WriteTask, batches: Iterator[pa.RecordBatch]) -> Message:
        table = self._target.beside(f"{_STAGE}{self._id}_{task.partition}_{task.attempt}")
        with self._target.access.connected(writes=True) as cursor:
            cursor.execute(f"CREATE UNLOGGED TABLE {qualified(table)} ({self._target.staged_columns()})")
            try:
                self._target.ingest(cursor, table, batches)
            except BaseException:
                with contextlib.suppress(Exception):  # of a connection that is lost; the next write drops it
                    cursor.execute(f"DROP TABLE {qualified(table)}")
                raise
        return table[-1]

    def commit(self, messages: Sequence[Message]) -> None:
        if self._committed:
            return
        stages = [self._checked_stage(message) for message in messages]
        with self._target.transaction(self._request, self._where) as cursor:
            for staged in stages if cursor is not None else ():
                cursor.execute(self._target.copy_sql(self._target.beside(staged)))
        self._committed = True
        self._close()

    def abort(self, messages: Sequence[Message | None]) -> None:
        self._close()

    def describe(self) -> str:
        return f"{self._target.access.driver} {'.'.join(self._target.table)}, through staging tables"

    def _close(self) -> None:
        """Drops what this write staged. What cannot be dropped now, the next write drops."""
        alive, self._alive = self._alive, None
        if alive is not None:
            with contextlib.suppress(Exception), alive.cursor() as cursor:
                self._drop(cursor, self._id)
            alive.close()

    def _checked_stage(self, message: Message) -> str:
        """A message comes from another process, which may be hostile: it names a staging table of this write."""
        if isinstance(message, str) and re.fullmatch(rf"{_STAGE}{self._id}_[0-9]+_[0-9]+", message):
            return message
        raise WriteError(
            f"a task that wrote to {qualified(self._target.table)} says {str(message)[:80]!r}, which is no staging "
            "table of this write; nothing was written"
        )

    def _drop_left_behind(self, cursor: Any) -> None:
        for other in {name.removeprefix(_STAGE).split("_")[0] for name in self._staged(cursor, "")} - {self._id}:
            cursor.execute(f"SELECT pg_try_advisory_lock({_lock(other)})")
            if cursor.fetchall()[0][0]:
                self._drop(cursor, other)
                cursor.execute(f"SELECT pg_advisory_unlock({_lock(other)})")
                cursor.fetchall()

    def _drop(self, cursor: Any, write_id: str) -> None:
        for name in self._staged(cursor, write_id):
            cursor.execute(f"DROP TABLE IF EXISTS {qualified(self._target.beside(name))}")

    def _staged(self, cursor: Any, write_id: str) -> list[str]:
        prefix = f"{_STAGE}{write_id}".replace("_", r"\_")
        cursor.execute(
            f"SELECT tablename FROM pg_tables WHERE schemaname = {text_literal(self._target.table[-2])} "
            f"AND tablename ~ '^{_STAGE}[0-9a-f]{{15}}_[0-9]+_[0-9]+$' AND tablename LIKE {text_literal(prefix + '%')}"
        )
        return [name for (name,) in cursor.fetchall()]


class AdbcTransactionWrite(WritePlan):
    """All rows go through this process, over one connection, in one transaction; task after task. Never pickled.

    A partition of which one attempt is in the transaction needs no other: that reads its rows, and leaves them.
    """

    placement = Placement.DRIVER

    def __init__(self, target: AdbcTarget, request: WriteRequest, where: str) -> None:
        self._target = target
        self._request = request
        self._where = where
        self._turn = threading.Lock()
        self._done: set[int] = set()
        self._state = "new"
        self._connection: Any = None
        self._cursor: Any = None

    def write(self, task: WriteTask, batches: Iterator[pa.RecordBatch]) -> Message:
        with self._turn, self._target.access.scrubbing():
            if self._state == "new":
                self._begin()
            if self._state == "over":
                raise WriteError("the write ended before this task could write")
            if self._state == "open" and task.partition not in self._done:
                self._fill(task, batches)
                self._done.add(task.partition)
        for _ in batches:
            pass
        return task.partition

    def commit(self, messages: Sequence[Message]) -> None:
        with self._turn, self._target.access.scrubbing():
            if self._state == "committed":
                return
            if self._state == "new":
                self._begin()
            if self._state == "open":
                self._target.commit(self._cursor)
            self._close("committed")

    def abort(self, messages: Sequence[Message | None]) -> None:
        with self._turn:
            if self._state != "committed":
                self._close("over")

    def describe(self) -> str:
        return f"{self._target.access.driver} {'.'.join(self._target.table)}, in one transaction"

    def _begin(self) -> None:
        self._connection = self._target.access.connect(writes=True)
        self._cursor = self._connection.cursor()
        fresh = self._target.begin(self._cursor, self._request, self._where)
        self._state = "open" if fresh else "repeated"

    def _fill(self, task: WriteTask, batches: Iterator[pa.RecordBatch]) -> None:
        """Where it fails, the transaction is as it was before, and another attempt may follow."""
        self._cursor.execute("SAVEPOINT task")
        try:
            self._target.fill(self._cursor, batches, f"{_STAGE}{task.partition}_{task.attempt}")
            self._cursor.execute("RELEASE SAVEPOINT task")
        except BaseException:
            with contextlib.suppress(Exception):  # of a connection that is lost: then nothing can follow
                self._cursor.execute("ROLLBACK TO SAVEPOINT task")
            raise

    def _close(self, state: str) -> None:
        """What is not committed is rolled back by the database."""
        self._state = state
        for closable in (self._cursor, self._connection):
            if closable is not None:
                with contextlib.suppress(Exception):
                    closable.close()
        self._cursor = self._connection = None


def _lock(write_id: str) -> int:
    return int(write_id, 16)
