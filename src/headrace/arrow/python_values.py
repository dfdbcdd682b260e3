"""Python values as arrays of a declared type, where none of them changes; driver Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from headrace.errors import SchemaMismatchError


def array_of(values: Sequence[Any], field: pa.Field) -> pa.Array:
    """``values`` in the field's type. Raises SchemaMismatchError, naming the column and a value, if one does not fit.

    pyarrow alone makes 1 of 1.5 in an integer column, and a day of an instant: what it made is compared with what came.
    """
    try:
        array = pa.array(values, field.type)
        made = array.to_pylist()
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise SchemaMismatchError(
            f"column {field.name!r}: a value is no {field.type}: {error}; nothing was written"
        ) from error
    if found := first_changed(values, made):
        value, kept = found
        raise SchemaMismatchError(
            f"column {field.name!r}: the value {value!r} would become {kept!r} as {field.type}; nothing was written"
        )
    return array


def first_changed(values: Iterable[Any], made: Iterable[Any]) -> tuple[Any, Any] | None:
    """The first of the values that is another one in ``made``, and what it is there; None if all are the same."""
    return next((pair for pair in zip(values, made, strict=True) if not _is_same(*pair)), None)


def _is_same(value: Any, kept: Any) -> bool:
    if hasattr(value, "tolist"):  # numpy's arrays and numbers
        value = value.tolist()
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
    return value is None or type(value).__name__ == "NAType" or bool(value != value)
