"""A reader in the JVM that cannot ask any more."""

from __future__ import annotations

import select
import socket
import threading

import pyarrow as pa
import pytest

import headrace as hr
from headrace.transport import endpoint
from headrace.transport.driver_partition import DriverPartition
from headrace.transport.frames import FrameWriter
from headrace.transport.seal import Seals
from raw_frames import NUMBERS, numbers
from recording import table_of


def test_reader_that_cannot_ask_any_more_still_reads_what_was_sent(
    ctx: hr.SessionContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other side may send its last frames and close between the reader's look at the socket and its asking."""

    def serve(_partition: DriverPartition, sock: socket.socket, nonce: int, seals: Seals) -> None:
        sock.shutdown(socket.SHUT_RD)  # whoever asks from now on gets a broken pipe
        writer = FrameWriter(sock, NUMBERS, nonce, seals.sent)
        writer.schema(told_when_read=True)
        threading.Event().wait(0.3)  # the reader asks meanwhile
        writer.batch(numbers(0, 3))
        writer.end()

    monkeypatch.setattr(endpoint, "_GONE", select.POLLHUP | select.POLLERR)  # a reader that shut its side is no news
    monkeypatch.setattr(DriverPartition, "serve", serve)
    ctx.register_table("t", table_of(pa.table(numbers(0, 3)), placement=hr.Placement.DRIVER))
    assert ctx.collect("SELECT i, s FROM t").num_rows == 3
