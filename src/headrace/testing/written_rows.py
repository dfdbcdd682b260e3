"""Rows to write to a table of any schema, awkward ones among them; pure, and the same for the same seed."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Callable
from random import Random
from typing import Any

import pyarrow as pa

from headrace.arrow.types import is_list
from headrace.expr.semantics import Kind, kind_of

_DAYS = datetime.date(2020, 2, 28)
_MOMENT = datetime.datetime(2021, 3, 28, 1, 59, 59)
_TEXTS = ("", "a", "é", "a,b", 'a"b', "line\nline", "%", "'", " x ", "NULL", "\U0001f600")
_FLOATS = (0.0, -0.0, 1.5, -2.25, math.nan, math.inf, -math.inf)

_VALUES: dict[Kind, Callable[[int, pa.DataType], Any]] = {
    Kind.BOOL: lambda i, type_: i % 2 == 0,
    Kind.INT: lambda i, type_: i % 100 - (0 if pa.types.is_unsigned_integer(type_) else 7),
    Kind.FLOAT: lambda i, type_: _FLOATS[i % len(_FLOATS)],
    Kind.DECIMAL: lambda i, type_: decimal.Decimal(i % 10).scaleb(-max(0, type_.scale)),
    Kind.STRING: lambda i, type_: _TEXTS[i % len(_TEXTS)] + ("" if i % 3 else str(i)),
    Kind.BINARY: lambda i, type_: bytes([i % 256]) * (type_.byte_width if pa.types.is_fixed_size_binary(type_) else 2),
    Kind.DATE: lambda i, type_: _DAYS + datetime.timedelta(days=i % 40),
    Kind.TIMESTAMP: lambda i, type_: _MOMENT + datetime.timedelta(hours=i),
    Kind.TIMESTAMP_TZ: lambda i, type_: _MOMENT.replace(tzinfo=datetime.UTC) + datetime.timedelta(hours=i),
    Kind.DURATION: lambda i, type_: datetime.timedelta(seconds=i),
}


def written_rows(schema: pa.Schema, count: int, rng: Random) -> pa.Table:
    """``count`` rows, with nulls where the schema allows them. Raises ValueError for a type that it has no value of."""
    return pa.Table.from_pylist([{one.name: _value(one, rng) for one in schema} for _ in range(count)], schema)


def _value(field: pa.Field, rng: Random) -> Any:
    if field.nullable and rng.random() < 0.2:
        return None
    type_ = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    if pa.types.is_struct(type_):
        return {one.name: _value(one, rng) for one in type_}
    if pa.types.is_map(type_):
        keys = {_value(type_.key_field, rng) for _ in range(rng.randrange(3))}
        return [(key, _value(type_.item_field, rng)) for key in keys]
    if is_list(type_):
        size = type_.list_size if pa.types.is_fixed_size_list(type_) else rng.randrange(3)
        return [_value(type_.value_field, rng) for _ in range(size)]
    kind = kind_of(type_)
    if kind is None and pa.types.is_large_string(type_):
        kind = Kind.STRING
    if kind is None:
        raise ValueError(f"there is no value for column {field.name!r} of type {type_}: give rows=")
    return _VALUES[kind](rng.randrange(1000), type_)
