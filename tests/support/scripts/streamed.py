"""A streaming query whose tasks fail at first, or whose driver dies (arguments: master, directory, "dies" or "lives").

Prints what was read as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext

import headrace as hr

SCHEMA = pa.schema([("n", pa.int64()), ("attempt", pa.int64())])
ROWS = 60


class FlakyPlan(hr.ExecutionPlan):
    """Fails in each task's first attempt, after some rows, where attempts are counted: in Spark's workers."""

    schema = SCHEMA
    partitioning = hr.UnknownPartitioning(2)

    def __init__(self, start: int, end: int, placement: hr.Placement, retried: bool) -> None:
        self.start, self.end, self.placement, self.retried = start, end, placement, retried

    def execute(self, partition):
        task = TaskContext.get()
        attempt = task.attemptNumber() if task is not None else 0
        numbers = range(self.start + partition, self.end, 2)
        yield pa.record_batch([[numbers[0]], [attempt]], schema=SCHEMA)
        if self.retried and task is not None and attempt == 0:
            raise OSError("the first attempt fails")
        yield pa.record_batch([list(numbers[1:]), [attempt] * (len(numbers) - 1)], schema=SCHEMA)


class Flaky(hr.StreamProvider):
    def __init__(self, placement: hr.Placement, retried: bool) -> None:
        self.placement, self.retried = placement, retried

    def schema(self):
        return SCHEMA

    def initial_offset(self):
        return 0

    def latest_offset(self, start, limit):
        return min(ROWS, start + limit.max_rows) if limit.max_rows else ROWS

    def scan_between(self, start, end, request):
        return FlakyPlan(start, end, self.placement, self.retried)


def main() -> None:
    master, directory, dies = sys.argv[1], Path(sys.argv[2]), sys.argv[3] == "dies"
    retried = master != "local[2]"
    config = {"spark.executor.extraJavaOptions": os.environ.get("SPARK_SUBMIT_OPTS", "")}
    found: dict[str, object] = {}

    with hr.SessionContext(master=master, config=config) as ctx:
        for placement in hr.Placement:
            ctx.register_table("numbers", Flaky(placement, retried), replace=True)
            rows = directory / placement.name
            rows.mkdir(parents=True, exist_ok=True)

            def keep(frame, batch, rows=rows):
                """Idempotent: a batch that comes again replaces itself."""
                beside = rows / f".{batch}"
                beside.write_text(json.dumps([tuple(row) for row in frame.collect()]))
                beside.rename(rows / f"{batch}.json")
                if dies and batch == 3:
                    os.kill(os.getpid(), signal.SIGKILL)

            writer = ctx.stream("numbers", maxRowsPerTrigger=10).writeStream.foreachBatch(keep)
            checkpoint = str(directory / f"checkpoint of {placement.name}")
            query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
            query.awaitTermination(120)
            kept = [row for file in rows.glob("*.json") for row in json.loads(file.read_text())]
            found[placement.name] = {
                "numbers": sorted(n for n, _ in kept),
                "attempts": sorted({attempt for _, attempt in kept}),
                "batches": len(list(rows.glob("*.json"))),
            }
    print(f"RESULT {json.dumps(found)}")


if __name__ == "__main__":
    main()
