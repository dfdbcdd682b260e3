"""The connection on which a worker answers; no Spark."""

from __future__ import annotations

import gc
import socket
import weakref

import pytest

from headrace.worker import task


def test_connection_over_tcp_lets_the_end_of_a_partition_out_at_once() -> None:
    """It follows small frames: where these are not yet acknowledged the system would hold it back, up to 40 ms."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as near,
        near.makefile("wb") as outfile,
        task._connection(outfile) as connection,
    ):
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_connection_over_a_unix_socket_is_taken_as_it_is() -> None:
    near, far = socket.socketpair()
    with near, far, near.makefile("wb") as outfile, task._connection(outfile) as connection:
        connection.sendall(b"x")
        assert far.recv(1) == b"x"


class Ring:
    """Something that only the collector frees."""

    def __init__(self) -> None:
        self.own = self


def test_garbage_of_a_task_is_collected_before_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc, "freeze", lambda: None)
    gc.disable()
    try:
        left = weakref.ref(Ring())
        assert left() is not None
        task.collect_garbage()
        assert left() is None
    finally:
        gc.enable()
