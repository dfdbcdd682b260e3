"""Providers as one writes them first, whose batches are made from rows and the schema that is asked for; for tests."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

import headrace as hr


class Natural(hr.TableProvider):
    """As the first provider that one writes: its rows are dicts, and its schema the request's."""

    class Plan(hr.ExecutionPlan):
        def __init__(self, schema: pa.Schema) -> None:
            self.schema = schema
            self.partitioning = hr.UnknownPartitioning(2)

        def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
            rows = [{"name": f"n{i}", "id": i, "tags": [i]} for i in range(5)]
            yield pa.RecordBatch.from_pylist(rows, self.schema)

    schema = pa.schema([("name", pa.string()), ("id", pa.int64()), ("tags", pa.list_(pa.int64()))])

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        return self.Plan(request.schema)


def natural_rows(request: hr.ScanRequest) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch({name: [f"{i}" for i in range(10)] for name in request.projection}, schema=request.schema)


TEXTS = pa.schema([("a", pa.string()), ("b", pa.string())])
COUNTING = {
    "SELECT count(*) FROM t": [(10,)],
    "SELECT 'x' FROM t": [("x",)] * 10,
    "SELECT 1 WHERE EXISTS (SELECT * FROM t)": [(1,)],
    "SELECT count(*) FROM t AS a CROSS JOIN t AS b": [(100,)],
    "SELECT count(*) FROM (SELECT 1 FROM t LIMIT 3)": [(3,)],
    "SELECT count(*), count(*) FILTER (WHERE true) FROM t": [(10, 10)],
}
"""Queries that need no column of a table ``t`` of ten rows, and what they give."""
