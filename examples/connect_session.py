"""A live Python object queried by a Spark Connect server: it plans and produces in this process.

Run it with the address of a server: ``python connect_session.py sc://localhost:15002``.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import pyarrow as pa

import headrace as hr

SCHEMA = pa.schema([("sensor", pa.string()), ("reading", pa.float64())])


class Plant:
    """What cannot be pickled: an object with a lock that other threads use, too."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._readings = {"inlet": [1.0, 2.5], "outlet": [0.5, 0.25]}

    def add(self, sensor: str, reading: float) -> None:
        with self._lock:
            self._readings[sensor].append(reading)

    def batch(self, sensor: str) -> pa.RecordBatch:
        with self._lock:
            readings = list(self._readings[sensor])
        return pa.record_batch([[sensor] * len(readings), readings], schema=SCHEMA)


class PlantPlan(hr.ExecutionPlan):
    """One partition per sensor; runs here, where the plant is."""

    schema = SCHEMA
    placement = hr.Placement.DRIVER
    partitioning = hr.UnknownPartitioning(2)

    def __init__(self, plant: Plant) -> None:
        self._plant = plant

    def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
        yield self._plant.batch(("inlet", "outlet")[partition])


class PlantTable(hr.TableProvider):
    """The plant as it is when a query reads it."""

    def __init__(self, plant: Plant) -> None:
        self._plant = plant

    def schema(self) -> pa.Schema:
        return SCHEMA

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        return PlantPlan(self._plant)


def main(ctx: hr.SessionContext) -> list[dict[str, object]]:
    """What two queries see, before and after another reading."""
    plant = Plant()
    ctx.register_table("plant", PlantTable(plant))
    query = "SELECT sensor, sum(reading) AS total FROM plant GROUP BY sensor ORDER BY sensor"
    before = ctx.collect(query).to_pylist()
    plant.add("inlet", 10.0)
    return [{row["sensor"]: row["total"] for row in rows} for rows in (before, ctx.collect(query).to_pylist())]


if __name__ == "__main__":
    from pyspark.sql import SparkSession

    session = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
    with hr.SessionContext(session) as context:
        print(main(context))
    session.stop()
