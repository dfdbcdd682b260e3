"""A stream read as a query would, micro-batch by micro-batch, without Spark; for the tests."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pyarrow as pa

import headrace as hr
from headrace.execute.partition_stream import PartitionStream
from headrace.execute.stopping import StopFlag
from headrace.negotiate.negotiation import Negotiation
from headrace.negotiate.pickling import pickled_task
from headrace.negotiate.registry import RegisteredTable


class Reader:
    """Keeps the offset as a checkpoint does: as JSON. ``read`` gives the rows of one micro-batch."""

    def __init__(self, stream: hr.StreamProvider, offset: Any = None) -> None:
        self.stream = stream
        self.schema = stream.schema() if callable(stream.schema) else stream.schema
        self.offset = _kept(stream.initial_offset() if offset is None else offset)
        self.range: tuple[Any, Any] = (self.offset, self.offset)

    def read(self, **limit: Any) -> list[dict[str, Any]]:
        end = _kept(self.stream.latest_offset(self.offset, hr.ReadLimit(**limit)))
        self.range = (self.offset, end)
        self.offset = end
        return self.again()

    def again(self, *columns: str, filters: tuple[hr.Expr, ...] = ()) -> list[dict[str, Any]]:
        """The last micro-batch once more, planned and pickled as for the executors; nothing where it was empty."""
        start, end = self.range
        if start == end:
            return []
        negotiation = Negotiation(RegisteredTable.of("stream", self.stream))
        if filters:
            negotiation.offer_filters(filters)
        if columns:
            negotiation.offer_columns(pa.schema([self.schema.field(name) for name in columns]))
        planned = negotiation.plan_between(start, end)
        task = planned.task()
        if planned.plan.placement is hr.Placement.EXECUTORS:
            task = pickle.loads(pickled_task(task, by_value=True))
        rows: list[dict[str, Any]] = []
        for partition in range(planned.partitioning.n):
            stream = PartitionStream(task, partition, StopFlag())
            for batch in stream:
                rows += batch.to_pylist()
            stream.close()
        return rows


def _kept(offset: Any) -> Any:
    return json.loads(json.dumps(offset))
