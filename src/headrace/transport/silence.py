"""Silent peers: a TCP connection whose other host or network vanished is broken off within 30 s; driver Python.

The kernel asks an idle peer by itself (keepalive). While data waits to be sent it does not, and there two cases look
alike from above: a peer that reads nothing because its query is busy, and one that is gone. The first still answers
the kernel's probes, so a sender has a lease (TCP_USER_TIMEOUT) that is renewed for as long as answers come.
"""

from __future__ import annotations

import socket
import struct
import sys
from time import monotonic

KEEPALIVE_IDLE_SECONDS = 10
KEEPALIVE_INTERVAL_SECONDS = 5
KEEPALIVE_PROBES = 3
RENEWAL_SECONDS = 2.0
_LEASE_SECONDS = 24.0
_FRESH_ANSWER_MS = 3000
# Of Linux' struct tcp_info: segments in flight, milliseconds since the last ACK, bytes acknowledged, bytes not sent.
_UNACKED, _LAST_ACK_MS, _ACKED, _NOT_SENT = (struct.Struct(code) for code in ("=24xI", "=56xI", "=120xQ", "=144xI"))
_INFO_BYTES = 148
_HAS_LEASES = sys.platform == "linux"


def keep_alive(sock: socket.socket) -> None:
    """Have the kernel ask an idle peer whether it is there; 25 s without an answer break the connection."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE" if hasattr(socket, "TCP_KEEPIDLE") else "TCP_KEEPALIVE", KEEPALIVE_IDLE_SECONDS),
        ("TCP_KEEPINTVL", KEEPALIVE_INTERVAL_SECONDS),
        ("TCP_KEEPCNT", KEEPALIVE_PROBES),
    ):
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class SenderLease:
    """How long one connection may go without progress; to be renewed every RENEWAL_SECONDS, by one thread.

    Without a renewal (this process hangs) it ends 24 s after the last one, and only if data waits to be sent.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._acked = -1
        self._progress = monotonic()
        self.renew()

    def renew(self) -> None:
        """Never raises: a socket that is closed needs no lease."""
        if not _HAS_LEASES:
            return
        try:
            info = self._sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
            if len(info) < _INFO_BYTES:
                return  # a kernel from before 2016
            acked = _ACKED.unpack_from(info)[0]
            pending = _UNACKED.unpack_from(info)[0] or _NOT_SENT.unpack_from(info)[0]
            if acked != self._acked or not pending:
                self._acked, self._progress = acked, monotonic()
            if _LAST_ACK_MS.unpack_from(info)[0] <= _FRESH_ANSWER_MS or not pending:
                # The kernel counts from when progress ended; in between it probes at least once per lease.
                lease_ms = int((monotonic() - self._progress + _LEASE_SECONDS) * 1000)
                self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, lease_ms)
        except OSError:
            return
