"""DRIVER placement: partitions that are served on a thread of the user's own process, both ways; driver Python."""

from __future__ import annotations

import ctypes
import socket
import sys
import threading
import time

from headrace.execute.partition_stream import PartitionStream, ScanTask
from headrace.execute.receiving import ReceivingTask
from headrace.execute.stopping import Ending, StopFlag, StopRequested, is_importing
from headrace.transport.claims import Claim
from headrace.transport.receive import receive_partition
from headrace.transport.seal import Seals
from headrace.transport.serve import serve_partition

_REASON_SECONDS = 1.0
_READER_GONE = Ending("lost", "its reader went away, and nothing tells why")


class ServingThread:
    """The thread that runs the user's code, and how that code is stopped.

    ``stop`` makes it raise StopRequested, as Ctrl-C raises KeyboardInterrupt in the main thread: at the next bytecode
    that is not part of an import. Code that sleeps inside one C call is stopped when that call returns, unless what
    ``execute`` returned has an ``interrupt`` of its own.
    """

    def __init__(self) -> None:
        self.stop = StopFlag(self._interrupt)
        self._id = 0

    def begin(self) -> None:
        """Called on the thread itself, before any code of the user's."""
        self._id = threading.get_ident()

    def _interrupt(self) -> bool:
        time.sleep(0)  # a fresh turn of the interpreter, so that the thread begins no import before the last line
        if is_importing(sys._current_frames().get(self._id)):
            return False
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._id), ctypes.py_object(StopRequested))
        return True


class DriverPartition:
    """A PartitionServer for one partition of a live plan."""

    def __init__(self, task: ScanTask, partition: int, execution: int = -1) -> None:
        """``execution`` is Spark's number for the query. Raises what a live plan's ``claim`` does."""
        source = task.live.claim(partition, execution) if task.live is not None else None
        self._thread = ServingThread()
        self._stopped = threading.Event()
        self._stream = PartitionStream(task, partition, self._thread.stop, source, as_they_are=True)

    def serve(self, sock: socket.socket, nonce: int, seals: Seals) -> None:
        self._thread.begin()
        serve_partition(sock, nonce, self._stream, self._await_reason, seals.sent)

    def stop(self, reason: Ending) -> None:
        self._thread.stop.request(reason)
        self._stopped.set()

    def _await_reason(self) -> None:
        """The endpoint's thread is about to notice too, and to hear why: the producer should be told that."""
        if not self._stopped.wait(_REASON_SECONDS):
            self._thread.stop.request(_READER_GONE)


class ReceivingPartition:
    """A PartitionServer that receives one partition; to be offered with ``receives`` and ``watched``."""

    def __init__(self, task: ReceivingTask, claim: Claim) -> None:
        self._task = task
        self._claim = claim
        self._thread = ServingThread()

    def serve(self, sock: socket.socket, nonce: int, seals: Seals) -> None:
        self._thread.begin()
        partition, attempt = self._claim.partition, self._claim.task
        receive_partition(sock, nonce, self._task, partition, attempt, self._thread.stop, seals)

    def stop(self, reason: Ending) -> None:
        self._thread.stop.request(reason)
