"""MemWrite: one write to a table in memory, seen by readers when it is whole; runs in the driver, where the data is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from headrace.expr.nodes import Expr
from headrace.plan import Placement
from headrace.write import Message, WritePlan, WriteTask


class MemWrite(WritePlan):
    """Keeps the batches of each attempt, and hands those that are committed to ``publish``, once; never pickled."""

    placement = Placement.DRIVER

    def __init__(self, publish: Callable[[list[pa.RecordBatch]], None]) -> None:
        self._publish: Callable[[list[pa.RecordBatch]], None] | None = publish
        self._staged: dict[str, list[pa.RecordBatch]] = {}

    def write(self, task: WriteTask, batches: Iterator[pa.RecordBatch]) -> Message:
        attempt = f"{task.partition}.{task.attempt}"
        self._staged[attempt] = [batch for batch in batches if batch.num_rows]
        return attempt

    def commit(self, messages: Sequence[Message]) -> None:
        if self._publish is None:
            return
        self._publish([batch for attempt in messages for batch in self._staged[attempt]])
        self._publish = None
        self._staged.clear()

    def abort(self, messages: Sequence[Message | None]) -> None:
        self._staged.clear()

    def describe(self) -> str:
        return "rows in memory"


def without_rows(table: pa.Table, filters: Sequence[Expr]) -> pa.Table:
    """The table without the rows for which all ``filters``, which pyarrow decides, are true."""
    if not filters:
        return table.slice(0, 0)
    doomed = pc.scalar(True)
    for expr in filters:
        doomed &= expr.to_pyarrow(schema=table.schema)
    return table.filter(pc.if_else(pc.is_valid(doomed), ~doomed, True))
