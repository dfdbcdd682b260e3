"""An array of every Arrow type that Headrace takes, with nulls and the values that comparisons get wrong."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa

_TEXT = ["", "a", "ab", "é", "z\U0001f600" * 5]
_BYTES = [b"", b"a", b"ab", b"\xff", b"abcdefghijklmnop"]
_FLOATS = [0.0, -0.0, 1.5, math.nan, math.inf, -math.inf]
_DATES = [dt.date(1970, 1, 1), dt.date(2020, 2, 29), dt.date(1, 1, 1), dt.date(9999, 12, 31)]
_TIMES = [dt.time(0), dt.time(12, 30, 5)]
_MOMENTS = [dt.datetime(2020, 2, 29, 12, 30), dt.datetime(2020, 2, 29, 11, 30), dt.datetime(1900, 1, 1)]
_FAR_MOMENTS = [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59)]
_FINE_MOMENT = dt.datetime(2020, 2, 29, 12, 30, 0, 1)
_SPANS = [dt.timedelta(0), dt.timedelta(seconds=5), dt.timedelta(days=-3)]
_FAR_SPAN = dt.timedelta(days=200_000)
_FINE_SPAN = dt.timedelta(microseconds=1)
_NUMBERS = [Decimal(0), Decimal(1), Decimal(-1)]
_UNITS = ("s", "ms", "us", "ns")
_FINE_UNITS = ("us", "ns")
_ZONES = (None, "UTC", "Europe/Paris", "+01:00")
_DECIMALS = {
    pa.decimal128(9, 2): [*_NUMBERS, Decimal("1.25"), Decimal("9999999.99")],
    pa.decimal128(9, 0): [*_NUMBERS, Decimal(999_999_999)],
    pa.decimal128(20, 0): [*_NUMBERS, Decimal(2**64 - 1)],
    pa.decimal128(38, 0): [*_NUMBERS, Decimal(10**38 - 1)],
    pa.decimal128(38, 37): [*_NUMBERS, Decimal("1.25")],
    pa.decimal128(5, -2): [Decimal(0), Decimal(500), Decimal(9_999_900)],
    pa.decimal256(9, 2): [*_NUMBERS, Decimal("1.25")],
    pa.decimal256(38, 10): [*_NUMBERS, Decimal("1.25"), Decimal("9999999999999999999999999999.0000000001")],
    pa.decimal32(9, 2): [*_NUMBERS, Decimal("1.25")],
    pa.decimal64(18, 4): [*_NUMBERS, Decimal("1.25")],
}


def _integers(type_: pa.DataType) -> list[int]:
    bits = type_.bit_width
    if pa.types.is_signed_integer(type_):
        return [-(2 ** (bits - 1)), -1, 0, 1, 2 ** (bits - 1) - 1]
    return [0, 1, 2**bits - 1]


def _values() -> dict[pa.DataType, list[Any]]:
    values: dict[pa.DataType, list[Any]] = {pa.null(): [], pa.bool_(): [True, False]}
    for signed, unsigned in ((pa.int8(), pa.uint8()), (pa.int16(), pa.uint16()), (pa.int32(), pa.uint32())):
        values |= {signed: _integers(signed), unsigned: _integers(unsigned)}
    values |= {type_: _integers(type_) for type_ in (pa.int64(), pa.uint64())}
    values |= dict.fromkeys((pa.float16(), pa.float32(), pa.float64()), _FLOATS)
    values |= dict.fromkeys((pa.string(), pa.large_string(), pa.string_view()), _TEXT)
    values |= dict.fromkeys((pa.binary(), pa.large_binary(), pa.binary_view()), _BYTES)
    values |= {pa.binary(2): [b"ab", b"\xff\x00"], pa.date32(): _DATES, pa.date64(): _DATES}
    values |= dict.fromkeys((pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")), _TIMES)
    for unit in _UNITS:
        moments = _MOMENTS + ([] if unit == "ns" else _FAR_MOMENTS) + ([_FINE_MOMENT] if unit in _FINE_UNITS else [])
        for zone in _ZONES:
            instants = [moment.replace(tzinfo=dt.UTC) for moment in moments]
            values[pa.timestamp(unit, zone)] = instants if zone else moments
        spans = _SPANS + ([] if unit == "ns" else [_FAR_SPAN]) + ([_FINE_SPAN] if unit in _FINE_UNITS else [])
        values[pa.duration(unit)] = spans
    return values | _DECIMALS


def _plain() -> dict[str, pa.Array]:
    return {str(type_): pa.array([*values, None], type_) for type_, values in _values().items()}


def _dictionary(values: pa.Array) -> pa.Array:
    """``values``, of which the last is null, as a dictionary."""
    return pa.DictionaryArray.from_arrays(pa.array([*range(len(values) - 1), None], pa.int8()), values[:-1])


def _runs(values: pa.Array) -> pa.Array:
    return pa.RunEndEncodedArray.from_arrays(pa.array(range(1, len(values) + 1), pa.int32()), values)


def arrays_of_types() -> dict[str, pa.Array]:
    """By a name of the type. Each array ends with a null."""
    arrays = _plain()
    encoded = [array for name, array in arrays.items() if len(array) > 1 and "+01:00" not in name and "16" not in name]
    arrays |= {f"dictionary of {array.type}": _dictionary(array) for array in encoded}
    arrays |= {f"runs of {array.type}": _runs(array) for array in (arrays["int32"], arrays["string"])}
    arrays["uuid"] = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16, None], pa.binary(16)))
    arrays["list"] = pa.array([[1], [], None], pa.list_(pa.int32()))
    arrays["struct"] = pa.array([{"x": 1}, None], pa.struct([("x", pa.int32())]))
    arrays["map"] = pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int32()))
    return arrays


def taken(array: pa.Array, indices: list[int]) -> pa.Array:
    """Those rows, of types too that pyarrow cannot take rows of."""
    if isinstance(array, pa.DictionaryArray):
        return pa.DictionaryArray.from_arrays(array.indices.take(pa.array(indices)), array.dictionary)
    if isinstance(array, pa.RunEndEncodedArray):
        return _runs(array.values.take(pa.array(indices)))
    try:
        return array.take(pa.array(indices))
    except pa.ArrowNotImplementedError:
        return pa.concat_arrays([array[index : index + 1] for index in indices])
