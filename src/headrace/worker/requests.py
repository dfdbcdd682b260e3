"""The requests that come over a worker's connection, and the byte that stops one early; executor Python.

One thread reads the connection for the worker's whole life and queues each request. The main thread runs the user's
code and takes requests from the queue, whenever it is ready. STOP belongs to the request that was read last: the JVM
sends no other before it has read the last frame of that one. A STOP that comes too late finds nothing to stop.

A request to receive is followed by frames. For these the reading thread lends the connection to the main thread, which
reads a batch whenever the user's code asks for one: so nothing waits in memory, and the socket holds the JVM back.
Meanwhile the reading thread looks for the end of the connection only. That is how the JVM stops such a task: in the
midst of a frame there is no place for STOP.
"""

from __future__ import annotations

import os
import queue
import select
import signal
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType

from headrace.execute.stopping import Ending, StopFlag, StopRequested, is_importing
from headrace.transport.frames import receive_into
from headrace.transport.protocol import RECEIVES, REQUEST, SENDS, STOP, TASK_MAGIC

_GONE = select.POLLHUP | select.POLLERR | getattr(select, "POLLRDHUP", 0)


@dataclass(frozen=True)
class Request:
    """One task. ``stop`` is requested when Spark needs no more of it.

    ``receives``: its frames follow, and whoever takes the request reads them, up to END.
    """

    version: int
    nonce: int
    partition: int
    receives: bool
    facts: bytes
    payload: bytes
    stop: StopFlag


class Requests:
    """Iterates over the requests, in the main thread, until none can follow: the connection ended or is out of step."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._returned, self._returning = os.pipe()
        self._queue: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._serving: StopFlag | None = None

    def __iter__(self) -> Iterator[Request]:
        signal.signal(signal.SIGUSR1, self._interrupted)
        threading.Thread(target=self._read, name="headrace-requests", daemon=True).start()
        while (request := self._queue.get()) is not None:
            self._serving = request.stop
            yield request
            if request.receives:
                os.write(self._returning, b"\0")

    def _read(self) -> None:
        """The reading thread."""
        last: Request | None = None
        try:
            while True:
                first = self._exactly(1)
                if first == STOP and last is not None:
                    _stop(last, Ending("cancelled", "the query needs no more rows, was cancelled or failed"))
                else:
                    last = self._request(first)
                    self._queue.put(last)
                    if last.receives:
                        self._lend()
        except (OSError, EOFError):
            pass  # a broken connection, its end, and something else than a request are all the end of the requests
        finally:
            self._queue.put(None)
            if last is not None:
                _stop(last, Ending("lost", "the query was cancelled or failed: its connection ended"))

    def _lend(self) -> None:
        """Returns when the task is done with the connection. Raises EOFError where that ended before."""
        watch = select.poll()
        watch.register(self._socket, _GONE)
        watch.register(self._returned, select.POLLIN)
        if self._returned not in dict(watch.poll()):
            raise EOFError
        os.read(self._returned, 1)

    def _request(self, first: bytes) -> Request:
        """The request that begins with ``first``. Raises EOFError where something else does."""
        header = first
        for size in (1, len(TASK_MAGIC), REQUEST.size):  # before the magic has come no length is believed
            header += self._exactly(size - len(header))
            if header[: len(TASK_MAGIC)] != TASK_MAGIC[: len(header)]:
                raise EOFError
        _, version, nonce, partition, direction, facts_length, task_length = REQUEST.unpack(header)
        if direction not in (SENDS, RECEIVES):
            raise EOFError
        facts, payload = self._exactly(facts_length), self._exactly(task_length)
        stop = StopFlag(_signal_main_thread)
        return Request(version, nonce, partition, direction == RECEIVES, facts, payload, stop)

    def _exactly(self, length: int) -> bytes:
        """Raises EOFError where the connection ends before."""
        data = bytearray(length)
        if not receive_into(self._socket, memoryview(data)):
            raise EOFError
        return bytes(data)

    def _interrupted(self, _signal: int, frame: FrameType | None) -> None:
        """The signal's handler, in the main thread. Raises StopRequested inside of user code, but for an import."""
        stop = self._serving
        if stop is None or not (stop.requested and stop.inside) or is_importing(frame):
            return
        stop.inside = False  # first: a finally block of the user's must not be interrupted again
        raise StopRequested


def _stop(request: Request, ending: Ending) -> None:
    """On a thread of its own: the user's ``interrupt`` may take any time, and the next request has to be read."""
    threading.Thread(target=request.stop.request, args=(ending,), name="headrace-stop", daemon=True).start()


def _signal_main_thread() -> bool:
    """False: only the handler knows what the signal met, so it is sent again until user code was left."""
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
    return False
