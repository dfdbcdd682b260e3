"""Scans of a table in a database, asked for and read without Spark; for the tests."""

from __future__ import annotations

from typing import Any

import headrace as hr


def whole(table: hr.AdbcTable, **request: Any) -> hr.ScanRequest:
    schema = table.schema()
    return hr.ScanRequest(schema, tuple(schema.names), **request)


def rows_of(plan: hr.ExecutionPlan) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for partition in range(plan.partitioning.n):
        stream: Any = plan.execute(partition)
        try:
            for batch in stream:
                assert batch.schema.equals(plan.schema)
                rows += batch.to_pylist()
        finally:
            stream.close()
    return rows
