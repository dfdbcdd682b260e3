"""The requests that come over a worker's connection, and the byte that stops one early; executor Python.

One thread reads the connection for the worker's whole life and queues each request. The main thread runs the user's
code and takes requests from the queue, whenever it is ready. STOP belongs to the request that was read last: the JVM
sends no other before it has read the last frame of that one. A STOP that comes too late finds nothing to stop.
"""

from __future__ import annotations

import queue
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType

from headrace.execute.stopping import Ending, StopFlag, StopRequested, is_importing
from headrace.transport.protocol import REQUEST, STOP, TASK_MAGIC


@dataclass(frozen=True)
class Request:
    """One task. ``stop`` is requested when Spark needs no more of it."""

    version: int
    nonce: int
    partition: int
    facts: bytes
    payload: bytes
    stop: StopFlag


class Requests:
    """Iterates over the requests, in the main thread, until none can follow: the connection ended or is out of step."""

    def __init__(self, receive: Callable[[memoryview], bool]) -> None:
        """``receive`` fills memory from the connection, and says False where that ended before."""
        self._receive = receive
        self._queue: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._serving: StopFlag | None = None

    def __iter__(self) -> Iterator[Request]:
        signal.signal(signal.SIGUSR1, self._interrupted)
        threading.Thread(target=self._read, name="headrace-requests", daemon=True).start()
        while (request := self._queue.get()) is not None:
            self._serving = request.stop
            yield request

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
        except (OSError, EOFError):
            pass  # a broken connection, its end, and something else than a request are all the end of the requests
        finally:
            self._queue.put(None)
            if last is not None:
                _stop(last, Ending("lost", "the query was cancelled or failed: its connection ended"))

    def _request(self, first: bytes) -> Request:
        """The request that begins with ``first``. Raises EOFError where something else does."""
        header = first
        for size in (1, len(TASK_MAGIC), REQUEST.size):  # before the magic has come no length is believed
            header += self._exactly(size - len(header))
            if header[: len(TASK_MAGIC)] != TASK_MAGIC[: len(header)]:
                raise EOFError
        _, version, nonce, partition, facts_length, task_length = REQUEST.unpack(header)
        facts, payload = self._exactly(facts_length), self._exactly(task_length)
        return Request(version, nonce, partition, facts, payload, StopFlag(_signal_main_thread))

    def _exactly(self, length: int) -> bytes:
        """Raises EOFError where the connection ends before."""
        data = bytearray(length)
        if not self._receive(memoryview(data)):
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
