"""A store that keeps its rows in one shard per region; helper module of sharded_source.py.

It lies beside the script and is not installed anywhere: Headrace sees to it that Spark's Python workers find it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

REGIONS = ("east", "north", "south", "west")

SCHEMAS = {
    "orders": pa.schema([("region", pa.string()), ("customer", pa.int64()), ("amount", pa.int64())]),
    "targets": pa.schema([("region", pa.string()), ("target", pa.int64())]),
}


def read_shard(table: str, region: str) -> Iterator[pa.RecordBatch]:
    """Every row of ``table`` that belongs to ``region``, and no other."""
    weight = 1 + REGIONS.index(region)
    if table == "targets":
        yield pa.record_batch({"region": [region], "target": [40_000 * weight]}, SCHEMAS[table])
        return
    for first in range(0, 3000, 1000):
        customers = range(first, first + 1000)
        yield pa.record_batch(
            {
                "region": [region] * 1000,
                "customer": customers,
                "amount": [weight * (customer % 30) for customer in customers],
            },
            SCHEMAS[table],
        )
