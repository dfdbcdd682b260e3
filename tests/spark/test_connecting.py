"""Executors that cannot reach the driver's endpoint at once."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import headrace as hr
from headrace.transport.endpoint import Endpoint
from producing import FunctionTable, ten_rows


class Relay:
    """A TCP port that refuses until ``open``, then passes everything on to the endpoint's Unix socket."""

    def __init__(self) -> None:
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    def open(self, path: str) -> None:
        self._listener.listen()
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            target = socket.socket(socket.AF_UNIX)
            target.connect(path)
            for source, sink in ((sock, target), (target, sock)):
                threading.Thread(target=_pass_on, args=(source, sink), daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def relay(monkeypatch: pytest.MonkeyPatch) -> Iterator[Relay]:
    """Stands between all contexts made after it and their executors."""
    relayed = Relay()
    original = Endpoint.address

    def address(endpoint: Endpoint, ticket: bytes) -> dict[str, Any]:
        return {**original(endpoint, ticket), "path": "", "host": "127.0.0.1", "port": relayed.port}

    monkeypatch.setattr(Endpoint, "address", address)
    yield relayed
    relayed.close()


def test_endpoint_that_refuses_for_seconds_does_not_fail_the_query(ctx: hr.SessionContext, relay: Relay) -> None:
    """Each task has one attempt here."""
    ctx.register_table("t", FunctionTable(ten_rows, partitions=2, placement=hr.Placement.DRIVER))
    path = ctx._attached.endpoint._path
    timer = threading.Timer(3.0, relay.open, (path,))
    timer.daemon = True
    timer.start()
    started = time.monotonic()
    assert ctx.collect("SELECT sum(a) AS s FROM t").to_pylist() == [{"s": 190}]
    assert time.monotonic() - started >= 2.5


def test_endpoint_that_refuses_for_good_fails_the_query_by_name(ctx: hr.SessionContext, relay: Relay) -> None:
    ctx.register_table("t", FunctionTable(ten_rows, placement=hr.Placement.DRIVER))
    with pytest.raises(hr.TransportError, match=r"cannot reach the driver's Python process at .*Connection refused"):
        ctx.collect("SELECT sum(a) AS s FROM t")
