"""A service over HTTP whose tickets come and change: paged, filtered by time, sorted as it is asked; for the tests."""

from __future__ import annotations

import datetime
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

SCHEMA = "id BIGINT, updated_at TIMESTAMP, state STRING"
START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def minute(number: int) -> datetime.datetime:
    return START + datetime.timedelta(minutes=number)


class Tickets(ThreadingHTTPServer):
    """``GET /tickets?since=&until=&state=&sort=&page=&per_page=``; ``since`` includes its own time."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.lock = threading.Lock()
        self.tickets: dict[int, dict[str, Any]] = {}
        self.asked: list[dict[str, str]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/tickets"

    def put(self, id: int, at: int | None, state: str = "open") -> None:
        """A ticket that came, or changed, at this minute."""
        updated_at = None if at is None else minute(at).isoformat()
        with self.lock:
            self.tickets[id] = {"id": id, "updated_at": updated_at, "state": state}

    def requests(self) -> list[dict[str, str]]:
        """What was asked since this was last called."""
        with self.lock:
            asked, self.asked = self.asked, []
        return asked

    def answer(self, query: dict[str, str]) -> list[dict[str, Any]]:
        with self.lock:
            self.asked.append(query)
            found = list(self.tickets.values())
        if "since" in query:
            since = datetime.datetime.fromisoformat(query["since"])
            found = [one for one in found if one["updated_at"] and _time(one) >= since]
        if "until" in query:
            until = datetime.datetime.fromisoformat(query["until"])
            found = [one for one in found if one["updated_at"] and _time(one) <= until]
        if "state" in query:
            found = [one for one in found if one["state"] == query["state"]]
        if "sort" in query:
            found.sort(key=lambda one: one["updated_at"] or "", reverse=query["sort"] == "desc")
        size = int(query["per_page"])
        start = (int(query["page"]) - 1) * size
        return found[start : start + size]


def _time(ticket: dict[str, Any]) -> datetime.datetime:
    return datetime.datetime.fromisoformat(ticket["updated_at"])


class _Handler(BaseHTTPRequestHandler):
    server: Tickets

    def do_GET(self) -> None:
        data = json.dumps(self.server.answer(dict(parse_qsl(urlsplit(self.path).query)))).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        with suppress(ConnectionError):  # whoever has enough hangs up
            self.end_headers()
            self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


@contextmanager
def serving_tickets() -> Iterator[Tickets]:
    service = Tickets()
    thread = threading.Thread(target=service.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield service
    finally:
        service.shutdown()
        service.server_close()
        thread.join()
