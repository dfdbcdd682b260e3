"""The text of a module with a plan, to be written beside a script or run as a cell."""

from __future__ import annotations

MODULE = """
import pyarrow as pa
import headrace as hr

SCHEMA = pa.schema([("a", pa.int64())])
ANSWER = 42

def answer():
    return ANSWER

class Plan(hr.ExecutionPlan):
    schema = SCHEMA

    def execute(self, partition):
        yield pa.record_batch([pa.array([answer()])], schema=SCHEMA)
"""
