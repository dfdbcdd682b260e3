"""Both roads to code that receives, a worker's and the endpoint's, with the JVM's side played by the test."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from certificates import make_identity
from echoing import batches_of, echo_task, echoed
from endpoints import NONCE, Client
from headrace.execute.receiving import Receive
from headrace.transport.driver_partition import ReceivingPartition
from headrace.transport.endpoint import Endpoint
from headrace.transport.frames import frame_pieces, read_frame
from headrace.transport.protocol import TOTALS, FrameKind
from headrace.transport.seal import Seals
from producing import NUMBERS, PATIENCE_SECONDS
from worker_daemon import Worker, WorkerDaemon, request_to_receive

ROADS = ("worker", "endpoint", "endpoint over TCP", "endpoint over TLS")


class Sending:
    """One partition on its way: frames to be sent, and the answer."""

    def __init__(self, sock: socket.socket, nonce: int, seals: Seals) -> None:
        self.sock = sock
        self._nonce = nonce
        self._seals = seals
        sock.settimeout(PATIENCE_SECONDS)

    def frame(self, kind: FrameKind, first: bytes, second: bytes = b"") -> bytes:
        """Has to be sent before the next one is made, as the seal counts them."""
        return b"".join(bytes(piece) for piece in frame_pieces(kind, first, [second], self._nonce, self._seals.sent))

    def frames(self, batches: list[pa.RecordBatch], schema: pa.Schema = NUMBERS, *, end: bool = True) -> list[bytes]:
        """A whole stream: SCHEMA, each batch, END."""
        made = [self.frame(FrameKind.SCHEMA, bytes(schema.serialize()))]
        for batch in batches:
            message = bytes(batch.serialize())
            cut = 8 + int.from_bytes(message[4:8], "little")
            made.append(self.frame(FrameKind.BATCH, message[:cut], message[cut:]))
        if not end:
            return made
        totals = TOTALS.pack(sum(batch.num_rows for batch in batches), len(batches))
        return [*made, self.frame(FrameKind.END, totals)]

    def send(self, *frames: bytes) -> None:
        for frame in frames:
            self.sock.sendall(frame)

    def break_off(self) -> None:
        """As the JVM does: the end is seen at once, even behind bytes that nobody reads."""
        if self.sock.family != socket.AF_UNIX:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def answer(self) -> tuple[FrameKind, bytes] | None:
        """The frame that comes back, or None where the connection ends instead."""
        try:
            frame = read_frame(self.sock, self._nonce, self._seals.received)
        except OSError:  # TLS has names of its own for a peer that is gone
            return None
        return None if frame is None else (frame.kind, frame.message.to_pybytes())

    def message(self) -> bytes:
        answer = self.answer()
        assert answer is not None, "the connection ended"
        assert answer[0] is FrameKind.MESSAGE, answer
        return answer[1]

    def error(self) -> dict[str, Any]:
        answer = self.answer()
        assert answer is not None, "the connection ended"
        assert answer[0] is FrameKind.ERROR, answer
        failure: dict[str, Any] = json.loads(answer[1])
        return failure


class Road:
    """Opens partitions for code that receives, such as an echo, one after the other."""

    def __init__(self, name: str, daemon: WorkerDaemon, directory: Path) -> None:
        self.name = name
        self._daemon = daemon
        self._directory = directory

    @contextlib.contextmanager
    def open(self, echo: Receive) -> Iterator[Sending]:
        """With a worker, or an endpoint, of its own. Everything has ended when it is left."""
        if self.name == "worker":
            with self._daemon.fork() as worker:
                yield self.ask(worker, echo)
                worker.sock.close()
                worker.await_end()
            return
        tcp, tls = self.name != "endpoint", self.name.endswith("TLS")
        identity = make_identity(self._directory, "driver") if tls else None
        endpoint = Endpoint("127.0.0.1" if tcp else None, tls=identity)
        try:
            task = echo_task(echo)
            ticket = endpoint.offer(lambda claim: ReceivingPartition(task, claim), 1, receives=True, watched=True)
            with Client(endpoint.address(ticket), tcp=tcp, tls=tls) as client:
                client.sock.sendall(client.claim(client.greeting()))
                client.read(0)
                yield Sending(client.sock, NONCE, client.seals)
        finally:
            endpoint.close()

    @staticmethod
    def ask(worker: Worker, echo: Receive, nonce: int | None = None) -> Sending:
        nonce = random.getrandbits(64) if nonce is None else nonce
        worker.sock.sendall(request_to_receive(echo_task(echo), nonce))
        return Sending(worker.sock, nonce, Seals(None, None))


def assert_echoed(sending: Sending, number: int, count: int) -> None:
    batches = batches_of(number, count)
    sending.send(*sending.frames(batches))
    assert sending.message() == echoed(number, batches)
