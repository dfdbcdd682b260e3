"""DRIVER placement: a live plan's partitions, each served on a thread of the user's own process; driver Python."""

from __future__ import annotations

import ctypes
import socket
import sys
import threading
import time

from headrace.execute.partition_stream import PartitionStream, ScanTask
from headrace.execute.stopping import Ending, StopFlag, StopRequested, is_importing
from headrace.transport.seal import Seals
from headrace.transport.serve import serve_partition

_REASON_SECONDS = 1.0


class DriverPartition:
    """A PartitionServer for one partition of a live plan.

    ``stop`` raises StopRequested in the thread that runs the user's code (unless what ``execute`` returned has an
    ``interrupt`` of its own), as Ctrl-C raises KeyboardInterrupt in the main thread: at the next bytecode that is not
    part of an import. Code that sleeps inside one C call is stopped when that call returns.
    """

    def __init__(self, task: ScanTask, partition: int, execution: int = -1) -> None:
        """``execution`` is Spark's number for the query. Raises what a live plan's ``claim`` does."""
        source = task.live.claim(partition, execution) if task.live is not None else None
        self._thread_id = 0
        self._stopped = threading.Event()
        self._stop = StopFlag(self._interrupt)
        self._stream = PartitionStream(task, partition, self._stop, source, as_they_are=True)

    def serve(self, sock: socket.socket, nonce: int, seals: Seals) -> None:
        self._thread_id = threading.get_ident()
        serve_partition(sock, nonce, self._stream, self._await_reason, seals.sent)

    def stop(self, reason: Ending) -> None:
        self._stop.request(reason)
        self._stopped.set()

    def _await_reason(self) -> None:
        """The endpoint's thread is about to notice too, and to hear why: the producer should be told that."""
        self._stopped.wait(_REASON_SECONDS)

    def _interrupt(self) -> bool:
        time.sleep(
            0
        )  # a fresh turn of the interpreter: the thread has no time to begin an import between the two lines
        if is_importing(sys._current_frames().get(self._thread_id)):
            return False
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread_id), ctypes.py_object(StopRequested))
        return True
