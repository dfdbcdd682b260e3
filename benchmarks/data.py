"""The batches everything is measured on: made once for each process, the same for Headrace and its rivals."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

BATCH_ROWS = 65_536
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.float64()), ("k", pa.int32()), ("s", pa.string())])
SPARK_SCHEMA = "id long, v double, k int, s string"
NAMES = 50
KEYS = 1000
FEW_KEYS = 97
WIDE_COLUMNS = 100
WIDE_SCHEMA = pa.schema([(f"c{i}", pa.int64() if i % 2 == 0 else pa.float64()) for i in range(WIDE_COLUMNS)])
NESTED_SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("point", pa.struct([("x", pa.float64()), ("y", pa.float64()), ("name", pa.string())])),
        ("tags", pa.list_(pa.int64())),
        ("counts", pa.map_(pa.string(), pa.int64())),
    ]
)
DICTIONARY_SCHEMA = SCHEMA.set(3, pa.field("s", pa.dictionary(pa.int32(), pa.string())))
SCHEMAS = {
    "narrow": SCHEMA,
    "wide": WIDE_SCHEMA,
    "nested": NESTED_SCHEMA,
    "dictionary": DICTIONARY_SCHEMA,
    "decoded": SCHEMA,
    "numbered": SCHEMA,
}


@functools.cache
def base_batch(rows: int = BATCH_ROWS, shape: str = "narrow") -> pa.RecordBatch:
    """One batch, made once and handed out again and again: what is measured is the way to Spark, not numpy."""
    return _MAKERS[shape](rows)


def batches(rows: int, batch_rows: int = BATCH_ROWS, shape: str = "narrow", first: int = 0) -> Iterator[pa.RecordBatch]:
    """``rows`` rows in batches of ``batch_rows``; numbered ones have ids of their own, which begin with ``first``."""
    base = base_batch(batch_rows, shape)
    while rows > 0:
        batch = base if rows >= batch_rows else base.slice(0, rows)
        rows -= batch.num_rows
        if shape == "numbered":
            batch = batch.set_column(0, "id", pc.add(batch.column(0), first))
            first += batch.num_rows
        yield batch


def _narrow(rows: int) -> pa.RecordBatch:
    random = np.random.default_rng(7)
    return pa.record_batch(
        [
            pa.array(np.arange(rows)),
            pa.array(np.round(random.random(rows), 6)),
            pa.array(random.integers(0, KEYS, rows).astype(np.int32)),
            pa.array([f"name{i % NAMES}" for i in range(rows)]),
        ],
        schema=SCHEMA,
    )


def _dictionary(rows: int) -> pa.RecordBatch:
    """As narrow, but ``s`` has a thousand values, of 26 bytes, as a dictionary."""
    values = pa.array([f"category {i:04d} of the shop" for i in range(KEYS)])
    indices = pa.array(np.random.default_rng(8).integers(0, KEYS, rows).astype(np.int32))
    return _narrow(rows).set_column(3, DICTIONARY_SCHEMA.field("s"), pa.DictionaryArray.from_arrays(indices, values))


def _decoded(rows: int) -> pa.RecordBatch:
    """The same rows as plain text."""
    return _dictionary(rows).cast(SCHEMA)


def _numbered(rows: int) -> pa.RecordBatch:
    """As narrow, but ``k`` has few values and ``s`` a thousand."""
    keys = pa.array(np.random.default_rng(9).integers(0, FEW_KEYS, rows).astype(np.int32))
    names = pa.array([f"name{i % KEYS}" for i in range(rows)])
    return _narrow(rows).set_column(2, SCHEMA.field("k"), keys).set_column(3, SCHEMA.field("s"), names)


def _wide(rows: int) -> pa.RecordBatch:
    random = np.random.default_rng(7)
    columns = [
        pa.array(
            random.integers(0, KEYS, rows) if pa.types.is_integer(field.type) else np.round(random.random(rows), 6)
        )
        for field in WIDE_SCHEMA
    ]
    return pa.record_batch(columns, schema=WIDE_SCHEMA)


def _nested(rows: int) -> pa.RecordBatch:
    numbers = np.arange(rows)
    point = pa.StructArray.from_arrays(
        [pa.array(numbers * 0.5), pa.array(numbers * 0.25), pa.array([f"name{i % NAMES}" for i in range(rows)])],
        fields=list(NESTED_SCHEMA.field("point").type),
    )
    lengths = numbers % 4
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
    tags = pa.ListArray.from_arrays(offsets, pa.array(np.arange(int(lengths.sum()))))
    two_each = pa.array((np.arange(rows + 1) * 2).astype(np.int32))
    counts = pa.MapArray.from_arrays(two_each, pa.array(["in", "out"] * rows), pa.array(np.arange(2 * rows)))
    columns = [pa.array(numbers), point, tags, counts]
    return pa.record_batch(
        [column.cast(field.type) for column, field in zip(columns, NESTED_SCHEMA, strict=True)], schema=NESTED_SCHEMA
    )


_MAKERS: dict[str, Callable[[int], pa.RecordBatch]] = {
    "narrow": _narrow,
    "wide": _wide,
    "nested": _nested,
    "dictionary": _dictionary,
    "decoded": _decoded,
    "numbered": _numbered,
}
