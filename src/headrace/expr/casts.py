"""Spark's casts over Arrow arrays, ANSI on and off; pure, runs anywhere.

Not here, and refused by name: what depends on the JDK or on Spark's floating point detours (a float as text or as a
decimal, wide decimals as int), text as a timestamp, and what a provider is never sent.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import EvaluationError
from headrace.expr.arithmetic import decimals
from headrace.expr.civil import MICROS_A_DAY, date_text, timestamp_text
from headrace.expr.functions import local_micros
from headrace.expr.parsing import parsed
from headrace.expr.semantics import Kind, kind_of, widens

_DETOUR_DIGITS = 18  # Spark casts decimals of more digits to int by way of a double


def cast(array: pa.Array, target: pa.DataType, ansi: bool, time_zone: str | None) -> pa.Array:
    """``array`` as the wire type ``target``.

    Raises EvaluationError for a value that Spark refuses with ANSI on, NotImplementedError for a cast whose Spark
    meaning is not built in.
    """
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), target)
    if widens(array.type, target):
        return array.cast(target)
    source, kind = kind_of(array.type), kind_of(target)
    if source is None or kind is None:
        raise _refused(array.type, target)
    if source is Kind.STRING and kind is not Kind.BINARY:
        return parsed(array, target, ansi)
    if kind is Kind.STRING:
        return _as_text(array, source, target, ansi, time_zone)
    if kind is Kind.BOOL and source in (Kind.INT, Kind.FLOAT, Kind.DECIMAL):
        return pa.array([None if value is None else value != 0 for value in array.to_pylist()], target)
    if source is Kind.BOOL and kind in (Kind.INT, Kind.FLOAT, Kind.DECIMAL):
        return cast(array.cast(pa.int8()), target, ansi, time_zone)
    if kind is Kind.INT:
        return _as_integer(array, source, target, ansi)
    if kind is Kind.FLOAT:
        return _as_float(array, source, target)
    if kind is Kind.DECIMAL and source in (Kind.INT, Kind.DECIMAL):
        return decimals(
            [None if value is None else decimal.Decimal(value) for value in array.to_pylist()], target, ansi
        )
    if kind is Kind.DATE and source in (Kind.TIMESTAMP, Kind.TIMESTAMP_TZ):
        micros = local_micros(array, time_zone, "a cast of a timestamp to a date")
        days = [None if at is None else at // MICROS_A_DAY for at in micros.to_pylist()]
        return pa.array(days, pa.int32()).cast(target)
    if source is Kind.STRING:
        return array.cast(target)
    raise _refused(array.type, target)


def _refused(source: pa.DataType, target: pa.DataType) -> NotImplementedError:
    return NotImplementedError(f"no reference evaluation for a cast of {source} to {target}")


def _as_text(array: pa.Array, source: Kind, target: pa.DataType, ansi: bool, time_zone: str | None) -> pa.Array:
    text: Callable[[Any], str]
    match source:
        case Kind.BINARY:
            return pa.Array.from_buffers(target, len(array), array.cast(pa.binary()).buffers(), offset=array.offset)
        case Kind.BOOL:
            values, text = array, lambda value: "true" if value else "false"
        case Kind.INT:
            values, text = array, str
        case Kind.DECIMAL:
            values, text = array, (lambda value: f"{value:f}") if ansi else str
        case Kind.DATE:
            values, text = array.cast(pa.int32()), date_text
        case Kind.TIMESTAMP | Kind.TIMESTAMP_TZ:
            values, text = local_micros(array, time_zone, "a cast of a timestamp to text"), timestamp_text
        case _:
            raise _refused(array.type, target)
    return pa.array([None if value is None else text(value) for value in values.to_pylist()], target)


def _as_integer(array: pa.Array, source: Kind, target: pa.DataType, ansi: bool) -> pa.Array:
    bits = target.bit_width
    limit = 2 ** (bits - 1)
    values = array.to_pylist() if source in (Kind.INT, Kind.FLOAT, Kind.DECIMAL) else None
    if source is Kind.TIMESTAMP_TZ:  # whole seconds
        micros = array.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).to_pylist()
        values = [None if at is None else at // 1_000_000 for at in micros]
    if values is None or (source is Kind.DECIMAL and array.type.precision > _DETOUR_DIGITS and bits < 64):
        raise _refused(array.type, target)
    found: list[int | None] = []
    for value in values:
        whole = None if value is None or not math.isfinite(value) else math.trunc(value)
        if value is not None and (whole is None or not -limit <= whole < limit):
            if ansi:
                raise EvaluationError("CAST_OVERFLOW", f"{value} does not fit {target}")
            whole = _saturated(value, bits) if source is Kind.FLOAT else _wrapped(math.trunc(value), bits)
        found.append(whole)
    return pa.array(found, target)


def _wrapped(value: int, bits: int) -> int:
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half


def _saturated(value: float, bits: int) -> int:
    """Java's cast of a double: to int or long it stops at the ends, to narrower types by way of int."""
    wide = max(bits, 32)
    if math.isnan(value):
        return 0
    limit: int = 2 ** (wide - 1)
    stopped = -limit if value < -limit else limit - 1 if value >= limit else math.trunc(value)
    return _wrapped(stopped, bits)


def _as_float(array: pa.Array, source: Kind, target: pa.DataType) -> pa.Array:
    if source in (Kind.INT, Kind.FLOAT):
        return pc.cast(array, target, safe=False)
    if source is Kind.DECIMAL and target == pa.float64():
        return pa.array([None if value is None else float(value) for value in array.to_pylist()], target)
    raise _refused(array.type, target)
