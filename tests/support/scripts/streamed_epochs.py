"""Streaming queries that write one epoch a micro-batch to tables, for as long as they are left alone.

    python streamed_epochs.py SPECIFICATIONS DIRECTORY [END]

``SPECIFICATIONS`` is a JSON list of those of ``epochs.py``, each of which gets a query, and ``DIRECTORY`` has their
checkpoints. Prints ``begun`` when the queries have begun, and ``committed`` with the number of
the query after each micro-batch. With ``END`` it ends when all epochs before that one are written.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parent))

from epochs import SCHEMA, TASKS, rows_of, table_of

import headrace as hr

_LOOK_SECONDS = 0.02


class EpochPlan(hr.ExecutionPlan):
    """A few small batches a task, so that the moment of a kill may lie between two."""

    schema = SCHEMA
    partitioning = hr.UnknownPartitioning(TASKS)

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
        yield from rows_of(self.epoch, partition).to_batches(max_chunksize=16)


class Epochs(hr.StreamProvider):
    """The offset is the number of the next epoch; each range is one epoch."""

    def __init__(self, end: float) -> None:
        self._end = end

    def schema(self) -> pa.Schema:
        return SCHEMA

    def initial_offset(self) -> int:
        return 0

    def latest_offset(self, start: Any, limit: hr.ReadLimit) -> int:
        return int(min(start + 1, self._end))

    def scan_between(self, start: Any, end: Any, request: hr.ScanRequest) -> hr.ExecutionPlan:
        assert end == start + 1, f"from {start} to {end}"
        return EpochPlan(start)


def main(specifications: str, directory: str, end: str | None = None) -> None:
    with hr.SessionContext(master="local[2]") as ctx:
        ctx.register_table("epochs", Epochs(float("inf") if end is None else int(end)))
        queries = []
        for number, specification in enumerate(json.loads(specifications)):
            ctx.register_table(f"written_{number}", table_of(specification))
            writer = ctx.stream("epochs").writeStream.option("checkpointLocation", f"{directory}/{number}")
            queries.append(writer.toTable(f"{ctx.catalog}.written_{number}"))
        print("begun", flush=True)
        last: list[int] = [-1] * len(queries)
        while end is None or min(last) < int(end) - 1:
            for number, query in enumerate(queries):
                if not query.isActive:
                    raise RuntimeError(f"query {number} ended by itself") from query.exception()
                progress = query.lastProgress
                if progress is not None and progress["numInputRows"] and progress["batchId"] > last[number]:
                    last[number] = progress["batchId"]
                    print(f"committed {number}", flush=True)
            time.sleep(_LOOK_SECONDS)
        for query in queries:
            query.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
