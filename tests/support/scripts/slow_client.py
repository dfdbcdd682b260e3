"""A Spark Connect client that reads a table without an end in Spark's workers; argv: the server, a folder of notes."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql.connect.session import SparkSession

import headrace as hr

SCHEMA = pa.schema([("n", pa.int64())])


class Endless(hr.ExecutionPlan):
    """Notes that it is read, and that it was closed."""

    schema = SCHEMA

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
        try:
            while True:
                yield pa.record_batch({"n": [1]}, schema=SCHEMA)
                Path(self.folder, "read").touch()
                time.sleep(0.02)
        finally:
            Path(self.folder, "closed").touch()


class EndlessTable(hr.TableProvider):
    schema = SCHEMA  # type: ignore[assignment]

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        return Endless(sys.argv[2])


if __name__ == "__main__":
    with hr.SessionContext(SparkSession.builder.remote(sys.argv[1]).create()) as context:
        context.register_table("endless", EndlessTable())
        context.spark.sql("SELECT max(n) FROM endless").collect()
