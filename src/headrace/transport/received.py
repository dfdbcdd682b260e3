"""One task's frames as batches: in their order, checked and counted, up to END; driver and executor Python."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from math import inf
from time import monotonic
from typing import TypeVar

import pyarrow as pa

from headrace.arrow.batches import indented, same_columns
from headrace.errors import HeadraceError, TransportError
from headrace.execute.failure import Failure
from headrace.transport.frames import Frame, limit_stalls, read_frame, read_totals
from headrace.transport.protocol import STALL_SECONDS, FrameKind
from headrace.transport.seal import FrameSeal

_RECEIVE_BUFFER_BYTES = 1 << 20

T = TypeVar("T")


class SenderGone(Exception):
    """The task that sends went away before END. ``told`` is what it said of its failure: an error, a text, or ""."""

    def __init__(self, told: HeadraceError | str = "") -> None:
        super().__init__(told)
        self.told = told


class ReceivedBatches(Iterator[pa.RecordBatch]):
    """Iterates over the batches of one stream, each read when it is asked for. One thread at a time.

    Ends at END alone, when its totals are what came. Raises SenderGone where the connection ended before, or ERROR
    came; TransportError for frames that are wrong; OSError where the connection broke.
    """

    def __init__(self, sock: socket.socket, nonce: int, schema: pa.Schema, seal: FrameSeal | None = None) -> None:
        """``schema`` is the one that was planned."""
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
        limit_stalls(sock, STALL_SECONDS)
        self.ended = False
        self._socket = sock
        self._nonce = nonce
        self._seal = seal
        self._planned = schema
        self._schema: pa.Schema | None = None
        self._bytes_schema: pa.Schema | None = None
        self._rows = self._batches = 0

    def __next__(self) -> pa.RecordBatch:
        while not self.ended:
            frame = read_frame(self._socket, self._nonce, self._seal)
            if frame is None:
                raise SenderGone
            if frame.kind is FrameKind.ERROR:
                raise SenderGone(_told(frame.message.to_pybytes()))
            if self._schema is None:
                self._schema = self._checked_schema(frame)
                self._bytes_schema = pa.schema([field.with_type(_as_bytes(field.type)) for field in self._schema])
            elif frame.kind is FrameKind.BATCH:
                batch = self._checked(frame.message, self._schema)
                self._batches += 1
                self._rows += batch.num_rows
                return batch
            else:
                self._check_end(frame)
                self.ended = True
        raise StopIteration

    def _checked_schema(self, frame: Frame) -> pa.Schema:
        if frame.kind is not FrameKind.SCHEMA:
            raise TransportError(f"a frame of kind {frame.kind.name} before the schema")
        schema = _decoded(lambda: pa.ipc.read_schema(frame.message))
        if not same_columns(schema, self._planned):
            raise TransportError(
                f"its columns are not those of the query\nexpected:\n{indented(self._planned)}\n"
                f"found:\n{indented(schema)}"
            )
        return schema

    def _checked(self, message: pa.Buffer, schema: pa.Schema) -> pa.RecordBatch:
        """The batch, whose offsets were looked at one by one: whoever reads it goes where they point.

        For that its strings are taken for bytes: in Spark's they need not be UTF-8, and looking at each costs more.
        """
        _decoded(lambda: pa.ipc.read_record_batch(message, self._bytes_schema).validate(full=True))
        return _decoded(lambda: pa.ipc.read_record_batch(message, schema))

    def _check_end(self, frame: Frame) -> None:
        if frame.kind is not FrameKind.END:
            raise TransportError(f"a frame of kind {frame.kind.name} after the schema")
        rows, batches = read_totals(frame)
        if (rows, batches) != (self._rows, self._batches):
            raise TransportError(
                f"it was sent as {rows} rows in {batches} batches, {self._rows} in {self._batches} arrived"
            )


def drop_frames(sock: socket.socket, timeout_s: float | None = None) -> None:
    """Drop what a task still sends until it goes: one whose connection broke first would not see why. Never raises."""
    deadline = inf if timeout_s is None else monotonic() + timeout_s
    dropped = bytearray(_RECEIVE_BUFFER_BYTES)
    try:
        limit_stalls(sock, 0)
        while (left_s := deadline - monotonic()) > 0:
            sock.settimeout(None if left_s == inf else left_s)
            if not sock.recv_into(dropped):
                return
    except OSError:  # it broke off, or the time is over
        return


def _told(message: bytes) -> HeadraceError | str:
    """What a task says of its failure: the error of a provider or producer, or Spark's as a text."""
    try:
        data = json.loads(message)
        return Failure.from_json(message.decode()).to_exception() if "error" in data else str(data["text"])
    except (ValueError, TypeError, KeyError):
        raise TransportError("an ERROR frame without an error") from None


def _decoded(decode: Callable[[], T]) -> T:
    """What Arrow makes of a message. Raises TransportError where it cannot: its own errors include OSError."""
    try:
        return decode()
    except (pa.ArrowException, OSError, EOFError, ValueError, OverflowError) as error:
        raise TransportError(f"a message that Arrow cannot read: {error}") from error


def _as_bytes(type_: pa.DataType) -> pa.DataType:
    """The same layout, without strings."""
    if pa.types.is_string(type_):
        return pa.binary()
    if pa.types.is_large_string(type_):
        return pa.large_binary()
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(_as_bytes(field.type)) for field in type_.fields])
    if pa.types.is_map(type_):
        return pa.map_(_as_bytes(type_.key_type), _as_bytes(type_.item_type))
    if pa.types.is_list(type_):
        return pa.list_(type_.value_field.with_type(_as_bytes(type_.value_type)))
    return type_
