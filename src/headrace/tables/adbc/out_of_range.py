"""Values that Spark has no equal of, such as infinite dates: null in SQL (driver), refused in batches (executors).

PostgreSQL's driver adds the years from 1970 to 2000 to a date without a look at what comes out: an infinity, or a
timestamp after 294247-01-10, becomes a date of the far past, before any that PostgreSQL has. DuckDB's infinities are
the ends of the integers.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute

from headrace.arrow.types import is_list
from headrace.errors import SchemaMismatchError

_LAST_DAY, _LAST_TICK = 2**31 - 2, 2**63 - 2
_FIRST = {
    "postgresql": (-2_440_588, -210_866_803_200_000_000),  # 4714-11-24 BC, in days and in microseconds
    "duckdb": (-_LAST_DAY, -_LAST_TICK),
}
_POSTGRES_TICKS_END = "294247-01-10 04:00:54.775807+00"
_NAN = "nan"  # numeric comes as text
_WHAT_TO_DO = (
    "Spark has no equal of it. Leave such rows out, by a WHERE with BETWEEN two values that Spark has (the database "
    "decides it) or by a view of the database's, or read them as null: AdbcTable(..., out_of_range_as_null=True)"
)


def supports_nulls(driver: str) -> bool:
    return driver in _FIRST


def null_out_of_range(sql: str, type_: pa.DataType, driver: str) -> str:
    """``sql``, a column of that type, with null for each value that Spark has no equal of."""
    if pa.types.is_date(type_) or (pa.types.is_timestamp(type_) and driver == "duckdb"):
        return f"CASE WHEN isfinite({sql}) THEN {sql} END"
    if pa.types.is_timestamp(type_):
        return f"CASE WHEN isfinite({sql}) AND {sql} < '{_POSTGRES_TICKS_END}' THEN {sql} END"
    if pa.types.is_decimal(type_) and driver == "postgresql":
        return f"nullif({sql}, 'NaN')"
    if is_list(type_) and pa.types.is_temporal(type_.value_type) and driver == "postgresql":
        return f"array_replace(array_replace({sql}, 'infinity', NULL), '-infinity', NULL)"
    return sql


def check_range(array: pa.Array, field: pa.Field, driver: str) -> None:
    """Raises SchemaMismatchError, naming the column, for a value that Spark has no equal of.

    ``field``: as what the driver's ``array`` is to arrive.
    """
    if driver not in _FIRST:
        return
    if driver == "postgresql" and pa.types.is_decimal(field.type):
        text = array.storage if isinstance(array, pa.ExtensionArray) else array
        if pa.types.is_string(text.type) and pa.compute.any(pa.compute.equal(text, _NAN)).as_py():
            raise SchemaMismatchError(f"column {field.name!r} holds the numeric value NaN. {_WHAT_TO_DO}")
    elif not _is_in_range(array, driver):
        raise SchemaMismatchError(
            f"column {field.name!r} holds an infinite date or timestamp, or one outside of Arrow's range. {_WHAT_TO_DO}"
        )


def _is_in_range(array: pa.Array, driver: str) -> bool:
    kind = pa.types
    if kind.is_struct(array.type):
        return all(_is_in_range(part, driver) for part in array.flatten())
    if kind.is_map(array.type):
        return _is_in_range(array.keys, driver) and _is_in_range(array.items, driver)
    if is_list(array.type):
        return _is_in_range(array.flatten(), driver)
    if not (kind.is_date32(array.type) or kind.is_timestamp(array.type)):
        return True
    day = kind.is_date32(array.type)
    first, last = _FIRST[driver][0 if day else 1], _LAST_DAY if day else _LAST_TICK
    ends = pa.compute.min_max(array.view(pa.int32() if day else pa.int64()))
    low, high = ends["min"].as_py(), ends["max"].as_py()
    return low is None or (low >= first and high <= last)
