"""AdbcTable as a stream by a cursor column, on a real PostgreSQL: timestamps, dates, texts, late transactions."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from checking import check_provider
from reading_streams import Reader

if TYPE_CHECKING:
    from postgres import Postgres

pytestmark = [pytest.mark.timeout(300), pytest.mark.daily]  # the first one may have to install PostgreSQL

MINUTE = dt.timedelta(minutes=1)


@pytest.fixture
def orders(postgres: Postgres) -> Postgres:
    postgres.run(
        "DROP TABLE IF EXISTS orders",
        """CREATE TABLE orders (id bigint, changed timestamptz, local timestamp, day date, code text, note text)""",
        """INSERT INTO orders SELECT i, t, t AT TIME ZONE 'UTC', t::date, 'c' || lpad(i::text, 3, '0'), NULL
           FROM (SELECT i, timestamptz '2026-01-01 00:00Z' + i * interval '1 hour' AS t FROM generate_series(1, 48) i)
           AS s""",
    )
    return postgres


def ids(rows: list[dict[str, Any]]) -> list[int]:
    return sorted(row["id"] for row in rows)


@pytest.mark.parametrize(
    ("cursor", "offset"),
    [
        ("id", 48),
        ("changed", "2026-01-03T00:00:00.000000Z"),
        ("local", "2026-01-03T00:00:00.000000"),
        ("day", "2026-01-03"),
        ("code", "c048"),
    ],
)
def test_stream_by_each_type_reads_every_row_once(orders: Postgres, cursor: str, offset: Any) -> None:
    source = hr.AdbcTable("postgresql", orders.uri, "orders", cursor=cursor)
    reader = Reader(source)
    found: list[int] = []
    while rows := reader.read(max_rows=10):
        assert len(rows) >= 10 or reader.offset == {cursor: offset}
        found += ids(rows)
    assert found == list(range(1, 49))
    assert reader.offset == {cursor: offset}


def test_stream_of_postgres_keeps_every_promise(orders: Postgres) -> None:
    orders.run("ALTER TABLE orders DROP COLUMN local, DROP COLUMN day, DROP COLUMN code")
    report = check_provider(hr.AdbcTable("postgresql", orders.uri, "orders", cursor="changed"), samples=1)
    assert report.ok, str(report)


def test_row_that_changes_comes_again_and_one_without_a_cursor_does_not(orders: Postgres) -> None:
    reader = Reader(hr.AdbcTable("postgresql", orders.uri, "orders", cursor="changed"))
    reader.read()
    orders.run(
        "UPDATE orders SET note = 'paid', changed = '2026-02-01Z' WHERE id = 7",
        "INSERT INTO orders (id, changed) VALUES (99, NULL), (98, 'infinity')",
    )
    assert [(row["id"], row["note"]) for row in reader.read()] == [(7, "paid")]
    assert reader.read() == []


def test_transaction_that_commits_late_is_seen_by_the_lookback_only(orders: Postgres) -> None:
    plain = Reader(hr.AdbcTable("postgresql", orders.uri, "orders", cursor="changed"))
    looking_back = Reader(hr.AdbcTable("postgresql", orders.uri, "orders", cursor="changed", lookback=10 * MINUTE))
    with orders.connect() as slow, slow.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("INSERT INTO orders (id, changed) VALUES (100, '2026-02-01 12:00Z')")
        orders.run("INSERT INTO orders (id, changed) VALUES (101, '2026-02-01 12:05Z')")
        assert ids(plain.read())[-1] == ids(looking_back.read())[-1] == 101
        cursor.execute("COMMIT")
    orders.run("INSERT INTO orders (id, changed) VALUES (102, '2026-02-01 12:06Z')")
    assert ids(plain.read()) == [102]
    assert ids(looking_back.read()) == [100, 101, 102]


def test_start_after_and_look_back_take_a_time_with_its_zone(orders: Postgres) -> None:
    zone = dt.timezone(dt.timedelta(hours=1))
    start = dt.datetime(2026, 1, 3, 0, 0, tzinfo=zone)  # 23:00 UTC, of row 47
    source = hr.AdbcTable("postgresql", orders.uri, "orders", cursor="changed", start_after=start)
    assert ids(Reader(source).read()) == [48]
    naive = hr.AdbcTable("postgresql", orders.uri, "orders", cursor="changed", start_after=dt.datetime(2026, 1, 3))
    with pytest.raises(hr.RegistrationError, match="it is datetime with a zone"):
        naive.schema()


def test_rows_of_a_cursor_out_of_range_are_read_where_they_are_null(orders: Postgres) -> None:
    orders.run("INSERT INTO orders (id, changed, day) VALUES (50, '2026-01-04Z', 'infinity')")
    source = hr.AdbcTable("postgresql", orders.uri, "orders", cursor="day", out_of_range_as_null=True)
    reader = Reader(source)
    assert ids(reader.read()) == list(range(1, 49))
    by_time = hr.AdbcTable("postgresql", orders.uri, "orders", cursor="changed", out_of_range_as_null=True)
    assert ids(Reader(by_time).read())[-1] == 50
