"""How far a stream by a cursor column can go: the queries that ask a database for it; driver, while a query runs."""

from __future__ import annotations

from typing import Any

from headrace.tables.adbc.access import AdbcAccess
from headrace.tables.adbc.columns import DatabaseColumn, compared_sql


def latest_value(access: AdbcAccess, column: DatabaseColumn, rows: str, most: int | None) -> Any:
    """The greatest value of the column in ``rows`` (what follows FROM), or that of row number ``most`` in its order.

    None where there is no row. Raises the driver's errors, without credentials.
    """
    key = compared_sql(column, str(access.dialect))
    with access.connected() as cursor:
        if most is not None:
            cursor.execute(f"SELECT {key} AS latest FROM {rows} ORDER BY {key} LIMIT 1 OFFSET {most - 1}")
            if (found := _value(cursor, column)) is not None:
                return found
        cursor.execute(f"SELECT max({key}) AS latest FROM {rows}")
        return _value(cursor, column)


def _value(cursor: Any, column: DatabaseColumn) -> Any:
    table = cursor.fetch_arrow_table()
    return table["latest"][0].cast(column.type).as_py() if table.num_rows else None
