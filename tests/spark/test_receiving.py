"""Code that receives, in a worker and in the driver's process: whole, cut, stopped and failing at every frame.

The workers are forked by the real daemon, and the endpoint is the real one; the test plays the JVM's side.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import headrace as hr
import headrace.transport.receive as receive_module
from echoing import EarlyEcho, Echo, batches_of, echoed, words
from forking import ForkingReceiver
from headrace.execute.writing import WriteCode
from headrace.transport.protocol import PROTOCOL_VERSION, RECEIVES, REQUEST, STOP, TASK_MAGIC, TOTALS, FrameKind
from headrace.worker.payload import payload_of
from producing import NUMBERS, wait_until
from raw_frames import UNSEALED
from roads import ROADS, Road, Sending, assert_echoed
from worker_daemon import Worker, WorkerDaemon, request_of
from worker_programs import Program
from written_files import FilePlan, FileTable

pytestmark = pytest.mark.core

FRAMES = 5  # of three batches


@pytest.fixture(scope="module")
def daemon() -> Iterator[WorkerDaemon]:
    with WorkerDaemon() as started:
        yield started


@pytest.fixture(params=ROADS)
def road(request: pytest.FixtureRequest, daemon: WorkerDaemon, tmp_path: Path) -> Road:
    return Road(request.param, daemon, tmp_path)


@pytest.fixture
def seen(tmp_path: Path) -> Path:
    return tmp_path / "seen"


@pytest.mark.parametrize("count", [0, 1, 20])
def test_receiver_of_a_whole_stream_answers_with_what_its_code_made_of_it(road: Road, count: int, seen: Path) -> None:
    with road.open(Echo(7, seen=str(seen))) as sending:
        assert_echoed(sending, 7, count)
    assert words(seen) == ["begun", "end", "finally"]


def test_receiver_whose_frames_come_byte_by_byte_takes_them(road: Road) -> None:
    batches = batches_of(3, 2)
    with road.open(Echo(3)) as sending:
        for byte in b"".join(sending.frames(batches)):
            sending.sock.sendall(bytes([byte]))
        assert sending.message() == echoed(3, batches)


@pytest.mark.daily("worker-*.5", "endpoint-*.0")
@pytest.mark.parametrize("at", [n / 2 for n in range(2 * FRAMES)])
def test_receiver_of_a_cut_stream_raises_in_its_code_and_sends_no_message(road: Road, at: float, seen: Path) -> None:
    """Cut before each frame and in the midst of each; before END is still cut."""
    with road.open(Echo(1, seen=str(seen))) as sending:
        wait_until(lambda: bool(words(seen)), what="the code")
        frames = sending.frames(batches_of(1, FRAMES - 2))
        whole, half = int(at), frames[int(at)]
        sending.send(*frames[:whole], half[: len(half) // 2] if at > whole else b"")
        socket.socket.shutdown(sending.sock, socket.SHUT_WR)  # that of TLS would read on in the clear
        answer = sending.answer()
        assert answer is None or answer[0] is FrameKind.ERROR, answer
    wait_until(lambda: "finally" in words(seen), what="the end of the code")
    assert words(seen)[-2] in ("ScanEndedError", "StopRequested"), words(seen)


@pytest.mark.parametrize("child", ["go on", "take"])
def test_receiver_that_forks_takes_and_answers_in_the_parent_alone(road: Road, child: str) -> None:
    with road.open(ForkingReceiver(child)) as sending:
        sending.send(*sending.frames(batches_of(1, 3)))
        assert sending.message() == b"9"


def write_code(directory: Path) -> tuple[FileTable, WriteCode]:
    table = FileTable(directory, NUMBERS)
    return table, WriteCode(FilePlan(table, hr.WriteRequest(NUMBERS, query_id="q")), "t", NUMBERS, NUMBERS)


def test_write_of_a_whole_stream_stores_it_and_answers_with_its_message(road: Road, tmp_path: Path) -> None:
    table, code = write_code(tmp_path)
    with road.open(code) as sending:
        sending.send(*sending.frames(batches_of(1, 3)))
        message = json.loads(sending.message())
    assert message["rows"] == 9
    assert table.staged() == [message["file"]]


@pytest.mark.daily("worker-*.5", "endpoint-*.0")
@pytest.mark.parametrize("at", [n / 2 for n in range(2 * FRAMES)])
def test_write_of_a_cut_stream_stores_nothing_and_sends_no_message(road: Road, at: float, tmp_path: Path) -> None:
    """Cut before each frame and in the midst of each: a write never takes that for an end."""
    table, code = write_code(tmp_path)
    with road.open(code) as sending:
        wait_until(lambda: bool(table.calls("write")), what="the write")
        frames = sending.frames(batches_of(1, FRAMES - 2))
        whole, half = int(at), frames[int(at)]
        sending.send(*frames[:whole], half[: len(half) // 2] if at > whole else b"")
        socket.socket.shutdown(sending.sock, socket.SHUT_WR)
        answer = sending.answer()
        assert answer is None or answer[0] is FrameKind.ERROR, answer
    assert (table.calls("written"), table.staged()) == ([], [])


@pytest.mark.daily("worker-2", "endpoint-0", "endpoint over TLS-3")
@pytest.mark.parametrize("after", range(FRAMES - 1))
def test_receiver_stopped_while_its_code_is_busy_interrupts_it(road: Road, after: int, seen: Path) -> None:
    """A task that is killed closes its connection, wherever it is: before, between and behind all batches."""
    with road.open(Echo(1, ((after, "sleep"),), seen=str(seen))) as sending:
        frames = sending.frames(batches_of(1, FRAMES - 2))
        sending.send(*frames[: after + 1])
        wait_until(lambda: "sleeping" in words(seen), what="the code")
        sending.break_off()
        wait_until(lambda: words(seen) == ["begun", "sleeping", "StopRequested", "finally"], what="the interrupt")


def test_receiver_stopped_while_its_code_is_busy_though_more_was_sent_interrupts_it(road: Road, seen: Path) -> None:
    """What waits to be read, even the end, does not hide that the task is gone."""
    with road.open(Echo(1, ((1, "sleep"),), seen=str(seen))) as sending:
        sending.send(*sending.frames(batches_of(1, 3)))
        wait_until(lambda: "sleeping" in words(seen), what="the code")
        sending.break_off()
        wait_until(lambda: words(seen) == ["begun", "sleeping", "StopRequested", "finally"], what="the interrupt")


@pytest.mark.parametrize("word", ["raise", "exit"])
@pytest.mark.parametrize("after", [0, 1, 3])
@pytest.mark.daily("*-1-raise")
def test_receiver_whose_code_raises_answers_with_that_error(road: Road, after: int, word: str, seen: Path) -> None:
    with road.open(Echo(5, ((after, word),), seen=str(seen))) as sending:
        sending.send(*sending.frames(batches_of(5, 3)))
        error = sending.error()
    expected = ("builtins.LookupError", "raised by 5") if word == "raise" else ("builtins.SystemExit", "3")
    assert (error["exception_type"], error["message"]) == expected
    assert (error["where"], error["table"], error["partition"]) == ("Echo.write", "t", 0)


def test_receiver_whose_code_raised_takes_what_is_still_sent_until_the_task_has_seen_why(road: Road) -> None:
    """A connection that broke first would hide the error."""
    large = pa.record_batch([pa.array(range(200_000), pa.int64())], schema=NUMBERS)
    with road.open(Echo(5, ((1, "raise"),))) as sending:
        frames = sending.frames([large] * 20)
        sending.send(*frames[:-1])
        assert sending.error()["message"] == "raised by 5"


def test_receiver_whose_code_returns_early_answers_with_an_error(road: Road) -> None:
    with road.open(EarlyEcho(5, ((1, "leave"),))) as sending:
        sending.send(*sending.frames(batches_of(5, 3)))
        assert "(table 't', partition 0) returned before it had taken all batches" in sending.error()["message"]


def test_receiver_whose_code_takes_all_batches_but_not_the_end_answers_with_its_message(road: Road) -> None:
    with road.open(EarlyEcho(5, ((3, "leave"),))) as sending:
        sending.send(*sending.frames(batches_of(5, 3)))
        assert sending.message() == b"early"


@pytest.mark.parametrize("wrong", ["totals", "no schema", "other schema", "garbage", "dictionary"])
@pytest.mark.daily("worker-*", "*-totals")
def test_receiver_of_wrong_frames_answers_with_an_error_whatever_its_code_says(road: Road, wrong: str) -> None:
    with road.open(Echo(5, ((0, "deny"),))) as sending:
        if wrong == "totals":
            sending.send(*sending.frames(batches_of(5, 2), end=False))
            sending.send(sending.frame(FrameKind.END, TOTALS.pack(5, 2)))
        elif wrong == "no schema":
            sending.send(sending.frame(FrameKind.END, TOTALS.pack(0, 0)))
        elif wrong == "other schema":
            sending.send(*sending.frames([], pa.schema([("a", pa.string())])))
        elif wrong == "garbage":
            sending.send(*sending.frames([], end=False), b"x" * 100)
        else:
            sending.send(*sending.frames([], end=False))
            sending.send(sending.frame(FrameKind.DICTIONARY, b"?"))
        error = sending.error()
    assert error["error"] == "TransportError", error


def test_receiver_told_why_the_rows_end_early_tells_its_code(road: Road, seen: Path) -> None:
    with road.open(Echo(5, ((0, "deny"),), seen=str(seen))) as sending:
        sending.send(*sending.frames(batches_of(5, 2), end=False))
        sending.send(sending.frame(FrameKind.ERROR, b'{"text": "division by zero"}'))
        assert "division by zero" in sending.error()["message"]
    assert words(seen)[1] == "ScanEndedError"


def test_receiver_whose_message_is_too_large_answers_with_an_error(road: Road) -> None:
    with road.open(Echo(5, ((0, "large"),))) as sending:
        sending.send(*sending.frames(batches_of(5, 1)))
        assert "a message of 2,097,152 bytes" in sending.error()["message"]


def test_receiver_whose_code_is_busy_holds_the_sender_and_takes_no_memory(road: Road, seen: Path) -> None:
    large = pa.record_batch([pa.array(range(500_000), pa.int64())], schema=NUMBERS)
    with road.open(Echo(5, ((1, "sleep"),), seen=str(seen))) as sending:
        frames = sending.frames([large] * 12)  # 48 MB
        sending.send(*frames[:2])
        wait_until(lambda: "sleeping" in words(seen), what="the code")
        sending.sock.settimeout(0.5)
        taken = 0
        with contextlib.suppress(TimeoutError):
            for frame in frames[2:]:
                for start in range(0, len(frame), 1 << 16):
                    sending.sock.sendall(frame[start : start + (1 << 16)])
                    taken += 1 << 16
        assert taken < 24 << 20, "nobody held it back"
        sending.break_off()
        wait_until(lambda: words(seen) == ["begun", "sleeping", "StopRequested", "finally"], what="the interrupt")


def test_receiver_whose_task_was_killed_behind_bytes_that_nobody_reads_is_stopped_in_time(
    monkeypatch: pytest.MonkeyPatch, daemon: WorkerDaemon, tmp_path: Path, seen: Path
) -> None:
    """The end of a process comes behind what it has sent. That nobody is there is the answer to a sign of life."""
    monkeypatch.setattr(receive_module, "ALIVE_SECONDS", 0.05)
    large = pa.record_batch([pa.array(range(500_000), pa.int64())], schema=NUMBERS)
    with Road("endpoint over TCP", daemon, tmp_path).open(Echo(5, ((1, "sleep"),), seen=str(seen))) as sending:
        frames = sending.frames([large] * 12)
        sending.send(*frames[:2])
        wait_until(lambda: "sleeping" in words(seen), what="the code")
        sending.sock.settimeout(0.5)
        with contextlib.suppress(TimeoutError):
            sending.send(*frames[2:])
        while sending.sock.recv(1, socket.MSG_DONTWAIT | socket.MSG_PEEK):  # else its system resets the connection
            sending.sock.recv(1)
            if not select.select([sending.sock], [], [], 0)[0]:
                break
        sending.sock.close()
        wait_until(lambda: words(seen) == ["begun", "sleeping", "StopRequested", "finally"], what="the interrupt")


# A worker alone


@pytest.fixture
def worker(daemon: WorkerDaemon) -> Iterator[Worker]:
    with daemon.fork() as forked:
        yield forked


def test_worker_that_received_serves_the_next_request_in_either_direction(worker: Worker) -> None:
    for number in range(0, 6, 2):
        assert_echoed(Road.ask(worker, Echo(number)), number, 4)
        worker.sock.sendall(request_of(Program(number + 1, (("rows", 10),)), number + 1))
        answer = worker.answer(number + 1)
        assert (answer.ended, answer.rows) == (FrameKind.END, [number + 1] * 10)


def test_worker_asked_again_right_behind_the_end_of_its_stream_serves_that_too(worker: Worker) -> None:
    """The next request has come before the connection was given back to the thread that reads requests."""
    sending = Road.ask(worker, Echo(1, ((2, "pause"),)))
    batches = batches_of(1, 2)
    sending.send(*sending.frames(batches), request_of(Program(2, (("rows", 10),)), 2))
    assert sending.message() == echoed(1, batches)
    assert worker.answer(2).rows == [2] * 10


@pytest.mark.parametrize("word", ["raise", "deny"])
def test_worker_whose_stream_did_not_end_well_serves_no_other_request(worker: Worker, word: str) -> None:
    sending = Road.ask(worker, Echo(1, ((0, word),)))
    sending.send(*sending.frames(batches_of(1, 2), end=False))
    if word == "deny":
        sending.send(sending.frame(FrameKind.END, TOTALS.pack(1, 1)))
    sending.error()
    sending.send(request_of(Program(2, (("rows", 10),)), 2))
    worker.sock.shutdown(socket.SHUT_WR)
    assert sending.answer() is None
    worker.await_end()


@pytest.mark.parametrize("nonsense", [b"?" * 40, STOP + bytes(30)], ids=["bytes", "STOP"])
def test_worker_that_finds_something_else_than_frames_ends(worker: Worker, nonsense: bytes) -> None:
    sending = Road.ask(worker, Echo(1))
    sending.send(nonsense)
    assert "not a Headrace frame" in sending.error()["message"]
    worker.sock.shutdown(socket.SHUT_WR)
    assert worker.is_shut()
    worker.await_end()


def test_worker_that_cannot_unpickle_its_task_tells_a_task_that_sends(worker: Worker) -> None:
    payload = payload_of(b"no pickle")
    worker.sock.sendall(REQUEST.pack(TASK_MAGIC, PROTOCOL_VERSION, 2, 0, RECEIVES, 0, len(payload)) + payload)
    sending = Sending(worker.sock, 2, UNSEALED)
    sending.send(*sending.frames(batches_of(1, 2)))
    assert sending.error()["where"] == "unpickling the plan in a worker"


def test_worker_of_which_no_such_direction_is_known_ends(worker: Worker) -> None:
    request = bytearray(request_of(Program(2, ()), 2))
    request[20:24] = (7).to_bytes(4, "little")
    worker.sock.sendall(request)
    assert worker.is_shut()
    worker.await_end()


def test_worker_killed_while_it_receives_is_seen_at_once(worker: Worker, seen: Path) -> None:
    sending = Road.ask(worker, Echo(1, ((1, "sleep"),), seen=str(seen)))
    sending.send(*sending.frames(batches_of(1, 3)))
    wait_until(lambda: "sleeping" in words(seen), what="the code")
    started = time.monotonic()
    os.kill(worker.pid, signal.SIGKILL)
    assert sending.answer() is None
    assert time.monotonic() - started < 5
