"""An async source: the pages of an HTTP service, several fetched at a time on one event loop.

``execute`` is an async generator. Headrace runs it on an event loop of its own, in Spark's Python worker or, with
``Placement.DRIVER``, in this process. It asks for the next batch when Spark is ready for it, and meanwhile the requests
that are under way go on. When the LIMIT is reached the generator is closed: its ``finally`` cancels the other requests.

    pip install 'headrace[http]'
    python examples/async_pages.py
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pyarrow as pa

import headrace as hr

SCHEMA = pa.schema([("page", pa.int64()), ("id", pa.int64()), ("title", pa.string())])
AT_ONCE = 8


class Articles(hr.TableProvider):
    """All pages as one partition: what is slow here is waiting, and one loop waits for many pages at once."""

    def __init__(self, url: str, placement: hr.Placement = hr.Placement.EXECUTORS) -> None:
        self.url, self.placement = url, placement

    def schema(self) -> pa.Schema:
        return SCHEMA

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        return ArticlesPlan(self.url, self.placement)


class ArticlesPlan(hr.ExecutionPlan):
    schema = SCHEMA

    def __init__(self, url: str, placement: hr.Placement) -> None:
        self.url, self.placement = url, placement

    async def execute(self, partition: int) -> AsyncIterator[pa.RecordBatch]:
        async with httpx.AsyncClient(base_url=self.url, timeout=30, trust_env=False) as client:
            count = (await fetch(client, "/pages"))["count"]
            waiting: deque[asyncio.Task[Any]] = deque()
            try:
                for page in range(count):
                    waiting.append(asyncio.create_task(fetch(client, f"/pages/{page}")))
                    if len(waiting) == AT_ONCE:
                        yield pa.RecordBatch.from_pylist(await waiting.popleft(), SCHEMA)
                while waiting:
                    yield pa.RecordBatch.from_pylist(await waiting.popleft(), SCHEMA)
            finally:
                for task in waiting:
                    task.cancel()


async def fetch(client: httpx.AsyncClient, path: str) -> Any:
    response = await client.get(path)
    response.raise_for_status()
    return response.json()


def main(ctx: hr.SessionContext | None = None) -> list[dict[str, Any]]:
    """Read everything, then three rows, in both placements; returns the answers and what the service saw."""
    if ctx is None:
        with hr.SessionContext() as own:
            return main(own)
    results = []
    with article_service() as service:
        for placement in hr.Placement:
            ctx.register_table("articles", Articles(service.url, placement), replace=True)
            for query in ("SELECT count(*) AS n, max(id) AS last FROM articles", "SELECT title FROM articles LIMIT 3"):
                service.reset()
                started = time.monotonic()
                answer = ctx.collect(query).to_pylist()
                seconds = time.monotonic() - started
                seen = {"pages": service.pages, "at_once": service.most_at_once}
                results.append({"placement": placement.value, "answer": answer, **seen})
                print(f"{placement.value:9}  {query}\n  -> {answer}")
                print(f"     {service.pages} pages, up to {service.most_at_once} at once, {seconds:.2f} s\n")
    return results


# ---- the service: 60 pages, each of which takes a moment; it runs in threads of this very script ----

PAGES, PAGE_ROWS, SECONDS_A_PAGE = 60, 20, 0.02


class ArticleService(ThreadingHTTPServer):
    """Answers ``/pages`` with their number and ``/pages/7`` with one of them, and counts."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), ArticleHandler)
        self.lock = threading.Lock()
        self.now = 0
        self.reset()

    def reset(self) -> None:
        with self.lock:
            self.pages = self.most_at_once = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @contextmanager
    def counted(self) -> Iterator[None]:
        with self.lock:
            self.pages += 1
            self.now += 1
            self.most_at_once = max(self.most_at_once, self.now)
        try:
            yield
        finally:
            with self.lock:
                self.now -= 1


class ArticleHandler(BaseHTTPRequestHandler):
    server: ArticleService

    def do_GET(self) -> None:
        number = self.path.removeprefix("/pages").removeprefix("/")
        if not number:
            self.answer({"count": PAGES})
            return
        with self.server.counted():
            time.sleep(SECONDS_A_PAGE)
        ids = range(int(number) * PAGE_ROWS, (int(number) + 1) * PAGE_ROWS)
        self.answer([{"page": int(number), "id": i, "title": f"article {i}"} for i in ids])

    def answer(self, value: Any) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


@contextmanager
def article_service() -> Iterator[ArticleService]:
    """The service on a free port of this machine, until the block ends."""
    server = ArticleService()
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
