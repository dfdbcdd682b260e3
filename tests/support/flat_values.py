"""Columns of every flat type that Spark writes by address, with the values that are easily lost; from a seed."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

NAN, INFINITY = float("nan"), float("inf")
DAY, INSTANT = dt.date(1970, 1, 1), dt.datetime(1970, 1, 1)

POOLS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "boolean": (pa.bool_(), [True, False]),
    "byte": (pa.int8(), [0, 1, -128, 127]),
    "short": (pa.int16(), [0, -1, -(2**15), 2**15 - 1]),
    "int": (pa.int32(), [0, 7, -(2**31), 2**31 - 1]),
    "long": (pa.int64(), [0, -7, -(2**63), 2**63 - 1]),
    "float": (pa.float32(), [0.0, -0.0, 1.5, NAN, INFINITY, -INFINITY]),
    "double": (pa.float64(), [0.0, -0.0, 1e300, NAN, INFINITY, -INFINITY]),
    "small decimal": (pa.decimal128(7, 2), [Decimal("0.00"), Decimal("-99999.99"), Decimal("12.30")]),
    "decimal": (pa.decimal128(18, 4), [Decimal("-99999999999999.9999"), Decimal("1.0000")]),
    "wide decimal": (pa.decimal128(38, 10), [Decimal("9" * 28 + ".0123456789"), Decimal("-1.0000000000")]),
    "date": (pa.date32(), [DAY, DAY - dt.timedelta(days=700_000), DAY + dt.timedelta(days=2_900_000)]),
    "instant": (
        pa.timestamp("us", "UTC"),
        [INSTANT.replace(tzinfo=dt.UTC), dt.datetime(2026, 3, 29, 2, 30, 0, 123_456, tzinfo=dt.UTC)],
    ),
    "local time": (pa.timestamp("us"), [INSTANT - dt.timedelta(microseconds=1), dt.datetime(9999, 12, 31, 23, 59, 59)]),
    "string": (pa.string(), ["", "a", "row 17", "ärger", "日本語", "\U0001f600", "zero\0byte", "eight by", "x" * 100]),
    "binary": (pa.binary(), [b"", b"\x00", b"\xff" * 9, bytes(range(256))]),
}
PRIMITIVE = ["boolean", "byte", "short", "int", "long", "float", "double"]
"""The types of which Spark's cache makes columns; of a frame with others it makes rows."""


def random_table(rng: Random, kinds: list[str], rows: int, null_share: float = 0.2) -> pa.Table:
    """A column of each kind, called c0, c1 and so on, after ``n``, which numbers the rows."""
    columns: dict[str, pa.Array] = {"n": pa.array(range(rows), pa.int64())}
    for index, kind in enumerate(kinds):
        type_, pool = POOLS[kind]
        values = [None if rng.random() < null_share else rng.choice(pool) for _ in range(rows)]
        columns[f"c{index}"] = pa.array(values, type_)
    return pa.table(columns)
