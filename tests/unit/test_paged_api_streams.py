"""PagedApi as a stream by a cursor column, against a real server on this machine. Without Spark."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from checking import check_provider
from headrace.stream import why_no_stream
from reading_streams import Reader
from ticket_service import SCHEMA, Tickets, minute, serving_tickets

SINCE = hr.ApiFilter("since", "updated_at", ">=")
UNTIL = hr.ApiFilter("until", "updated_at", "<=")
STATE = hr.ApiFilter("state", "state")


@pytest.fixture
def service() -> Iterator[Tickets]:
    with serving_tickets() as service:
        yield service


def stream(service: Tickets, **options: Any) -> hr.PagedApi:
    given = {"cursor": "updated_at", "filters": [SINCE], "paging": hr.ByPage(rows=10), **options}
    return hr.PagedApi(service.url, SCHEMA, **given)


def ids(rows: list[dict[str, Any]]) -> list[int]:
    return sorted(row["id"] for row in rows)


def test_stream_reads_what_is_new_each_time(service: Tickets) -> None:
    for id in range(25):
        service.put(id, at=id)
    reader = Reader(stream(service))
    assert reader.offset == {"updated_at": None}
    assert ids(reader.read()) == list(range(25))
    assert reader.offset == {"updated_at": "2026-01-01T00:24:00.000000Z"}
    service.requests()
    assert reader.read() == []
    asked = service.requests()
    # A page that the first read asked for ahead of its rows may come late; it has no such parameter.
    assert {one["since"] for one in asked if "since" in one} == {"2026-01-01T00:24:00+00:00"}
    service.put(3, at=30, state="closed")
    service.put(25, at=31)
    assert ids(reader.read()) == [3, 25]
    assert ids(reader.again()) == [3, 25]
    assert sorted(row["state"] for row in reader.again("state")) == ["closed", "open"]


def test_rows_after_the_end_of_a_range_are_not_in_it(service: Tickets) -> None:
    service.put(1, at=1)
    reader = Reader(stream(service))
    assert ids(reader.read()) == [1]
    service.put(2, at=2)
    assert ids(reader.again()) == [1]
    service.put(1, at=3)
    assert reader.again() == []  # it has moved on, and comes again
    assert ids(reader.read()) == [1, 2]


def test_end_of_a_range_is_asked_for_where_the_service_knows_it(service: Tickets) -> None:
    service.put(1, at=1)
    reader = Reader(stream(service, filters=[SINCE, UNTIL]))
    reader.read()
    service.requests()
    assert ids(reader.again()) == [1]
    assert {one["until"] for one in service.requests() if "until" in one} == {"2026-01-01T00:01:00+00:00"}


@pytest.mark.parametrize("order", [None, "asc", "desc"])
def test_max_rows_ends_at_the_nth_row_by_time_whatever_the_order(service: Tickets, order: str | None) -> None:
    for id in range(50):
        service.put(id, at=(id * 7) % 50)
    words = {None: None, "asc": "ascending", "desc": "descending"}
    given = {} if order is None else {"parameters": {"sort": order}}
    reader = Reader(stream(service, sorted_by_cursor=words[order], at_once=1, **given))
    times: list[Any] = []
    while rows := reader.read(max_rows=20):
        assert len(rows) == min(20, 50 - len(times))
        times += sorted(row["updated_at"] for row in rows)
    assert times == [minute(i) for i in range(50)]


def test_rows_of_one_moment_stay_together(service: Tickets) -> None:
    for id in range(30):
        service.put(id, at=id // 10)
    reader = Reader(stream(service))
    assert [len(reader.read(max_rows=3)) for _ in range(4)] == [10, 10, 10, 0]


def test_ascending_rows_are_fetched_no_further_than_the_limit(service: Tickets) -> None:
    for id in range(200):
        service.put(id, at=id)
    options = {"parameters": {"sort": "asc"}, "sorted_by_cursor": "ascending", "at_once": 1}
    reader = Reader(stream(service, **options))
    reader.stream.latest_offset(reader.offset, hr.ReadLimit(max_rows=15))
    assert [one["page"] for one in service.requests()] == ["1", "2"]
    assert len(reader.read(max_rows=15)) == 15
    assert [one["page"] for one in service.requests()] == ["1", "2"] * 2


def test_descending_rows_tell_the_end_by_the_first(service: Tickets) -> None:
    for id in range(200):
        service.put(id, at=id)
    reader = Reader(stream(service, parameters={"sort": "desc"}, sorted_by_cursor="descending"))
    latest = reader.stream.latest_offset(reader.offset, hr.ReadLimit())
    assert latest == {"updated_at": "2026-01-01T03:19:00.000000Z"}
    assert [one["page"] for one in service.requests()] == ["1"]
    assert reader.stream.latest_offset(latest, hr.ReadLimit()) == latest
    assert len(reader.read()) == 200


def test_until_is_not_passed(service: Tickets) -> None:
    for id in range(30):
        service.put(id, at=id)
    for options in ({}, {"parameters": {"sort": "desc"}, "sorted_by_cursor": "descending"}):
        reader = Reader(stream(service, **options))
        until = {"updated_at": "2026-01-01T00:19:00.000000Z"}
        assert len(reader.read(until=until)) == 20
        assert reader.offset == until
        assert reader.read(until=until) == []


def test_lookback_reads_late_rows_and_others_again(service: Tickets) -> None:
    service.put(1, at=10)
    service.put(2, at=20)
    reader = Reader(stream(service, lookback=datetime.timedelta(minutes=5)))
    assert ids(reader.read()) == [1, 2]
    service.put(3, at=16)
    service.put(4, at=21)
    assert ids(reader.read()) == [2, 3, 4]


@pytest.mark.parametrize("order", [None, "descending"])
def test_rows_without_a_time_never_come(service: Tickets, order: str | None) -> None:
    for id in range(100, 120):
        service.put(id, at=None)
    reader = Reader(stream(service, sorted_by_cursor=order))
    assert reader.read() == []
    service.put(2, at=1)
    assert ids(reader.read()) == [2]


def test_filters_of_the_query_hold_in_a_range_also_where_they_need_its_parameter(service: Tickets) -> None:
    for id in range(20):
        service.put(id, at=id, state="odd" if id % 2 else "even")
    reader = Reader(stream(service, filters=[SINCE, STATE], start_after=minute(4)))
    reader.read()
    late = hr.Comparison(">=", hr.Column("updated_at"), hr.Literal(minute(11), pa.timestamp("us", "UTC")))
    odd = hr.Comparison("=", hr.Column("state"), hr.Literal("odd", pa.string()))
    service.requests()
    assert ids(reader.again(filters=(late, odd))) == [11, 13, 15, 17, 19]
    assert reader.again("id", filters=(late,)) == [{"id": id} for id in range(11, 20)]
    assert {one.get("state") for one in service.requests()} == {"odd", None}


def test_stream_keeps_every_promise(service: Tickets) -> None:
    for id in range(40):
        service.put(id, at=id // 2, state="odd" if id % 2 else "even")
    report = check_provider(stream(service, filters=[SINCE, UNTIL, STATE]), samples=1)
    assert report.ok, str(report)


def test_api_without_a_cursor_is_no_stream_and_says_why(service: Tickets) -> None:
    plain = hr.PagedApi(service.url, SCHEMA)
    assert "has no cursor: say by which column it grows" in str(why_no_stream(plain))
    with pytest.raises(hr.PlanError, match="has no cursor"):
        plain.latest_offset({}, hr.ReadLimit())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"filters": []}, r"needs a query parameter .* filters=\[hr.ApiFilter\('since', 'updated_at', '>='\)\]"),
        ({"cursor": None, "lookback": 3}, "name its column with cursor="),
        ({"cursor": None, "sorted_by_cursor": "ascending"}, "name its column with cursor="),
    ],
)
def test_cursor_that_cannot_be_is_refused(service: Tickets, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        stream(service, **options)


def test_cursor_of_a_wrong_type_is_refused_at_registration(service: Tickets) -> None:
    for options, message in (
        ({"lookback": 3}, "for a cursor of type .* it is timedelta"),
        ({"start_after": 3}, "it is datetime with a zone"),
    ):
        with pytest.raises(hr.RegistrationError, match=message):
            stream(service, **options).schema()
