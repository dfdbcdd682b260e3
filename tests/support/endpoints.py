"""Partitions offered at the driver's endpoint, and a client that opens them as an executor does; for the tests."""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import ssl
from collections.abc import Callable
from typing import Any

import pyarrow as pa

import headrace as hr
from headrace.execute.partition_stream import ScanTask
from headrace.transport.claims import Claim
from headrace.transport.driver_partition import DriverPartition
from headrace.transport.frames import Frame, read_frame
from headrace.transport.protocol import CHALLENGE, CLAIM, FrameKind, answer, proof
from headrace.transport.seal import Seals
from producing import NUMBERS, FunctionPlan, ten_rows

NONCE = 0x1122334455667788


def opener(function: Callable[[int], Any] = ten_rows) -> Callable[[Claim], DriverPartition]:
    return opener_of(NUMBERS, function)


def opener_of(schema: pa.Schema, function: Callable[[int], Any]) -> Callable[[Claim], DriverPartition]:
    task = ScanTask("t", FunctionPlan(schema, function, 2, hr.Placement.DRIVER), schema, schema, None)
    return lambda claim: DriverPartition(task, claim.partition)


def trusting_anyone() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


class Client:
    """What an executor does, step by step."""

    def __init__(self, address: dict[str, Any], *, tcp: bool = False, tls: bool = False) -> None:
        self.address = address
        self.awaited = b""  # what the endpoint has to send before anything else
        self.seals = Seals(None, None)  # those of the last claim
        if tcp:
            self.sock = socket.create_connection((address["host"], address["port"]), 10)
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls:
                self.sock = trusting_anyone().wrap_socket(self.sock)
        else:
            self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.sock.settimeout(60)
            self.sock.connect(address["path"])

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def greeting(self) -> bytes:
        return self.read(CHALLENGE.size)

    def claim(
        self, greeting: bytes, partition: int = 0, secret: bytes | None = None, ticket: bytes | None = None
    ) -> bytes:
        of = ticket or base64.b64decode(self.address["ticket"])
        claim = CLAIM.pack(b"HDRC", of, partition, 0, 0, -1, NONCE, b"")[:-32]
        secret = secret or base64.b64decode(self.address["secret"])
        claim += proof(secret, greeting, claim)
        self.awaited = answer(secret, greeting, claim)
        theirs = Seals.of_endpoint(secret, greeting, claim)
        self.seals = Seals(sent=theirs.received, received=theirs.sent)
        return claim

    def read(self, length: int) -> bytes:
        if self.awaited:
            expected, self.awaited = self.awaited, b""
            assert self.read(len(expected)) == expected, "the endpoint does not prove that it knows the secret"
        data = b""
        while len(data) < length:
            piece = self.sock.recv(length - len(data))
            if not piece:
                raise EOFError(data)
            data += piece
        return data

    def frames(self) -> list[tuple[FrameKind, bytes]]:
        frames = []
        while not frames or frames[-1][0] not in (FrameKind.END, FrameKind.ERROR):
            frame = self.frame()
            if frame is None:
                raise EOFError
            frames.append((frame.kind, frame.message.to_pybytes()))
        return frames

    def frame(self) -> Frame | None:
        self.read(0)
        return read_frame(self.sock, NONCE, self.seals.received)

    def is_dropped(self) -> bool:
        with contextlib.suppress(ConnectionError):
            return self.sock.recv(1) == b""
        return True


def error_of(client: Client) -> dict[str, Any]:
    kind, body = client.frames()[-1]
    assert kind is FrameKind.ERROR
    failure: dict[str, Any] = json.loads(body)
    return failure


def reads_whole(address: dict[str, Any], *, partition: int = 0, tcp: bool = False, tls: bool = False) -> bool:
    with Client(address, tcp=tcp, tls=tls) as client:
        client.sock.sendall(client.claim(client.greeting(), partition))
        kinds = [kind for kind, _ in client.frames()]
    return kinds == [FrameKind.SCHEMA, FrameKind.BATCH, FrameKind.END]
