"""What stands for ``{name}`` in a query: a value, a DataFrame, or a table without a name; driver Python."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import date, time, timedelta
from decimal import Decimal
from string import Formatter
from typing import Any

from pyspark.sql import DataFrame

from headrace.arrow.data import is_lazy_frame, is_one_shot
from headrace.arrow.python_values import plain_value
from headrace.display import names_text
from headrace.errors import HeadraceError, RegistrationError
from headrace.tables.choose import is_table


def with_frames(query: str, names: Mapping[str, Any], read: Callable[[Any, str], DataFrame]) -> dict[str, Any]:
    """The names as PySpark's own ``sql`` takes them: providers and data as DataFrames, everything else as it is.

    ``read`` makes the DataFrame of a table, and refuses streams that can be read once and queries that have not run; an
    object under two names is one table. NumPy's scalars become Python's values. Raises HeadraceError for a name in the
    query that was not given, and RegistrationError for an object that is neither a value nor data, and for a value that
    SQL text has no form for.
    """
    parts = list(Formatter().parse(query)) if names else []
    for _, field, _, _ in parts:
        name = re.split(r"[.\[]", field)[0] if field else None
        if name and name not in names:
            raise HeadraceError(f"the query has {{{name}}}, and the names given are {names_text(list(names))}")
    frames: dict[int, DataFrame] = {}
    found: dict[str, Any] = {}
    for name, value in names.items():
        if is_table(value) or is_one_shot(value) or is_lazy_frame(value) or isinstance(value, type):
            if id(value) not in frames:
                frames[id(value)] = read(value, name)
            value = frames[id(value)]
        elif type(value) is tuple or type(value).__module__ == "numpy":
            value = plain_value(value)
        found[name] = value
    before = ""
    for text, field, _, conversion in parts:
        before += text
        if field and conversion is None:
            in_quotes = before.endswith(("'", '"')) or any(before.count(quote) % 2 for quote in "'\"")
            _check_value(field, found, in_quotes)
    return found


def _check_value(field: str, found: dict[str, Any], in_quotes: bool) -> None:
    """Raises RegistrationError for a value that the query would not have, but its ``repr`` or some other value."""
    with suppress(AttributeError, LookupError, TypeError):  # PySpark looks for the same, and raises
        value, _ = Formatter().get_field(field, (), found)
        as_args = "as args, a null as None: ctx.sql('... = :x', args={'x': value})"
        if not _has_sql_text(plain_value(value), in_quotes):
            kind = f"{type(value).__name__} {value}" if isinstance(value, (float, Decimal)) else type(value).__name__
            items = " of other items than numbers and texts" if type(value) is tuple else ""
            raise RegistrationError(
                f"{{{field}}} in a query takes a value, a DataFrame, a TableProvider or data, not {kind}{items}, of "
                f"which SQL would have the repr. Values of all types go {as_args}"
            )
        if isinstance(value, (date, time, timedelta)) and not in_quotes:
            raise RegistrationError(
                f"{{{field}}} in a query is a {type(value).__name__}, and {value} without quotes is something else in "
                f"SQL: write DATE'{{{field}}}' or TIMESTAMP'{{{field}}}', or pass it {as_args}"
            )


def _has_sql_text(value: Any, in_quotes: bool) -> bool:
    """Whether its ``str`` is its value, in SQL or in a text; dates are not looked at."""
    if isinstance(value, tuple):  # of which SQL has the repr, with those of its items
        return type(value) is tuple and all(
            type(item) in (bool, int, str) or (type(item) in (float, tuple) and _has_sql_text(item, in_quotes=False))
            for item in value
        )
    if isinstance(value, float):
        return in_quotes or math.isfinite(value)
    if isinstance(value, Decimal):
        return in_quotes or value.is_finite()
    kind = type(value)
    if isinstance(value, (bytes, bytearray)) or hasattr(kind, "__array__"):
        return False
    has_text = any(getattr(kind, method) is not getattr(object, method) for method in ("__str__", "__format__"))
    return has_text or isinstance(value, int) or kind.__module__.partition(".")[0] == "pyspark"
