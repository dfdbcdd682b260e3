"""Fuzzing of the frame parsers in Python: garbage in, named error out."""

from __future__ import annotations

import contextlib
import socket
import threading

from hypothesis import example, given, settings
from hypothesis import strategies as st

import headrace as hr
from damage import damaged, is_refused
from effort import cases
from headrace.results.inbox import ResultInbox
from headrace.transport.claims import Claim
from headrace.transport.frames import read_frame
from headrace.transport.protocol import FRAME_HEADER, FrameKind
from raw_frames import NONCE, NUMBERS, UNSEALED, WHOLE


def parsed(data: bytes) -> list[FrameKind]:
    """Everything that ``read_frame`` makes of ``data`` before the connection ends."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        sender = threading.Thread(target=lambda: (theirs.sendall(data), theirs.close()), daemon=True)
        sender.start()
        kinds = []
        while (found := read_frame(ours, NONCE)) is not None:
            kinds.append(found.kind)
        return kinds


@settings(max_examples=cases(300), deadline=None)
@given(st.binary(max_size=200))
@example(FRAME_HEADER.pack(2, 2, 0, 0xFFFFFFFF, 2**63, NONCE))
@example(FRAME_HEADER.pack(2, 2, 0, 8, 2**40, NONCE))
def test_read_frame_random_bytes_end_or_raise_a_named_error(data: bytes) -> None:
    try:
        parsed(data)
    except hr.TransportError as error:
        assert "not a Headrace frame" in str(error)


@settings(max_examples=cases(200), deadline=None)
@given(st.integers(0, len(WHOLE) - 1), st.integers(0, 255))
def test_inbox_one_byte_changed_never_passes_for_a_whole_result_of_another_length(position: int, value: int) -> None:
    data = bytearray(WHOLE)
    data[position] = value
    inbox = ResultInbox(NUMBERS)
    inbox.announce(1)
    ours, theirs = socket.socketpair()
    receiver = inbox.open(Claim(partition=0, attempt=0, execution=-1, nonce=NONCE))
    with ours, theirs:
        theirs.sendall(data)
        theirs.shutdown(socket.SHUT_WR)
        with contextlib.suppress(hr.TransportError, OSError):
            receiver.serve(ours, NONCE, UNSEALED)
    inbox.finish()
    rows = 0
    try:
        while (batch := inbox.take(timeout_s=60)) is not None:
            rows += batch.num_rows
    except hr.HeadraceError:
        return  # a named error: whatever came before it is not called whole
    assert rows == 1


def test_inbox_damaged_streams_are_refused_by_name_or_whole() -> None:
    """A part of what `make soak` does."""
    refused = sum(is_refused(damaged(WHOLE, seed)) for seed in range(1000))
    assert 0 < refused <= 1000
