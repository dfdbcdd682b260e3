"""The endpoint: serves partitions that live in the driver's Python process to Spark's executors; driver Python.

A connection proves the session's secret over a fresh challenge before anything else is read, in one fixed-size
message; nothing received is ever unpickled. One thread watches all connections, so an unauthenticated or
silent peer costs no thread, and a reader that goes away is noticed at once; each open partition has a thread, and
stopping one has another. No code of a provider's or producer's runs on the endpoint's own thread, and no disk work.
Nothing but ``close`` ends that thread: whatever goes wrong with a connection costs that connection alone.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import hmac
import logging
import os
import queue
import secrets
import select
import socket
import ssl
import threading
import time
from dataclasses import dataclass, field
from typing import Any, get_args

from headrace.errors import ScanEnd, TransportError
from headrace.execute.stopping import Ending
from headrace.transport.claims import Claim, Offer, OpenPartition, PartitionServer, open_offer
from headrace.transport.listeners import SOCKET_NAME, TlsIdentity, private_directory, tcp_listener, unix_listener
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
    answer,
    proof,
)
from headrace.transport.seal import Seals
from headrace.transport.silence import RENEWAL_SECONDS, SenderLease, keep_alive

_LOG = logging.getLogger("headrace")

MAX_HANDSHAKES = 256
_PAUSE_SECONDS = 0.05
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_STOP_SECONDS = 1.0  # how long close() waits for partitions to be told
_SENDER_GONE = Ending("lost", "its task went away (the query or its task was cancelled, failed or was killed)")
_GONE = select.POLLHUP | select.POLLERR | getattr(select, "POLLRDHUP", 0)


@dataclass(eq=False)
class _Connection:
    """``claimed`` and all before it is the endpoint's thread's; ``lock`` guards the rest."""

    sock: socket.socket
    fd: int
    challenge: bytes
    deadline: float
    greeted: bool = False
    received: bytearray = field(default_factory=bytearray)
    claimed: bool = False
    receives: bool = False  # frames come from the peer
    answers: bool = False  # the answer under way is sent even when the endpoint closes
    served: bool = False  # a thread uses the socket, and hands the connection back at its end
    lease: SenderLease | None = None  # of a TCP connection
    lock: threading.Lock = field(default_factory=threading.Lock)
    server: PartitionServer | None = None  # once it is open
    gone: Ending | None = None  # why nobody reads any more
    finished: bool = False

    def attach(self, server: PartitionServer) -> Ending | None:
        """Returns why nobody reads any more, if that is so."""
        with self.lock:
            self.server = server
            return self.gone

    def finish(self) -> None:
        with self.lock:
            self.finished = True

    def stopped(self, ending: Ending) -> PartitionServer | None:
        """Returns the server that has to be stopped; None if it is not open yet, has finished or was stopped."""
        with self.lock:
            first, self.gone = self.gone is None, self.gone or ending
            return self.server if first and not self.finished else None


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
        self._tickets: dict[bytes, Offer] = {}
        self._listeners: list[socket.socket] = []
        self._host, self._port = "", 0
        if tcp_host is not None:
            self._listeners.append(tcp_listener(tcp_host, advertised_host))
            self._host, self._port = advertised_host or tcp_host, self._listeners[0].getsockname()[1]
        self._directory = private_directory()
        self._path = os.path.join(self._directory.path, SOCKET_NAME)
        self._listeners.append(unix_listener(self._path))
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_reader.setblocking(False)
        self._finished: queue.SimpleQueue[_Connection] = queue.SimpleQueue()
        self._closing = False
        self._ended = False
        self._poll = select.poll()
        self._connections: dict[int, _Connection] = {}
        self._renewal = 0.0
        self._stopping: list[threading.Thread] = []  # those that were started by closing
        self._thread = threading.Thread(target=self._run, name="headrace-endpoint", daemon=True)
        self._thread.start()

    def offer(
        self,
        open_partition: OpenPartition,
        partitions: int | None = None,
        *,
        receives: bool = False,
        watched: bool | None = None,
        answers: bool = False,
    ) -> bytes:
        """Make a ticket that opens these partitions, and these only, until it is withdrawn.

        ``partitions`` is how many there are; with None ``open_partition`` checks the number itself. ``receives``: the
        executor sends and this side reads. ``watched``: the server is stopped as soon as the peer is gone, as all that
        send are; else it has to notice by itself, as those that receive do unless they are watched too.
        ``answers``: when the endpoint closes, the server reads the end of the connection, and still sends the answer
        that it is working on.
        """
        watched = not receives if watched is None else watched
        ticket = secrets.token_bytes(TICKET_BYTES)
        self._tickets[ticket] = Offer(open_partition, partitions, receives, watched, answers)
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
            deadline = time.monotonic() + _STOP_SECONDS
            for thread in self._stopping:
                thread.join(max(0.0, deadline - time.monotonic()))

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
                try:
                    self._attend(listeners)
                except Exception:  # a bug of ours, or a machine without memory: the endpoint goes on
                    _LOG.exception("the endpoint failed for a moment")
                    time.sleep(_PAUSE_SECONDS)
        finally:
            for connection in list(self._connections.values()):
                self._stop(connection, Ending("cancelled", "the session context was closed"))
                self._drop(connection)
            self._ended = True
            self._drop_finished()
            for sock in (*self._listeners, self._wake_reader, self._wake_writer):
                sock.close()
            self._directory.close()

    def _attend(self, listeners: dict[int, socket.socket]) -> None:
        """One round: wait for events and deal with each. Those of connections are looked up before any is dropped,
        since a new connection may get the descriptor of an old one.
        """
        events = self._poll.poll(self._poll_timeout_ms())
        for connection, event in [(self._connections[fd], event) for fd, event in events if fd in self._connections]:
            if self._connections.get(connection.fd) is connection:
                self._guarded(connection, event)
        for fd, _ in events:
            if fd in listeners:
                self._accept(listeners[fd])
            elif fd == self._wake_reader.fileno():
                with contextlib.suppress(BlockingIOError):
                    self._wake_reader.recv(4096)
        self._drop_late_handshakes()
        self._renew_leases()
        self._drop_finished()

    def _poll_timeout_ms(self) -> int | None:
        due = [c.deadline for c in self._connections.values() if not c.claimed]
        if any(c.lease is not None for c in self._connections.values()):
            due.append(self._renewal)
        return max(0, int((min(due) - time.monotonic()) * 1000) + 1) if due else None

    def _renew_leases(self) -> None:
        now = time.monotonic()
        if now >= self._renewal:
            self._renewal = now + RENEWAL_SECONDS
            for connection in self._connections.values():
                if connection.lease is not None:
                    connection.lease.renew()

    def _accept(self, listener: socket.socket) -> None:
        try:
            sock, _ = listener.accept()
        except OSError as error:
            if error.errno in _EXHAUSTED:
                time.sleep(_PAUSE_SECONDS)  # do not spin until there is a descriptor or memory again
            return
        try:
            self._admit(sock)
        except OSError:  # the peer is gone already
            sock.close()
        except Exception:  # a bug of ours
            _LOG.exception("a connection to the endpoint failed")
            sock.close()

    def _admit(self, sock: socket.socket) -> None:
        """Raises OSError when the peer is gone already."""
        sock.setblocking(False)
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # a one-row batch must not wait for more
            keep_alive(sock)  # an executor's host may vanish silently
            if self._tls is not None:
                sock = self._tls.context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        handshaking = [c for c in self._connections.values() if not c.claimed]
        if len(handshaking) >= MAX_HANDSHAKES:
            self._drop(min(handshaking, key=lambda c: c.deadline))
        challenge = CHALLENGE.pack(MAGIC, PROTOCOL_VERSION, secrets.token_bytes(CHALLENGE_BYTES))
        connection = _Connection(sock, sock.fileno(), challenge, time.monotonic() + HANDSHAKE_SECONDS)
        self._connections[connection.fd] = connection
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

    def _guarded(self, connection: _Connection, event: int) -> None:
        try:
            self._progress(connection, event)
        except Exception:  # a bug of ours: it must cost this connection only
            _LOG.exception("a connection to the endpoint failed")
            self._drop(connection)

    def _progress(self, connection: _Connection, event: int) -> None:
        if connection.claimed:
            # Only that a peer is gone is watched for; before a reader goes it may say why.
            self._poll.unregister(connection.sock)
            self._stop(connection, _SENDER_GONE if connection.receives else _parting_words(connection.sock))
            _shut_down(connection.sock)
            return
        if not connection.greeted:
            self._greet(connection)
            return
        try:
            data = connection.sock.recv(CLAIM.size - len(connection.received))
        except (BlockingIOError, ssl.SSLWantReadError):
            return  # half a TLS record
        except OSError:
            data = b""
        connection.received += data
        if not data or event & select.POLLERR:
            self._drop(connection)
        elif len(connection.received) == CLAIM.size:
            self._authenticate(connection)

    def _authenticate(self, connection: _Connection) -> None:
        received = bytes(connection.received)
        magic, ticket, partition, attempt, task, execution, nonce, proven = CLAIM.unpack(received)
        expected = proof(self._secret, connection.challenge, received[: -len(proven)])
        if magic != MAGIC or not hmac.compare_digest(expected, proven):
            self._drop(connection)
            return
        connection.claimed = True
        connection.sock.setblocking(True)
        if connection.sock.family != socket.AF_UNIX:
            connection.lease = SenderLease(connection.sock)
        offer = self._tickets.get(ticket)
        connection.receives = offer is not None and offer.receives
        connection.answers = offer is not None and offer.answers
        if offer is None or offer.watched:
            self._poll.modify(connection.sock, _GONE)
        else:
            self._poll.unregister(connection.sock)
        thread = threading.Thread(
            target=self._serve,
            args=(connection, offer, Claim(partition, attempt, execution, nonce, task), received),
            name=f"headrace-partition-{partition}",
            daemon=True,
        )
        connection.served = True
        try:
            thread.start()
        except RuntimeError:  # the process can have no more threads: this query fails, others go on
            connection.served = False
            self._drop(connection)

    def _stop(self, connection: _Connection, ending: Ending) -> None:
        """Tell the partition's server, if there is one, without waiting for it: user code may be behind it."""
        server = connection.stopped(ending)
        if server is None:
            return
        thread = threading.Thread(target=server.stop, args=(ending,), name="headrace-stop", daemon=True)
        with contextlib.suppress(RuntimeError):  # no more threads: the server notices when it sends
            thread.start()
            if self._closing:
                self._stopping.append(thread)

    def _serve(self, connection: _Connection, offer: Offer | None, claim: Claim, received: bytes) -> None:
        """On the partition's own thread."""
        try:
            with contextlib.suppress(OSError):  # the reader went away: whoever serves it notices too
                connection.sock.sendall(answer(self._secret, connection.challenge, received))
            server = open_offer(offer, claim)
            ending = connection.attach(server)
            if ending is not None:
                server.stop(ending)
            seals = Seals.of_endpoint(self._secret, connection.challenge, received)
            with contextlib.suppress(OSError, TransportError):  # the peer is gone, or is none of ours
                server.serve(connection.sock, claim.nonce, seals)
        except Exception:  # a bug of ours: the other side sees a stream that was cut
            _LOG.exception("a connection to the endpoint failed")
        finally:
            connection.finish()
            self._finished.put(connection)
            self._wake()
            if self._ended:  # nobody takes it back any more
                connection.sock.close()

    def _drop_late_handshakes(self) -> None:
        now = time.monotonic()
        for connection in [c for c in self._connections.values() if not c.claimed and c.deadline <= now]:
            self._drop(connection)

    def _drop_finished(self) -> None:
        while not self._finished.empty():
            connection = self._finished.get()
            connection.served = False
            self._drop(connection)

    def _drop(self, connection: _Connection) -> None:
        """Never raises. A second time nothing happens.

        A socket that a thread still uses is shut down, and closed when the thread is done with it: a new connection may
        get its descriptor, and OpenSSL would write to that one.
        """
        if self._connections.get(connection.fd) is not connection:
            return
        with contextlib.suppress(KeyError):
            self._poll.unregister(connection.fd)
        answering = connection.answers and connection.served
        _shut_down(connection.sock, socket.SHUT_RD if answering else socket.SHUT_RDWR)
        if not connection.served:
            del self._connections[connection.fd]
            with contextlib.suppress(OSError):
                connection.sock.close()


def _shut_down(sock: socket.socket, how: int = socket.SHUT_RDWR) -> None:
    """Not by TLS's own ``shutdown``: a thread that still sends would go on in the clear for a moment."""
    with contextlib.suppress(OSError):
        socket.socket.shutdown(sock, how)


def _parting_words(sock: socket.socket) -> Ending:
    """Why a reader says it goes. A killed one says nothing; under TLS only the serving thread may use the socket."""
    if isinstance(sock, ssl.SSLSocket):
        return Ending("lost", "its reader went away (limit reached, cancelled or failed)")
    try:
        words = sock.recv(MAX_REASON_BYTES, socket.MSG_DONTWAIT)
    except OSError:
        words = b""
    said = words.lstrip(ASKING).removeprefix(LEAVING).decode(errors="replace")
    for reason in get_args(ScanEnd):
        if said.startswith(f"{reason}\n"):
            return Ending(reason, said.removeprefix(f"{reason}\n"))
    return Ending("lost", "its reader went away (the query, its task or its executor was killed)")
