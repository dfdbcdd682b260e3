"""One task's frames, read into the inbox: checked, counted and confirmed; driver Python, a thread each."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from headrace.arrow.batches import indented, same_columns
from headrace.errors import HeadraceError, StreamError, TransportError
from headrace.execute.failure import Failure
from headrace.transport.frames import Frame, limit_stalls, read_frame, read_totals
from headrace.transport.protocol import ALIVE, ALIVE_SECONDS, RECEIPT, STALL_SECONDS, FrameKind
from headrace.transport.seal import Seals

if TYPE_CHECKING:
    from headrace.results.inbox import ResultInbox

_RECEIVE_BUFFER_BYTES = 1 << 20
_CANCEL_GRACE_SECONDS = 5.0  # how long a task may take to be cancelled before its connection is broken

T = TypeVar("T")


def _told(message: bytes) -> HeadraceError | str:
    """What a task says of its failure: the error of a provider or producer, or Spark's as a text. Raises ValueError."""
    data = json.loads(message)
    if not isinstance(data, dict):
        raise ValueError("an ERROR frame without an error")
    return Failure.from_json(message.decode()).to_exception() if "error" in data else str(data.get("text", ""))


class PartitionReceiver:
    """A PartitionServer that reads one task's frames into the inbox."""

    def __init__(self, inbox: ResultInbox, partition: int) -> None:
        self.partition = partition
        self._inbox = inbox
        self._rows = self._batches = 0
        self._schema: pa.Schema | None = None
        self._bytes_schema: pa.Schema | None = None
        self._sock: socket.socket | None = None
        self._signed_at = 0.0

    def give_sign_of_life(self) -> None:
        """Tell a task on another host that waits to send more; seldom enough that this never blocks."""
        sock = self._sock
        if sock is not None and sock.family != socket.AF_UNIX and monotonic() - self._signed_at >= ALIVE_SECONDS:
            self._signed_at = monotonic()
            sock.sendall(ALIVE)

    def serve(self, sock: socket.socket, nonce: int, seals: Seals) -> None:
        """A connection that ends before END is a task that failed: Spark tells, and may run it again."""
        why: HeadraceError | str = ""
        self._sock = sock
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
            limit_stalls(sock, STALL_SECONDS)
            while (frame := read_frame(sock, nonce, seals.received)) is not None:
                if frame.kind is FrameKind.ERROR:
                    why = _told(frame.message.to_pybytes())
                elif self._received_last(frame):
                    sock.sendall(RECEIPT)  # without it the task, and so the query, is not over
                    return
        except StreamError:
            if self._inbox.failed:
                _await_end(sock)
            # else nobody wants it any more, and the task notices when the connection is closed
        except OSError:  # the task is gone
            raise
        except Exception as error:
            why_not = str(error) or type(error).__name__
            self._inbox.fail(TransportError(f"partition {self.partition} of the result was damaged: {why_not}"))
        finally:
            self._inbox.left(self, why)

    def _received_last(self, frame: Frame) -> bool:
        if frame.kind is FrameKind.SCHEMA and self._schema is None:
            self._schema = _decoded(lambda: pa.ipc.read_schema(frame.message))
            if not same_columns(self._schema, self._inbox.schema):
                raise TransportError(
                    f"its columns are not those of the query\nexpected:\n{indented(self._inbox.schema)}\n"
                    f"found:\n{indented(self._schema)}"
                )
            self._bytes_schema = pa.schema([field.with_type(_as_bytes(field.type)) for field in self._schema])
        elif frame.kind is FrameKind.BATCH and self._schema is not None:
            batch = self._checked(frame.message, self._schema)
            self._batches += 1
            self._rows += batch.num_rows
            self._inbox.put(self, batch, frame.message.size)
        elif frame.kind is FrameKind.END and self._schema is not None:
            if read_totals(frame) != (self._rows, self._batches):
                rows, batches = read_totals(frame)
                raise TransportError(
                    f"it was sent as {rows} rows in {batches} batches, {self._rows} in {self._batches} arrived"
                )
            self._inbox.end(self)
            return True
        else:
            when = "before the schema" if self._schema is None else "after the schema"
            raise TransportError(f"a frame of kind {frame.kind.name} {when}")
        return False

    def _checked(self, message: pa.Buffer, schema: pa.Schema) -> pa.RecordBatch:
        """The batch, whose offsets were looked at one by one: whoever reads it goes where they point.

        For that its strings are taken for bytes: in Spark's they need not be UTF-8, and looking at each costs more.
        """
        _decoded(lambda: pa.ipc.read_record_batch(message, self._bytes_schema).validate(full=True))
        return _decoded(lambda: pa.ipc.read_record_batch(message, schema))

    def stop(self, reason: str) -> None: ...


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


def _await_end(sock: socket.socket) -> None:
    """Drop what a task still sends until it ends, for a while.

    The query is being cancelled. A task whose connection broke first would fail, and Spark would log that as an error.
    """
    deadline = monotonic() + _CANCEL_GRACE_SECONDS
    dropped = bytearray(_RECEIVE_BUFFER_BYTES)
    while (left_s := deadline - monotonic()) > 0:
        sock.settimeout(left_s)
        try:
            if not sock.recv_into(dropped):
                return
        except OSError:  # it broke off, or the time is over
            return
