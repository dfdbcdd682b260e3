"""Sending at the reader's pace: more is fetched once it has read what is small; driver Python."""

from __future__ import annotations

import contextlib
import socket

import pyarrow as pa

from headrace.arrow.sizes import LARGE_BYTES
from headrace.transport.frames import FrameWriter, is_at_least
from headrace.transport.protocol import ASKING


class PacedWriter:
    """Sends batches as they are given, of a source that merges all that waits for it.

    With ``asking``, after a small batch ``send`` returns only when the reader has read everything and waits for more:
    what is written meanwhile goes out as one. While a large batch is read the next is on its way already. One caller
    thread.
    """

    def __init__(self, writer: FrameWriter, asking: socket.socket | None) -> None:
        """``asking`` is the connection, if its reader was told to say when it waits."""
        self._writer = writer
        self._asking = asking

    def send(self, batch: pa.RecordBatch) -> None:
        """Raises OSError when the reader is gone."""
        if self._asking is not None:
            _forget(self._asking)
        self._writer.batch(batch)
        if self._asking is not None and not is_at_least(batch, LARGE_BYTES):
            _check(self._asking.recv(1))  # ends, too, when the reader or the endpoint closes the connection

    def finish(self) -> None:
        """Nothing is held back that would have to be sent."""

    def abort(self) -> None:
        """Nothing is held back that could be dropped."""


def _forget(asking: socket.socket) -> None:
    """The reader has asked for what is sent next; or it waited for a large batch, and that says nothing of this one."""
    with contextlib.suppress(BlockingIOError):
        while True:
            _check(asking.recv(1, socket.MSG_DONTWAIT))


def _check(received: bytes) -> None:
    """One byte at a time: what follows LEAVING is for the endpoint's thread, which tells the producer."""
    if received != ASKING:
        raise ConnectionResetError("the reader is gone")
