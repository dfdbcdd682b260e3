"""A worker serves one request after the other over one connection, in step with the JVM."""

from __future__ import annotations

import gc
import socket
import threading
from typing import Any

import cloudpickle
import pytest

import headrace as hr
from headrace.execute.partition_stream import ScanTask
from headrace.transport.protocol import DONE, FRAME_HEADER, PROTOCOL_VERSION, REQUEST, TASK_MAGIC, FrameKind
from headrace.worker.task import main as worker_main
from headrace.worker.task import payload_of
from producing import NUMBERS, FunctionPlan, ten_rows

pytestmark = pytest.mark.core


def test_worker_given_the_next_request_right_behind_the_last_byte_stays_in_step() -> None:
    """The JVM may hand a worker to the next task before the worker has read that the last one is done."""
    task = ScanTask("t", FunctionPlan(NUMBERS, ten_rows, 2, hr.Placement.EXECUTORS), NUMBERS, NUMBERS, None)
    payload = payload_of(cloudpickle.dumps(task))
    requests = [
        REQUEST.pack(TASK_MAGIC, PROTOCOL_VERSION, 70 + partition, partition, 0, len(payload)) + payload
        for partition in (0, 1)
    ]
    jvm, worker = socket.socketpair()
    received: list[bytes] = []

    def talk() -> None:
        jvm.sendall(requests[0])
        received.append(read_to_end_frame(jvm, 70))
        jvm.sendall(DONE + requests[1])
        received.append(read_to_end_frame(jvm, 71))
        jvm.sendall(DONE)

    talker = threading.Thread(target=talk)
    with jvm, worker:
        jvm.settimeout(60)
        worker.settimeout(None)
        talker.start()
        for _ in requests:  # as pyspark's daemon does: new files over the same socket for every task
            with worker.makefile("rb", 65536) as infile, worker.makefile("wb", 65536) as outfile:
                worker_main(infile, outfile)
        talker.join()
    gc.unfreeze()  # a worker hides what it has imported; this process is none
    assert len(received) == 2


def read_to_end_frame(sock: socket.socket, nonce: int) -> bytes:
    stream = sock.makefile("rb", 0)
    seen = b""
    while True:
        kind, _, _, first, second, found = FRAME_HEADER.unpack(_exactly(stream, FRAME_HEADER.size))
        assert found == nonce
        body = _exactly(stream, first + second)
        seen += body
        if kind == FrameKind.END:
            return seen
        assert kind != FrameKind.ERROR, body


def _exactly(stream: Any, length: int) -> bytes:
    data = b""
    while len(data) < length:
        data += stream.read(length - len(data))
    return data
