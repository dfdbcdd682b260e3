"""AdbcTable as a stream by a cursor column: offsets, limits, look-back, what is refused. On SQLite, without Spark."""

from __future__ import annotations

import datetime
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from checking import check_provider
from headrace.stream import why_no_stream
from headrace.tables.cursor import Cursor
from reading_streams import Reader


@pytest.fixture
def database(tmp_path: Path) -> Any:
    connection = sqlite3.connect(tmp_path / "orders.db", isolation_level=None)
    connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, changed TEXT, amount REAL, loose NUMERIC)")
    yield connection
    connection.close()


def table(database: Any, **options: Any) -> hr.AdbcTable:
    path = database.execute("PRAGMA database_list").fetchone()[2]
    return hr.AdbcTable("sqlite", path, "orders", **options)


def add(database: Any, *ids: int, changed: str | None = "2026-01-01") -> None:
    rows = [(id, changed, id / 4, "x") for id in ids]
    database.executemany("INSERT OR REPLACE INTO orders VALUES (?, ?, ?, ?)", rows)


def ids(rows: list[dict[str, Any]]) -> list[int]:
    return [row["id"] for row in rows]


def test_stream_by_number_reads_what_is_new_each_time(database: Any) -> None:
    add(database, 1, 2, 3)
    reader = Reader(table(database, cursor="id"))
    assert reader.offset == {"id": None}
    assert ids(reader.read()) == [1, 2, 3]
    assert reader.offset == {"id": 3}
    assert reader.read() == []
    add(database, 7, 9)
    assert ids(reader.read()) == [7, 9]
    assert ids(reader.again()) == [7, 9]
    assert reader.again("amount") == [{"amount": 1.75}, {"amount": 2.25}]
    more = hr.Comparison(">", hr.Column("id"), hr.Literal(7, pa.int64()))
    assert ids(reader.again(filters=(more,))) == [9]


def test_stream_goes_on_from_a_checkpoint_in_another_process_s_table(database: Any) -> None:
    add(database, 1, 2)
    first = Reader(table(database, cursor="id"))
    first.read()
    add(database, 3)
    assert ids(Reader(table(database, cursor="id"), first.offset).read()) == [3]


def test_empty_table_has_nothing_until_a_row_comes(database: Any) -> None:
    reader = Reader(table(database, cursor="changed"))
    assert reader.read() == []
    assert reader.offset == {"changed": None}
    add(database, 1)
    assert ids(reader.read()) == [1]
    assert reader.offset == {"changed": "2026-01-01"}


def test_rows_with_a_null_cursor_never_come(database: Any) -> None:
    add(database, 1, changed=None)
    reader = Reader(table(database, cursor="changed"))
    assert reader.read() == []
    add(database, 2)
    assert ids(reader.read(max_rows=1)) == [2]


def test_max_rows_ends_at_the_nth_value_and_keeps_equal_ones_together(database: Any) -> None:
    add(database, 1, 2, 3, changed="2026-01-01")
    add(database, 4, 5, changed="2026-01-02")
    add(database, 6, changed="2026-01-03")
    reader = Reader(table(database, cursor="changed"))
    assert ids(reader.read(max_rows=2)) == [1, 2, 3]
    assert ids(reader.read(max_rows=2)) == [4, 5]
    assert ids(reader.read(max_rows=2)) == [6]
    assert reader.read(max_rows=2) == []


def test_max_bytes_is_about_as_many_and_at_least_one(database: Any) -> None:
    add(database, *range(1, 101))
    reader = Reader(table(database, cursor="id"))
    assert 2 <= len(reader.read(max_bytes=800)) <= 30
    assert len(reader.read(max_bytes=1)) == 1


def test_until_is_not_passed(database: Any) -> None:
    add(database, *range(1, 11))
    reader = Reader(table(database, cursor="id"))
    until = reader.stream.latest_offset(reader.offset, hr.ReadLimit())
    add(database, 11)
    assert ids(reader.read(max_rows=8, until=until)) == list(range(1, 9))
    assert ids(reader.read(max_rows=8, until=until)) == [9, 10]
    assert reader.offset == until


def test_lookback_reads_late_rows_and_others_again(database: Any) -> None:
    add(database, 10, 20, 30)
    reader = Reader(table(database, cursor="id", lookback=10))
    assert ids(reader.read()) == [10, 20, 30]
    add(database, 25)
    assert reader.read() == []  # it is not greater than what was seen
    add(database, 40)
    assert ids(reader.read()) == [25, 30, 40]


def test_lookback_does_not_reach_before_start_after(database: Any) -> None:
    add(database, 10, 20, 30)
    reader = Reader(table(database, cursor="id", lookback=15, start_after=20))
    assert ids(reader.read()) == [30]
    add(database, 40)
    assert ids(reader.read()) == [30, 40]
    later = Reader(table(database, cursor="id", lookback=15, start_after=100), {"id": 30})
    assert ids(later.read()) == [40]  # a checkpoint counts for more


def test_start_after_is_where_a_query_without_a_checkpoint_begins(database: Any) -> None:
    add(database, 1, 2, 3)
    assert ids(Reader(table(database, cursor="id", start_after=2)).read()) == [3]


def test_stream_reads_ranges_of_partition_on_side_by_side(database: Any) -> None:
    add(database, *range(1, 41))
    source = table(database, cursor="id", partition_on="id", partitions=4)
    reader = Reader(source)
    assert sorted(ids(reader.read())) == list(range(1, 41))
    plan = source.scan_between({"id": 1}, {"id": 30}, hr.ScanRequest(reader.schema, tuple(reader.schema.names)))
    assert plan.partitioning.n == 4
    assert "id after 1 up to 30" in plan.describe()


def test_stream_keeps_every_promise(database: Any) -> None:
    add(database, *range(1, 31), changed="2026-01-01")
    add(database, *range(31, 61), changed="2026-02-01")
    for options in ({"cursor": "id"}, {"cursor": "changed"}):
        report = check_provider(table(database, **options), samples=1)
        assert report.ok, str(report)
    report = check_provider(table(database, cursor="id", lookback=3), samples=1, at_least_once=True)
    assert report.ok, str(report)


def test_table_without_a_cursor_is_no_stream_and_says_why(database: Any) -> None:
    plain = table(database)
    assert "cursor='updated_at'" in str(why_no_stream(plain))
    assert check_provider(plain, samples=1).ok
    with pytest.raises(hr.PlanError, match="has no cursor: say by which column it grows"):
        plain.initial_offset()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cursor": "nope"}, "orders has no column 'nope' for its cursor"),
        ({"cursor": "amount"}, "has type double; a cursor is an integer, a date, a timestamp"),
        ({"cursor": "loose"}, "has no declared type in the database"),
        ({"cursor": "id", "lookback": datetime.timedelta(1)}, "for a cursor of type int64 it is int"),
        ({"cursor": "id", "lookback": -1}, "lookback=-1 of orders must be positive"),
        ({"cursor": "id", "lookback": 0}, "lookback=0 of orders must be positive"),
        ({"cursor": "changed", "lookback": 3}, "of text nobody knows what is how far back"),
        ({"cursor": "id", "start_after": "2026"}, "for cursor='id', of type int64, it is int"),
    ],
)
def test_cursor_that_does_not_fit_is_refused_at_registration(
    database: Any, options: dict[str, Any], message: str
) -> None:
    add(database, 1)
    with pytest.raises(hr.RegistrationError, match=message):
        table(database, **options).schema()


def test_lookback_without_a_cursor_is_refused(database: Any) -> None:
    with pytest.raises(ValueError, match="name its column with cursor="):
        table(database, lookback=1)
    with pytest.raises(ValueError, match="cursor need a driver whose SQL Headrace knows, not 'snowflake'"):
        hr.AdbcTable("snowflake", "x", "orders", cursor="id")


@pytest.mark.parametrize("offset", [5, {"other": 5}, {"id": "5"}, {"id": 5, "x": 1}, {}])
def test_offset_of_another_cursor_is_named(database: Any, offset: Any) -> None:
    source = table(database, cursor="id")
    source.schema()
    with pytest.raises(hr.OffsetLostError, match=r"is none of cursor='id' .*new checkpoint"):
        source.latest_offset(offset, hr.ReadLimit())


UTC = datetime.UTC
ZONE = datetime.timezone(datetime.timedelta(hours=2))


@pytest.mark.parametrize(
    ("type_", "value", "written"),
    [
        (pa.int64(), -3, -3),
        (pa.string(), "2026-W01", "2026-W01"),
        (pa.date32(), datetime.date(2026, 1, 31), "2026-01-31"),
        (pa.timestamp("us"), datetime.datetime(2026, 1, 31, 1, 2, 3), "2026-01-31T01:02:03.000000"),
        (pa.timestamp("us", "UTC"), datetime.datetime(2026, 1, 31, 1, 2, 3, 4, UTC), "2026-01-31T01:02:03.000004Z"),
        (pa.timestamp("ms", "UTC"), datetime.datetime(2026, 1, 31, 1, tzinfo=ZONE), "2026-01-30T23:00:00.000000Z"),
        (pa.timestamp("us", "Asia/Tokyo"), datetime.datetime(1, 1, 1, tzinfo=UTC), "0001-01-01T00:00:00.000000Z"),
    ],
)
def test_offsets_have_one_text_for_each_value(type_: pa.DataType, value: Any, written: Any) -> None:
    cursor = Cursor.of("t", pa.schema([("c", type_)]), "c", None, value)
    assert cursor.initial() == {"c": written}
    assert cursor.value({"c": written}) == value


def test_lookback_before_all_time_is_from_the_beginning() -> None:
    schema = pa.schema([("c", pa.timestamp("us"))])
    cursor = Cursor.of("t", schema, "c", datetime.timedelta(days=400), None)
    (only,) = cursor.between(datetime.datetime(1, 2, 1), datetime.datetime(2026, 1, 1))
    assert repr(only) == "c <= TIMESTAMP '2026-01-01 00:00:00'"


def test_lookback_of_some_hours_is_a_day_where_the_cursor_is_a_date() -> None:
    cursor = Cursor.of("t", pa.schema([("c", pa.date32())]), "c", datetime.timedelta(hours=25), None)
    assert cursor.looked_back(datetime.date(2026, 1, 31)) == datetime.date(2026, 1, 29)
    cursor = Cursor.of("t", pa.schema([("c", pa.date32())]), "c", datetime.timedelta(hours=5), None)
    assert cursor.looked_back(datetime.date(2026, 1, 31)) == datetime.date(2026, 1, 30)
