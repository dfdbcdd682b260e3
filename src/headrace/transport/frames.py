"""Frames: how batches, their end and their errors are written to a socket and read; driver and executor Python.

A frame is a header (see ``protocol``) and its two parts. SCHEMA, DICTIONARY and BATCH carry an encapsulated Arrow IPC
message (metadata, then body), END the number of rows and batches that were sent, ERROR a Failure as JSON, MESSAGE the
bytes with which a stream is answered. Each bears the nonce of the request that it belongs to. A stream without END or
ERROR was cut. Where the connection has seals, a tag over header and first part follows the first part, and another one
the second part of what a planner is asked.
"""

from __future__ import annotations

import errno
import socket
import ssl
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headrace.arrow.batches import halves
from headrace.arrow.types import is_view
from headrace.errors import TransportError
from headrace.transport.protocol import (
    FRAME_HEADER,
    MAX_FIRST_BYTES,
    MAX_SECOND_BYTES,
    PROTOCOL_VERSION,
    ROWS_READ,
    SPLIT_BYTES,
    TAG_BYTES,
    TOLD_WHEN_READ,
    TOTALS,
    FrameKind,
)
from headrace.transport.seal import FrameSeal

SEND_BUFFER_BYTES = 1 << 20
_SMALL_BATCH_BYTES = 64 * 1024
_MAX_PIECES = 512
_TIMEVAL = struct.Struct("@ll")
_VIEW_BYTES = 16
_PREFIX = struct.Struct("<II")  # of an IPC message: a mark, and how many bytes of metadata follow
_MESSAGE_KINDS = {
    2: FrameKind.DICTIONARY,
    3: FrameKind.BATCH,
}  # by Arrow's number for what a message holds; 1 is a schema
_SEALED_WHOLE = (FrameKind.QUESTION, FrameKind.ANSWER)
_BATCH_OPTIONS = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)


class FrameWriter:
    """Writes one partition's frames to a connected socket, each as soon as it is given.

    ``nonce`` is that of the request; with ``seal`` frames get tags. One thread at a time. Raises OSError when the
    reader is gone.
    """

    def __init__(self, sock: socket.socket, schema: pa.Schema, nonce: int, seal: FrameSeal | None = None) -> None:
        self._socket = sock
        self._nonce = nonce
        self._seal = seal
        self._rows = 0
        self._batches = 0
        self._schema = schema
        self._flags = 0
        self._begun = False
        self._has_dictionaries = False
        self._ipc: _IpcWriter | None = None
        self._owes_schema = False

    def schema(self, *, told_when_read: bool = False, held: bool = False) -> None:
        """The first frame. ``told_when_read``: the reader is to say ASKING when it waits.

        ``held``: it goes out together with the frame that follows it.
        """
        self._flags = TOLD_WHEN_READ if told_when_read else 0
        self._begun = True
        self._has_dictionaries = any(pa.types.is_dictionary(kind) for kind in self._schema.types)
        self._ipc = None
        self._owes_schema = held
        if not held:
            send_all(self._socket, self._schema_frame())

    def batch(self, batch: pa.RecordBatch) -> None:
        """Large batches go out from where they lie in memory; small ones are cheaper to copy into one piece.

        The largest go out in several, so that no reader needs memory for all of it. Raises TransportError for a single
        row that is too large. Columns may be dictionaries or views: SCHEMA is sent again before a batch of another
        schema than the last one's, and DICTIONARY before a batch whose dictionary is new or has grown.
        """
        if not self._begun or not batch.schema.equals(self._schema):
            self._schema = batch.schema
            self.schema(told_when_read=bool(self._flags), held=True)
        small = not self._has_dictionaries and not is_at_least(batch, _SMALL_BATCH_BYTES)
        if not small and batch.num_rows > 1 and _is_more_than(batch, SPLIT_BYTES):
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
        self._ipc = self._ipc or _IpcWriter(self._schema)
        for kind, metadata, body in self._ipc.messages(batch):
            self._send(kind, memoryview(metadata), body)

    def end(self, rows_read: int | None = None) -> None:
        """``rows_read``: how many rows those that were sent were made of, where that may be another number."""
        read = b"" if rows_read is None else ROWS_READ.pack(rows_read)
        self._send(FrameKind.END, memoryview(TOTALS.pack(self._rows, self._batches) + read), [])

    def error(self, failure_json: str) -> None:
        self._send(FrameKind.ERROR, memoryview(failure_json.encode()), [])

    def _send(self, kind: FrameKind, first: memoryview, second: Sequence[Any]) -> None:
        """Frames are made in the order in which they are sent, and all of them are: the seal counts them."""
        _check_lengths(kind, first, second)
        owed = self._schema_frame() if self._owes_schema else []
        self._owes_schema = False
        send_all(self._socket, [*owed, *self._frame(kind, first, second)])

    def _schema_frame(self) -> list[Any]:
        return self._frame(FrameKind.SCHEMA, memoryview(_serialized(self._schema)), [], self._flags)

    def _frame(self, kind: FrameKind, first: memoryview, second: Sequence[Any], flags: int = 0) -> list[Any]:
        """Has to be sent before the one that is made next."""
        return frame_pieces(kind, first, second, self._nonce, self._seal, flags)


def frame_pieces(
    kind: FrameKind, first: Any, second: Sequence[Any], nonce: int, seal: FrameSeal | None, flags: int = 0
) -> list[Any]:
    """A frame, in the pieces of memory in which it lies. Raises TransportError for one that is too large."""
    body = _check_lengths(kind, first, second)
    header = FRAME_HEADER.pack(kind, PROTOCOL_VERSION, flags, len(first), body, nonce)
    if seal is None:
        return [header, first, *second]
    pieces = [header, first, seal.tag(header, first), *second]
    return [*pieces, seal.tag(*second)] if kind in _SEALED_WHOLE else pieces


def send_error(sock: socket.socket, failure_json: str, nonce: int, seal: FrameSeal | None = None) -> None:
    """An ERROR frame, where no other comes before it in this direction. Raises OSError when the peer is gone."""
    send_all(sock, frame_pieces(FrameKind.ERROR, failure_json.encode(), [], nonce, seal))


def send_message(sock: socket.socket, message: bytes, nonce: int, seal: FrameSeal | None = None) -> None:
    """The answer to a stream that was received up to its END. Raises OSError when the peer is gone."""
    send_all(sock, frame_pieces(FrameKind.MESSAGE, message, [], nonce, seal))


def _check_lengths(kind: FrameKind, first: Any, second: Sequence[Any]) -> int:
    """The bytes of the second part. Raises TransportError where either part is too large."""
    body = sum(len(piece) for piece in second)
    if len(first) > MAX_FIRST_BYTES or body > MAX_SECOND_BYTES:
        raise TransportError(
            f"a {kind.name} frame would have {len(first)} and {body} bytes; the schema may have at most "
            f"{MAX_FIRST_BYTES} bytes, and a single row {MAX_SECOND_BYTES}"
        )
    return body


_last_serialized: tuple[pa.Schema, pa.Buffer] | None = None


def _serialized(schema: pa.Schema) -> pa.Buffer:
    """As an IPC message. Most partitions have the very schema of the one before. Any number of threads."""
    global _last_serialized
    last = _last_serialized
    if last is None or last[0] is not schema:
        _last_serialized = last = schema, schema.serialize()
    return last[1]


@dataclass(frozen=True)
class Frame:
    """A frame as it was received; ``message`` holds both of its parts."""

    kind: FrameKind
    message: pa.Buffer


def read_frame(sock: socket.socket, nonce: int, seal: FrameSeal | None = None) -> Frame | None:
    """The next frame; None where the connection ended instead.

    Raises TransportError for what is not a frame, or is not one of the request that ``nonce`` stands for, or not what
    the other side has sealed. Memory is taken as the bytes come.
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
    tag_bytes = 0 if seal is None else TAG_BYTES
    start = _received(sock, b"", first + tag_bytes)
    if start is None:
        return None
    if seal is not None:
        seal.check(start[first:], header, start[:first])
    if seal is None or kind not in _SEALED_WHOLE:
        message = _received(sock, start[:first], second)
    else:
        message = _received(sock, start[:first], second + tag_bytes)
        if message is not None:
            end = first + second
            seal.check(message[end:], message[first:end])
            message = message[:end]
    return None if message is None else Frame(FrameKind(kind), message)


def _received(sock: socket.socket, before: Any, count: int) -> pa.Buffer | None:
    """``before`` and the next ``count`` bytes of a frame that has begun; None where the connection ended instead."""
    position, size = len(before), len(before) + count
    while True:
        message = pa.allocate_buffer(min(size, position + max(position, SPLIT_BYTES)))
        memoryview(message).cast("B")[:position] = memoryview(before).cast("B")
        if not receive_into(sock, memoryview(message)[position:], begun=True):
            return None
        if message.size == size:
            return message
        before, position = message, message.size


def read_totals(frame: Frame) -> tuple[int, int]:
    """Rows and batches of an END frame. Raises TransportError if it has none."""
    if frame.message.size not in (TOTALS.size, TOTALS.size + ROWS_READ.size):
        raise TransportError("an END frame without totals")
    rows, batches = TOTALS.unpack_from(frame.message)
    return rows, batches


def limit_stalls(sock: socket.socket, seconds: float) -> None:
    """From now on a frame that has begun on this blocking socket must go on within ``seconds``; 0 is no limit.

    Between frames it may take any time. TLS does not pass the system's limit on, so there the socket's own is set,
    which holds for what is sent, too.
    """
    if isinstance(sock, ssl.SSLSocket):
        sock.settimeout(seconds or None)
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _TIMEVAL.pack(int(seconds), int(seconds % 1 * 1e6)))


def receive_into(sock: socket.socket, target: memoryview, *, begun: bool = False) -> bool:
    """Fill ``target``; False when the connection ended before.

    ``begun``: it is part of a frame whose header has come. Raises TransportError when that stalls.
    """
    position = 0
    while position < len(target):
        try:
            received = sock.recv_into(target[position:])
        except (BlockingIOError, TimeoutError) as error:  # the limit on stalls
            if error.errno == errno.ETIMEDOUT:  # no: the system says that the peer is gone
                raise
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


def _is_more_than(batch: pa.RecordBatch, size: int) -> bool:
    """Whether the batch has more than ``size`` bytes that become less when it is cut.

    Dictionaries and the data behind views do not. The exact number costs as much as sending a small column: it is only
    asked for where it could be so large, if every column had all buffers of the batch.
    """
    most = batch.get_total_buffer_size() * batch.num_columns
    if most <= size and not any(kind.num_fields for kind in batch.schema.types):
        return False
    return size < sum(
        _VIEW_BYTES * len(column)
        if is_view(column.type)
        else (column.indices if pa.types.is_dictionary(column.type) else column).nbytes
        for column in batch.columns
    )


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


class _IpcWriter:
    """Batches of one schema as Arrow IPC messages, in the pieces of memory in which they lie.

    Arrow's own ``serialize`` copies a batch first. With it push took 1.2 times as long, and pull 1.05 times: hence the
    reading of flatbuffers below.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._pieces = _Pieces()
        self._stream = pa.ipc.new_stream(pa.PythonFile(self._pieces, mode="w"), schema, options=_BATCH_OPTIONS)

    def messages(self, batch: pa.RecordBatch) -> Iterator[tuple[FrameKind, bytes, list[Any]]]:
        """Metadata and body of each message, first those of dictionaries that are new or have grown."""
        self._stream.write_batch(batch)
        pieces = self._pieces.take()
        position = 0
        while position < len(pieces):
            _, length = _PREFIX.unpack(bytes(pieces[position]) + bytes(pieces[position + 1]))
            metadata, position = _first(pieces, position, _PREFIX.size + length)
            message = b"".join(metadata)
            holds, body_length = _message_head(message)
            body, position = _first(pieces, position, body_length)
            if holds in _MESSAGE_KINDS:  # the schema, with the first batch, was sent already
                yield _MESSAGE_KINDS[holds], message, body


def _first(pieces: list[Any], position: int, length: int) -> tuple[list[Any], int]:
    """The pieces from ``position`` on that make ``length`` bytes, and where the next one stands."""
    start = position
    while length > 0:
        length -= len(pieces[position])
        position += 1
    return pieces[start:position], position


def _message_head(message: bytes) -> tuple[int, int]:
    """What an IPC message holds, by Arrow's number, and the length of its body.

    The metadata is a flatbuffer: the root table's place, there how far back its index of fields lies, and in that, from
    byte 4 on, where in the table each field stands. Field 1 is the kind, field 3 the length.
    """
    table = _PREFIX.size + int.from_bytes(message[8:12], "little")
    index = table - int.from_bytes(message[table : table + 4], "little", signed=True)
    size, kind_at, length_at = (
        int.from_bytes(message[at : at + 2], "little") for at in (index, index + 4 + 2 * 1, index + 4 + 2 * 3)
    )
    length_at = length_at if size > 4 + 2 * 3 else 0  # a body of length 0 may be left out
    length = int.from_bytes(message[table + length_at : table + length_at + 8], "little") if length_at else 0
    return message[table + kind_at], length


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
