"""Planning asked over the endpoint, by the driver's JVM; driver Python."""

from __future__ import annotations

import socket
from collections.abc import Callable

from headrace.errors import TransportError
from headrace.forks import OwnProcess
from headrace.transport.claims import Claim
from headrace.transport.frames import Frame, frame_pieces, limit_stalls, read_frame, send_all
from headrace.transport.protocol import MAX_SECOND_BYTES, STALL_SECONDS, FrameKind
from headrace.transport.seal import Seals

Call = Callable[[str, str], str]
"""Answers an operation and its question; both question and answer are JSON. Does not raise."""


class PlanningConnection:
    """A PartitionServer that answers questions, one after the other, until the JVM goes."""

    def __init__(self, call: Call, from_here: Callable[[], None] = lambda: None) -> None:
        self._call = call
        self._from_here = from_here

    @classmethod
    def opener(cls, call: Call, from_here: Callable[[], None] = lambda: None) -> Callable[[Claim], PlanningConnection]:
        """For ``Endpoint.offer``, with one partition that receives.

        ``from_here`` is called, before the first question is answered, where the JVM runs on this machine: it came over
        the Unix socket, which no other machine has, and which only this user can open.
        """
        return lambda _claim: cls(call, from_here)

    def serve(self, sock: socket.socket, nonce: int, seals: Seals) -> None:
        """Raises OSError or TransportError where the connection breaks, or what comes is no question."""
        limit_stalls(sock, STALL_SECONDS)
        if sock.family == socket.AF_UNIX:
            self._from_here()
        process = OwnProcess()
        while (frame := read_frame(sock, nonce, seals.received)) is not None:
            answer = self._call(*read_question(frame)).encode()
            process.end_child()
            if len(answer) > MAX_SECOND_BYTES:
                raise TransportError(f"an answer of {len(answer)} bytes: a plan may have {MAX_SECOND_BYTES}")
            send_all(sock, frame_pieces(FrameKind.ANSWER, b"", [answer], nonce, seals.sent))

    def stop(self, reason: str) -> None:
        """Nothing has to be stopped: the connection ends, and with it ``serve``."""


def read_question(frame: Frame) -> tuple[str, str]:
    """Operation and question. Raises TransportError for another frame."""
    if frame.kind is not FrameKind.QUESTION:
        raise TransportError(f"a frame of kind {frame.kind.name} instead of a question")
    operation, _, question = frame.message.to_pybytes().decode().partition("\n")
    return operation, question
