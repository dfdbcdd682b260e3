"""Fuzzing of the frame parsers: garbage in, named error out, on the Python side and on the JVM's."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_frames import BODY, METADATA, NUMBERS, SCHEMA, frame, numbers

import headrace as hr
from headrace.transport.driver_partition import DriverPartition
from headrace.transport.endpoint import Claim
from headrace.transport.frames import HEADER, TOTALS, FrameKind, read_frame
from headrace.transport.inbox import ResultInbox
from recording import table_of

WHOLE = SCHEMA + frame(2, METADATA, BODY) + frame(3, TOTALS.pack(1, 1))


def parsed(data: bytes) -> list[FrameKind]:
    """Everything that ``read_frame`` makes of ``data`` before the connection ends."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        sender = threading.Thread(target=lambda: (theirs.sendall(data), theirs.close()), daemon=True)
        sender.start()
        kinds = []
        while (found := read_frame(ours)) is not None:
            kinds.append(found.kind)
        return kinds


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
@example(HEADER.pack(2, 1, 0, 0xFFFFFFFF, 2**63))
@example(HEADER.pack(2, 1, 0, 8, 2**40))
def test_read_frame_random_bytes_end_or_raise_a_named_error(data: bytes) -> None:
    try:
        parsed(data)
    except hr.TransportError as error:
        assert "not a Headrace frame" in str(error)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, len(WHOLE) - 1), st.integers(0, 255))
def test_inbox_one_byte_changed_never_passes_for_a_whole_result_of_another_length(position: int, value: int) -> None:
    data = bytearray(WHOLE)
    data[position] = value
    inbox = ResultInbox(NUMBERS)
    inbox.announce(1)
    ours, theirs = socket.socketpair()
    receiver = inbox.open(Claim(partition=0, attempt=0, execution=-1))
    with ours, theirs:
        theirs.sendall(data)
        theirs.shutdown(socket.SHUT_WR)
        with contextlib.suppress(hr.TransportError, OSError):
            receiver.serve(ours)
    inbox.finish()
    rows = 0
    try:
        while (batch := inbox.take(timeout_s=5)) is not None:
            rows += batch.num_rows
    except hr.HeadraceError:
        return  # a named error: whatever came before it is not called whole
    assert rows == 1


def mutated(seed: int) -> bytes:
    """A whole stream with a few bytes changed, cut or doubled."""
    rng = random.Random(seed)
    data = bytearray(WHOLE)
    for _ in range(rng.randint(1, 6)):
        position = rng.randrange(len(data))
        action = rng.randrange(3)
        if action == 0:
            data[position] = rng.randrange(256)
        elif action == 1:
            del data[position : position + rng.randint(1, 40)]
        else:
            data[position:position] = rng.randbytes(rng.randint(1, 40))
    return bytes(data)


@pytest.mark.parametrize("seed", range(25))
def test_reader_damaged_stream_is_a_named_error_or_whole_and_leaks_nothing(
    ctx: hr.SessionContext, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    damaged = mutated(seed)
    monkeypatch.setattr(DriverPartition, "serve", lambda _self, sock: sock.sendall(damaged))
    ctx.register_table("t", table_of(pa.table(numbers(0, 3)), placement=hr.Placement.DRIVER))
    try:
        assert ctx.collect("SELECT i, s FROM t").num_rows == 1
    except hr.HeadraceError as error:
        assert str(error)
    allocator: Any = ctx.spark._jvm.org.apache.spark.sql.util.ArrowUtils.rootAllocator()
    assert allocator.getAllocatedMemory() == 0
