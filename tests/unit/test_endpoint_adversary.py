"""Hostile peers at the endpoint: whatever they do costs their own connection, and others are served; no Spark."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import select
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from certificates import make_identity
from effort import cases
from endpoints import Client, opener, reads_whole, trusting_anyone
from headrace.transport import endpoint as endpoint_module
from headrace.transport.endpoint import Endpoint
from headrace.transport.protocol import CHALLENGE, CLAIM
from headrace.transport.seal import Seals
from producing import wait_until

RESET = struct.pack("ii", 1, 0)  # SO_LINGER: on, no time
SEED = 23


class Attacked:
    """An endpoint that is reached in one way, and how many descriptors the process had before."""

    def __init__(self, way: str, directory: Path) -> None:
        self.tcp, self.tls = way != "unix", way == "tls"
        identity = make_identity(directory, "driver") if self.tls else None
        self.endpoint = Endpoint("127.0.0.1", "127.0.0.1", identity)
        self.address = self.endpoint.address(self.endpoint.offer(opener(), 2))

    def connect(self) -> socket.socket:
        """Without a word of TLS."""
        if self.tcp:
            return socket.create_connection((self.address["host"], self.address["port"]), 10)
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(10)
        sock.connect(self.address["path"])
        return sock

    def serves(self) -> bool:
        return reads_whole(self.address, tcp=self.tcp, tls=self.tls)


@pytest.fixture(params=["unix", "tcp", "tls"])
def attacked(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Attacked]:
    made = Attacked(request.param, tmp_path)
    yield made
    made.endpoint.close()


def client_hello() -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        trusting_anyone().wrap_bio(incoming, outgoing).do_handshake()
    return outgoing.read()


def reset(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    sock.close()


HELLO = client_hello()
BEGINNINGS = {"nothing": b"", "a byte": b"\x16", "half a hello": HELLO[: len(HELLO) // 2], "a hello": HELLO}


@pytest.mark.parametrize("sent", BEGINNINGS.values(), ids=BEGINNINGS)
def test_endpoint_of_peers_that_send_a_little_and_reset_serves_others(attacked: Attacked, sent: bytes) -> None:
    for _ in range(100):
        sock = attacked.connect()
        sock.sendall(sent)
        reset(sock)
    assert attacked.serves()


class Adversary:
    """Does what comes to its mind, from a seed; keeps some connections open, the rest end in one way or another."""

    def __init__(self, attacked: Attacked, seed: int) -> None:
        self._attacked = attacked
        self._rng = random.Random(seed)
        self.open: list[socket.socket] = []

    def act(self) -> str:
        """Returns what it did."""
        begin = self._rng.choice([self._raw, self._greeted, self._half_claim, self._wrong_claim, self._right_claim])
        end = self._rng.choice([reset, socket.socket.close, self._half_close, self.open.append, self.open.append])
        with contextlib.suppress(OSError, EOFError):  # it was dropped already
            end(begin())
        return f"{begin.__name__}, {end.__name__}"

    def close(self) -> None:
        for sock in self.open:
            sock.close()

    def _half_close(self, sock: socket.socket) -> None:
        sock.shutdown(socket.SHUT_WR)
        self.open.append(sock)

    def _raw(self) -> socket.socket:
        sock = self._attacked.connect()
        pieces = (self._rng.randbytes(self._rng.randrange(300)), HELLO[: self._rng.randrange(len(HELLO))])
        sock.sendall(self._rng.choice(pieces))
        return sock

    def _client(self) -> Client:
        return Client(self._attacked.address, tcp=self._attacked.tcp, tls=self._attacked.tls)

    def _greeted(self) -> socket.socket:
        client = self._client()
        client.read(self._rng.randrange(CHALLENGE.size + 1))
        return client.sock

    def _claimed(self, change: Callable[[bytearray], bytes]) -> socket.socket:
        client = self._client()
        client.sock.sendall(change(bytearray(client.claim(client.greeting()))))
        return client.sock

    def _half_claim(self) -> socket.socket:
        return self._claimed(lambda claim: claim[: self._rng.randrange(CLAIM.size)])

    def _wrong_claim(self) -> socket.socket:
        def changed(claim: bytearray) -> bytes:
            claim[self._rng.randrange(len(claim))] ^= 1 << self._rng.randrange(8)
            return claim + self._rng.randbytes(self._rng.randrange(100))

        return self._claimed(changed)

    def _right_claim(self) -> socket.socket:
        return self._claimed(lambda claim: claim + self._rng.randbytes(self._rng.choice([0, 0, 5])))


@pytest.mark.parametrize("seed", range(SEED, SEED + cases(1)))
def test_endpoint_of_an_adversary_serves_others_and_keeps_nothing_of_it(
    attacked: Attacked, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint_module, "MAX_HANDSHAKES", 20)
    monkeypatch.setattr(endpoint_module, "HANDSHAKE_SECONDS", 1.0)
    assert attacked.serves()
    wait_until(lambda: not partition_threads())
    before = len(os.listdir("/proc/self/fd"))
    adversary = Adversary(attacked, seed)
    done: list[str] = []
    for number in range(300):
        done.append(adversary.act())
        if number % 20 == 0:
            assert attacked.serves(), done[-20:]
    assert attacked.serves()
    adversary.close()
    wait_until(lambda: len(os.listdir("/proc/self/fd")) <= before, what="descriptors to be closed")
    wait_until(lambda: not partition_threads(), what="threads to end")


def partition_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("headrace-partition")]


def test_endpoint_without_a_free_descriptor_accepts_once_there_is_one(attacked: Attacked) -> None:
    waiting = [socket.socket(socket.AF_INET if attacked.tcp else socket.AF_UNIX) for _ in range(3)]
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    host = (attacked.address["host"], attacked.address["port"])
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, limits[1]))
    try:
        for sock in waiting:
            sock.connect(host if attacked.tcp else attacked.address["path"])
        assert select.select(waiting, [], [], 0.3)[0] == []  # nobody was greeted
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert attacked.serves()
    for sock in waiting:
        sock.close()


@pytest.mark.parametrize("place", ["keep_alive", "SenderLease", "CHALLENGE", "open_offer"])
def test_endpoint_bug_while_it_deals_with_a_connection_costs_that_one_only(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Bug:
        size = CHALLENGE.size

        def __call__(self, *_: Any) -> None:
            raise LookupError("a bug of ours")

        pack = __call__

    endpoint = Endpoint("127.0.0.1", "127.0.0.1")
    try:
        address = endpoint.address(endpoint.offer(opener(), 2))
        with monkeypatch.context() as patched:
            patched.setattr(endpoint_module, place, Bug())
            with Client(address, tcp=True) as client, contextlib.suppress(EOFError, ConnectionError):
                client.sock.sendall(client.claim(client.greeting()))
                client.frames()
        assert reads_whole(address, tcp=True)
    finally:
        endpoint.close()


class Holding:
    """A partition that keeps its socket until it is let go, whatever else happens to it."""

    def __init__(self) -> None:
        self.sock: socket.socket | None = None
        self.let_go = threading.Event()

    def serve(self, sock: socket.socket, _nonce: int, _seals: Seals) -> None:
        self.sock = sock
        self.let_go.wait(60)

    def stop(self, reason: str) -> None: ...


def test_endpoint_closed_while_a_thread_uses_a_socket_leaves_it_its_descriptor() -> None:
    """Else the next connection gets the descriptor, and what the thread still sends goes there."""
    endpoint = Endpoint("127.0.0.1", "127.0.0.1")
    partition = Holding()
    address = endpoint.address(endpoint.offer(lambda _claim: partition, 1))
    with Client(address, tcp=True) as client:
        client.sock.sendall(client.claim(client.greeting()))
        wait_until(lambda: partition.sock is not None)
        endpoint.close()
        client.read(0)  # its proof
        assert client.sock.recv(1) == b""
        assert partition.sock is not None
        assert partition.sock.fileno() >= 0
        partition.let_go.set()
        wait_until(lambda: partition.sock is not None and partition.sock.fileno() < 0)
