"""Arrays of every type whose values survive the way to Spark without loss."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa


def runs(values: pa.Array, ends: list[int]) -> pa.Array:
    return pa.RunEndEncodedArray.from_arrays(pa.array(ends, pa.int32()), values)


def coded(values: pa.Array, indices: list[int | None]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int8()), values)


LOSSLESS = {
    "uint8": pa.array([1, None, 255, 0], pa.uint8()),
    "uint16": pa.array([1, None, 2**16 - 1, 0], pa.uint16()),
    "uint32": pa.array([1, None, 2**32 - 1, 0], pa.uint32()),
    "uint64": pa.array([1, None, 2**64 - 1, 0], pa.uint64()),
    "float16": pa.array([np.float16(1.5), None, np.float16(-0.0), np.float16("inf")], pa.float16()),
    "large_string": pa.array(["a", None, "", "zürich"], pa.large_string()),
    "string_view": pa.array(["a", None, "", "more than twelve bytes"], pa.string_view()),
    "large_binary": pa.array([b"a", None, b"", b"\x00\xff"], pa.large_binary()),
    "binary_view": pa.array([b"a", None, b"", b"more than twelve bytes"], pa.binary_view()),
    "fixed_size_binary": pa.array([b"abc", None, b"xyz", b"\0\0\0"], pa.binary(3)),
    "date64": pa.array([dt.date(2020, 1, 1), None, dt.date(1, 1, 1), dt.date(9999, 12, 31)], pa.date64()),
    "timestamp_s": pa.array([1, None, -5, 0], pa.timestamp("s")),
    "timestamp_ms_zone": pa.array([1, None, -5, 0], pa.timestamp("ms", "Asia/Tokyo")),
    "timestamp_ns": pa.array([1000, None, -5000, 0], pa.timestamp("ns")),
    "duration_ns": pa.array([1000, None, -5000, 0], pa.duration("ns")),
    "decimal32": pa.array([Decimal("1.25"), None, Decimal("-3.10"), Decimal(0)], pa.decimal32(5, 2)),
    "decimal64": pa.array([Decimal("1.25"), None, Decimal("-3.10"), Decimal(0)], pa.decimal64(15, 2)),
    "decimal256": pa.array([Decimal("9" * 38), None, Decimal(-1), Decimal(0)], pa.decimal256(38, 0)),
    "decimal_hundreds": pa.array([Decimal("1.2E+4"), None, Decimal("-1E+2"), Decimal(0)], pa.decimal128(5, -2)),
    "list_view": pa.array([[1, 2], None, [], [None]], pa.list_view(pa.int32())),
    "large_list_view": pa.array([[1, 2], None, [], [None]], pa.large_list_view(pa.uint8())),
    "large_list": pa.array([[1, 2], None, [], [None]], pa.large_list(pa.int32())),
    "fixed_size_list": pa.array([[1, 2], None, [3, None], [5, 6]], pa.list_(pa.uint8(), 2)),
    "struct": pa.array(
        [{"a": 1, "b": "x"}, None, {"a": None, "b": None}, {"a": 3, "b": ""}],
        pa.struct([("a", pa.uint8()), ("b", pa.large_string())]),
    ),
    "map": pa.array([[("k", 1)], None, [], [("a", None), ("b", 2)]], pa.map_(pa.large_string(), pa.uint32())),
    "map_of_lists": pa.array(
        [[("k", [1, None])], None, [], [("a", None)]], pa.map_(pa.string(), pa.large_list(pa.uint8()))
    ),
    "list_of_structs": pa.array(
        [[{"a": "x"}], None, [], [{"a": None}, None]],
        pa.list_(pa.struct([("a", pa.dictionary(pa.int8(), pa.string()))])),
    ),
    "dictionary": coded(pa.array(["x", "y"]), [1, None, 0, 1]),
    "dictionary_with_null_value": coded(pa.array(["x", None]), [1, None, 0, 1]),
    "dictionary_of_views": coded(pa.array(["x", "y"], pa.string_view()), [1, None, 0, 1]),
    "dictionary_of_structs": coded(pa.array([{"a": 1}, None]), [1, None, 0, 1]),
    "run_end_encoded": runs(pa.array(["a", None, "b"]), [1, 2, 4]),
    "run_end_encoded_views": runs(pa.array(["a", None, "b"], pa.string_view()), [1, 2, 4]),
    "run_end_encoded_dictionary": runs(coded(pa.array(["x", "y"]), [1, None, 0]), [1, 2, 4]),
    "run_end_encoded_lists": runs(pa.array([[1], None, []]), [1, 2, 4]),
    "json": pa.ExtensionArray.from_storage(pa.json_(), pa.array(["{}", None, "[]", "1"])),
    "null": pa.nulls(4),
}
