"""A table that grows while it is read: a counter, as a source of Structured Streaming.

Shows the four methods of a StreamProvider, a wake-up with ``advanced()``, and a query that is started again where it
stopped. The numbers are counted by a thread of this process; a query writes their sums into a list.

    python examples/growing_counter.py
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

import headrace as hr

SCHEMA = pa.schema([("n", pa.int64()), ("even", pa.bool_())])


class CountedPlan(hr.ExecutionPlan):
    """The numbers after ``start``, up to ``end``."""

    def __init__(self, start: int, end: int, schema: pa.Schema) -> None:
        self.start, self.end, self.schema = start, end, schema

    def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
        numbers = range(self.start + 1, self.end + 1)
        rows = pa.record_batch({"n": pa.array(numbers), "even": pa.array([n % 2 == 0 for n in numbers])})
        yield rows.select(self.schema.names).cast(self.schema)


class Counter(hr.StreamProvider):
    """Counts; an offset is the last number that was read."""

    def __init__(self) -> None:
        self.count = 0

    def schema(self) -> pa.Schema:
        return SCHEMA

    def add(self, numbers: int) -> None:
        """Any thread."""
        self.count += numbers
        self.advanced()  # a query that waits looks now, and not after a second

    def initial_offset(self) -> hr.Offset:
        return 0

    def latest_offset(self, start: hr.Offset, limit: hr.ReadLimit) -> hr.Offset:
        end = self.count if limit.until is None else limit.until
        return end if limit.max_rows is None else min(end, start + limit.max_rows)

    def scan_between(self, start: hr.Offset, end: hr.Offset, request: hr.ScanRequest) -> hr.ExecutionPlan:
        return CountedPlan(start, end, request.schema)


def main(ctx: hr.SessionContext | None = None) -> dict[str, Any]:
    """Returns the numbers that each of two queries saw, and how many batches they took."""
    if ctx is None:
        with hr.SessionContext() as own:
            return main(own)
    counter = Counter()
    ctx.register_table("numbers", counter, replace=True)
    with tempfile.TemporaryDirectory() as checkpoint:
        first = read_while_it_grows(ctx, counter, checkpoint)
        counter.add(500)  # nobody reads
        second = read_what_is_there(ctx, checkpoint)
    ctx.deregister_table("numbers")
    for name, seen in (("while it grew", first), ("afterwards", second)):
        print(f"{name}: {seen[0]} to {seen[-1]}, {len(seen)} numbers")
    return {"first": first, "second": second}


def read_while_it_grows(ctx: hr.SessionContext, counter: Counter, checkpoint: str) -> list[int]:
    """A query and a thread that counts to 1,000, side by side."""
    seen: list[int] = []
    all_seen = threading.Event()

    def keep(frame: DataFrame, _batch: int) -> None:
        seen.extend(row.n for row in frame.collect())
        if len(seen) >= 1000:
            all_seen.set()

    stream = ctx.stream("numbers", maxRowsPerTrigger=400)
    query = stream.select("n").writeStream.foreachBatch(keep).option("checkpointLocation", checkpoint).start()
    counting = threading.Thread(target=lambda: [counter.add(10) for _ in range(100)])
    counting.start()
    all_seen.wait(60)
    query.processAllAvailable()
    query.stop()
    counting.join()
    return sorted(seen)


def read_what_is_there(ctx: hr.SessionContext, checkpoint: str) -> list[int]:
    """The same query, started again: it goes on where it stopped, and ends when it has read what is there now."""
    seen: list[int] = []

    def keep(frame: DataFrame, _batch: int) -> None:
        seen.extend(row.n for row in frame.collect())

    writer = ctx.stream("numbers").select("n").writeStream.foreachBatch(keep)
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination(60)
    return sorted(seen)


if __name__ == "__main__":
    main()
