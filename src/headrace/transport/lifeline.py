"""The lifeline: a connection that the driver's JVM holds open as long as it lives; driver Python.

Whatever ends the JVM, the kernel closes its end: this process learns of it at once, also where no query reads.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from typing import Any

from headrace.transport.claims import Claim
from headrace.transport.endpoint import Endpoint
from headrace.transport.seal import Seals


class Lifeline:
    """Calls ``on_lost`` once, on its own thread, when the JVM that took hold of it is gone; not after ``close``."""

    def __init__(self, endpoint: Endpoint, on_lost: Callable[[], None]) -> None:
        self._endpoint = endpoint
        self._on_lost = on_lost
        self._closed = False
        self._ticket = endpoint.offer(self._take_hold, 1, receives=True)

    def address(self) -> dict[str, Any]:
        """What the JVM needs to take hold of it, as JSON."""
        return self._endpoint.address(self._ticket)

    def close(self) -> None:
        """The JVM may go now. Idempotent."""
        self._closed = True
        self._endpoint.withdraw(self._ticket)

    def _take_hold(self, _claim: Claim) -> Lifeline:
        return self

    def serve(self, sock: socket.socket, nonce: int, seals: Seals) -> None:
        """A PartitionServer's: waits for the end of the connection."""
        with contextlib.suppress(OSError):
            while sock.recv(64):
                continue
        if not self._closed:
            self._on_lost()

    def stop(self, reason: str) -> None:
        """Nothing has to be stopped."""
