"""A REST API loaded into Parquet, again and again: each run gets what is new, and a run that breaks down is taken up.

Shows a table as a stream by a cursor column. The service's tickets have ``updated_at``, and its parameter ``since``
filters by it. Each run of ``load`` reads, in micro-batches, the tickets that came or changed since the run before; how
far it came is in the checkpoint. The second run below breaks down in the middle, as its service does. The third one
goes on where that one was.

    python examples/incremental_load.py
"""

from __future__ import annotations

import datetime
import json
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import headrace as hr


def load(ctx: hr.SessionContext, url: str, folder: Path) -> list[int]:
    """Load what is new into ``folder``; returns how many rows each micro-batch had."""
    tickets = hr.PagedApi(
        url,
        "id BIGINT, updated_at TIMESTAMP, state STRING",
        paging=hr.ByPage(rows=50),
        filters=[hr.ApiFilter("since", "updated_at", ">=")],
        cursor="updated_at",
        sorted_by_cursor="ascending",
        attempts=2,
        back_off_s=0.01,
    )
    ctx.register_table("tickets", tickets, replace=True)
    query = (
        ctx.stream("tickets", maxRowsPerTrigger=100)
        .writeStream.format("parquet")
        .option("path", str(folder / "tickets"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination()
    finally:
        print(f"loaded {[progress['numInputRows'] for progress in query.recentProgress]} rows")
    return [progress["numInputRows"] for progress in query.recentProgress]


def current(ctx: hr.SessionContext, folder: Path) -> dict[int, str]:
    """The state of each ticket: that of its newest row, as a ticket that changed has a row for each time."""
    rows = ctx.spark.read.parquet(str(folder / "tickets"))
    newest = rows.selectExpr("id", "struct(updated_at, state) AS row").groupBy("id").agg({"row": "max"})
    return {id: row.state for id, row in newest.collect()}


def main(ctx: hr.SessionContext | None = None) -> dict[str, Any]:
    """Load, change, break down, load; returns what was loaded and what the service has."""
    if ctx is None:
        with hr.SessionContext() as own:
            return main(own)
    with tempfile.TemporaryDirectory() as name, ticket_service() as service:
        folder = Path(name)
        service.put(range(100), "open")
        first = load(ctx, service.url, folder)

        service.put(range(100, 450), "open")
        service.put(range(0, 450, 10), "closed")
        service.breaks_down_after = 25
        try:
            load(ctx, service.url, folder)
        except Exception as error:
            print(f"the run broke down: {str(error).splitlines()[0][:100]}")
        loaded_by_then = len(current(ctx, folder))

        service.breaks_down_after = None
        third = load(ctx, service.url, folder)
        fourth = load(ctx, service.url, folder)
        found = current(ctx, folder)
    print(f"{len(found)} tickets, {sum(state == 'closed' for state in found.values())} of them closed")
    return {
        "first": first,
        "by then": loaded_by_then,
        "third": third,
        "fourth": fourth,
        "found": found,
        "expected": {ticket["id"]: ticket["state"] for ticket in service.tickets.values()},
    }


# ---- the service: any HTTP server that pages and filters by time; it runs in a thread of this very script ----


class TicketService(ThreadingHTTPServer):
    """Answers ``GET /tickets`` with the tickets since a time, the oldest first. It may break down."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), TicketHandler)
        self.tickets: dict[int, dict[str, Any]] = {}
        self.clock = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
        self.requests = 0
        self.breaks_down_after: int | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/tickets"

    def put(self, ids: range, state: str) -> None:
        """Tickets that come, or change, one a minute."""
        self.requests = 0
        for id in ids:
            self.clock += datetime.timedelta(minutes=1)
            self.tickets[id] = {"id": id, "updated_at": self.clock.isoformat(), "state": state}


class TicketHandler(BaseHTTPRequestHandler):
    server: TicketService

    def do_GET(self) -> None:
        query = dict(parse_qsl(urlsplit(self.path).query))
        self.server.requests += 1
        broken = self.server.breaks_down_after is not None and self.server.requests > self.server.breaks_down_after
        found = sorted(self.server.tickets.values(), key=lambda ticket: ticket["updated_at"])
        found = [ticket for ticket in found if ticket["updated_at"] >= query.get("since", "")]
        size = int(query["per_page"])
        start = (int(query["page"]) - 1) * size
        body = json.dumps(found[start : start + size]).encode()
        self.send_response(503 if broken else 200)
        self.send_header("Content-Length", str(len(body)))
        with suppress(ConnectionError):  # whoever has enough hangs up
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


@contextmanager
def ticket_service() -> Iterator[TicketService]:
    """The service on a free port of this machine, until the block ends."""
    server = TicketService()
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
