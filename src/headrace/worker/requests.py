"""The requests that come over a worker's connection, and the byte that stops one early; executor Python.

After a request (see ``transport/protocol.py``) the JVM sends nothing until it has read the END or ERROR frame, but for
one STOP, if it needs no more. STOP may also come too late, after the last frame. Nothing is read ahead, so that a
worker which finds another byte there is out of step, and knows it.
"""

from __future__ import annotations

import _thread
import io
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType

from headrace.execute.stopping import IMPORT_POLL_S, StopFlag, StopRequested, is_importing
from headrace.transport.protocol import REQUEST, STOP, TASK_MAGIC

_WATCHED_AFTER_S = 0.005
_IDLE_TICKS = 100


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

    def __init__(self, source: io.RawIOBase) -> None:
        """``source`` must not be buffered: what follows a request's last byte belongs to the next one."""
        self._source = source
        self._watch = _Watch(source)

    def __iter__(self) -> Iterator[Request]:
        signal.signal(signal.SIGUSR1, self._watch.interrupted)
        first = self._exactly(1)
        while (request := self._begun_with(first)) is not None:
            self._watch.begin(request.stop)
            yield request
            first = self._watch.end()
            if first == STOP:
                first = self._exactly(1)

    def _begun_with(self, first: bytes) -> Request | None:
        """None where the connection ended, or something else has read from it: then nobody knows where one begins."""
        header = first + self._exactly(REQUEST.size - 1) if first == TASK_MAGIC[:1] else b""
        if len(header) < REQUEST.size:
            return None
        magic, version, nonce, partition, facts_length, length = REQUEST.unpack(header)
        if magic != TASK_MAGIC:
            return None
        rest = self._exactly(facts_length + length)
        if len(rest) < facts_length + length:
            return None
        stop = StopFlag(_interrupt_main_thread)
        return Request(version, nonce, partition, rest[:facts_length], rest[facts_length:], stop)

    def _exactly(self, length: int) -> bytes:
        """``length`` bytes, or fewer where the connection ends."""
        data = bytearray(length)
        view = memoryview(data)
        position = 0
        try:
            while position < length and (count := self._source.readinto(view[position:])):
                position += count
        except OSError:
            pass  # it is broken, which is an end too
        return bytes(view[:position])


class _Watch:
    """Waits for what follows a request, so that a stop reaches user code that is busy or asleep, but for an import.

    To wake a second thread, and to be woken by it, is a third of what a partition of few rows costs in Python. So the
    thread looks every few milliseconds whether there still is the request that it saw the last time, and waits only
    then; else the main thread reads what follows, when it has served the request.
    """

    def __init__(self, source: io.RawIOBase) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._stop: StopFlag | None = None
        self._watched: StopFlag | None = None
        self._byte = b""
        self._served = threading.Event()
        self._heard = threading.Event()
        self._wanted = threading.Event()
        self._postponed = False
        self._started = False

    def begin(self, stop: StopFlag) -> None:
        """A request is about to be served; ``stop`` is its flag. Main thread."""
        with self._lock:
            self._stop = stop
            parked = not self._wanted.is_set()
        if parked:
            self._wanted.set()
            if not self._started:
                self._started = True
                _thread.start_new_thread(self._run, ())

    def end(self) -> bytes:
        """It was served, so that no user code runs: the byte that follows, or none where the connection ended."""
        with self._lock:
            watched = self._watched is not None
            self._stop = None
        if not watched:
            return self._read()
        self._served.set()
        self._heard.wait()
        self._watched = None
        return self._byte

    def interrupted(self, _signal: int, frame: FrameType | None) -> None:
        """The handler of the signal, in the main thread. Raises StopRequested inside of user code."""
        stop = self._stop
        if stop is None or not (stop.requested and stop.inside):
            return
        if is_importing(frame):
            self._postponed = True
            return
        stop.inside = False  # first: a finally block of the user's must not be interrupted again
        raise StopRequested

    def _run(self) -> None:
        seen: StopFlag | None = None
        idle = 0
        while True:
            time.sleep(_WATCHED_AFTER_S)
            with self._lock:
                stop = self._stop
                if stop is not None and stop is seen:
                    self._served.clear()
                    self._heard.clear()
                    self._watched = stop
                elif stop is None and idle >= _IDLE_TICKS:
                    self._wanted.clear()
            if stop is not None and stop is seen:
                self._hear(stop)
                stop = None
            idle = idle + 1 if stop is None else 0
            seen = stop
            self._wanted.wait()

    def _hear(self, stop: StopFlag) -> None:
        self._byte = self._read()
        if self._byte in (STOP, b""):
            self._postponed = False
            stop.request("the query needs no more rows, was cancelled or failed")
            while not self._served.wait(IMPORT_POLL_S):
                if self._postponed:
                    self._postponed = False
                    _interrupt_main_thread()
        self._heard.set()

    def _read(self) -> bytes:
        try:
            return self._source.read(1) or b""
        except OSError:
            return b""


def _interrupt_main_thread() -> bool:
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
    return True
