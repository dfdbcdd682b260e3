"""One end of a connection whose other end goes silent (``serve CASE HOST``, ``read CASE ADDRESS``), and what it saw."""

from __future__ import annotations

import base64
import json
import socket
import sys
import threading
import time
from collections.abc import Iterator

import pyarrow as pa

import headrace as hr
from headrace.execute.partition_stream import ScanTask
from headrace.execute.receiving import ReceivingTask
from headrace.transport.driver_partition import DriverPartition, ReceivingPartition
from headrace.transport.endpoint import Endpoint
from headrace.transport.protocol import ALIVE, ALIVE_SECONDS, CHALLENGE, CLAIM, MAGIC, NO_EXECUTION, PROOF_BYTES, proof
from headrace.transport.seal import Seals

SCHEMA = pa.schema([("a", pa.int64())])
BATCH = pa.record_batch([pa.array(range(100_000), pa.int64())], schema=SCHEMA)


def say(**what: object) -> None:
    print(json.dumps({**what, "at": time.monotonic()}), flush=True)


class Plan(hr.ExecutionPlan):
    placement = hr.Placement.DRIVER
    schema = SCHEMA

    def __init__(self, case: str) -> None:
        self.case = case

    def execute(self, partition: int) -> Stream:
        return Stream(self.case)


class Stream:
    """One batch and then nothing for long (idle), or as many as can be sent."""

    def __init__(self, case: str) -> None:
        self.idle = case == "idle"
        self.stopped = threading.Event()
        self.sent = 0

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> pa.RecordBatch:
        if self.idle and self.sent:
            self.stopped.wait()
            raise StopIteration
        self.sent += 1
        return BATCH

    def interrupt(self, reason: str) -> None:
        self.stopped.set()

    def close(self) -> None:
        say(event="stopped", sent=self.sent)


class Stalled:
    """An inbox that takes nothing, as of a caller who is busy."""

    def serve(self, sock: socket.socket, nonce: int, seals: Seals) -> None:
        while True:
            sock.sendall(ALIVE)
            time.sleep(ALIVE_SECONDS)

    def stop(self, reason: str) -> None: ...


def receive(case: str, batches: Iterator[pa.RecordBatch]) -> bytes:
    """Code that waits for what its task sends, or is busy with it for long."""
    try:
        for _ in batches:
            continue
        while case == "busy":
            time.sleep(0.05)
    finally:
        say(event="stopped")
    return b""


def serve(case: str, host: str) -> None:
    endpoint = Endpoint(host, host)
    task = ScanTask("t", Plan(case), SCHEMA, SCHEMA, None)
    if case in ("busy", "waiting"):
        receiving = ReceivingTask("t", SCHEMA, "", lambda partition, attempt, batches: receive(case, batches))
        ticket = endpoint.offer(lambda claim: ReceivingPartition(receiving, claim), 1, receives=True, watched=True)
    elif case == "stalled":
        ticket = endpoint.offer(lambda _: Stalled(), 1, receives=True)
    else:
        ticket = endpoint.offer(lambda claim: DriverPartition(task, claim.partition), 1)
    say(event="address", address=endpoint.address(ticket))
    threading.Event().wait()


def open_partition(address: dict[str, str]) -> socket.socket:
    """What an executor does, over TCP."""
    sock = socket.create_connection((address["host"], int(address["port"])), 10)
    greeting = sock.recv(CHALLENGE.size, socket.MSG_WAITALL)
    claim = CLAIM.pack(MAGIC, base64.b64decode(address["ticket"]), 0, 0, 0, NO_EXECUTION, 7, b"")[:-PROOF_BYTES]
    sock.sendall(claim + proof(base64.b64decode(address["secret"]), greeting, claim))
    sock.settimeout(None)
    return sock


def read(case: str, address: str) -> None:
    sock = open_partition(json.loads(address))
    sock.recv(1000)
    say(event="reading")
    if case == "sending":
        while sock.recv(1 << 20):
            continue
    elif case == "resumed":  # reads nothing for longer than a silent peer is borne, then everything
        time.sleep(40)
        received = 0
        while received < 20_000_000:
            received += len(sock.recv(1 << 20))
        say(event="received", bytes=received)
    threading.Event().wait()


if __name__ == "__main__":
    role, case, where = sys.argv[1:]
    (serve if role == "serve" else read)(case, where)
