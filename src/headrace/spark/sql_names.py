"""What stands for ``{name}`` in a query: a value, a DataFrame, or a table without a name; driver Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame

from headrace.arrow.data import is_one_shot
from headrace.tables.choose import is_table


def with_frames(names: Mapping[str, Any], read: Callable[[Any, str], DataFrame]) -> dict[str, Any]:
    """The names as PySpark's own ``sql`` takes them: providers and data as DataFrames, everything else as it is.

    ``read`` makes the DataFrame of a table, and refuses streams that can be read once; an object under two names is
    one table.
    """
    frames: dict[int, DataFrame] = {}
    found: dict[str, Any] = {}
    for name, value in names.items():
        if is_table(value) or is_one_shot(value):
            if id(value) not in frames:
                frames[id(value)] = read(value, name)
            value = frames[id(value)]
        found[name] = value
    return found
