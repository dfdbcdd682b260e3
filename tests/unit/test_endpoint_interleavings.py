"""The endpoint's connections in random interleavings of both sides: cut, delayed and stopped at any byte; no Spark."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from effort import cases
from endpoints import Client, opener, reads_whole
from headrace.transport.endpoint import Endpoint
from headrace.transport.protocol import ASKING, LEAVING, FrameKind
from producing import numbers, wait_until

AT_A_TIME = 8
PAUSES = (0.0, 0.0, 0.0, 0.001, 0.005, 0.02)
RESET = struct.pack("ii", 1, 0)


class Producer:
    """Partitions whose batches and pauses come from the claim's seed, and how many of them were begun and closed."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def produce(self, seed: int) -> Iterator[pa.RecordBatch]:
        self._count("begun")
        try:
            yield from self._batches(random.Random(seed), seed)
        finally:
            self._count("closed")

    def _batches(self, chance: random.Random, seed: int) -> Iterator[pa.RecordBatch]:
        for number in range(batches_of(seed)):
            time.sleep(chance.choice(PAUSES))
            yield numbers(1 + chance.randrange(3000), number)
        if is_endless(seed):
            while True:
                time.sleep(0.01)
                yield numbers(1)
        if seed % 11 == 0:
            raise LookupError(f"raised by {seed}")

    def _count(self, what: str) -> None:
        with self._lock:
            self.counts[what] += 1


def batches_of(seed: int) -> int:
    return seed % 5


def is_endless(seed: int) -> bool:
    return seed % 7 == 0


def visit(address: dict[str, Any], seed: int) -> None:
    """One reader, a good or a bad one. Every wait of its is bounded by the client's."""
    chance = random.Random(-seed)
    with Client(address, tcp=chance.random() < 0.5) as client:
        client.sock.settimeout(60)
        time.sleep(chance.choice(PAUSES))
        if is_endless(seed) or chance.random() < 0.5:
            with contextlib.suppress(ConnectionError, EOFError):  # it was dropped before it could leave
                begin_and_leave(client, chance, seed)
        else:
            read_all(client, chance, seed)


def begin_and_leave(client: Client, chance: random.Random, seed: int) -> None:
    progress = chance.randrange(4)
    if progress > 0:
        claim = client.claim(client.greeting(), partition=seed)
        client.sock.sendall(claim[: chance.randrange(len(claim))] if progress == 1 else claim)
    if progress == 3:
        client.read(chance.randrange(3000) if batches_of(seed) else 1)
    leave(client, chance)


def read_all(client: Client, chance: random.Random, seed: int) -> None:
    claim = client.claim(client.greeting(), partition=seed)
    cut = chance.randrange(len(claim))
    for piece in (claim[:cut], claim[cut:]):
        client.sock.sendall(piece)
        time.sleep(chance.choice(PAUSES))
    if client.sock.family == socket.AF_UNIX and chance.random() < 0.2:
        with contextlib.suppress(BrokenPipeError):  # all is sent
            client.sock.sendall(ASKING)  # nobody wants to be told
    kinds = [kind for kind, _ in client.frames()]
    assert kinds[-1] is (FrameKind.ERROR if seed % 11 == 0 else FrameKind.END)
    assert kinds.count(FrameKind.BATCH) <= batches_of(seed)


def leave(client: Client, chance: random.Random) -> None:
    """In one of the ways in which a reader may go."""
    time.sleep(chance.choice(PAUSES))
    how = chance.choice(["closes", "says why", "resets", "half-closes", "babbles"])
    if how == "says why":
        client.sock.sendall(LEAVING + b"the limit was reached")
    elif how == "resets":
        client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    elif how == "half-closes":
        client.sock.shutdown(socket.SHUT_WR)
    elif how == "babbles":
        client.sock.sendall(chance.randbytes(200))


@pytest.mark.timeout(1200)
def test_endpoint_visited_at_random_serves_each_reader_and_keeps_nothing() -> None:
    producer = Producer()
    endpoint = Endpoint("127.0.0.1", "127.0.0.1")
    try:
        address = endpoint.address(endpoint.offer(opener(producer.produce)))
        steady = endpoint.address(endpoint.offer(opener()))
        assert reads_whole(steady)
        wait_until(lambda: partition_threads() == 0)
        before = len(os.listdir("/proc/self/fd"))
        with ThreadPoolExecutor(AT_A_TIME) as threads:
            visits = {seed: threads.submit(visit, address, seed) for seed in range(1, cases(3000) + 1)}
            while not all(future.done() for future in visits.values()):
                assert reads_whole(steady, tcp=True)
                assert reads_whole(steady)
        assert {seed: error for seed, future in visits.items() if (error := future.exception()) is not None} == {}
        wait_until(lambda: partition_threads() == 0, what="the partitions' threads to end")
        wait_until(
            lambda: producer.counts["begun"] == producer.counts["closed"] > 0, what="all generators to be closed"
        )
        wait_until(lambda: len(os.listdir("/proc/self/fd")) <= before, what="descriptors to be closed")
    finally:
        endpoint.close()


def partition_threads() -> int:
    return sum(thread.name.startswith(("headrace-partition", "headrace-stop")) for thread in threading.enumerate())
