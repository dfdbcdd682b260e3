"""A provider where no jar may be added: on PySpark's own Python Data Source, in a session that is not Headrace's.

Shows `hr.as_data_source`: the provider that `SessionContext.register_table` takes, for platforms that let you install
a Python package only. Slower, because Spark reads it row by row and asks for all columns; name those you need.

    python examples/without_jar.py
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

import headrace as hr

SCHEMA = pa.schema([("id", pa.int64()), ("kind", pa.string()), ("day", pa.date32())])
FIRST_DAY = dt.date(2026, 1, 1)
DAYS, EVENTS_A_DAY = 10, 200


class Events(hr.TableProvider):
    """One partition a day."""

    def schema(self) -> pa.Schema:
        return SCHEMA

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        return EventsPlan(request.schema)


class EventsPlan(hr.ExecutionPlan):
    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.partitioning = hr.UnknownPartitioning(DAYS)

    def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
        ids = range(partition * EVENTS_A_DAY, (partition + 1) * EVENTS_A_DAY)
        columns = {
            "id": pa.array(ids, pa.int64()),
            "kind": pa.array([("login", "logout", "purchase")[number % 3] for number in ids]),
            "day": pa.array([FIRST_DAY + dt.timedelta(days=partition)] * EVENTS_A_DAY),
        }
        yield pa.RecordBatch.from_arrays([columns[name] for name in self.schema.names], schema=self.schema)


def main(spark: SparkSession | None = None) -> dict[str, Any]:
    """Register the data source, query it twice, and return the answers."""
    if spark is None:
        with SparkSession.builder.master("local[2]").appName("without a jar").getOrCreate() as own:
            return main(own)
    spark.dataSource.register(hr.as_data_source(Events(), "events"))
    events = spark.read.format("events").load()
    kinds = {row["kind"]: row["count"] for row in events.groupBy("kind").count().collect()}
    days = spark.read.format("events").schema("day date").load()  # the plan is asked for this column only
    answers = {"events": {"kind": kinds}, "columns": days.columns, "days": days.distinct().count()}
    print(f"events of each kind: {kinds}\ndays: {answers['days']}")
    return answers


if __name__ == "__main__":
    main()
