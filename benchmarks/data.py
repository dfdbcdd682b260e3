"""The batches everything is measured on: four columns, 64 k rows each, the same for Headrace and its rivals."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

BATCH_ROWS = 65_536
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.float64()), ("k", pa.int32()), ("s", pa.string())])
SPARK_SCHEMA = "id long, v double, k int, s string"
NAMES = 50


@functools.cache
def base_batch(rows: int = BATCH_ROWS) -> pa.RecordBatch:
    """One batch, made once and handed out again and again: what is measured is the way to Spark, not numpy."""
    random = np.random.default_rng(7)
    return pa.record_batch(
        [
            pa.array(np.arange(rows)),
            pa.array(np.round(random.random(rows), 6)),
            pa.array(random.integers(0, 1000, rows).astype(np.int32)),
            pa.array([f"name{i % NAMES}" for i in range(rows)]),
        ],
        schema=SCHEMA,
    )


def batches(rows: int, batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
    """``rows`` rows in batches of ``batch_rows``."""
    base = base_batch(batch_rows)
    while rows > 0:
        batch = base if rows >= batch_rows else base.slice(0, rows)
        rows -= batch.num_rows
        yield batch
