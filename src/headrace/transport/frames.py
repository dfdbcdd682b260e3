"""Frames: how batches, their end and their errors are written to a socket and read; driver and executor Python.

A frame is a header (see ``protocol``) and its two parts. SCHEMA and BATCH carry an encapsulated Arrow IPC message
(metadata, then body), END the number of rows and batches that were sent, ERROR a Failure as JSON. Each bears the nonce
of the request that it answers. A stream without END or ERROR was cut.
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headrace.arrow.batches import halves
from headrace.errors import TransportError
from headrace.transport.protocol import (
    FRAME_HEADER,
    MAX_FIRST_BYTES,
    MAX_SECOND_BYTES,
    PROTOCOL_VERSION,
    SPLIT_BYTES,
    TOLD_WHEN_READ,
    TOTALS,
    FrameKind,
)

SEND_BUFFER_BYTES = 1 << 20
_SMALL_BATCH_BYTES = 64 * 1024
_MAX_PIECES = 512
_TIMEVAL = struct.Struct("@ll")


class FrameWriter:
    """Writes one partition's frames to a connected socket, each as soon as it is given.

    ``nonce`` is that of the request. One thread at a time. Raises OSError when the reader is gone.
    """

    def __init__(self, sock: socket.socket, schema: pa.Schema, nonce: int) -> None:
        self._socket = sock
        self._nonce = nonce
        self._pieces = _Pieces()
        self._ipc = pa.ipc.new_stream(pa.PythonFile(self._pieces, mode="w"), schema)
        self._rows = 0
        self._batches = 0
        self._schema = schema

    def schema(self, *, told_when_read: bool = False) -> None:
        """The first frame. ``told_when_read``: the reader is to say ASKING when it waits."""
        # The IPC writer would emit the schema with its first batch: let it do so into the void.
        self._ipc.write_batch(pa.RecordBatch.from_pylist([], self._schema))
        self._pieces.take()
        flags = TOLD_WHEN_READ if told_when_read else 0
        self._send(FrameKind.SCHEMA, memoryview(self._schema.serialize()), [], flags)

    def batch(self, batch: pa.RecordBatch) -> None:
        """Large batches go out from where they lie in memory; small ones are cheaper to copy into one piece.

        The largest go out in several, so that no reader needs memory for all of it. Raises TransportError for a single
        row that is too large.
        """
        small = not is_at_least(batch, _SMALL_BATCH_BYTES)
        if not small and batch.num_rows > 1 and batch.nbytes > SPLIT_BYTES:
            for half in halves(batch):
                self.batch(half)
            return
        self._rows += batch.num_rows
        self._batches += 1
        if small:
            message = memoryview(batch.serialize())
            cut = 8 + int.from_bytes(message[4:8], "little")
            self._send(FrameKind.BATCH, message[:cut], [message[cut:]])
            return
        self._ipc.write_batch(batch)
        pieces = self._pieces.take()
        length = 8 + int.from_bytes(pieces[1], "little")
        index = metadata_length = 0
        while metadata_length < length:
            metadata_length += len(pieces[index])
            index += 1
        self._send(FrameKind.BATCH, memoryview(b"".join(pieces[:index])), pieces[index:])

    def end(self) -> None:
        self._send(FrameKind.END, memoryview(TOTALS.pack(self._rows, self._batches)), [])

    def error(self, failure_json: str) -> None:
        self._send(FrameKind.ERROR, memoryview(failure_json.encode()), [])

    def _send(self, kind: FrameKind, first: memoryview, second: Sequence[Any], flags: int = 0) -> None:
        body = sum(len(piece) for piece in second)
        if len(first) > MAX_FIRST_BYTES or body > MAX_SECOND_BYTES:
            raise TransportError(
                f"a {kind.name} frame would have {len(first)} and {body} bytes; the schema may have at most "
                f"{MAX_FIRST_BYTES} bytes, and a single row {MAX_SECOND_BYTES}"
            )
        header = FRAME_HEADER.pack(kind, PROTOCOL_VERSION, flags, len(first), body, self._nonce)
        send_all(self._socket, [header, first, *second])


@dataclass(frozen=True)
class Frame:
    """A frame as it was received; ``message`` holds both of its parts."""

    kind: FrameKind
    message: pa.Buffer


def read_frame(sock: socket.socket, nonce: int) -> Frame | None:
    """The next frame; None where the connection ended instead.

    Raises TransportError for what is not a frame, or is not one of the request that ``nonce`` stands for.
    """
    header = bytearray(FRAME_HEADER.size)
    if not receive_into(sock, memoryview(header)):
        return None
    kind, version, _, first, second, found = FRAME_HEADER.unpack(header)
    if (
        version != PROTOCOL_VERSION
        or kind not in list(FrameKind)
        or first > MAX_FIRST_BYTES
        or second > MAX_SECOND_BYTES
    ):
        raise TransportError(f"not a Headrace frame (kind {kind}, version {version}, lengths {first} and {second})")
    if found != nonce:
        raise TransportError(f"a frame of another request (kind {kind}, nonce {found:016x}, expected {nonce:016x})")
    message = pa.allocate_buffer(first + second)
    return Frame(FrameKind(kind), message) if receive_into(sock, memoryview(message), begun=True) else None


def read_totals(frame: Frame) -> tuple[int, int]:
    """Rows and batches of an END frame. Raises TransportError if it has none."""
    if frame.message.size != TOTALS.size:
        raise TransportError("an END frame without totals")
    rows, batches = TOTALS.unpack(frame.message)
    return rows, batches


def limit_stalls(sock: socket.socket, seconds: float) -> None:
    """From now on a frame that has begun on this blocking socket must go on within ``seconds``.

    Between frames it may take any time. Without effect under TLS, where the system's limit is not passed on.
    """
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _TIMEVAL.pack(int(seconds), int(seconds % 1 * 1e6)))


def receive_into(sock: socket.socket, target: memoryview, *, begun: bool = False) -> bool:
    """Fill ``target``; False when the connection ended before.

    ``begun``: it is part of a frame whose header has come. Raises TransportError when that stalls.
    """
    position = 0
    while position < len(target):
        try:
            received = sock.recv_into(target[position:])
        except BlockingIOError:  # the limit on stalls
            if begun or position:
                missing = len(target) - position
                raise TransportError(
                    f"a frame stopped before its end: {missing} bytes are missing and none has come in time"
                ) from None
            continue
        if received == 0:
            return False
        position += received
    return True


def is_at_least(batch: pa.RecordBatch, size: int) -> bool:
    """Whether the batch has ``size`` bytes. ``nbytes`` is exact for slices, but costs as much as a small send."""
    return bool(batch.get_total_buffer_size() >= size and batch.nbytes >= size)


def send_all(sock: socket.socket, pieces: Sequence[Any]) -> None:
    """Send every byte of ``pieces`` in order without joining them first."""
    if isinstance(sock, ssl.SSLSocket):  # TLS has no gathering write; small pieces are joined to make whole records
        for piece in _joined(pieces):
            sock.sendall(piece)
        return
    views = [memoryview(piece).cast("B") for piece in pieces if len(piece)]
    position = 0
    while position < len(views):
        sent = sock.sendmsg(views[position : position + _MAX_PIECES])
        while position < len(views) and sent >= len(views[position]):
            sent -= len(views[position])
            position += 1
        if sent:
            views[position] = views[position][sent:]


def _joined(pieces: Sequence[Any]) -> Iterator[Any]:
    small = bytearray()
    for piece in pieces:
        if len(piece) < _SMALL_BATCH_BYTES:
            small += memoryview(piece).cast("B")
            continue
        if small:
            yield bytes(small)
            small.clear()
        yield piece
    if small:
        yield bytes(small)


class _Pieces:
    """A file that keeps what Arrow writes to it as references instead of copying it."""

    closed = False

    def __init__(self) -> None:
        self._pieces: list[Any] = []

    def write(self, data: Any) -> int:
        self._pieces.append(data)
        return len(data)

    def take(self) -> list[Any]:
        taken, self._pieces = self._pieces, []
        return taken

    def flush(self) -> None: ...

    def close(self) -> None: ...

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False
