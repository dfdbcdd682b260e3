"""What runs in Spark's Python workers: one task's partition, then back to the pool; executor Python.

The JVM sends a request (see ``transport/protocol.py``) with a pickled ScanTask and later exactly one byte: DONE after
it has read the END or ERROR frame, STOP (or a closed connection) to stop early. That one byte is what keeps a
reused worker's input in step. Nothing is read ahead: what follows it belongs to the next task. A worker that finds
itself out of step ends.
"""

from __future__ import annotations

import _thread
import gc
import io
import os
import pickle
import signal
import socket
import sys
import threading
from types import FrameType
from typing import cast

import pyarrow as pa

from headrace.errors import TransportError
from headrace.execute.failure import Failure
from headrace.execute.partition_stream import PartitionStream
from headrace.execute.stopping import IMPORT_POLL_S, StopFlag, StopRequested, is_importing
from headrace.transport.frames import FrameWriter
from headrace.transport.protocol import DONE, PROTOCOL_VERSION, REQUEST, STOP, TASK_MAGIC
from headrace.transport.serve import serve_partition
from headrace.worker import logs, spark_task

PYTHON_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
_EXIT_WORKER = 1
_modules_hidden = 0


def payload_of(pickled_task: bytes) -> bytes:
    """What a worker is sent, made in the driver: first what tells whether the rest can be read."""
    return pickle.dumps((PYTHON_VERSION, sys.path, pickled_task))


def main(infile: io.BufferedReader, outfile: io.BufferedWriter) -> None:
    """Serve one task. Called by Spark's daemon, again and again in a reused worker.

    Raises SystemExit when the connection can serve no further task, which ends the worker process.
    """
    # Unbuffered: a buffered read of the last byte would swallow the next task's request.
    source = cast(io.RawIOBase, infile.raw)
    header = _read_exactly(source, REQUEST.size)
    if len(header) < REQUEST.size:
        sys.exit(_EXIT_WORKER)  # the pool closed an idle worker's connection
    magic, version, nonce, partition, facts_length, length = REQUEST.unpack(header)
    if magic != TASK_MAGIC:
        sys.exit(_EXIT_WORKER)  # something else has read from this connection: nobody knows where a request begins
    facts = _read_exactly(source, facts_length)
    payload = _read_exactly(source, length)
    with _connection(outfile) as sock:
        stop = StopFlag(_interrupt_main_thread)
        watcher = _Watcher(source, stop)
        signal.signal(signal.SIGUSR1, watcher.interrupted)
        watcher.start()
        try:
            with spark_task.known(facts), logs.kept():
                _serve(sock, version, nonce, payload, partition, stop)
        except OSError:
            sys.exit(_EXIT_WORKER)  # the reader is gone; nothing more can be said on this connection
        finally:
            signal.signal(signal.SIGUSR1, signal.SIG_IGN)
            watcher.served.set()
        watcher.join()
        if not watcher.in_step:
            sys.exit(_EXIT_WORKER)
    hide_modules_from_collector()


def hide_modules_from_collector() -> None:
    """Spark's daemon runs the garbage collector in full after every task: tens of milliseconds where much is imported.

    Modules stay for good, so they need not be looked at again. Called when no task's objects are alive.
    """
    global _modules_hidden
    if len(sys.modules) != _modules_hidden:
        _modules_hidden = len(sys.modules)
        gc.collect()
        gc.freeze()


def _serve(sock: socket.socket, version: int, nonce: int, payload: bytes, partition: int, stop: StopFlag) -> None:
    try:
        if version != PROTOCOL_VERSION:
            raise TransportError(f"the connector speaks protocol {version}, this worker {PROTOCOL_VERSION}")
        version_of_driver, search_path, pickled = pickle.loads(payload)  # plain values, which any Python reads
        if version_of_driver != PYTHON_VERSION:
            raise TransportError(
                f"[PYTHON_VERSION_MISMATCH] Python in worker has different version: {PYTHON_VERSION} than that in "
                f"driver: {version_of_driver}, and what one pickles the other cannot read. Set PYSPARK_PYTHON to a "
                f"Python {version_of_driver} that is on every executor (the worker's is {sys.executable})"
            )
        sys.path.extend(entry for entry in search_path if entry not in sys.path)
        with stop.user_code():
            stream = PartitionStream(pickle.loads(pickled), partition, stop, as_they_are=True)
    except BaseException as error:  # unpickling runs user code: a failing import, a __setstate__, sys.exit()
        failure = Failure.of(error, where="unpickling the plan in a worker", partition=partition)
        FrameWriter(sock, pa.schema([]), nonce).error(failure.to_json())
    else:
        serve_partition(sock, nonce, stream)


class _Watcher:
    """Waits for the JVM's one byte, so that a stop reaches user code that is busy or asleep, but for an import.

    A bare thread: the start of a ``threading.Thread`` waits until it runs, which shows in a partition of few rows.
    """

    def __init__(self, source: io.RawIOBase, stop: StopFlag) -> None:
        self._running = _thread.allocate_lock()
        self._source = source
        self._stop_flag = stop
        self._postponed = False
        self.in_step = False
        self.served = threading.Event()
        """Set by the main thread when user code runs no more."""

    def start(self) -> None:
        self._running.acquire()
        _thread.start_new_thread(self._run, ())

    def join(self) -> None:
        with self._running:
            pass

    def _run(self) -> None:
        try:
            self._watch()
        finally:
            self._running.release()

    def _watch(self) -> None:
        try:
            byte = self._source.read(1)
        except OSError:
            byte = b""
        self.in_step = byte in (DONE, STOP)
        if byte != DONE:
            self._stop_flag.request("the query needs no more rows, was cancelled or failed")
            while not self.served.wait(IMPORT_POLL_S):
                if self._postponed:
                    self._postponed = False
                    _interrupt_main_thread()

    def interrupted(self, _signal: int, frame: FrameType | None) -> None:
        """The handler of the signal, in the main thread. Raises StopRequested inside of user code."""
        stop = self._stop_flag
        if not (stop.requested and stop.inside):
            return
        if is_importing(frame):
            self._postponed = True
            return
        stop.inside = False  # first: a finally block of the user's must not be interrupted again
        raise StopRequested


def _read_exactly(source: io.RawIOBase, length: int) -> bytes:
    """``length`` bytes, or fewer where the connection ends."""
    data = bytearray(length)
    view = memoryview(data)
    position = 0
    while position < length and (count := source.readinto(view[position:])):
        position += count
    return bytes(view[:position])


def _connection(outfile: io.BufferedWriter) -> socket.socket:
    return socket.socket(fileno=os.dup(outfile.fileno()))


def _interrupt_main_thread() -> bool:
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
    return True
