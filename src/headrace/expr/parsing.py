"""Text as a number, a boolean or a date, as Spark's casts read it; pure, runs anywhere."""

from __future__ import annotations

import decimal
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from headrace.errors import EvaluationError
from headrace.expr.arithmetic import decimals
from headrace.expr.civil import days_of
from headrace.expr.semantics import Kind, kind_of

_BLANK = "".join(map(chr, [*range(0x21), 0x7F]))  # what Spark trims: white space and control characters
_TRUE, _FALSE = {"t", "true", "y", "yes", "1"}, {"f", "false", "n", "no", "0"}
_INTEGER = re.compile(r"[+-]?[0-9]+")
_CUT_INTEGER = re.compile(r"([+-]?[0-9]*)(\.[0-9]*)?")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_DATE = re.compile(r"([+-]?)([0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?", re.DOTALL)
_SPECIAL = {"nan": "NaN"} | {sign + word: sign + "inf" for sign in ("", "+", "-") for word in ("inf", "infinity")}


class _Unreadable(Exception):
    """The text is no value of the type."""


def parsed(array: pa.Array, target: pa.DataType, ansi: bool) -> pa.Array:
    """Text as ``target``. What is no such value raises EvaluationError with ANSI on, and is null with ANSI off."""
    kind = kind_of(target)
    read: Callable[[str], Any]
    match kind:
        case Kind.BOOL:
            read = _boolean
        case Kind.INT:
            read = _whole(2 ** (target.bit_width - 1), exact=ansi)
        case Kind.FLOAT:
            read = _float(target)
        case Kind.DECIMAL:
            read = _decimal
        case Kind.DATE:
            read = _days
        case _:
            raise NotImplementedError(f"no reference evaluation for a cast of {array.type} to {target}")
    found: list[Any] = []
    for value in array.cast(pa.large_binary()).to_pylist():
        try:
            found.append(None if value is None else read(value.decode("utf-8", "replace")))
        except _Unreadable:
            if ansi:
                raise EvaluationError("CAST_INVALID_INPUT", f"{value!r} is no {target}") from None
            found.append(None)
    if kind is Kind.DECIMAL:
        return decimals(found, target, ansi)
    return pa.array(found, pa.int32()).cast(target) if kind is Kind.DATE else pa.array(found, target)


def _boolean(text: str) -> bool:
    word = text.strip(_BLANK).lower()
    if word not in _TRUE | _FALSE:
        raise _Unreadable
    return word in _TRUE


def _whole(limit: int, exact: bool) -> Callable[[str], int]:
    def read(text: str) -> int:
        word = text.strip(_BLANK)
        match = (_INTEGER if exact else _CUT_INTEGER).fullmatch(word)
        if match is None or word in ("", "+", "-"):
            raise _Unreadable
        digits = match[0] if exact else match[1]
        value = int(digits) if digits.strip("+-") else 0
        if not -limit <= value < limit:
            raise _Unreadable
        return value

    return read


def _float(target: pa.DataType) -> Callable[[str], float]:
    def read(text: str) -> float:
        word = text.strip(_BLANK[:0x21])
        if word.lower().lstrip("+-").startswith("0x"):
            raise NotImplementedError("no reference evaluation for a cast of a hexadecimal text to a float")
        if word[-1:] in tuple("fFdD") and _NUMBER.fullmatch(word[:-1]):
            word = word[:-1]
        if _NUMBER.fullmatch(word) is None:
            word = _SPECIAL.get(word.lower(), "")
            if not word:
                raise _Unreadable
        number: float = pa.scalar(word.lstrip("+")).cast(target).as_py()  # rounded once, also to 32 bits
        return number

    return read


def _decimal(text: str) -> decimal.Decimal:
    word = text.strip(_BLANK)
    if _NUMBER.fullmatch(word) is None:
        raise _Unreadable
    try:
        value = decimal.Decimal(word)
    except decimal.InvalidOperation:
        raise _Unreadable from None
    if value and not -100 < value.adjusted() < 100:
        return decimal.Decimal(0) if value.adjusted() < 0 else decimal.Decimal("1E99")  # lost in, or beyond, any scale
    return value


def _days(text: str) -> int:
    match = _DATE.fullmatch(text.strip(_BLANK))
    if match is None:
        raise _Unreadable
    year = int(match[2]) * (-1 if match[1] == "-" else 1)
    days = days_of(year, int(match[3] or 1), int(match[4] or 1))
    if days is None or not -(2**31) <= days < 2**31:
        raise _Unreadable
    return days
