"""A worker, forked by the real daemon, serves one request after the other over one connection, in step with the JVM."""

from __future__ import annotations

import os
import select
import signal
import socket
from collections.abc import Iterator

import pytest

from forking import ROWS, ForkingPlan
from headrace.transport.protocol import STOP, FrameKind
from producing import wait_until
from worker_daemon import Worker, WorkerDaemon, request_of
from worker_programs import FOREVER, Program

pytestmark = pytest.mark.core


@pytest.fixture(scope="module")
def daemon() -> Iterator[WorkerDaemon]:
    with WorkerDaemon() as started:
        yield started


@pytest.fixture
def worker(daemon: WorkerDaemon) -> Iterator[Worker]:
    with daemon.fork() as forked:
        yield forked


def ten_rows(number: int, *steps: tuple[str, float]) -> bytes:
    return request_of(Program(number, (*steps, ("rows", 10))), number)


def assert_whole(worker: Worker, number: int) -> None:
    answer = worker.answer(number)
    assert (answer.ended, answer.rows) == (FrameKind.END, [number] * 10)


def test_worker_serves_one_request_after_the_other_until_the_connection_ends(worker: Worker) -> None:
    for number in range(3):
        worker.sock.sendall(ten_rows(number))
        assert_whole(worker, number)
    worker.sock.shutdown(socket.SHUT_WR)
    assert worker.is_shut()
    worker.await_end()


def test_worker_asked_while_it_frees_what_the_last_task_left_serves_the_request(worker: Worker) -> None:
    """The main thread is busy between two tasks when the next request comes, right after END."""
    for number in range(10):
        worker.sock.sendall(ten_rows(number, ("garbage", 0.05), ("sleep", 0.05)))
        assert_whole(worker, number)


@pytest.mark.parametrize("stops", [1, 2])
def test_worker_whose_stop_comes_after_the_last_frame_serves_the_next_request(worker: Worker, stops: int) -> None:
    """It belongs to no other request."""
    worker.sock.sendall(ten_rows(0, ("garbage", 0.05)))
    assert_whole(worker, 0)
    worker.sock.sendall(stops * STOP + ten_rows(1, ("sleep", 0.05)))
    assert_whole(worker, 1)


@pytest.mark.parametrize("step", ["sleep", "import"])
def test_worker_that_is_stopped_ends_its_stream_and_serves_the_next_request(worker: Worker, step: str) -> None:
    """``import``: the stop is put off until it is over."""
    worker.sock.sendall(ten_rows(0, ("rows", 1), (step, FOREVER), ("sleep", FOREVER)))
    wait_until(lambda: has_begun(worker))
    worker.sock.sendall(STOP)
    answer = worker.answer(0)
    assert (answer.ended, answer.rows) == (FrameKind.ERROR, [0])
    assert "ScanEndedError" in answer.error
    worker.sock.sendall(ten_rows(1, ("import", 0)))
    assert_whole(worker, 1)


def test_worker_whose_code_never_returns_from_its_interrupt_serves_the_next_request(worker: Worker) -> None:
    many = 3_000  # enough batches to be still sending when STOP comes, and then it looks whether it is to stop
    worker.sock.sendall(ten_rows(0, ("deaf", 1), *(("rows", 1), ("sleep", 0.01)) * many))
    wait_until(lambda: has_begun(worker))
    worker.sock.sendall(STOP)
    assert worker.answer(0).ended == FrameKind.ERROR
    worker.sock.sendall(ten_rows(1))
    assert_whole(worker, 1)


def test_worker_stopped_before_it_takes_the_request_does_not_run_it(worker: Worker) -> None:
    """The main thread still frees what the last task left when request and STOP have both come."""
    worker.sock.sendall(ten_rows(0, ("garbage", 0.3)))
    assert_whole(worker, 0)
    worker.sock.sendall(ten_rows(1, ("sleep", FOREVER)) + STOP)
    answer = worker.answer(1)
    assert (answer.ended, answer.rows) == (FrameKind.ERROR, [])


@pytest.mark.parametrize("child", ["go on", "raise", "exit", "async", "multiprocessing"])
def test_worker_whose_code_forks_answers_alone_and_serves_the_next_request(worker: Worker, child: str) -> None:
    worker.sock.sendall(request_of(ForkingPlan(child), 0))
    answer = worker.answer(0)
    assert (answer.ended, len(answer.rows)) == (FrameKind.END, 2 * ROWS)
    worker.sock.sendall(ten_rows(1))
    assert_whole(worker, 1)


@pytest.mark.parametrize("nonsense", [b"?", b"HDRX" + bytes(40), b"H" * 100], ids=["byte", "magic", "many"])
@pytest.mark.parametrize("busy", [False, True], ids=["idle", "busy"])
def test_worker_that_finds_something_else_than_a_request_shuts_its_connection_and_ends(
    worker: Worker, nonsense: bytes, busy: bool
) -> None:
    worker.sock.sendall(ten_rows(0, ("sleep", FOREVER if busy else 0)))
    if not busy:
        assert_whole(worker, 0)
    worker.sock.sendall(nonsense)
    assert worker.is_shut()
    worker.await_end()


def test_worker_stopped_before_any_request_shuts_its_connection_and_ends(worker: Worker) -> None:
    worker.sock.sendall(STOP)
    assert worker.is_shut()
    worker.await_end()


def test_worker_whose_reader_is_gone_ends_though_its_code_would_go_on(worker: Worker) -> None:
    worker.sock.sendall(ten_rows(0, ("rows", 1), ("sleep", FOREVER)))
    wait_until(lambda: has_begun(worker))
    worker.sock.close()
    worker.await_end()


def test_worker_that_is_killed_leaves_no_zombie(worker: Worker) -> None:
    """A zombie would look alive to the JVM, which asks the system."""
    os.kill(worker.pid, signal.SIGKILL)
    worker.await_end()


def test_worker_interrupted_between_two_tasks_shuts_its_connection(worker: Worker) -> None:
    """KeyboardInterrupt stands for whatever may be raised in the worker's own code."""
    worker.sock.sendall(ten_rows(0))
    assert_whole(worker, 0)
    os.kill(worker.pid, signal.SIGINT)
    assert worker.is_shut()
    worker.await_end()


def has_begun(worker: Worker) -> bool:
    """Whether an answer has begun to come."""
    return bool(select.select([worker.sock], [], [], 0)[0])
