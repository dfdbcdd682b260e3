"""A worker serves one request after the other over one connection, in step with the JVM."""

from __future__ import annotations

import contextlib
import gc
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import cloudpickle
import pyarrow as pa
import pytest

import headrace as hr
from headrace.execute.partition_stream import ScanTask
from headrace.transport.protocol import FRAME_HEADER, PROTOCOL_VERSION, REQUEST, STOP, TASK_MAGIC, FrameKind
from headrace.worker.payload import payload_of
from headrace.worker.task import main as worker_main
from producing import NUMBERS, FunctionPlan, ten_rows

pytestmark = pytest.mark.core

STARTED: list[threading.Event] = []  # what a plan cannot hold, as it is pickled


def test_worker_serves_one_request_after_the_other_until_the_connection_ends() -> None:
    """STOP may come when the last frame is on its way already: it belongs to no other request."""
    answers = conversation_with_worker(ask_each(request(0), request(1), STOP + request(2), STOP))
    assert answers == [(FrameKind.END, 0), (FrameKind.END, 1), (FrameKind.END, 2), None]


def test_worker_that_finds_something_else_than_a_request_ends() -> None:
    answers = conversation_with_worker(ask_each(request(0), b"?" + request(1)))
    assert answers == [(FrameKind.END, 0), None]


def test_worker_whose_task_takes_a_while_serves_the_next_one_too() -> None:
    """Another thread then waits for what follows, and reads the first byte of the next request."""
    answers = conversation_with_worker(
        ask_each(request(0, slow_rows), request(1), STOP + request(2, slow_rows), request(3))
    )
    assert answers == [(FrameKind.END, partition) for partition in range(4)]


def test_worker_that_was_idle_is_stopped_in_the_middle_of_its_next_task() -> None:
    """The thread that waits for a stop rests when nothing was asked for a while."""
    started = threading.Event()
    STARTED.append(started)

    def talk(jvm: socket.socket) -> list[Any]:
        jvm.sendall(request(0))
        answers = [last_frame(jvm)]
        time.sleep(1.2)  # nothing outside tells when it rests
        jvm.sendall(request(1, endless_rows))
        assert started.wait(60)
        jvm.sendall(STOP)
        answers.append(last_frame(jvm))
        jvm.sendall(request(2))
        return [*answers, last_frame(jvm)]

    answers = conversation_with_worker(talk)
    assert answers == [(FrameKind.END, 0), (FrameKind.ERROR, 1), (FrameKind.END, 2)]


def slow_rows(partition: int) -> Iterator[pa.RecordBatch]:
    time.sleep(0.05)
    yield from ten_rows(partition)


def endless_rows(_partition: int) -> Iterator[pa.RecordBatch]:
    STARTED[-1].set()
    while True:
        time.sleep(0.01)
        yield from ten_rows(0)


def request(nonce: int, function: Callable[[int], Any] = ten_rows) -> bytes:
    task = ScanTask("t", FunctionPlan(NUMBERS, function, 1, hr.Placement.EXECUTORS), NUMBERS, NUMBERS, None)
    payload = payload_of(cloudpickle.dumps(task))
    return REQUEST.pack(TASK_MAGIC, PROTOCOL_VERSION, nonce, 0, 0, len(payload)) + payload


def ask_each(*messages: bytes) -> Callable[[socket.socket], list[Any]]:
    def talk(jvm: socket.socket) -> list[Any]:
        answers = []
        for message in messages:
            jvm.sendall(message)
            if message is messages[-1] and message == STOP:
                jvm.shutdown(socket.SHUT_WR)
            answers.append(last_frame(jvm))
        return answers

    return talk


def conversation_with_worker(talk: Callable[[socket.socket], list[Any]]) -> list[Any]:
    """What ``talk`` returns, which is the JVM's side; the worker runs in this thread, as it needs the main one."""
    jvm, worker = socket.socketpair()
    jvm.settimeout(60)
    answers: list[Any] = []

    def talking() -> None:
        with jvm:
            answers.extend(talk(jvm))

    talker = threading.Thread(target=talking)
    before = signal.getsignal(signal.SIGUSR1)
    try:
        with worker, worker.makefile("rb", 65536) as infile, worker.makefile("wb", 65536) as outfile:
            talker.start()
            with pytest.raises(SystemExit):
                worker_main(infile, outfile)
        talker.join(60)
    finally:
        signal.signal(signal.SIGUSR1, before)
        gc.unfreeze()  # a worker hides what it has imported; this process is none
    return answers


def last_frame(sock: socket.socket) -> tuple[FrameKind, int] | None:
    """Kind and nonce of the frame that ends the answer; None where the worker ended instead."""
    stream = sock.makefile("rb", 0)
    while header := _exactly(stream, FRAME_HEADER.size):
        kind, _, _, first, second, nonce = FRAME_HEADER.unpack(header)
        _exactly(stream, first + second)
        if kind in (FrameKind.END, FrameKind.ERROR):
            return FrameKind(kind), nonce
    return None


def _exactly(stream: Any, length: int) -> bytes:
    data = b""
    with contextlib.suppress(ConnectionError):  # the worker left something unread
        while len(data) < length and (more := stream.read(length - len(data))):
            data += more
    return data
