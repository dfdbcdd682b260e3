"""What stands for ``{name}`` in a query: a value, a DataFrame, or a table without a name; driver Python."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from string import Formatter
from typing import Any

from pyspark.sql import DataFrame

from headrace.arrow.data import is_lazy_frame, is_one_shot
from headrace.display import names_text
from headrace.errors import HeadraceError
from headrace.tables.choose import is_table


def with_frames(query: str, names: Mapping[str, Any], read: Callable[[Any, str], DataFrame]) -> dict[str, Any]:
    """The names as PySpark's own ``sql`` takes them: providers and data as DataFrames, everything else as it is.

    ``read`` makes the DataFrame of a table, and refuses streams that can be read once and queries that have not run; an
    object under two names is one table. Raises HeadraceError for a name in the query that was not given.
    """
    for _, field, _, _ in Formatter().parse(query) if names else ():
        name = re.split(r"[.\[]", field)[0] if field else ""
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
    return found
