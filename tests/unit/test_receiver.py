"""A task's frames on their way into the inbox: whole, cut off, damaged, late, unwanted; without Spark."""

from __future__ import annotations

import json
import socket
import ssl
from pathlib import Path

import pyarrow as pa
import pytest

import headrace.results.receiver as receiver_module
import headrace.transport.received as received_module
from certificates import make_identity
from headrace.errors import StreamError, TransportError
from headrace.results.inbox import ResultInbox
from headrace.transport.frames import FrameWriter, read_frame
from headrace.transport.listeners import TlsIdentity
from headrace.transport.protocol import FRAME_HEADER, PROTOCOL_VERSION, TOTALS, FrameKind
from inboxes import NONCE, SCHEMA, batch, sender, values
from pushing import InBackground
from raw_frames import UNSEALED


class Served:
    """A receiver with a socket, and the task's end of it."""

    def __init__(self, inbox: ResultInbox, schema: pa.Schema = SCHEMA, tls: TlsIdentity | None = None) -> None:
        self.task, mine = socket.socketpair()
        self.task.settimeout(60)
        receiver = sender(inbox, 0)

        def serve() -> None:
            with mine if tls is None else tls.context.wrap_socket(mine, server_side=True) as sock:
                receiver.serve(sock, NONCE, UNSEALED)

        self.serving = InBackground(serve)
        if tls is not None:
            trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            trusting.check_hostname = False
            trusting.verify_mode = ssl.CERT_NONE
            self.task = trusting.wrap_socket(self.task)
        self.writer = FrameWriter(self.task, schema, NONCE)
        self.writer.schema()


def is_confirmed(served: Served) -> bool:
    frame = read_frame(served.task, NONCE)
    return frame is not None and (frame.kind, frame.message.size) == (FrameKind.MESSAGE, 0)


def test_receiver_confirms_a_whole_partition(inbox: ResultInbox) -> None:
    inbox.announce(1)
    served = Served(inbox)
    served.writer.batch(batch(1))
    served.writer.end()
    assert is_confirmed(served)
    served.serving.result()
    inbox.finish()
    assert values(inbox) == [1]


def test_receiver_of_a_cut_connection_does_not_end_the_partition(inbox: ResultInbox) -> None:
    served = Served(inbox)
    served.writer.batch(batch(1))
    served.task.close()
    served.serving.result()
    assert inbox.progress()[0] == 0


def test_receiver_remembers_why_a_task_failed(inbox: ResultInbox) -> None:
    served = Served(inbox)
    served.writer.batch(batch(1))
    inbox.take()
    served.writer.error(json.dumps({"text": "division by zero"}))
    served.task.close()
    served.serving.result()
    with pytest.raises(StreamError, match="division by zero"):
        sender(inbox, 0, 1)


def header(kind: FrameKind, length: int, nonce: int = NONCE) -> bytes:
    return FRAME_HEADER.pack(kind, PROTOCOL_VERSION, 0, length, 0, nonce)


DAMAGE = {
    "no frame": b"\xff" * FRAME_HEADER.size,
    "unknown kind": FRAME_HEADER.pack(5, PROTOCOL_VERSION, 0, 0, 0, NONCE),
    "another request": header(FrameKind.END, TOTALS.size, NONCE + 1) + TOTALS.pack(0, 0),
    "rows": header(FrameKind.END, TOTALS.size) + TOTALS.pack(9, 0),
    "batches": header(FrameKind.END, TOTALS.size) + TOTALS.pack(0, 9),
    "no totals": header(FrameKind.END, 3) + b"abc",
    "second schema": header(FrameKind.SCHEMA, len(SCHEMA.serialize())) + bytes(SCHEMA.serialize()),
}


def test_receiver_of_another_schema_fails_the_result(inbox: ResultInbox) -> None:
    served = Served(inbox, pa.schema([("a", pa.int32())]))
    served.serving.result()
    with pytest.raises(TransportError, match=r"(?s)not those of the query.*a: int64.*a: int32"):
        inbox.take()


def strings(*offsets: int) -> pa.Array:
    return pa.Array.from_buffers(
        pa.string(), len(offsets) - 1, [None, pa.array(offsets, pa.int32()).buffers()[1], pa.py_buffer(b"x" * 64)]
    )


def lists(*offsets: int) -> pa.Array:
    values = pa.array(range(10), pa.int64())
    buffers = [None, pa.array(offsets, pa.int32()).buffers()[1]]
    return pa.Array.from_buffers(pa.list_(pa.int64()), len(offsets) - 1, buffers, children=[values])


BROKEN = {
    "far away": strings(0, 5, 0x7FFFFF00, 11),
    "decreasing": strings(0, 9, 3, 11),
    "negative": strings(0, -5, 3, 11),
    "list": lists(0, 5, 2, 10),
    "nested": pa.StructArray.from_arrays([strings(0, 5, 0x7FFFFF00, 11)], ["s"]),
    "in a list": pa.ListArray.from_arrays(pa.array([0, 3], pa.int32()), strings(0, 5, 2, 11)),
}


@pytest.mark.parametrize("column", BROKEN.values(), ids=BROKEN)
def test_receiver_of_a_batch_with_broken_offsets_fails_the_result(column: pa.Array) -> None:
    schema = pa.schema([("a", column.type)])
    inbox = ResultInbox(schema)
    served = Served(inbox, schema)
    message = bytes(pa.record_batch([column], schema=schema).serialize())
    served.task.sendall(header(FrameKind.BATCH, len(message)) + message)
    served.serving.result()
    with pytest.raises(TransportError, match="partition 0 of the result was damaged: a message that Arrow cannot read"):
        inbox.take(timeout_s=10)


def test_receiver_of_a_batch_that_makes_pyarrow_raise_oserror_fails_the_result(inbox: ResultInbox) -> None:
    served = Served(inbox)
    served.task.sendall(header(FrameKind.BATCH, 16) + b"\xff\xff\xff\xff" + b"\x08\0\0\0" + b"\x07" * 8)
    served.serving.result()
    with pytest.raises(TransportError, match="partition 0 of the result was damaged"):
        inbox.take(timeout_s=10)


def test_receiver_that_fails_for_another_reason_fails_the_result_with_it(
    inbox: ResultInbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_much(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(inbox, "put", too_much)
    served = Served(inbox)
    served.writer.batch(batch(1))
    served.serving.result()
    with pytest.raises(TransportError, match="partition 0 of the result was damaged: MemoryError"):
        inbox.take(timeout_s=10)


@pytest.fixture(params=["plain", "TLS"])
def identity(request: pytest.FixtureRequest, tmp_path: Path) -> TlsIdentity | None:
    return make_identity(tmp_path, "driver") if request.param == "TLS" else None


@pytest.mark.parametrize("sent", [5, FRAME_HEADER.size + 5], ids=["header", "body"])
def test_receiver_of_a_frame_that_stops_half_way_fails_the_result_in_time(
    inbox: ResultInbox, monkeypatch: pytest.MonkeyPatch, sent: int, identity: TlsIdentity | None
) -> None:
    monkeypatch.setattr(received_module, "STALL_SECONDS", 0.2)
    served = Served(inbox, tls=identity)
    served.task.sendall((header(FrameKind.BATCH, 100) + bytes(100))[:sent])
    with pytest.raises(TransportError, match="a frame stopped before its end"):
        inbox.take(timeout_s=10)
    served.serving.result()


def test_receiver_waits_between_frames_as_long_as_it_takes(
    inbox: ResultInbox, monkeypatch: pytest.MonkeyPatch, identity: TlsIdentity | None
) -> None:
    monkeypatch.setattr(received_module, "STALL_SECONDS", 0.05)
    inbox.announce(1)
    served = Served(inbox, tls=identity)
    served.serving.join(0.3)
    assert served.serving.is_alive()
    served.writer.batch(batch(1))
    served.serving.join(0.3)
    served.writer.end()
    assert is_confirmed(served)
    inbox.finish()
    assert values(inbox) == [1]


def test_receiver_of_strings_that_are_no_utf8_hands_them_out() -> None:
    schema = pa.schema([("a", pa.string())])
    inbox = ResultInbox(schema)
    inbox.announce(1)
    served = Served(inbox, schema)
    served.writer.batch(pa.record_batch([pa.array([b"\xff"]).view(pa.string())], schema=schema))
    served.writer.end()
    assert is_confirmed(served)
    taken = inbox.take(timeout_s=10)
    assert taken is not None
    assert taken["a"].view(pa.binary()).to_pylist() == [b"\xff"]


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_receiver_of_damaged_frames_fails_the_result(inbox: ResultInbox, damage: bytes) -> None:
    served = Served(inbox)
    served.task.sendall(damage)
    served.serving.result()
    with pytest.raises(TransportError, match="partition 0 of the result was damaged"):
        inbox.take()


def test_receiver_of_a_closed_result_drops_what_comes_until_the_task_ends(
    inbox: ResultInbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the task is cancelled, and does not fail first because its connection broke."""
    monkeypatch.setattr(receiver_module, "_CANCEL_GRACE_SECONDS", 60.0)
    served = Served(inbox)
    inbox.close()
    for number in range(1000):
        served.writer.batch(batch(number))
    served.task.settimeout(0.1)
    with pytest.raises(TimeoutError):
        served.task.recv(10)
    served.task.close()
    served.serving.result()
    assert inbox.waiting_bytes == 0


def test_receiver_hangs_up_when_nobody_wants_the_result(inbox: ResultInbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiver_module, "_CANCEL_GRACE_SECONDS", 0.05)
    served = Served(inbox)
    inbox.close()
    served.writer.batch(batch(1))
    served.serving.result()
    assert served.task.recv(10) == b""
