"""PagedApi against a real server on this machine that pages, throttles, fails and hangs up."""

from __future__ import annotations

import datetime
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import pyarrow as pa
import pytest

import headrace as hr
from headrace.arrow.sources import batch_iterator, close_sources
from headrace.testing import check_provider

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("kind", pa.string()),
        ("day", pa.date32()),
        ("price", pa.decimal128(6, 2)),
        ("ok", pa.bool_()),
    ]
)
FILTERS = [
    hr.ApiFilter("kind", "kind"),
    hr.ApiFilter("since", "day", ">="),
    hr.ApiFilter("since", "day", ">", exact=False),
    hr.ApiFilter("ids", "id", "IN"),
]


class Service(ThreadingHTTPServer):
    """Gives its rows in three ways: `/page`, `/offset`, `/cursor`. ``trouble(n)`` may answer request n instead."""

    daemon_threads = True
    most_rows = 1000
    seconds = 0.0  # that an answer takes

    def __init__(self, rows: int) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        start = datetime.date(2024, 1, 1)
        self.rows = [
            {
                "id": i,
                "kind": None if i % 7 == 6 else "ab"[i % 2],
                "day": (start + datetime.timedelta(days=i // 5)).isoformat(),
                "price": f"{i}.50",
                "ok": None if i % 5 == 4 else i % 3 == 0,
            }
            for i in range(rows)
        ]
        self.asked: list[dict[str, str]] = []
        self.times: list[float] = []
        self.now = self.most_at_once = 0
        self.lock = threading.Lock()
        self.trouble: Callable[[int], tuple[int, dict[str, str]] | None] = lambda number: None

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_port}/{path}"


class Handler(BaseHTTPRequestHandler):
    server: Service

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = dict(parse_qsl(url.query))
        with self.server.lock:
            self.server.asked.append(query)
            self.server.times.append(time.monotonic())
            number = len(self.server.asked)
            self.server.now += 1
            self.server.most_at_once = max(self.server.most_at_once, self.server.now)
        time.sleep(self.server.seconds)
        with self.server.lock:
            self.server.now -= 1
        trouble = self.server.trouble(number)
        if trouble == (0, {}):
            self.connection.close()  # hangs up without a word
            return
        status, headers, body = 200, {}, self.answer(url.path, query)
        if trouble is not None:
            status, headers, body = *trouble, {"error": "later"}
        data = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def answer(self, path: str, query: dict[str, str]) -> Any:
        ids = query["ids"].split(",") if "ids" in query else None
        found = [
            row
            for row in self.server.rows
            if query.get("kind") in (None, row["kind"])
            and str(row["day"]) >= query.get("since", "")
            and (ids is None or str(row["id"]) in ids)
        ]
        if path == "/cursor":
            start = int(query.get("cursor", 0))
            more = start + 10 < len(found)
            return {"items": found[start : start + 10], "next": str(start + 10) if more else None}
        size = min(self.server.most_rows, int(query["per_page" if path == "/page" else "limit"]))
        start = (int(query["page"]) - 1) * size if path == "/page" else int(query["offset"])
        return found[start : start + size]

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


@contextmanager
def serving(rows: int) -> Iterator[Service]:
    service = Service(rows)
    thread = threading.Thread(target=service.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield service
    finally:
        service.shutdown()
        service.server_close()
        thread.join()


@pytest.fixture
def service() -> Iterator[Service]:
    with serving(95) as service:
        yield service


def read(table: hr.PagedApi, limit: int | None = None, filters: tuple[hr.Expr, ...] = ()) -> list[dict[str, Any]]:
    plan = table.scan(hr.ScanRequest(SCHEMA, tuple(SCHEMA.names), filters, limit))
    source = plan.execute(0)
    batches = batch_iterator(source, "execute")
    try:
        return [row for batch in batches for row in batch.to_pylist()]
    finally:
        close_sources(batches, source)


def ids(rows: list[dict[str, Any]]) -> list[int]:
    return [row["id"] for row in rows]


def paged(service: Service, **options: Any) -> hr.PagedApi:
    options = {"paging": hr.ByPage(rows=10), "back_off_s": 0.01, "placement": hr.Placement.DRIVER, **options}
    return hr.PagedApi(service.url("page"), SCHEMA, **options)


@pytest.mark.parametrize("rows", [0, 1, 10, 95])
def test_pages_of_each_kind_give_every_row_in_order_with_its_types(rows: int) -> None:
    with serving(rows) as service:
        by_offset = hr.PagedApi(service.url("offset"), SCHEMA, paging=hr.ByOffset(rows=10))
        by_cursor = hr.PagedApi(service.url("cursor"), SCHEMA, rows="items", paging=hr.ByCursor())
        for table in (paged(service), by_offset, by_cursor):
            assert ids(read(table)) == list(range(rows))
        if rows:
            first = read(paged(service))[0]
            assert (first["day"], str(first["price"]), first["ok"]) == (datetime.date(2024, 1, 1), "0.50", True)


def test_pages_in_flight_are_several_and_no_more_than_allowed(service: Service) -> None:
    service.seconds = 0.05
    assert ids(read(paged(service, at_once=3))) == list(range(95))
    assert 2 <= service.most_at_once <= 3


def test_limit_fetches_no_page_too_many_and_no_row_too_many(service: Service) -> None:
    assert ids(read(paged(service), limit=3)) == [0, 1, 2]
    assert service.asked == [{"page": "1", "per_page": "3"}]
    service.asked.clear()
    assert ids(read(paged(service), limit=25)) == list(range(25))
    assert len(service.asked) == 3
    service.asked.clear()
    assert read(paged(service), limit=0) == []
    assert service.asked == []


@pytest.mark.daily
def test_filters_become_parameters_and_keep_their_promises() -> None:
    with serving(23) as service:
        table = paged(service, filters=FILTERS, paging=hr.ByPage(rows=8))
        report = check_provider(table, samples=1)
        assert report.ok, str(report)
        kind = hr.Comparison("=", hr.Column("kind"), hr.Literal("a", pa.string()))
        day = hr.Comparison(">", hr.Column("day"), hr.Literal(datetime.date(2024, 1, 3), pa.date32()))
        again = hr.Comparison(">=", hr.Column("day"), hr.Literal(datetime.date(2024, 1, 2), pa.date32()))
        answers = table.supports_filters_pushdown([kind, day, again])
        assert answers == [hr.Pushdown.EXACT, hr.Pushdown.INEXACT, hr.Pushdown.UNSUPPORTED]
        service.asked.clear()
        read(table, filters=(kind, day), limit=1)
        assert service.asked[0] == {"kind": "a", "since": "2024-01-03", "page": "1", "per_page": "1"}


def test_filters_that_a_service_may_misread_stay_with_spark(service: Service) -> None:
    by_kinds = hr.ApiFilter("kinds", "kind", "IN")
    by_price = hr.ApiFilter("price", "price")
    table = paged(service, filters=[*FILTERS, by_kinds, by_price])
    column, price = hr.Column("kind"), hr.Column("price")
    empty, one, two = (hr.Literal(text, pa.string()) for text in ("", "a", "a,b"))
    nan = hr.Literal(float("nan"), pa.float64())
    assert (
        table.supports_filters_pushdown(
            [
                hr.Comparison("=", column, empty),  # kind= is no filter at all to this service, and to many others
                hr.InList(column, (one, empty)),
                hr.InList(column, (one, two)),
                hr.Comparison("=", price, nan),
            ]
        )
        == [hr.Pushdown.UNSUPPORTED] * 4
    )
    used = [hr.Comparison("=", column, two), hr.InList(column, (one, one))]
    assert table.supports_filters_pushdown(used) == [hr.Pushdown.EXACT] * 2


@pytest.mark.parametrize("trouble", [(503, {}), (429, {"Retry-After": "0"}), (0, {})], ids=["503", "429", "hangs up"])
def test_requests_that_fail_now_and_then_are_tried_again(service: Service, trouble: tuple[int, dict[str, str]]) -> None:
    service.trouble = lambda number: trouble if number % 3 == 1 else None
    assert ids(read(paged(service, attempts=8))) == list(range(95))


def test_retry_after_is_waited_for_by_all_requests(service: Service) -> None:
    service.trouble = lambda number: (429, {"Retry-After": "0.3"}) if number == 1 else None
    read(paged(service, at_once=1))
    assert service.times[1] - service.times[0] >= 0.3


def test_service_that_stays_away_fails_with_its_last_error(service: Service) -> None:
    service.trouble = lambda number: (503, {})
    with pytest.raises(httpx.HTTPStatusError, match="503"):
        read(paged(service, attempts=3, at_once=1))
    assert len(service.asked) == 3


def test_status_that_means_no_is_not_tried_again(service: Service) -> None:
    service.trouble = lambda number: (403, {})
    with pytest.raises(httpx.HTTPStatusError, match="403"):
        read(paged(service, at_once=1))
    assert len(service.asked) == 1


def test_requests_per_second_are_kept_to(service: Service) -> None:
    started = time.monotonic()
    read(paged(service, requests_per_second=20, at_once=4), limit=40)
    assert len(service.times) == 4
    assert service.times[-1] - started >= 3 / 20


@pytest.mark.parametrize("path", ["page", "offset"])
def test_service_that_gives_fewer_rows_a_page_than_asked_for_is_an_error(service: Service, path: str) -> None:
    service.most_rows = 7
    paging = hr.ByPage(rows=10) if path == "page" else hr.ByOffset(rows=10)
    with pytest.raises(ValueError, match="say so with rows=7"):
        read(hr.PagedApi(service.url(path), SCHEMA, paging=paging))


def test_service_that_answers_404_after_the_last_page_is_read_to_its_end(service: Service) -> None:
    service.trouble = lambda number: (404, {}) if int(service.asked[number - 1]["page"]) > 10 else None
    assert ids(read(paged(service))) == list(range(95))


def test_answer_without_rows_where_they_should_be_is_named(service: Service) -> None:
    with pytest.raises(TypeError, match="say with rows= where they are"):
        read(hr.PagedApi(service.url("cursor"), SCHEMA, paging=hr.ByCursor()))


def test_reading_stopped_early_cancels_the_requests_in_flight(service: Service) -> None:
    service.seconds = 0.05
    plan = paged(service, at_once=2).scan(hr.ScanRequest(SCHEMA, tuple(SCHEMA.names)))
    source = plan.execute(0)
    batches = batch_iterator(source, "execute")
    assert next(batches).num_rows == 10
    close_sources(batches, source)
    assert len(service.asked) <= 4
    assert not any(thread.name == "headrace-async" for thread in threading.enumerate())


def test_arguments_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="a column that the schema does not have"):
        hr.PagedApi("http://x", SCHEMA, filters=[hr.ApiFilter("x", "missing")])
    with pytest.raises(TypeError, match=r"filters must be a list or tuple of hr\.ApiFilter, not list of str"):
        hr.PagedApi("http://x", SCHEMA, filters=["kind"])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="must be positive"):
        hr.PagedApi("http://x", SCHEMA, at_once=0)
    with pytest.raises(TypeError, match=r"pyarrow\.Schema"):
        hr.PagedApi("http://x", [], at_once=1)  # type: ignore[arg-type]
    assert "secret" not in repr(hr.PagedApi("http://x", SCHEMA, headers={"Authorization": "secret"})._manners)
