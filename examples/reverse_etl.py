"""Rows of a query sent to an HTTP service: INSERT INTO a function of one's own, which posts each task's rows.

Shows FunctionSink. It is at-least-once: what a task has posted stays posted when Spark runs the task again. So each row
carries a key, and the service takes each key once. The service below refuses a request now and then.

    python examples/reverse_etl.py
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pyarrow as pa

import headrace as hr

ROWS_A_REQUEST = 100
MOST_TRIES = 5


def posting(url: str) -> hr.FunctionSink:
    """A table to insert into: its rows are posted to ``url``, a hundred in a request."""

    def write(batches: Iterator[pa.RecordBatch]) -> None:
        for batch in batches:
            for start in range(0, batch.num_rows, ROWS_A_REQUEST):
                post(url, batch.slice(start, ROWS_A_REQUEST).to_pylist())

    return hr.FunctionSink("customer STRING NOT NULL, score DOUBLE", write)


def post(url: str, rows: list[dict[str, Any]]) -> None:
    """Try again where the service says that it is busy; whatever else goes wrong fails the statement."""
    request = Request(url, json.dumps(rows).encode(), {"Content-Type": "application/json"})
    for attempt in range(MOST_TRIES):
        try:
            urlopen(request, timeout=30).close()
            return
        except HTTPError as error:
            if error.code != 503 or attempt == MOST_TRIES - 1:
                raise


class Scores(ThreadingHTTPServer):
    """The service: scores by customer, where the last post counts. It refuses each fifth request."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.scores: dict[str, float] = {}
        self.posted: Counter[str] = Counter()
        self.requests = 0
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/scores"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server = self.server
        assert isinstance(server, Scores)
        rows = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with server.lock:
            server.requests += 1
            refused = server.requests % 5 == 0
            if not refused:
                server.scores.update((row["customer"], row["score"]) for row in rows)
                server.posted.update(row["customer"] for row in rows)
        self.send_response(503 if refused else 204)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None: ...


@contextmanager
def score_service() -> Iterator[Scores]:
    with Scores() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def main(ctx: hr.SessionContext) -> dict[str, Any]:
    """What the service has when the statement has ended."""
    with score_service() as service:
        ctx.register_table("scores", posting(service.url))
        ctx.sql(
            """
            INSERT INTO scores
            SELECT concat('customer ', id % 1000), sum(id % 7) / count(*) FROM range(100000) GROUP BY 1
            """
        )
        return {"customers": len(service.scores), "one": service.scores["customer 7"], "requests": service.requests}


if __name__ == "__main__":
    with hr.SessionContext() as ctx:
        print(main(ctx))
