"""What runs in Spark's Python workers: one task's partition, then back to the pool; executor Python.

The JVM sends a request (protocol version, partition, length, pickled ScanTask) and later exactly one byte: DONE
after it has read the END frame, or anything else (or a closed connection) to stop early. That one byte is
what keeps a reused worker's input in step.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import struct
import sys
import threading
from types import FrameType
from typing import BinaryIO

from headrace.errors import TransportError
from headrace.failure import Failure
from headrace.stream import StopFlag, StopRequested
from headrace.transport.frames import PROTOCOL_VERSION, FrameWriter
from headrace.transport.serve import serve_partition

REQUEST = struct.Struct("<III")
DONE = b"\x01"
_EXIT_WORKER = 1


def main(infile: BinaryIO, outfile: BinaryIO) -> None:
    """Serve one task. Called by Spark's daemon, again and again in a reused worker.

    Raises SystemExit when the connection can serve no further task, which ends the worker process.
    """
    header = infile.read(REQUEST.size)
    if len(header) < REQUEST.size:
        sys.exit(_EXIT_WORKER)  # the pool closed an idle worker's connection
    version, partition, length = REQUEST.unpack(header)
    payload = infile.read(length)
    with _connection(outfile) as sock:
        stop = StopFlag(_interrupt_main_thread)
        watcher = _Watcher(infile, stop)
        signal.signal(signal.SIGUSR1, _raising_handler(stop))
        watcher.start()
        try:
            if version != PROTOCOL_VERSION:
                raise TransportError(f"the connector speaks protocol {version}, this worker {PROTOCOL_VERSION}")
            _serve(sock, payload, partition, stop)
        except OSError:
            sys.exit(_EXIT_WORKER)  # the reader is gone; nothing more can be said on this connection
        finally:
            signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        watcher.join()
        if not watcher.in_step:
            sys.exit(_EXIT_WORKER)


def _serve(sock: socket.socket, payload: bytes, partition: int, stop: StopFlag) -> None:
    try:
        search_path, pickled = pickle.loads(payload)
        sys.path.extend(entry for entry in search_path if entry not in sys.path)
        task = pickle.loads(pickled)
    except Exception as error:  # unpickling runs user code: a failing import, a __setstate__
        import pyarrow as pa

        writer = FrameWriter(sock, pa.schema([]))
        writer.error(Failure.of(error, where="unpickling the plan in a worker", partition=partition).to_json())
        return
    serve_partition(sock, task, partition, stop)


class _Watcher(threading.Thread):
    """Waits for the JVM's one byte, so that a stop reaches user code that is busy or asleep."""

    def __init__(self, infile: BinaryIO, stop: StopFlag) -> None:
        super().__init__(name="headrace-watcher", daemon=True)
        self._infile = infile
        self._stop_flag = stop
        self.in_step = False

    def run(self) -> None:
        try:
            byte = self._infile.read(1)
        except OSError:
            byte = b""
        self.in_step = byte != b""
        if byte != DONE:
            self._stop_flag.request()


def _connection(outfile: BinaryIO) -> socket.socket:
    return socket.socket(fileno=os.dup(outfile.fileno()))


def _interrupt_main_thread() -> None:
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)


def _raising_handler(stop: StopFlag):  # type: ignore[no-untyped-def]
    def handler(_signal: int, _frame: FrameType | None) -> None:
        if stop.inside:  # cleared first: a finally block of the user's must not be interrupted again
            stop.inside = False
            raise StopRequested

    return handler
