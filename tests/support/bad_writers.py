"""For each promise of a table that can be written to, writers that differ from an honest one in one thing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import headrace as hr
from headrace.testing.truth import is_true

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


class HonestWriter(hr.WritableProvider):
    """A list of batches in this process. Each step is a method, for others to get wrong."""

    def __init__(self) -> None:
        self.rows = pa.Table.from_pylist([{"id": 1, "name": "a"}, {"id": 2, "name": None}], SCHEMA)
        self.epochs: dict[str, int] = {}
        self.turn = threading.RLock()

    def schema(self) -> pa.Schema:
        return SCHEMA

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        return hr.MemTable(self.rows).scan(request)

    def write_modes(self) -> set[hr.WriteMode]:
        return {hr.WriteMode.APPEND, hr.WriteMode.TRUNCATE, hr.WriteMode.OVERWRITE}

    def can_overwrite(self, filters: Sequence[hr.Expr]) -> bool:
        return True

    def can_delete(self, filters: Sequence[hr.Expr]) -> bool:
        return True

    def delete(self, filters: tuple[hr.Expr, ...]) -> None:
        self.rows = self.without(filters)

    def without(self, filters: Sequence[hr.Expr]) -> pa.Table:
        doomed = pa.chunked_array([[True] * self.rows.num_rows], pa.bool_())
        for expr in filters:
            doomed = pc.and_(doomed, is_true(expr, self.rows.combine_chunks()))
        return self.rows.filter(pc.invert(doomed))

    def insert(self, request: hr.WriteRequest) -> hr.WritePlan:
        return self.Write(self, request)

    class Write(hr.WritePlan):
        placement = hr.Placement.DRIVER

        def __init__(self, table: HonestWriter, request: hr.WriteRequest) -> None:
            self.table = table
            self.request = request
            self.staged: dict[str, list[pa.RecordBatch]] = {}
            self.done = False

        def write(self, task: hr.WriteTask, batches: Iterator[pa.RecordBatch]) -> hr.Message:
            key = str(task.attempt)
            self.staged[key] = list(batches)
            return key

        def commit(self, messages: Sequence[hr.Message]) -> None:
            if not self.done:
                self.publish([batch for key in messages for batch in self.staged[key]])
            self.done = True

        def publish(self, batches: list[pa.RecordBatch]) -> None:
            table, request = self.table, self.request
            with table.turn:
                if request.epoch is not None:
                    if table.epochs.get(request.query_id, -1) >= request.epoch:
                        return
                    table.epochs[request.query_id] = request.epoch
                kept = table.rows if request.mode is hr.WriteMode.APPEND else table.without(request.filters)
                table.rows = pa.concat_tables([kept, pa.Table.from_batches(batches, SCHEMA)])

        def abort(self, messages: Sequence[hr.Message | None]) -> None:
            self.staged.clear()


class SeenAtOnce(HonestWriter):
    class Write(HonestWriter.Write):
        def write(self, task: hr.WriteTask, batches: Iterator[pa.RecordBatch]) -> hr.Message:
            self.publish(list(batches))
            return ""

        def commit(self, messages: Sequence[hr.Message]) -> None: ...


class LosesTheLastBatch(HonestWriter):
    class Write(HonestWriter.Write):
        def publish(self, batches: list[pa.RecordBatch]) -> None:
            super().publish([batch for batch in batches if batch.num_rows][:-1])


class ReversesTexts(HonestWriter):
    class Write(HonestWriter.Write):
        def publish(self, batches: list[pa.RecordBatch]) -> None:
            table = pa.Table.from_batches(batches, SCHEMA)
            super().publish(table.set_column(1, "name", pc.utf8_reverse(table["name"])).to_batches())


class StopsEarly(HonestWriter):
    class Write(HonestWriter.Write):
        def write(self, task: hr.WriteTask, batches: Iterator[pa.RecordBatch]) -> hr.Message:
            return super().write(task, iter([next(batches)]))


class TakesACutForAnEnd(HonestWriter):
    class Write(HonestWriter.Write):
        def write(self, task: hr.WriteTask, batches: Iterator[pa.RecordBatch]) -> hr.Message:
            def forgiving() -> Iterator[pa.RecordBatch]:
                try:
                    yield from batches
                except Exception:
                    return

            return super().write(task, forgiving())


class SaysNoJson(HonestWriter):
    class Write(HonestWriter.Write):
        def write(self, task: hr.WriteTask, batches: Iterator[pa.RecordBatch]) -> hr.Message:
            return {1, super().write(task, batches)}


class CannotBePickled(HonestWriter):
    class Write(HonestWriter.Write):
        placement = hr.Placement.EXECUTORS

        def __init__(self, table: HonestWriter, request: hr.WriteRequest) -> None:
            super().__init__(table, request)
            self.lock = threading.Lock()


class RaisesInWrite(HonestWriter):
    class Write(HonestWriter.Write):
        def write(self, task: hr.WriteTask, batches: Iterator[pa.RecordBatch]) -> hr.Message:
            raise ConnectionError("no server")


class ReturnsNoPlan(HonestWriter):
    def insert(self, request: hr.WriteRequest) -> Any:
        return None


class CommitsAgain(HonestWriter):
    class Write(HonestWriter.Write):
        def commit(self, messages: Sequence[hr.Message]) -> None:
            self.done = False
            super().commit(messages)


class RaisesInASecondCommit(HonestWriter):
    class Write(HonestWriter.Write):
        def commit(self, messages: Sequence[hr.Message]) -> None:
            super().commit(messages)
            self.staged.clear()
            self.done = False


class CommitsEveryAttempt(HonestWriter):
    class Write(HonestWriter.Write):
        def commit(self, messages: Sequence[hr.Message]) -> None:
            super().commit(list(self.staged))


class AbortPublishes(HonestWriter):
    class Write(HonestWriter.Write):
        def abort(self, messages: Sequence[hr.Message | None]) -> None:
            if not self.done:
                self.commit([message for message in messages if message is not None])


class AbortUndoesACommit(HonestWriter):
    class Write(HonestWriter.Write):
        def publish(self, batches: list[pa.RecordBatch]) -> None:
            self.before = self.table.rows
            super().publish(batches)

        def abort(self, messages: Sequence[hr.Message | None]) -> None:
            self.table.rows = getattr(self, "before", self.table.rows)


class RaisesInAbort(HonestWriter):
    class Write(HonestWriter.Write):
        def abort(self, messages: Sequence[hr.Message | None]) -> None:
            raise KeyError(None)


class LostWritesArePublished(HonestWriter):
    class Write(HonestWriter.Write):
        ended = False

        def commit(self, messages: Sequence[hr.Message]) -> None:
            self.ended = True
            super().commit(messages)

        def abort(self, messages: Sequence[hr.Message | None]) -> None:
            self.ended = True

        def __del__(self) -> None:
            if not self.ended:
                self.commit(list(self.staged))


class ForgetsEpochs(HonestWriter):
    class Write(HonestWriter.Write):
        def publish(self, batches: list[pa.RecordBatch]) -> None:
            self.table.epochs.clear()
            super().publish(batches)


class RemembersOneEpochOfAll(HonestWriter):
    class Write(HonestWriter.Write):
        def publish(self, batches: list[pa.RecordBatch]) -> None:
            if self.request.epoch is None or self.request.epoch < 2:
                super().publish(batches)


class TruncateAppends(HonestWriter):
    class Write(HonestWriter.Write):
        def publish(self, batches: list[pa.RecordBatch]) -> None:
            if self.request.mode is hr.WriteMode.TRUNCATE:
                self.request = hr.WriteRequest(SCHEMA)
            super().publish(batches)


class OverwriteRemovesNulls(HonestWriter):
    class Write(HonestWriter.Write):
        def publish(self, batches: list[pa.RecordBatch]) -> None:
            super().publish(batches)
            if self.request.mode is hr.WriteMode.OVERWRITE:
                self.table.rows = self.table.rows.filter(pc.is_valid(self.table.rows["name"]))


class DeleteRemovesAll(HonestWriter):
    def delete(self, filters: tuple[hr.Expr, ...]) -> None:
        self.rows = self.rows.slice(0, 0)


class DeleteDoesNothing(HonestWriter):
    def delete(self, filters: tuple[hr.Expr, ...]) -> None: ...


class DeleteIsNotThere(HonestWriter):
    delete: Callable[..., None] = hr.WritableProvider.delete


class HasNoAppend(HonestWriter):
    def write_modes(self) -> set[hr.WriteMode]:
        return {hr.WriteMode.TRUNCATE}
