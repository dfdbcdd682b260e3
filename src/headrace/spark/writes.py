"""The writes that Spark has begun and not ended, and how they end; driver Python, thread-safe."""

from __future__ import annotations

import json
import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from headrace.errors import HeadraceError, WriteError
from headrace.execute.failure import headline_of
from headrace.expr.nodes import Expr
from headrace.negotiate.asking import asking
from headrace.negotiate.pickling import pickled_task
from headrace.negotiate.registry import RegisteredTable
from headrace.negotiate.writing import PlannedWrite, checked_columns, delete, planned_deletion, planned_write
from headrace.plan import Placement
from headrace.spark import words
from headrace.spark.predicates import decode
from headrace.spark.task_places import TaskPlaces
from headrace.transport.driver_partition import ReceivingPartition
from headrace.write import WriteLayout, WriteMode, WritePlan

_PLANNED_KEPT = 16
_LOG = logging.getLogger("headrace")


@dataclass
class _LiveWrite:
    """A write whose tasks may run. ``lock`` is held while it is committed or aborted, which happens once."""

    table: RegisteredTable
    plan: WritePlan
    partitions: int
    ticket: bytes | None = None
    """By which the endpoint receives its rows; None where workers do."""
    over: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def plan_name(self) -> str:
        return type(self.plan).__name__


class Writes:
    """Answers what the JVM asks about writes: ``answers``, by the operations' names. They raise as negotiations do.

    The JVM begins a write when its statement runs, and then commits it, or aborts it, or both: an abort follows a
    commit that raised. What it leaves undone, as it is gone, ``close`` aborts.
    """

    def __init__(self, find_table: Callable[[str], RegisteredTable | None], places: TaskPlaces) -> None:
        self._find_table = find_table
        self._places = places
        self._lock = threading.Lock()
        self._writes: dict[str, _LiveWrite] = {}
        self._planned: deque[PlannedWrite] = deque(maxlen=_PLANNED_KEPT)
        self.answers: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            words.PLAN_WRITE: self._plan,
            words.BEGIN_WRITE: self._begin,
            words.COMMIT_WRITE: self._commit,
            words.ABORT_WRITE: self._abort,
            words.PLAN_DELETE: self._plan_delete,
            words.DELETE: self._delete,
        }

    def __len__(self) -> int:
        return len(self._writes)

    def planned(self) -> list[PlannedWrite]:
        """The last ones that were planned, for explain."""
        return list(self._planned)

    def close(self) -> None:
        """Nothing will be committed any more: what has begun is aborted. Any thread, any number of times."""
        with self._lock:
            left = list(self._writes)
            self._planned.clear()
        for write_id in left:
            self._end(write_id, [])

    def _plan(self, question: dict[str, Any]) -> dict[str, Any]:
        table = self._table(question)
        planned = planned_write(table, WriteMode(question[words.MODE]), _filters(question, table))
        checked_columns(table, question[words.SCHEMA])
        self._planned.append(planned)
        return {
            words.DESCRIPTION: planned.description(),
            words.LAYOUT: None if planned.layout is None else _layout_json(planned.layout),
        }

    def _begin(self, question: dict[str, Any]) -> dict[str, Any]:
        table, epoch = self._table(question), question[words.EPOCH]
        planned = PlannedWrite(table, WriteMode(question[words.MODE]), tuple(_filters(question, table)))
        plan = planned.begin(question[words.QUERY], epoch, question[words.OPTIONS])
        write = _LiveWrite(planned.table, plan, question[words.PARTITIONS])
        with self._lock:
            self._writes[question[words.WRITE]] = write
        try:
            return {words.DESCRIPTION: self._description(write), **self._offered(write, planned, epoch)}
        except BaseException:  # Spark aborts nothing that has not begun
            self._end(question[words.WRITE], [])
            raise

    def _description(self, write: _LiveWrite) -> str:
        with asking(f"{write.plan_name}.describe", write.table.name):
            return str(write.plan.describe())

    def _offered(self, write: _LiveWrite, planned: PlannedWrite, epoch: int | None) -> dict[str, Any]:
        """Where the tasks of the write find its code, as JSON."""
        code = planned.code(write.plan, epoch)
        if write.plan.placement is Placement.DRIVER:
            task = code.task()
            write.ticket = self._places.endpoint.offer(
                lambda claim: ReceivingPartition(task, claim), write.partitions, receives=True, watched=True
            )
            return self._places.here(write.ticket)
        return self._places.workers(pickled_task(code.task(), by_value=self._places.by_value))

    def _commit(self, question: dict[str, Any]) -> dict[str, Any]:
        """What raises leaves the write to ``abort``."""
        write_id = question[words.WRITE]
        with self._lock:
            write = self._writes.get(write_id)
        if write is None:
            raise WriteError("the write was ended before it could be committed: its session context has closed")
        with write.lock:
            if write.over:
                raise WriteError(f"the write to table {write.table.name!r} was aborted before it could be committed")
            messages = [json.loads(message) for message in question[words.MESSAGES]]
            with asking(f"{write.plan_name}.commit", write.table.name):
                write.plan.commit(messages)
            write.over = True
        self._forget(write_id)
        files = write.plan.files_written
        return {words.FILES: files} if type(files) is int else {}

    def _abort(self, question: dict[str, Any]) -> dict[str, Any]:
        """Never raises what the user's ``abort`` does: the error for which it is called is the one to tell."""
        self._end(question[words.WRITE], [_readable(message) for message in question[words.MESSAGES]])
        return {}

    def _end(self, write_id: str, messages: list[Any]) -> None:
        with self._lock:
            write = self._writes.get(write_id)
        if write is None:
            return
        with write.lock:
            if not write.over:
                write.over = True
                try:
                    write.plan.abort(messages or [None] * write.partitions)
                except BaseException as error:  # user code may raise anything
                    _LOG.warning(
                        "%s.abort raised %s (table %r): what this write has stored may be left",
                        write.plan_name,
                        headline_of(error),
                        write.table.name,
                        exc_info=error,
                    )
        self._forget(write_id)

    def _forget(self, write_id: str) -> None:
        with self._lock:
            write = self._writes.pop(write_id, None)
        if write is not None and write.ticket is not None:
            self._places.endpoint.withdraw(write.ticket)

    def _plan_delete(self, question: dict[str, Any]) -> dict[str, Any]:
        planned_deletion(*self._deletion(question))
        return {}

    def _delete(self, question: dict[str, Any]) -> dict[str, Any]:
        delete(*self._deletion(question))
        return {}

    def _deletion(self, question: dict[str, Any]) -> tuple[RegisteredTable, list[Expr]]:
        table = self._table(question)
        return table, _filters(question, table)

    def _table(self, question: dict[str, Any]) -> RegisteredTable:
        table = self._find_table(question[words.TABLE])
        if table is None:
            raise HeadraceError("the table behind this statement was deregistered or replaced; build it again")
        if table.read_only:
            raise WriteError(
                f"the table {table.name!r} is read-only: it was registered with read_only=True, itself or its catalog"
            )
        return table


def _readable(message: str | None) -> Any:
    """What a task has answered, for ``abort``, which is called all the same: None for what is no message."""
    try:
        return None if message is None else json.loads(message)
    except (ValueError, RecursionError):  # a worker may send anything
        return None


def _filters(question: dict[str, Any], table: RegisteredTable) -> list[Expr]:
    filters = [decode(_spelled(node, table.wire_schema)) for node in question[words.FILTERS]]
    decoded = [one for one in filters if one is not None]
    if len(decoded) < len(filters):
        raise WriteError(
            f"a condition on the rows of table {table.name!r} has no form that a provider could be given; write it "
            "with comparisons, IN, IS NULL and LIKE of its columns and constants; dates have the years 1 to 9999"
        )
    return decoded


def _spelled(node: Any, schema: pa.Schema) -> Any:
    """A condition's JSON with columns as the table spells them: Spark gives those of REPLACE WHERE as the user does."""
    if isinstance(node, list):
        return [_spelled(one, schema) for one in node]
    if not isinstance(node, dict):
        return node
    if "column" not in node:
        return {key: _spelled(value, schema) for key, value in node.items()}
    path: list[str] = []
    fields: list[pa.Field] = list(schema)
    for name in node["column"]:
        alike = [field for field in fields if field.name.lower() == name.lower()]
        found = next((field for field in alike if field.name == name), alike[0] if alike else None)
        path.append(name if found is None else found.name)
        fields = list(found.type) if found is not None and pa.types.is_struct(found.type) else []
    return {**node, "column": path}


def _layout_json(layout: WriteLayout) -> dict[str, Any]:
    return {
        words.COLUMNS: list(layout.cluster_by),
        words.ORDERING: [
            {words.COLUMN: key.column, words.DESCENDING: key.descending, words.NULLS_FIRST: key.nulls_first}
            for key in layout.order_by
        ],
        words.PARTITIONS: layout.partitions or 0,
    }
