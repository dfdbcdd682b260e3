"""A real pyarrow.flight server on loopback, for the tests of FlightTable."""

from __future__ import annotations

import base64
import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl

SCHEMA = pa.schema([("a", pa.int64()), ("s", pa.string())])


USER, PASSWORD, TOKEN = "reader", "open sesame", "tok-1234"


def batch(start: int, rows: int = 10) -> pa.RecordBatch:
    numbers = range(start, start + rows)
    return pa.record_batch([pa.array(numbers, pa.int64()), pa.array([f"s{n % 3}" for n in numbers])], SCHEMA)


class Authentication(fl.ServerMiddlewareFactory):
    """Basic credentials buy the token; everything else needs it."""

    def start_call(self, info: Any, headers: dict[str, list[str]]) -> Any:
        sent = next((values[0] for name, values in headers.items() if name.lower() == "authorization"), "")
        kind, _, value = sent.partition(" ")
        if kind == "Basic":
            if base64.b64decode(value).decode() != f"{USER}:{PASSWORD}":
                raise fl.FlightUnauthenticatedError("wrong user or password")
            return Bearer()
        if kind != "Bearer" or value != TOKEN:
            raise fl.FlightUnauthenticatedError("no valid token")
        return None


class NoHandshake(fl.ServerAuthHandler):
    """Without one pyarrow's server refuses the call in which basic credentials are sent."""

    def authenticate(self, outgoing: Any, incoming: Any) -> None: ...

    def is_valid(self, token: bytes) -> str:
        return ""


class Bearer(fl.ServerMiddleware):
    def sending_headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {TOKEN}"}


class Server(fl.FlightServerBase):
    """Answers tickets ``n`` with three batches from n on, and a few with misbehaviour."""

    def __init__(
        self, endpoints: list[fl.FlightEndpoint] | None = None, location: str = "grpc://127.0.0.1:0", **options: Any
    ):
        super().__init__(location, **options)
        self.endpoints = (
            endpoints if endpoints is not None else [fl.FlightEndpoint(b"%d" % n, []) for n in (0, 100, 200)]
        )
        self.asked = 0
        self.descriptor: Any = None
        self.release = threading.Event()
        self.waiting = threading.Event()
        self.cancelled = threading.Event()
        self.headers: dict[str, list[str]] = {}

    @property
    def location(self) -> str:
        return f"grpc://127.0.0.1:{self.port}"

    def get_flight_info(self, context: Any, descriptor: Any) -> fl.FlightInfo:
        self.asked += 1
        self.descriptor = descriptor
        return fl.FlightInfo(SCHEMA, descriptor, self.endpoints, 90, 2000)

    def do_get(self, context: Any, ticket: fl.Ticket) -> Any:
        name = ticket.ticket
        if name == b"refused":
            raise fl.FlightUnauthorizedError("this shard is not yours")
        if name == b"late":
            self._wait(context)
        return fl.GeneratorStream(SCHEMA, self._batches(name, context))

    def _batches(self, name: bytes, context: Any) -> Iterator[pa.RecordBatch]:
        start = int(name) if name.isdigit() else 0
        for number in range(3):
            yield batch(start + 10 * number)
            if name == b"broken":
                raise fl.FlightServerError("the disk of this shard is gone")
            if name == b"endless":
                self._wait(context)

    def _wait(self, context: Any) -> None:
        self.waiting.set()
        while not self.release.wait(0.02):
            if context.is_cancelled():
                self.cancelled.set()
                return


def endpoints(*tickets: bytes) -> list[fl.FlightEndpoint]:
    return [fl.FlightEndpoint(ticket, []) for ticket in tickets]


EVERYTHING = [*range(30), *range(100, 130), *range(200, 230)]


@contextlib.contextmanager
def serving() -> Iterator[Callable[..., Server]]:
    """A function that starts servers, which are shut down when the block ends."""
    servers: list[Server] = []

    def start(*arguments: Any, **options: Any) -> Server:
        servers.append(Server(*arguments, **options))
        return servers[-1]

    try:
        yield start
    finally:
        for server in servers:
            server.release.set()
            server.shutdown()
