"""A module beside the script, which is installed nowhere."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from beside_too import START

import headrace as hr

SCHEMA = pa.schema([("a", pa.int64())])


class BesideError(Exception):
    """An error class that only this module knows."""


class BesidePlan(hr.ExecutionPlan):
    schema = SCHEMA
    partitioning = hr.UnknownPartitioning(2)

    def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([pa.array([START + partition], pa.int64())], schema=SCHEMA)


class FailingPlan(BesidePlan):
    def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
        yield from super().execute(partition)
        raise BesideError(f"partition {partition} is dry")


class BesideTable(hr.TableProvider):
    def __init__(self, plan: hr.ExecutionPlan) -> None:
        self.plan = plan

    def schema(self) -> pa.Schema:
        return SCHEMA

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        return self.plan
