"""PagedApi and its schema: read from the first page, or given and held against it."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from headrace.arrow.sources import batch_iterator, close_sources
from headrace.negotiate.registry import RegisteredTable


class Service(ThreadingHTTPServer):
    """Answers every request with the next of its pages, and then with none."""

    daemon_threads = True

    def __init__(self, *pages: Any) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.pages = pages
        self.asked = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/rows"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        service: Any = self.server
        page = service.pages[service.asked] if service.asked < len(service.pages) else []
        service.asked += 1
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(page).encode())

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def serve() -> Iterator[Any]:
    started: list[Service] = []

    def start(*pages: Any) -> Service:
        service = Service(*pages)
        threading.Thread(target=service.serve_forever, args=(0.01,), daemon=True).start()
        started.append(service)
        return service

    yield start
    for service in started:
        service.shutdown()
        service.server_close()


def rows_of(api: hr.PagedApi, schema: pa.Schema) -> list[dict[str, Any]]:
    source = api.scan(hr.ScanRequest(schema, tuple(schema.names))).execute(0)
    batches = batch_iterator(source, "execute")
    try:
        return [row for batch in batches for row in batch.to_pylist()]
    finally:
        close_sources(batches, source)


PAGE = [
    {"id": 1, "price": 2, "tags": ["x"], "who": {"name": "a", "age": None}, "gone": None},
    {"id": 2, "price": 2.5, "late": True},
]
FOUND = pa.schema(
    [
        ("id", pa.int64()),
        ("price", pa.float64()),
        ("tags", pa.list_(pa.string())),
        ("who", pa.struct([("name", pa.string()), ("age", pa.string())])),
        ("gone", pa.string()),
        ("late", pa.bool_()),
    ]
)


def test_paged_api_without_a_schema_reads_one_from_the_first_page_once_and_says_so(
    serve: Any, caplog: pytest.LogCaptureFixture
) -> None:
    service = serve(PAGE)
    api = hr.PagedApi(service.url, filters=[hr.ApiFilter("since", "id", ">=")])
    assert service.asked == 0  # nothing before it is registered
    with caplog.at_level(logging.INFO, "headrace"):
        assert RegisteredTable.of("t", api).schema == FOUND
    assert api.schema() == FOUND
    assert service.asked == 1
    (said,) = (record.getMessage() for record in caplog.records)
    assert "the schema of its first page is 'id BIGINT, price DOUBLE, tags ARRAY<STRING>, who STRUCT<name" in said
    assert "id, price, tags" in repr(api)


def test_paged_api_without_a_schema_is_registered_inside_of_a_running_loop(serve: Any) -> None:
    async def in_a_notebook() -> pa.Schema:
        return hr.PagedApi(serve(PAGE).url).schema()

    assert asyncio.run(in_a_notebook()) == FOUND


@pytest.mark.parametrize(
    ("page", "error", "words"),
    [
        ([], hr.RegistrationError, r"the first page has no rows, and so it tells no schema; pass one: PagedApi\(url, "),
        ([{"a": 1}, {"a": "x"}], TypeError, "the first page tells no schema: the values of column 'a' are not of one"),
        ({"rows": []}, TypeError, "say with rows= where they are"),
    ],
    ids=["empty", "mixed", "elsewhere"],
)
def test_paged_api_whose_first_page_tells_no_schema_says_why(
    serve: Any, page: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        hr.PagedApi(serve(page).url).schema()


def test_paged_api_filter_of_a_column_that_was_not_found_is_refused(serve: Any) -> None:
    api = hr.PagedApi(serve(PAGE).url, filters=[hr.ApiFilter("x", "missing")])
    with pytest.raises(ValueError, match="a column that the schema does not have"):
        api.schema()


def test_paged_api_column_that_no_row_of_the_first_page_has_is_warned_of_once(
    serve: Any, caplog: pytest.LogCaptureFixture
) -> None:
    schema = pa.schema([("id", pa.int64()), ("pirce", pa.float64())])
    service = serve(PAGE, [], PAGE, [])
    api = hr.PagedApi(service.url, schema, at_once=1)
    for _ in range(2):
        assert rows_of(api, schema) == [{"id": 1, "pirce": None}, {"id": 2, "pirce": None}]
    (said,) = (record.getMessage() for record in caplog.records if record.levelno == logging.WARNING)
    assert "no row of the first page has the column 'pirce'" in said
    assert "the rows have id, price, tags, who, gone, late" in said
