"""A database loaded by INSERT INTO: rows that Spark has computed, seen all at once when the statement ends.

Shows AdbcTable as a target. The first statement appends a day's sums. The second run of the same day replaces its rows
instead of adding them again, by their key (``upsert_on``). Without an argument the database is a new SQLite file; with
PostgreSQL, Spark's tasks load staging tables at the same time, and one transaction copies them.

    python examples/load_database.py [postgresql://user:password@host/database]
"""

from __future__ import annotations

import datetime
import sys
import tempfile
from typing import Any

import headrace as hr

COLUMNS = "day VARCHAR(10), city VARCHAR(20), orders BIGINT, amount DOUBLE PRECISION, PRIMARY KEY (day, city)"
DAY = datetime.date(2024, 5, 17)


def daily_sums(day: datetime.date, factor: float) -> str:
    """What Spark computes: here of a million made-up orders, four columns of sums."""
    return f"""
        SELECT '{day}' AS day, city, count(*) AS orders, sum(amount) AS amount
        FROM (SELECT element_at(array('Bonn', 'Kiel', 'Ulm'), CAST(id % 3 AS INT) + 1) AS city,
                     CAST(id % 100 AS DOUBLE) * {factor}D AS amount FROM range(1000000))
        GROUP BY city
    """


def main(ctx: hr.SessionContext, uri: str | None = None) -> list[dict[str, Any]]:
    """The rows of the database after both loads."""
    driver, uri = ("postgresql", uri) if uri else ("sqlite", new_file())
    run(driver, uri, f"CREATE TABLE city_sums ({COLUMNS})")
    ctx.register_table("city_sums", hr.AdbcTable(driver, uri, "city_sums", upsert_on=["day", "city"]))

    ctx.sql(f"INSERT INTO city_sums {daily_sums(DAY, 1.0)}")
    ctx.sql(f"INSERT INTO city_sums {daily_sums(DAY + datetime.timedelta(days=1), 2.0)}")
    ctx.sql(f"INSERT INTO city_sums {daily_sums(DAY, 3.0)}")  # the first day again, with corrected amounts
    return ctx.collect("SELECT day, city, orders, amount FROM city_sums ORDER BY day, city").to_pylist()


def new_file() -> str:
    path = f"{tempfile.mkdtemp()}/sums.db"
    open(path, "w").close()
    return path


def run(driver: str, uri: str, statement: str) -> None:
    """One statement, with the driver that AdbcTable uses too."""
    import importlib

    dbapi: Any = importlib.import_module(f"adbc_driver_{driver}.dbapi")
    with dbapi.connect(uri, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(statement)


if __name__ == "__main__":
    with hr.SessionContext() as ctx:
        for row in main(ctx, *sys.argv[1:]):
            print(row)
