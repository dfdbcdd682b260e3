"""A live object that receives rows: INSERT INTO updates gauges that the rest of the program reads.

Run it: python examples/written_gauges.py
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

import headrace as hr

READINGS = pa.schema([pa.field("sensor", pa.string(), nullable=False), ("celsius", pa.float64())])


class Gauges(hr.WritableProvider):
    """The last reading of each sensor. Other threads see a write whole or not at all: it is one assignment."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.readings: dict[str, float] = {}

    def schema(self) -> pa.Schema:
        return READINGS

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        readings = self.readings
        columns = [list(readings), list(readings.values())]
        return hr.MemTable(pa.table(columns, schema=READINGS)).scan(request)

    def write_modes(self) -> set[hr.WriteMode]:
        return {hr.WriteMode.APPEND, hr.WriteMode.TRUNCATE}

    def insert(self, request: hr.WriteRequest) -> hr.WritePlan:
        return GaugesPlan(self, request.mode)


class GaugesPlan(hr.WritePlan):
    placement = hr.Placement.DRIVER  # the gauges are in this process

    def __init__(self, gauges: Gauges, mode: hr.WriteMode) -> None:
        self.gauges = gauges
        self.mode = mode
        self.taken: dict[int, dict[str, float]] = {}

    def write(self, task: hr.WriteTask, batches: Iterator[pa.RecordBatch]) -> hr.Message:
        taken: dict[str, float] = {}
        for batch in batches:
            taken.update(zip(batch["sensor"].to_pylist(), batch["celsius"].to_pylist(), strict=True))
        self.taken[task.attempt] = taken
        return task.attempt

    def commit(self, messages: Sequence[hr.Message]) -> None:
        with self.gauges.lock:
            new = {} if self.mode is hr.WriteMode.TRUNCATE else dict(self.gauges.readings)
            for attempt in messages:
                new.update(self.taken[attempt])
            self.gauges.readings = new


def main(ctx: hr.SessionContext) -> list[dict[str, Any]]:
    gauges = Gauges()
    ctx.register_table("gauges", gauges)
    ctx.sql("INSERT INTO gauges VALUES ('oven', 180.0), ('fridge', 4.5)")
    print(gauges.readings)
    ctx.sql("INSERT INTO gauges SELECT sensor, celsius + 20 FROM gauges WHERE sensor = 'oven'")
    print(gauges.readings)
    ctx.sql("INSERT OVERWRITE gauges VALUES ('cellar', 12.0)")
    print(gauges.readings)
    return [{"sensor": sensor, "celsius": celsius} for sensor, celsius in gauges.readings.items()]


if __name__ == "__main__":
    with hr.SessionContext() as context:
        main(context)
