"""DRIVER placement: a live plan's partitions, each served on a thread of the user's own process; driver Python."""

from __future__ import annotations

import ctypes
import socket
import threading

from headrace.stream import ScanTask, StopFlag, StopRequested
from headrace.transport.serve import serve_partition


class DriverPartition:
    """A PartitionServer for one partition of a live plan.

    ``stop`` raises StopRequested in the thread that runs the user's code, as Ctrl-C raises KeyboardInterrupt in the
    main thread: at the next bytecode. Code that sleeps inside one C call is stopped when that call returns.
    """

    def __init__(self, task: ScanTask, partition: int) -> None:
        self._task = task
        self._partition = partition
        self._thread_id = 0
        self._stop = StopFlag(self._interrupt)

    def serve(self, sock: socket.socket) -> None:
        self._thread_id = threading.get_ident()
        serve_partition(sock, self._task, self._partition, self._stop)

    def stop(self) -> None:
        self._stop.request()

    def _interrupt(self) -> None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(self._thread_id), ctypes.py_object(StopRequested)
        )
