"""Spark's functions of text and of dates over Arrow arrays; pure, runs anywhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.expr.civil import DATE_FIELDS, MICROS_A_DAY, TIME_FIELDS
from headrace.expr.semantics import Kind, kind_of

_ALL = 2**31 - 1  # the length that Spark puts where none was given


def call(name: str, arguments: Sequence[pa.Array], time_zone: str | None) -> pa.Array:
    """The function ``name`` of Spark's, null where an argument is. Raises NotImplementedError for another one."""
    if name.startswith("EXTRACT_") and len(arguments) == 1:
        return extract(name.removeprefix("EXTRACT_"), arguments[0], time_zone)
    function = _TEXT_FUNCTIONS.get(name)
    if function is None or not arguments:
        raise NotImplementedError(f"no reference evaluation for Spark's function {name}")
    result_type = pa.int32() if name in _COUNTING else arguments[0].type
    columns = [_plain(array, name) for array in arguments]
    if any(pa.types.is_null(array.type) for array in arguments):
        return pa.nulls(len(arguments[0]), result_type)
    try:
        rows = [None if None in row else function(*row) for row in zip(*columns, strict=True)]
    except (TypeError, AttributeError):  # bytes or numbers where it takes text
        types = ", ".join(str(array.type) for array in arguments)
        raise NotImplementedError(f"no reference evaluation for {name} of {types}") from None
    return pa.array(rows, result_type)


def _plain(array: pa.Array, name: str) -> list[Any]:
    """Python values of text, bytes and integers."""
    kind = kind_of(array.type)
    if kind is Kind.STRING:
        try:
            return list(array.to_pylist())
        except UnicodeDecodeError:
            raise NotImplementedError(f"no reference evaluation for {name} of text that is not valid UTF-8") from None
    if kind in (Kind.BINARY, Kind.INT) or pa.types.is_null(array.type):
        return list(array.to_pylist())
    raise NotImplementedError(f"no reference evaluation for {name} of {array.type}")


def _substring(text: Any, position: int, length: int = _ALL) -> Any:
    start = position - 1 if position > 0 else len(text) + position if position < 0 else 0
    end = min(start + length, _ALL)
    return text[max(0, start) : max(0, end)]


def _concat(*parts: Any) -> Any:
    return parts[0][:0].join(parts)


_COUNTING = {"CHAR_LENGTH", "OCTET_LENGTH", "BIT_LENGTH"}
_TEXT_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "UPPER": str.upper,
    "LOWER": str.lower,
    "CHAR_LENGTH": len,
    "OCTET_LENGTH": lambda text: len(text.encode() if isinstance(text, str) else text),
    "BIT_LENGTH": lambda text: 8 * len(text.encode() if isinstance(text, str) else text),
    "SUBSTRING": _substring,
    "TRIM": lambda text, characters=" ": text.strip(characters),
    "LTRIM": lambda text, characters=" ": text.lstrip(characters),
    "RTRIM": lambda text, characters=" ": text.rstrip(characters),
    "CONCAT": _concat,
}


def extract(field: str, array: pa.Array, time_zone: str | None) -> pa.Array:
    """A field of a date or a timestamp, as Spark's Extract numbers it: weeks and their days are ISO's."""
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), pa.int32())
    kind = kind_of(array.type)
    function = DATE_FIELDS.get(field)
    if kind is Kind.DATE and function is not None:
        return _mapped(function, array.cast(pa.int32()))
    of_day = TIME_FIELDS.get(field)
    if kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_TZ) and (function or of_day):
        micros = local_micros(array, time_zone, f"EXTRACT_{field}")
        if of_day is not None:
            return _mapped(of_day, micros)
        assert function is not None
        return _mapped(lambda at: function(at // MICROS_A_DAY), micros)
    raise NotImplementedError(f"no reference evaluation for EXTRACT_{field} of {array.type}")


def _mapped(function: Callable[[int], int], array: pa.Array) -> pa.Array:
    return pa.array([None if value is None else function(value) for value in array.to_pylist()], pa.int32())


def local_micros(array: pa.Array, time_zone: str | None, what: str) -> pa.Array:
    """Microseconds of the local clock since 1970; Spark shows a timestamp with zone on the session's clock."""
    if array.type.tz is not None:
        if time_zone is None:
            raise NotImplementedError(
                f"{what} depends on the session's time zone: give it as evaluate(..., time_zone='Europe/Paris')"
            )
        array = pc.local_timestamp(array.cast(pa.timestamp("us", tz=time_zone)))
    return array.cast(pa.timestamp("us")).cast(pa.int64())
