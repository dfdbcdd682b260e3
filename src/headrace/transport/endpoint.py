"""The endpoint: serves partitions that live in the driver's Python process to Spark's executors; driver Python.

A connection proves the session's secret over a fresh challenge before anything else is read, in one fixed-size
message; nothing received is ever unpickled. One thread watches all connections, so an unauthenticated or
silent peer costs no thread, and a reader that goes away is noticed at once; each open partition has a thread.
"""

from __future__ import annotations

import base64
import contextlib
import hmac
import os
import queue
import secrets
import select
import shutil
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from headrace.errors import TransportError
from headrace.execute.failure import Failure
from headrace.transport.frames import FrameWriter
from headrace.transport.protocol import (
    ASKING,
    CHALLENGE,
    CHALLENGE_BYTES,
    CLAIM,
    HANDSHAKE_SECONDS,
    LEAVING,
    MAGIC,
    MAX_REASON_BYTES,
    PROTOCOL_VERSION,
    TICKET_BYTES,
    proof,
)

MAX_HANDSHAKES = 256
_ACCEPT_PAUSE_SECONDS = 0.05
_SOCKET_NAME = "endpoint.sock"
_MAX_SOCKET_PATH_CHARS = 100
_WILDCARDS = ("0.0.0.0", "::")
_GONE = select.POLLHUP | select.POLLERR | getattr(select, "POLLRDHUP", 0)


@dataclass(frozen=True)
class Claim:
    """Who opens a partition: the attempt of Spark's task, and Spark's SQL execution (-1 outside of one).

    ``nonce`` is on every frame of that partition.
    """

    partition: int
    attempt: int
    execution: int
    nonce: int


class PartitionServer(Protocol):
    """One open partition. ``receives`` is true where the executor sends and this side reads."""

    receives: bool

    def serve(self, sock: socket.socket, nonce: int) -> None:
        """Move frames up to END or ERROR, on a thread of its own. May raise OSError when the peer is gone."""

    def stop(self, reason: str) -> None:
        """The peer is gone or the endpoint closes; called on the endpoint's thread, must not block. Idempotent."""


OpenPartition = Callable[[Claim], PartitionServer]


class TlsIdentity:
    """The certificate and key with which the endpoint proves itself over TCP. Raises OSError for unreadable files."""

    def __init__(self, certificate_file: str, key_file: str) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.context.load_cert_chain(certificate_file, key_file)
        pem = Path(certificate_file).read_text()
        first = pem[pem.index("-----BEGIN CERTIFICATE-----") : pem.index("-----END CERTIFICATE-----")]
        self.certificate_der = ssl.PEM_cert_to_DER_cert(first + "-----END CERTIFICATE-----\n")


@dataclass
class _Connection:
    sock: socket.socket
    challenge: bytes
    deadline: float
    greeted: bool = False
    received: bytearray = field(default_factory=bytearray)
    server: PartitionServer | None = None


class Endpoint:
    """Listens on a private Unix socket, and on ``tcp_host`` too if given; never on all interfaces by itself.

    With ``tls`` whatever crosses TCP is encrypted, and executors accept that very certificate only.
    Thread-safe. ``close`` stops every partition being served.
    """

    def __init__(
        self, tcp_host: str | None = None, advertised_host: str | None = None, tls: TlsIdentity | None = None
    ) -> None:
        self._tls = tls
        self._secret = secrets.token_bytes(32)
        self._tickets: dict[bytes, tuple[OpenPartition, int | None]] = {}
        self._listeners: list[socket.socket] = []
        self._host, self._port = "", 0
        if tcp_host is not None:
            self._listeners.append(_tcp_listener(tcp_host, advertised_host))
            self._host, self._port = advertised_host or tcp_host, self._listeners[0].getsockname()[1]
        self._directory = _private_directory()
        self._path = os.path.join(self._directory, _SOCKET_NAME)
        self._listeners.append(_unix_listener(self._path))
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_reader.setblocking(False)
        self._finished: queue.SimpleQueue[_Connection] = queue.SimpleQueue()
        self._closing = False
        self._poll = select.poll()
        self._connections: dict[int, _Connection] = {}
        self._thread = threading.Thread(target=self._run, name="headrace-endpoint", daemon=True)
        self._thread.start()

    def offer(self, open_partition: OpenPartition, partitions: int | None = None) -> bytes:
        """Make a ticket that opens these partitions, and these only, until it is withdrawn.

        ``partitions`` is how many there are; with None ``open_partition`` checks the number itself.
        """
        ticket = secrets.token_bytes(TICKET_BYTES)
        self._tickets[ticket] = (open_partition, partitions)
        return ticket

    def withdraw(self, ticket: bytes) -> None:
        """Partitions already open go on. Unknown tickets are ignored."""
        self._tickets.pop(ticket, None)

    def address(self, ticket: bytes) -> dict[str, Any]:
        """What an executor needs to open ``ticket``, as JSON."""
        return {
            "path": self._path,
            "host": self._host,
            "port": self._port,
            "secret": base64.b64encode(self._secret).decode(),
            "ticket": base64.b64encode(ticket).decode(),
            "certificate": "" if self._tls is None else base64.b64encode(self._tls.certificate_der).decode(),
        }

    def close(self) -> None:
        """Stop serving: open partitions break off, which fails their queries. Idempotent."""
        if not self._closing:
            self._closing = True
            self._wake()
            self._thread.join()

    def _wake(self) -> None:
        with contextlib.suppress(OSError):
            self._wake_writer.send(b"\0")

    # Everything below runs on the endpoint's own thread, except _serve.

    def _run(self) -> None:
        listeners = {listener.fileno(): listener for listener in self._listeners}
        for fd in (*listeners, self._wake_reader.fileno()):
            self._poll.register(fd, select.POLLIN)
        try:
            while not self._closing:
                for fd, event in self._poll.poll(self._poll_timeout_ms()):
                    if fd in listeners:
                        self._accept(listeners[fd])
                    elif fd == self._wake_reader.fileno():
                        with contextlib.suppress(BlockingIOError):
                            self._wake_reader.recv(4096)
                    elif fd in self._connections:
                        self._progress(self._connections[fd], event)
                self._drop_late_handshakes()
                while not self._finished.empty():
                    self._drop(self._finished.get())
        finally:
            for connection in list(self._connections.values()):
                self._drop(connection)
            for sock in (*self._listeners, self._wake_reader, self._wake_writer):
                sock.close()
            shutil.rmtree(self._directory, ignore_errors=True)

    def _poll_timeout_ms(self) -> int | None:
        waiting = [c.deadline for c in self._connections.values() if c.server is None]
        return max(0, int((min(waiting) - time.monotonic()) * 1000) + 1) if waiting else None

    def _accept(self, listener: socket.socket) -> None:
        try:
            sock, _ = listener.accept()
        except BlockingIOError:
            return
        except OSError:
            time.sleep(_ACCEPT_PAUSE_SECONDS)  # out of file descriptors: do not spin until one is free
            return
        sock.setblocking(False)
        if sock.family != socket.AF_UNIX:
            if self._tls is not None:
                sock = self._tls.context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # a one-row batch must not wait for more
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # an executor's host may vanish silently
        handshaking = [c for c in self._connections.values() if c.server is None]
        if len(handshaking) >= MAX_HANDSHAKES:
            self._drop(min(handshaking, key=lambda c: c.deadline))
        challenge = CHALLENGE.pack(MAGIC, PROTOCOL_VERSION, secrets.token_bytes(CHALLENGE_BYTES))
        connection = _Connection(sock, challenge, time.monotonic() + HANDSHAKE_SECONDS)
        self._connections[sock.fileno()] = connection
        self._poll.register(sock, select.POLLIN | _GONE)
        if not isinstance(sock, ssl.SSLSocket):
            self._greet(connection)

    def _greet(self, connection: _Connection) -> None:
        """Send the challenge; under TLS after its handshake, which takes several events."""
        try:
            if isinstance(connection.sock, ssl.SSLSocket):
                connection.sock.do_handshake()
            connection.sock.send(connection.challenge)
            connection.greeted = True
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except OSError:
            self._drop(connection)

    def _progress(self, connection: _Connection, event: int) -> None:
        if connection.server is not None:
            # Only that a reader is gone is watched for; before it goes it may say why.
            connection.server.stop(_parting_words(connection.sock))
            self._poll.unregister(connection.sock)
            with contextlib.suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)
            return
        if not connection.greeted:
            self._greet(connection)
            return
        try:
            data = connection.sock.recv(CLAIM.size - len(connection.received))
        except (BlockingIOError, ssl.SSLWantReadError):
            return  # an event of an earlier connection that had the same descriptor, or half a TLS record
        except OSError:
            data = b""
        connection.received += data
        if not data or event & select.POLLERR:
            self._drop(connection)
        elif len(connection.received) == CLAIM.size:
            self._authenticate(connection)

    def _authenticate(self, connection: _Connection) -> None:
        received = bytes(connection.received)
        magic, ticket, partition, attempt, execution, nonce, proven = CLAIM.unpack(received)
        expected = proof(self._secret, connection.challenge, received[: -len(proven)])
        if magic != MAGIC or not hmac.compare_digest(expected, proven):
            self._drop(connection)
            return
        try:
            server = self._open(ticket, Claim(partition, attempt, execution, nonce))
        except Exception as error:  # e.g. StreamConsumedError: the reader's query is told, others go on
            server = _Refusal(Failure.of(error, partition=partition))
        connection.server = server
        connection.sock.setblocking(True)
        if server.receives:
            self._poll.unregister(connection.sock)
        else:
            self._poll.modify(connection.sock, _GONE)
        thread = threading.Thread(
            target=self._serve, args=(connection, server, nonce), name=f"headrace-partition-{partition}", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:  # the process can have no more threads: this query fails, others go on
            self._drop(connection)

    def _open(self, ticket: bytes, claim: Claim) -> PartitionServer:
        offered = self._tickets.get(ticket)
        if offered is None:
            raise TransportError(
                "the scan behind this query is gone: its session context was closed or its plan released"
            )
        open_partition, partitions = offered
        if partitions is not None and claim.partition >= partitions:
            raise TransportError(f"there is no partition {claim.partition}: this scan has {partitions}")
        return open_partition(claim)

    def _serve(self, connection: _Connection, server: PartitionServer, nonce: int) -> None:
        try:
            with contextlib.suppress(OSError, TransportError):  # the peer is gone, or is none of ours
                server.serve(connection.sock, nonce)
        finally:
            self._finished.put(connection)
            self._wake()

    def _drop_late_handshakes(self) -> None:
        now = time.monotonic()
        for connection in [c for c in self._connections.values() if c.server is None and c.deadline <= now]:
            self._drop(connection)

    def _drop(self, connection: _Connection) -> None:
        fd = connection.sock.fileno()
        if fd < 0:
            return
        if connection.server is not None:
            connection.server.stop("the session context was closed")
        self._connections.pop(fd, None)
        with contextlib.suppress(KeyError):
            self._poll.unregister(fd)
        with contextlib.suppress(OSError):
            connection.sock.shutdown(socket.SHUT_RDWR)
        connection.sock.close()


class _Refusal:
    """Serves an error instead of a partition."""

    receives = False

    def __init__(self, failure: Failure) -> None:
        self._failure = failure

    def serve(self, sock: socket.socket, nonce: int) -> None:
        FrameWriter(sock, pa.schema([]), nonce).error(self._failure.to_json())

    def stop(self, reason: str) -> None: ...


def _parting_words(sock: socket.socket) -> str:
    """Why a reader says it goes. A killed one says nothing; under TLS only the serving thread may use the socket."""
    if isinstance(sock, ssl.SSLSocket):
        return "its reader went away (limit reached, cancelled or failed)"
    try:
        words = sock.recv(MAX_REASON_BYTES, socket.MSG_DONTWAIT)
    except OSError:
        words = b""
    reason = words.lstrip(ASKING).removeprefix(LEAVING)
    return reason.decode(errors="replace") or "its reader went away (the query, its task or its executor was killed)"


def _private_directory() -> str:
    directory = tempfile.mkdtemp(prefix="headrace-")  # made with mode 0700
    if len(os.path.join(directory, _SOCKET_NAME)) > _MAX_SOCKET_PATH_CHARS:
        os.rmdir(directory)
        directory = tempfile.mkdtemp(prefix="headrace-", dir="/tmp")
    return directory


def _unix_listener(path: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    os.chmod(path, 0o600)
    listener.listen(1024)
    listener.setblocking(False)
    return listener


def _tcp_listener(host: str, advertised: str | None) -> socket.socket:
    """Listens on ``host``; where that means all interfaces (the user told Spark so), on ``advertised`` if possible."""
    hosts = [advertised, host] if advertised and host in _WILDCARDS else [host]
    refusals: list[str] = []
    for candidate in hosts:
        try:
            family = socket.getaddrinfo(candidate, None)[0][0]
            listener = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:
            refusals.append(f"{candidate}: {error}")
            continue
        try:
            listener.bind((candidate, 0))
            listener.listen(1024)
            listener.setblocking(False)
            return listener
        except OSError as error:
            listener.close()
            refusals.append(f"{candidate}: {error}")
    raise TransportError(
        f"cannot listen for the executors on the driver's address ({'; '.join(refusals)}); set "
        "spark.driver.bindAddress to an address of this machine"
    )
