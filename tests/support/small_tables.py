"""Small tables and requests for the ready-made providers."""

from __future__ import annotations

import pyarrow as pa

import headrace as hr

SCHEMA = pa.schema([("a", pa.int64()), ("s", pa.string())])


def request(
    schema: pa.Schema, *names: str, filters: tuple[hr.Expr, ...] = (), limit: int | None = None
) -> hr.ScanRequest:
    return hr.ScanRequest(pa.schema([schema.field(name) for name in names]), names, filters, limit)


def numbers(n: int, chunk: int | None = None) -> pa.Table:
    table = pa.table({"a": pa.array(range(n)), "s": pa.array([f"r{i}" for i in range(n)])}, SCHEMA)
    return pa.Table.from_batches(table.to_batches(max_chunksize=chunk), SCHEMA) if chunk else table
