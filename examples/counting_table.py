"""A whole provider in about twenty lines: the numbers 0, 1, 2, ... as a table, produced in Spark's Python workers.

Shows the three layers: the provider describes (schema), the plan arranges (partitions), execute works (batches,
one at a time, as Spark asks for them).

    python examples/counting_table.py
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

import headrace as hr

SCHEMA = pa.schema([("n", pa.int64())])
BATCH_ROWS = 10_000


class CountingTable(hr.TableProvider):
    def __init__(self, stop: int, partitions: int) -> None:
        self.stop, self.partitions = stop, partitions

    def schema(self) -> pa.Schema:
        return SCHEMA

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        return CountingPlan(self.stop, self.partitions)


class CountingPlan(hr.ExecutionPlan):
    schema = SCHEMA

    def __init__(self, stop: int, partitions: int) -> None:
        self.stop = stop
        self.partitioning = hr.UnknownPartitioning(partitions)

    def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
        for start in range(partition * BATCH_ROWS, self.stop, self.partitioning.n * BATCH_ROWS):
            yield pa.record_batch({"n": range(start, min(start + BATCH_ROWS, self.stop))}, SCHEMA)


def main(ctx: hr.SessionContext | None = None) -> dict[str, int]:
    """Register the table, query it, and return the one row of the answer."""
    if ctx is None:
        with hr.SessionContext() as own:
            return main(own)
    ctx.register_table("numbers", CountingTable(stop=1_000_000, partitions=4))
    query = "SELECT count(*) AS numbers, sum(n) AS total, max(n) AS largest FROM numbers WHERE n % 2 = 0"
    (answer,) = ctx.collect(query).to_pylist()
    print(f"{query}\n  -> {answer}")
    return dict(answer)


if __name__ == "__main__":
    main()
