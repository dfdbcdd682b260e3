"""Python values as Arrow arrays in which none of them changes; driver and executor Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa

from headrace.errors import SchemaMismatchError

VALUE_ERRORS = (pa.ArrowException, TypeError, ValueError, OverflowError)
"""What ``arrow_array`` raises for values that are not of one type that Arrow knows."""
_MISSING = ("NAType", "NaTType")


class _ValueChanged(ValueError):
    """A value would be another one in Arrow."""


def array_of(values: Sequence[Any], field: pa.Field) -> pa.Array:
    """``values`` in the field's type. Raises SchemaMismatchError, naming column and value, if one does not fit."""
    try:
        return arrow_array(values, field.type)
    except _ValueChanged as error:
        raise SchemaMismatchError(f"column {field.name!r}: the value {error}") from None
    except VALUE_ERRORS as error:
        raise SchemaMismatchError(f"column {field.name!r}: a value is no {field.type}: {error}") from error


def arrow_array(values: Sequence[Any], type_: pa.DataType | None = None) -> pa.Array:
    """``pa.array``, which also takes pandas' NA and NaT for nulls, and each of numpy's points in time.

    pyarrow alone makes 1 of 1.5 in an integer column, a day of an instant and the first of January 1 of NaT: what it
    made is compared with what came. Raises _ValueChanged, or one of VALUE_ERRORS.
    """
    try:
        return _unchanged(values, type_)
    except VALUE_ERRORS:
        moments = type_ is not None and pa.types.is_timestamp(type_)
        plain = [plain_value(value, moments) for value in values]
        if all(map(_is_identical, values, plain)):
            raise
    return _unchanged(plain, type_)


def _unchanged(values: Sequence[Any], type_: pa.DataType | None) -> pa.Array:
    array = pa.array(values, type_)
    if (type_ is not None or may_change(array.type)) and (found := first_changed(values, array.to_pylist())):
        value, kept = found
        raise _ValueChanged(f"{value!r} would become {kept!r} as {array.type}")
    return array


def may_change(type_: pa.DataType) -> bool:
    """Whether pyarrow, which has found this type for some values, may have changed one.

    It makes days of instants after a day, UTC of hours without a zone, microseconds of nanoseconds.
    """
    kind = pa.types
    if kind.is_nested(type_):
        return any(may_change(type_.field(i).type) for i in range(type_.num_fields))
    if (kind.is_timestamp(type_) or kind.is_duration(type_)) and type_.unit == "ns":
        return False  # numpy's own, whole
    return bool(kind.is_temporal(type_) or kind.is_binary(type_))


def first_changed(values: Iterable[Any], made: Iterable[Any]) -> tuple[Any, Any] | None:
    """The first of the values that is another one in ``made``, and what it is there; None if all are the same."""
    return next((pair for pair in zip(values, made, strict=True) if not _is_same(*pair)), None)


def plain_value(value: Any, moments: bool = False) -> Any:
    """``value`` without what is pandas' or numpy's own: None for a missing one, Python's values for numpy's scalars.

    The value itself where nothing is to be replaced. ``moments``: numpy's days are instants, as they are to numpy.
    """
    if type(value).__name__ in _MISSING:
        return None
    if _is_numpy_moment(value):
        return _of_numpy_moment(value, moments)
    if type(value).__module__ == "numpy" and not _is_array(value) and hasattr(value, "item"):
        return value.item()
    if isinstance(value, tuple) and (names := field_names(value)):
        value = dict(zip(names, value, strict=True))
    if isinstance(value, Mapping):
        items = {key: plain_value(inner) for key, inner in value.items()}
        return value if all(map(_is_identical, value.values(), items.values())) else items
    if isinstance(value, (list, tuple)) or (_is_array(value) and value.dtype.kind == "O"):
        inner = [plain_value(one) for one in value]
        if all(map(_is_identical, value, inner)):
            return value
        return tuple(inner) if isinstance(value, tuple) else inner  # pyarrow takes structs and pairs of maps as tuples
    return value


def field_names(row: Any) -> Sequence[str] | None:
    """The names in a named tuple or in PySpark's ``Row``; None for any other row."""
    return getattr(row, "_fields", None) or getattr(row, "__fields__", None)


def _is_identical(value: Any, other: Any) -> bool:
    return value is other


def _is_array(value: Any) -> bool:
    return type(value).__module__ == "numpy" and type(value).__name__ == "ndarray"


def _is_numpy_moment(value: Any) -> bool:
    return type(value).__module__ == "numpy" and type(value).__name__ in ("datetime64", "timedelta64")


def _of_numpy_moment(value: Any, moments: bool) -> Any:
    """None for NaT, a date for whole days and longer, a datetime or timedelta; itself where Python's are too short."""
    if value != value:
        return None
    kind, _, unit = str(value.dtype).partition("[")
    if not unit:  # numpy's "generic" unit is none
        return value
    days = kind == "datetime64" and unit.rstrip("]") in ("Y", "M", "W", "D") and not moments
    short = value.astype(f"{kind}[D]" if days else f"{kind}[us]")
    found = short.item()
    return found if short == value and isinstance(found, (date, datetime, timedelta)) else value


def _is_same(value: Any, kept: Any) -> bool:
    if _is_numpy_moment(value):
        if hasattr(kept, "to_numpy"):  # pandas' own, which pyarrow makes of nanoseconds
            return bool(kept.to_numpy() == value)
        value = _of_numpy_moment(value, isinstance(kept, datetime))
    if hasattr(value, "tolist"):  # numpy's arrays and numbers
        value = value.tolist()
    if isinstance(value, tuple) and isinstance(kept, Mapping):  # a struct
        names = field_names(value) or list(kept)
        if len(names) != len(value):
            return False
        value = dict(zip(names, value, strict=True))
    if isinstance(value, Mapping) and isinstance(kept, Mapping):
        return value.keys() <= kept.keys() and all(_is_same(value.get(name), inner) for name, inner in kept.items())
    if isinstance(value, Mapping):  # a map comes back as pairs
        value = list(value.items())
    if isinstance(value, (list, tuple)) and isinstance(kept, (list, tuple)):
        return len(value) == len(kept) and all(map(_is_same, value, kept))
    if kept is None or kept != kept:
        return _is_missing(value)
    if isinstance(value, datetime) and isinstance(kept, datetime) and value.tzinfo and kept.tzinfo:
        value, kept = value.astimezone(UTC), kept.astimezone(UTC)  # an hour that comes twice equals none elsewhere
    return bool(value == kept)


def _is_missing(value: Any) -> bool:
    """Whether it is None, NaN, or one of pandas' own; pandas' NA has no truth."""
    return value is None or type(value).__name__ in _MISSING or bool(value != value)
