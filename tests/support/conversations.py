"""Random conversations with a worker, from a seed: what the JVM asks, and when it stops, delays, cuts or babbles."""

from __future__ import annotations

import contextlib
import random
import socket
import time
from dataclasses import dataclass

from echoing import Echo, batches_of, echoed
from headrace.transport.protocol import STOP, FrameKind
from roads import Road
from worker_daemon import Answer, Worker, WorkerDaemon, request_of
from worker_programs import FOREVER, Program

MOST_REQUESTS = 6
SHORT_SECONDS = (0.0, 0.0, 0.001, 0.004, 0.006, 0.02)  # about as long as threads take to be woken, and longer
NEVER = 1 << 20


@dataclass(frozen=True)
class SendingTurn:
    """One partition that the JVM sends to the worker, up to its end."""

    number: int
    batches: int
    steps: tuple[tuple[int, str], ...]
    pause: float  # between frames
    delay: float  # before the next turn


@dataclass(frozen=True)
class Turn:
    """One request, and what the JVM does with it."""

    program: Program
    pieces: int  # in which the request is sent
    pause: float  # between them, and before STOP
    stop_after: int | None  # frames after which it says STOP; None: never, NEVER: after the last one
    delay: float  # before the next turn


def turns_of(seed: int) -> list[Turn | SendingTurn]:
    chance = random.Random(seed)
    return [
        _sending_turn(chance, number) if chance.random() < 0.3 else _turn(chance, number)
        for number in range(1 + chance.randrange(MOST_REQUESTS))
    ]


def _sending_turn(chance: random.Random, number: int) -> SendingTurn:
    batches = chance.randrange(5)
    steps = tuple((after, "pause") for after in range(batches) if chance.random() < 0.2)
    return SendingTurn(number, batches, steps, chance.choice(SHORT_SECONDS), chance.choice(SHORT_SECONDS))


def _turn(chance: random.Random, number: int) -> Turn:
    steps = [_step(chance) for _ in range(chance.randrange(6))]
    stop_after = chance.choice([None, None, None, 0, 0, 1, 2, 3, NEVER])
    if stop_after is not None and stop_after < 2 and chance.random() < 0.5:
        steps += [("rows", 2.0), ("sleep", FOREVER)]  # SCHEMA and BATCH, then nothing: only a stop ends it
    elif chance.random() < 0.1:
        steps.append(("raise", 0.0))
    delay = chance.choice(SHORT_SECONDS)
    return Turn(Program(number, tuple(steps)), chance.choice([1, 1, 1, 2, 5]), delay, stop_after, delay)


def _step(chance: random.Random) -> tuple[str, float]:
    word = chance.choice(["rows", "rows", "rows", "sleep", "hold", "garbage", "garbage", "import"])
    return word, float(chance.randrange(20)) if word == "rows" else chance.choice(SHORT_SECONDS)


def hold(daemon: WorkerDaemon, seed: int) -> None:
    """One conversation, with a worker of its own; fails where anything is not as it has to be."""
    chance = random.Random(-seed)
    turns = turns_of(seed)
    with daemon.fork() as worker:
        for turn in turns:
            nonce = chance.getrandbits(64)
            if isinstance(turn, SendingTurn):
                _send(worker, turn, nonce)
            else:
                _take(worker, turn, nonce)
        if chance.random() < 0.3:
            _break_off(worker, chance)
        else:
            _end(worker, chance, Program(len(turns), (("rows", 3.0), ("sleep", FOREVER))))
        worker.await_end()


def _send(worker: Worker, turn: SendingTurn, nonce: int) -> None:
    sending = Road.ask(worker, Echo(turn.number, turn.steps), nonce)
    batches = batches_of(turn.number, turn.batches)
    for frame in sending.frames(batches):
        sending.send(frame)
        time.sleep(turn.pause)
    assert sending.message() == echoed(turn.number, batches)
    time.sleep(turn.delay)


def _break_off(worker: Worker, chance: random.Random) -> None:
    """In the midst of a partition that is sent, at any byte, with code that raises, waits or reads."""
    word = chance.choice(["raise", "sleep", "pause", "deny", "exit", "die"])
    sending = Road.ask(worker, Echo(9, ((chance.randrange(4), word),)))
    stream = b"".join(sending.frames(batches_of(9, 3)))
    end = len(stream) - 1 if chance.random() < 0.5 else len(stream) // 2
    with contextlib.suppress(OSError):  # it may have died already
        sending.send(stream[: chance.randrange(end)])
        time.sleep(chance.choice(SHORT_SECONDS))
        if chance.random() < 0.3:
            sending.send(b"?" * (1 + chance.randrange(100)))
    if chance.random() < 0.5:
        sending.break_off()
        return
    with contextlib.suppress(OSError):
        worker.sock.shutdown(socket.SHUT_WR)
    answer = sending.answer()
    assert answer is None or answer[0] is FrameKind.ERROR, answer
    worker.sock.close()


def _take(worker: Worker, turn: Turn, nonce: int) -> None:
    request = request_of(turn.program, nonce)
    size = -(-len(request) // turn.pieces)
    for start in range(0, len(request), size):
        worker.sock.sendall(request[start : start + size])
        time.sleep(turn.pause if turn.pieces > 1 else 0)
    answer = Answer(worker.sock, nonce)
    frames, stopped = 0, False
    while not answer.ended:
        if frames == turn.stop_after:
            time.sleep(turn.pause)
            worker.sock.sendall(STOP)
            stopped = True
        answer.read_one()
        frames += 1
    if turn.stop_after == NEVER:
        worker.sock.sendall(STOP)
    _check(turn.program, answer, stopped)
    time.sleep(turn.delay)


def _check(program: Program, answer: Answer, stopped: bool) -> None:
    assert answer.rows == [program.number] * len(answer.rows), "rows of another program"
    raises = any(word == "raise" for word, _ in program.steps)
    if stopped and any(name in answer.error for name in ("ScanEndedError", "StopRequested")):
        assert (answer.ended, len(answer.rows) <= program.rows) == (FrameKind.ERROR, True)
    elif raises:
        assert answer.ended is FrameKind.ERROR
        assert f"raised by {program.number}" in answer.error
    else:
        assert (answer.ended, len(answer.rows)) == (FrameKind.END, program.rows), answer.error


def _end(worker: Worker, chance: random.Random, program: Program) -> None:
    """Whatever the JVM does last, the worker has to notice."""
    request = request_of(program, nonce=chance.getrandbits(64))
    last = chance.choice(["closes", "cuts", "babbles", "babbles on", "leaves"])
    if last == "cuts":
        worker.sock.sendall(request[: chance.randrange(len(request))])
    elif last == "babbles":
        worker.sock.sendall(chance.randbytes(1 + chance.randrange(100)).replace(STOP, b"?").replace(b"H", b"?"))
        assert worker.is_shut()
    elif last == "babbles on":
        worker.sock.sendall(request + chance.choice([b"", STOP]) + b"?" * (1 + chance.randrange(3)))
        assert worker.is_shut()
    elif last == "leaves":
        worker.sock.sendall(request)
        time.sleep(chance.choice(SHORT_SECONDS))
    if chance.random() < 0.5:
        try:
            worker.sock.shutdown(socket.SHUT_WR)
            assert worker.is_shut()
        except OSError:
            return  # the worker was faster
    else:
        worker.sock.close()
