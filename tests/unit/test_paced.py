"""PacedWriter: after a small batch it waits until the reader asks, and every such wait has an end."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from headrace.arrow.sizes import LARGE_BYTES
from headrace.transport.frames import FrameWriter, read_frame
from headrace.transport.paced import PacedWriter
from headrace.transport.protocol import ASKING, LEAVING, FrameKind
from raw_frames import NONCE

TIMEOUT_S = 10.0
SCHEMA = pa.schema([("i", pa.int64())])
SMALL = pa.record_batch({"i": pa.array(range(3))})
LARGE = pa.record_batch({"i": pa.array(range(LARGE_BYTES // 8))})


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    writing, reading = socket.socketpair()
    writing.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
    reading.settimeout(TIMEOUT_S)
    with writing, reading:
        yield writing, reading


class Sending(threading.Thread):
    """Sends on a thread of its own and keeps what that raised."""

    def __init__(self, send: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self._send = send
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._send()
        except BaseException as error:
            self.error = error

    def ended(self) -> BaseException | None:
        self.join(TIMEOUT_S)
        assert not self.is_alive(), "the writer hangs"
        return self.error


def paced_writer(ends: tuple[socket.socket, socket.socket], *, asking: bool = True) -> PacedWriter:
    """One that has sent its schema."""
    writing, reading = ends
    writer = FrameWriter(writing, SCHEMA, NONCE)
    writer.schema(told_when_read=asking)
    assert read_frame(reading, NONCE) is not None
    return PacedWriter(writer, writing if asking else None)


def received(reading: socket.socket) -> int:
    frame = read_frame(reading, NONCE)
    assert frame is not None
    assert frame.kind is FrameKind.BATCH
    return pa.ipc.read_record_batch(frame.message, SCHEMA).num_rows


@pytest.mark.parametrize("asked_before", [0, 3])
def test_send_small_batch_returns_once_the_reader_asks_for_more(
    ends: tuple[socket.socket, socket.socket], asked_before: int
) -> None:
    """What it asked before, for the schema or for batches too large to wait for it, is no answer."""
    _, reading = ends
    reading.sendall(ASKING * asked_before)
    out = paced_writer(ends)
    sending = Sending(lambda: out.send(SMALL))
    assert received(reading) == 3
    sending.join(0.2)
    assert sending.is_alive(), "it does not wait for the reader"
    reading.sendall(ASKING)
    assert sending.ended() is None


def test_send_large_batch_waits_for_nobody(ends: tuple[socket.socket, socket.socket]) -> None:
    _, reading = ends
    out = paced_writer(ends)
    reader = Sending(lambda: [received(reading), received(reading)] == [LARGE.num_rows] * 2 or pytest.fail("short"))
    out.send(LARGE)
    out.send(LARGE)
    assert reader.ended() is None


def test_send_where_nobody_asks_waits_for_nobody(ends: tuple[socket.socket, socket.socket]) -> None:
    _, reading = ends
    out = paced_writer(ends, asking=False)
    for _ in range(3):
        out.send(SMALL)
    assert [received(reading) for _ in range(3)] == [3, 3, 3]


@pytest.mark.parametrize("words", [b"", LEAVING + b"enough"], ids=["silent", "with a reason"])
def test_send_reader_leaves_raises_and_leaves_the_reason(
    ends: tuple[socket.socket, socket.socket], words: bytes
) -> None:
    writing, reading = ends
    out = paced_writer(ends)
    sending = Sending(lambda: out.send(SMALL))
    assert received(reading) == 3
    reading.sendall(words)
    reading.shutdown(socket.SHUT_WR)
    assert isinstance(sending.ended(), ConnectionResetError)
    assert writing.recv(100) == words.removeprefix(LEAVING)
    with pytest.raises(OSError, match="gone"):
        out.send(SMALL)


def test_send_endpoint_closes_the_connection_raises(ends: tuple[socket.socket, socket.socket]) -> None:
    writing, reading = ends
    out = paced_writer(ends)
    sending = Sending(lambda: out.send(SMALL))
    assert received(reading) == 3
    writing.shutdown(socket.SHUT_RDWR)
    assert isinstance(sending.ended(), OSError)
