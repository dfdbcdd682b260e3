"""A paged HTTP service as a table: filters become query parameters, and a LIMIT stops the paging.

Shows filter pushdown. The service below knows two parameters, ``category`` (equal) and ``since`` (on or after).
Where a filter means just that, the provider answers EXACT and Spark does not filter again, which lets it push the
LIMIT too. ``created > x`` is sent as ``since=x`` and answered INEXACT: it saves pages, and Spark still filters.

    python examples/paged_api.py
"""

from __future__ import annotations

import datetime
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit
from urllib.request import urlopen

import pyarrow as pa

import headrace as hr

SCHEMA = pa.schema([("id", pa.int64()), ("category", pa.string()), ("created", pa.date32()), ("price", pa.float64())])
PAGE_ROWS = 100


class ProductsTable(hr.TableProvider):
    """The service's products."""

    def __init__(self, url: str) -> None:
        self.url = url

    def schema(self) -> pa.Schema:
        return SCHEMA

    def supports_filters_pushdown(self, filters: Sequence[hr.Expr]) -> list[hr.FilterPushdown]:
        answers, used = [], set()
        for expr in filters:
            name, _, answer = parameter(expr)
            # The service takes each parameter once; Spark keeps a second filter of the same kind.
            answers.append(hr.FilterPushdown.UNSUPPORTED if name in used else answer)
            used.add(name)
        return answers

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        parameters = {name: value for name, value, _ in map(parameter, request.filters) if name}
        return PagesPlan(self.url, parameters, request.limit)


def parameter(expr: hr.Expr) -> tuple[str | None, str, hr.FilterPushdown]:
    """The query parameter for a filter, its value, and how exactly the service does what the filter means."""
    match expr:
        case hr.Comparison("=", hr.Column("category"), hr.Literal(value)) if value:
            return "category", value, hr.FilterPushdown.EXACT  # not for '': many services take category= for no filter
        case hr.Comparison(">=", hr.Column("created"), hr.Literal(value)) if value is not None:
            return "since", value.isoformat(), hr.FilterPushdown.EXACT
        case hr.Comparison(">", hr.Column("created"), hr.Literal(value)) if value is not None:
            return "since", value.isoformat(), hr.FilterPushdown.INEXACT
    return None, "", hr.FilterPushdown.UNSUPPORTED


class PagesPlan(hr.ExecutionPlan):
    """Page after page, from one of Spark's Python workers."""

    schema = SCHEMA

    def __init__(self, url: str, parameters: dict[str, str], limit: int | None) -> None:
        self.url, self.parameters, self.limit = url, parameters, limit

    def describe(self) -> str:
        return f"GET {self.url}?{urlencode(self.parameters)}"

    def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
        page_rows = PAGE_ROWS if self.limit is None else min(PAGE_ROWS, max(1, self.limit))
        start, wanted = 0, self.limit
        while wanted is None or start < wanted:
            query = urlencode({**self.parameters, "start": start, "rows": page_rows})
            with urlopen(f"{self.url}?{query}", timeout=30) as response:
                items = json.load(response)
            for item in items:
                item["created"] = datetime.date.fromisoformat(item["created"])
            if items:
                yield pa.RecordBatch.from_pylist(items, SCHEMA)
            if len(items) < page_rows:
                return
            start += len(items)


def main(ctx: hr.SessionContext | None = None) -> list[dict[str, Any]]:
    """Run three queries; returns for each its rows and how many pages and rows the service sent."""
    if ctx is None:
        with hr.SessionContext() as own:
            return main(own)
    queries = [
        "SELECT count(*) AS n FROM products",
        "SELECT count(*) AS n FROM products WHERE category = 'books' AND created > DATE '2024-03-01'",
        "SELECT id FROM products WHERE category = 'tools' AND created >= DATE '2024-05-01' LIMIT 3",
    ]
    results = []
    with product_service() as service:
        ctx.register_table("products", ProductsTable(service.url), replace=True)
        for query in queries:
            service.pages = service.rows = 0
            answer = ctx.collect(query).to_pylist()
            results.append({"answer": answer, "pages": service.pages, "rows": service.rows})
            print(f"{query}\n  -> {answer}")
            print(f"     the service sent {service.rows} rows in {service.pages} page(s)\n")
        print(ctx.explain(queries[-1]))
    return results


# ---- the service: any HTTP server that pages and filters; it runs in a thread of this very script ----

FIRST_DAY = datetime.date(2024, 1, 1)
PRODUCTS = [
    {
        "id": i,
        "category": ("books", "tools", "toys")[i % 3],
        "created": (FIRST_DAY + datetime.timedelta(days=i // 5)).isoformat(),
        "price": i % 70 + 0.5,
    }
    for i in range(900)
]


class ProductService(ThreadingHTTPServer):
    """Answers ``GET /products`` with JSON and counts what it sends."""

    pages = rows = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/products"


class ProductHandler(BaseHTTPRequestHandler):
    server: ProductService

    def do_GET(self) -> None:
        query = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        found = [
            product
            for product in PRODUCTS
            if query.get("category") in (None, product["category"])
            and str(product["created"]) >= query.get("since", "")
        ]
        start, rows = int(query.get("start", 0)), min(PAGE_ROWS, int(query.get("rows", PAGE_ROWS)))
        page = found[start : start + rows]
        self.server.pages += 1
        self.server.rows += len(page)
        body = json.dumps(page).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


@contextmanager
def product_service() -> Iterator[ProductService]:
    """The service on a free port of this machine, until the block ends."""
    server = ProductService(("127.0.0.1", 0), ProductHandler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


if __name__ == "__main__":
    main()
