"""Headrace's workers as Spark's JVM has them: the real daemon, the workers that it forks, and the JVM's side."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import subprocess
import sys
from pathlib import Path

import cloudpickle
import pyarrow as pa

from headrace import ExecutionPlan
from headrace.execute.receiving import ReceivingTask
from headrace.transport.frames import read_frame, read_totals
from headrace.transport.protocol import PROTOCOL_VERSION, RECEIVES, REQUEST, SENDS, TASK_MAGIC, FrameKind
from headrace.worker.payload import payload_of
from producing import PATIENCE_SECONDS, wait_until
from worker_programs import task_of

_SECRET = b"secret"
_INT = struct.Struct("!i")
# What programs need is imported before the daemon forks, pandas because pyarrow does to make an array.
_START = "import pandas, worker_programs, echoing, forking; from headrace.worker.daemon import run; run()"


class WorkerDaemon:
    """The daemon. Workers that are left when it is closed end."""

    def __init__(self) -> None:
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(sys.path),
            "SPARK_REUSE_WORKER": "1",
            "PYTHON_WORKER_FACTORY_SECRET": _SECRET.decode(),
        }
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, "headrace.worker.task"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        assert self._process.stdout is not None
        (self._port,) = _INT.unpack(self._process.stdout.read(_INT.size))

    def __enter__(self) -> WorkerDaemon:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(PATIENCE_SECONDS)
        self._process.stdout.close()

    def fork(self) -> Worker:
        """A new worker, after Spark's handshake with it."""
        sock = socket.create_connection(("127.0.0.1", self._port), PATIENCE_SECONDS)
        worker = Worker(sock, _INT.unpack(_exactly(sock, _INT.size))[0])
        sock.sendall(_INT.pack(len(_SECRET)) + _SECRET)
        assert _exactly(sock, _INT.size + 2) == _INT.pack(2) + b"ok"
        return worker


class Worker:
    """The JVM's end of a worker's connection. No wait of its is longer than ``PATIENCE_SECONDS``."""

    def __init__(self, sock: socket.socket, pid: int) -> None:
        self.sock = sock
        self.pid = pid

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def answer(self, nonce: int) -> Answer:
        """The frames of one request, up to the last one. Raises TransportError for any of another request."""
        answer = Answer(self.sock, nonce)
        while not answer.ended:
            answer.read_one()
        return answer

    def is_shut(self) -> bool:
        """Whether the worker has shut its connection; waits for it, and drops what comes before."""
        with contextlib.suppress(ConnectionError):
            while self.sock.recv(65536):
                continue
        return True

    def await_end(self) -> None:
        """The process is gone, not even a zombie."""
        wait_until(lambda: not Path(f"/proc/{self.pid}").exists(), what=f"the end of worker {self.pid}")


class Answer:
    """One stream of frames, as far as it was read: its rows, and how it ended."""

    def __init__(self, sock: socket.socket, nonce: int) -> None:
        self._socket = sock
        self._nonce = nonce
        self._schema: pa.Schema | None = None
        self._batches = 0
        self.rows: list[int] = []
        self.ended: FrameKind | None = None
        self.error = ""

    def read_one(self) -> None:
        """One frame more. Raises EOFError where the connection ended instead."""
        if not select.select([self._socket], [], [], PATIENCE_SECONDS)[0]:
            raise TimeoutError(f"no frame came, after {len(self.rows)} rows")
        frame = read_frame(self._socket, self._nonce)
        if frame is None:
            raise EOFError(f"the stream was cut after {len(self.rows)} rows")
        if frame.kind is FrameKind.SCHEMA:
            self._schema = pa.ipc.read_schema(frame.message)
        elif frame.kind is FrameKind.BATCH:
            self.rows += pa.ipc.read_record_batch(frame.message, self._schema)["a"].to_pylist()
            self._batches += 1
        else:
            self.ended = frame.kind
            if frame.kind is FrameKind.END:
                assert read_totals(frame) == (len(self.rows), self._batches)
            else:
                self.error = frame.message.to_pybytes().decode()


def request_of(program: ExecutionPlan, nonce: int) -> bytes:
    return _request(task_of(program), nonce, SENDS)


def request_to_receive(task: ReceivingTask, nonce: int) -> bytes:
    return _request(task, nonce, RECEIVES)


def _request(task: object, nonce: int, direction: int) -> bytes:
    payload = payload_of(cloudpickle.dumps(task))  # a module may have been loaded again
    return REQUEST.pack(TASK_MAGIC, PROTOCOL_VERSION, nonce, 0, direction, 0, len(payload)) + payload


def _exactly(sock: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        piece = sock.recv(length - len(data))
        assert piece, "the daemon closed the connection"
        data += piece
    return data
