"""What stands for ``{name}`` in a query: a value, a DataFrame, or a table without a name; driver Python."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from string import Formatter
from typing import Any

from pyspark.sql import DataFrame

from headrace.arrow.data import is_lazy_frame, is_one_shot
from headrace.display import names_text
from headrace.errors import HeadraceError, RegistrationError
from headrace.tables.choose import is_table


def with_frames(query: str, names: Mapping[str, Any], read: Callable[[Any, str], DataFrame]) -> dict[str, Any]:
    """The names as PySpark's own ``sql`` takes them: providers and data as DataFrames, everything else as it is.

    ``read`` makes the DataFrame of a table, and refuses streams that can be read once and queries that have not run; an
    object under two names is one table. Raises HeadraceError for a name in the query that was not given,
    RegistrationError for an object that is neither a value nor data.
    """
    fields = {field: conversion for _, field, _, conversion in Formatter().parse(query) if field} if names else {}
    for field in fields:
        name = re.split(r"[.\[]", field)[0]
        if name and name not in names:
            raise HeadraceError(f"the query has {{{name}}}, and the names given are {names_text(list(names))}")
    frames: dict[int, DataFrame] = {}
    found: dict[str, Any] = {}
    for name, value in names.items():
        if is_table(value) or is_one_shot(value) or is_lazy_frame(value) or isinstance(value, type):
            if id(value) not in frames:
                frames[id(value)] = read(value, name)
            value = frames[id(value)]
        found[name] = value
    for field, conversion in fields.items():
        if conversion is None:
            _check_value(field, found)
    return found


def _check_value(field: str, found: dict[str, Any]) -> None:
    """Raises RegistrationError for an object of which the query would have nothing but its ``repr``."""
    with suppress(AttributeError, LookupError, TypeError):  # PySpark looks for the same, and raises
        value, _ = Formatter().get_field(field, (), found)
        kind = type(value)
        of_pyspark = kind.__module__.partition(".")[0] == "pyspark"
        has_text = any(getattr(kind, method) is not getattr(object, method) for method in ("__str__", "__format__"))
        if not (of_pyspark or has_text or isinstance(value, (int, float, tuple))):
            raise RegistrationError(
                f"{{{field}}} in a query takes a value, a DataFrame, a TableProvider or data, not {kind.__name__}, of "
                "which SQL would have the repr. Values of all types go as args: ctx.sql('... = :x', args={'x': value})"
            )
