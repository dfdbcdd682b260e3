"""KnownPlan: rows that were found out while the scan was planned; made in the driver, its one row may travel."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from headrace.plan import ExecutionPlan, Statistics


class KnownPlan(ExecutionPlan):
    """A scan of a few rows that are known already.

    Spark takes them as they are, without a job, in a session of its own JVM; elsewhere one task yields them.
    """

    def __init__(self, rows: pa.RecordBatch, description: str) -> None:
        self.schema = rows.schema
        self._rows = rows
        self._description = description

    def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
        yield self._rows

    def describe(self) -> str:
        return self._description

    def statistics(self) -> Statistics:
        return Statistics(self._rows.num_rows, self._rows.nbytes)
