"""What runs in Spark's Python workers: one task's partition after the other; executor Python."""

from __future__ import annotations

import contextlib
import gc
import io
import os
import pickle
import socket
import sys

from headrace.errors import TransportError
from headrace.execute.failure import Failure
from headrace.execute.partition_stream import PartitionStream
from headrace.transport.frames import send_error
from headrace.transport.protocol import PROTOCOL_VERSION
from headrace.transport.receive import receive_partition, refuse
from headrace.transport.serve import serve_partition
from headrace.worker.logs import captured_logs
from headrace.worker.payload import PYTHON_VERSION, open_payload
from headrace.worker.requests import Request, Requests
from headrace.worker.spark_task import attempt_of, task_context

_EXIT_WORKER = 1
_modules_hidden = 0


def main(_infile: io.BufferedReader, outfile: io.BufferedWriter) -> None:
    """Serve all tasks that come over one connection. Called by Spark's daemon, once in a worker's life.

    Raises SystemExit when the connection can serve no further task, which ends the worker process. Whatever ends it,
    the connection is shut down first: the daemon's code would keep it open, and the JVM wait for an answer.
    """
    sock = _connection(outfile)
    payloads = _Payloads()
    try:
        for request in Requests(sock):
            with task_context(request.facts), captured_logs():
                in_step = _serve(sock, request, payloads)
            if not in_step:
                break
            collect_garbage()
    except OSError:
        pass  # the reader is gone; nothing more can be said on this connection
    finally:
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
    sys.exit(_EXIT_WORKER)


def collect_garbage() -> None:
    """What a task leaves behind goes away here, not while the next one runs. Called when no task's objects are alive.

    Modules stay for good, so they need not be looked at again: that would take tens of milliseconds where much is
    imported.
    """
    global _modules_hidden
    gc.collect()
    if len(sys.modules) != _modules_hidden:
        _modules_hidden = len(sys.modules)
        gc.freeze()


class _Payloads:
    """Opens payloads. The tasks of one stage come with the same one, so the last is known by its bytes."""

    def __init__(self) -> None:
        self._last = b""
        self._pickled_task = b""

    def pickled_task(self, payload: bytes) -> bytes:
        """Raises TransportError where this Python cannot read what the driver's has pickled."""
        if payload != self._last:
            self._pickled_task = open_payload(payload, _mismatch)
            self._last = payload
        return self._pickled_task


def _mismatch(driver: str) -> TransportError:
    return TransportError(
        f"[PYTHON_VERSION_MISMATCH] Python in worker has different version: {PYTHON_VERSION} than that in "
        f"driver: {driver}, and what one pickles the other cannot read. Set PYSPARK_PYTHON to a "
        f"Python {driver} that is on every executor (the worker's is {sys.executable})"
    )


def _serve(sock: socket.socket, request: Request, payloads: _Payloads) -> bool:
    """Whether the connection can serve another task: no frame of this one is left on it, in either direction."""
    try:
        if request.version != PROTOCOL_VERSION:
            raise TransportError(f"the connector speaks protocol {request.version}, this worker {PROTOCOL_VERSION}")
        pickled = payloads.pickled_task(request.payload)
        with request.stop.user_code():
            task = pickle.loads(pickled)
            stream = (
                None if request.receives else PartitionStream(task, request.partition, request.stop, as_they_are=True)
            )
    except BaseException as error:  # unpickling runs user code: a failing import, a __setstate__, sys.exit()
        failure = Failure.of(error, where="unpickling the plan in a worker", partition=request.partition)
        if request.receives:
            refuse(sock, failure, request.nonce)
            return False
        send_error(sock, failure.to_json(), request.nonce)
        return True
    if stream is None:
        attempt = attempt_of(request.facts)
        return receive_partition(sock, request.nonce, task, request.partition, attempt, request.stop)
    serve_partition(sock, request.nonce, stream)
    return True


def _connection(outfile: io.BufferedWriter) -> socket.socket:
    sock = socket.socket(fileno=os.dup(outfile.fileno()))
    if sock.family != socket.AF_UNIX:
        # Else the END of a partition waits until the JVM's system acknowledges what came before: up to 40 ms.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock
