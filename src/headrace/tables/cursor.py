"""Cursor: a column whose values grow as rows come or change, by which a table is read as a stream; driver, pure."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headrace.arrow.types import value_bytes
from headrace.errors import OffsetLostError, RegistrationError
from headrace.expr.nodes import Column, Comparison, Expr, Literal
from headrace.stream import Offset, ReadLimit

_DAY = datetime.timedelta(days=1)
_TEXT_BYTES = 32  # of a value whose type does not tell

CursorValue = int | str | datetime.date | datetime.datetime
"""What a cursor column holds, in Python."""


@dataclass(frozen=True)
class Cursor:
    """A column, how far back each range looks again, and after which value a query without a checkpoint starts.

    An offset is ``{column: value}``; None stands for before all rows. Integers and texts stand for themselves, dates
    are ``2026-01-31``, timestamps ``2026-01-31T23:59:59.000000``, with a ``Z`` where they are instants. So each value
    has one text, and an offset of another column is noticed.
    """

    column: str
    type: pa.DataType
    lookback: datetime.timedelta | int | None = None
    start_after: CursorValue | None = None

    @classmethod
    def of(
        cls,
        where: str,
        schema: pa.Schema,
        column: str,
        lookback: datetime.timedelta | int | None,
        start_after: CursorValue | None,
    ) -> Cursor:
        """Raises RegistrationError, which ``where`` begins, for what does not fit the column, or is none."""
        if column not in schema.names:
            raise RegistrationError(f"{where} has no column {column!r} for its cursor ({', '.join(schema.names)})")
        type_ = schema.field(column).type
        kind = _kind(type_)
        if kind is None:
            raise RegistrationError(
                f"cursor={column!r} of {where} has type {type_}; a cursor is an integer, a date, a timestamp (up to "
                "microseconds) or text"
            )
        fitting = {int: int, str: None}.get(kind, datetime.timedelta)
        if lookback is not None and (fitting is None or not isinstance(lookback, fitting)):
            expected = "none: of text nobody knows what is how far back" if fitting is None else fitting.__name__
            raise RegistrationError(f"lookback={lookback!r} of {where}: for a cursor of type {type_} it is {expected}")
        if lookback is not None and (lookback <= 0 if isinstance(lookback, int) else lookback <= datetime.timedelta()):
            raise RegistrationError(f"lookback={lookback!r} of {where} must be positive")
        if kind is datetime.date and isinstance(lookback, datetime.timedelta):
            lookback = -(-lookback // _DAY) * _DAY  # a date minus some hours is the same date
        cursor = cls(column, type_, lookback)
        if start_after is None:
            return cursor
        return cls(column, type_, lookback, cursor._fitting(start_after, kind, where))

    def _fitting(self, value: CursorValue, kind: type, where: str) -> CursorValue:
        fits = type(value) is kind or (kind is datetime.datetime and isinstance(value, datetime.datetime))
        if not fits or (isinstance(value, datetime.datetime) and (value.tzinfo is None) != (self.type.tz is None)):
            zone = "" if kind is not datetime.datetime else " with a zone" if self.type.tz else " without a zone"
            raise RegistrationError(
                f"start_after={value!r} of {where}: for cursor={self.column!r}, of type {self.type}, it is "
                f"{kind.__name__}{zone}"
            )
        return value

    def initial(self) -> Offset:
        return self.offset(self.start_after)

    def offset(self, value: CursorValue | None) -> Offset:
        """Where a stream is that has been read up to rows with this value."""
        return {self.column: _written(value)}

    def value(self, offset: Offset) -> Any:
        """The value of an offset. Raises OffsetLostError for one that this cursor does not have."""
        if isinstance(offset, dict) and list(offset) == [self.column]:
            written = offset[self.column]
            try:
                value = None if written is None else _read(written, self.type)
            except ValueError:
                value = None
            if written is None or value is not None:
                return value
        raise OffsetLostError(
            f"the checkpoint's offset {offset!r} is none of cursor={self.column!r} ({self.type}): was another cursor "
            "used before? Start with a new checkpoint, and with start_after= where this should go on"
        )

    def until(self, offset: Offset | None) -> Any:
        """The value of ``ReadLimit.until``; None for none."""
        return None if offset is None else self.value(offset)

    def between(self, start: Any, end: Any) -> list[Expr]:
        """What rows after ``start``, up to ``end``, fulfil; None is open. Rows without a value are in no range."""
        low = self.looked_back(start)
        found: list[Expr] = []
        if low is not None:
            found.append(Comparison(">", Column(self.column), Literal(low, _literal_type(self.type))))
        if end is not None:
            found.append(Comparison("<=", Column(self.column), Literal(end, _literal_type(self.type))))
        return found

    def after(self, start: Any, until: Any) -> list[Expr]:
        """What rows fulfil that are new after ``start``: ``between`` without the look-back."""
        return Cursor(self.column, self.type).between(start, until)

    def looked_back(self, start: Any) -> Any:
        """From where a range that begins at ``start`` is read, not before ``start_after``; None for the beginning."""
        if start is None or self.lookback is None:
            return start
        try:
            low = start - self.lookback
        except OverflowError:
            low = None
        first = self.start_after
        if first is None or (low is not None and low >= first):
            return low
        return min(start, first)

    def describe(self, start: Offset, end: Offset) -> str:
        """For EXPLAIN."""
        again = "" if self.lookback is None else f", looking back {self.lookback}"
        low, high = (_written(self.value(offset)) for offset in (start, end))
        return f"{self.column} {'' if low is None else f'after {low} '}up to {high}{again}"


def most_rows(limit: ReadLimit, schema: pa.Schema) -> int | None:
    """How many rows the limit lets pass, at least one; None for all. How many bytes a row has, its types tell."""
    width = sum(value_bytes(type_) or _TEXT_BYTES for type_ in schema.types)
    most = [] if limit.max_rows is None else [limit.max_rows]
    most += [] if limit.max_bytes is None else [int(limit.max_bytes // max(1, width))]
    return max(1, min(most)) if most else None


def _kind(type_: pa.DataType) -> type | None:
    kind = pa.types
    if kind.is_signed_integer(type_):
        return int
    if kind.is_string(type_) or kind.is_large_string(type_):
        return str
    if kind.is_date32(type_):
        return datetime.date
    return datetime.datetime if kind.is_timestamp(type_) and type_.unit != "ns" else None


def _literal_type(type_: pa.DataType) -> pa.DataType:
    """As filters of Spark's have it."""
    if pa.types.is_timestamp(type_):
        return pa.timestamp("us", None if type_.tz is None else "UTC")
    return pa.string() if pa.types.is_large_string(type_) else type_


def _written(value: CursorValue | None) -> int | str | None:
    if isinstance(value, datetime.datetime):
        if value.tzinfo is None:
            return value.isoformat(timespec="microseconds")
        return value.astimezone(datetime.UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
    return value.isoformat() if isinstance(value, datetime.date) else value


def _read(written: Any, type_: pa.DataType) -> CursorValue | None:
    """None, or ValueError, for what ``_written`` does not make of such values."""
    kind = _kind(type_)
    if kind in (int, str):
        return written if type(written) is kind else None
    if not isinstance(written, str):
        return None
    if kind is datetime.date:
        return datetime.date.fromisoformat(written)
    value = datetime.datetime.fromisoformat(written)
    return value if (value.tzinfo is None) == (type_.tz is None) else None
