"""Merging of small batches while the reader is behind, never holding one back; driver and executor Python."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import pyarrow as pa

from headrace.arrow.batches import merged
from headrace.arrow.sizes import BATCH_ROWS, LARGE_BYTES, LARGE_ROWS, MERGED_BYTES
from headrace.transport.frames import FrameWriter, is_at_least

_BUSY_SECONDS = 0.0005


class CoalescingWriter:
    """Sends batches as they are given; small ones that come faster than they can be sent go out merged.

    A batch that is large, or that comes after a pause, is sent by the caller's own thread. Small batches in
    quick succession are queued for a sender thread, which always sends everything that is queued at once: it
    never waits for more. ``send`` blocks while the queue is full. One caller thread.
    """

    def __init__(self, writer: FrameWriter) -> None:
        self._writer = writer
        self._writing = threading.Lock()
        self._changed = threading.Condition()
        self._queue: list[pa.RecordBatch] = []
        self._rows = 0
        self._bytes = 0
        self._closing = False
        self._error: BaseException | None = None
        self._sender: threading.Thread | None = None
        self._last_sent = 0.0

    def send(self, batch: pa.RecordBatch) -> None:
        """Raises OSError when the reader is gone."""
        large = batch.num_rows >= LARGE_ROWS or is_at_least(batch, LARGE_BYTES)
        if large or time.monotonic() - self._last_sent > _BUSY_SECONDS:
            if self._sender is None:  # nothing is queued, and no other thread writes
                self._writer.batch(batch)
                self._last_sent = time.monotonic()
            else:
                self._send_queued([batch])
            return
        with self._changed:
            self._changed.wait_for(self._has_room)
            self._raise_error()
            self._queue.append(batch)
            self._rows += batch.num_rows
            self._bytes += min(batch.get_total_buffer_size(), LARGE_BYTES)
            self._changed.notify_all()
        if self._sender is None:
            self._sender = threading.Thread(target=self._run, name="headrace-sender", daemon=True)
            self._sender.start()

    def finish(self) -> None:
        """Send what is queued and end the sender thread. Raises OSError when the reader is gone. Idempotent."""
        if self._sender is None:  # only ``send`` starts it, right after it has queued something
            self._raise_error()
            return
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._sender.join()
        self._sender = None
        self._raise_error()
        self._send_queued([])

    def abort(self) -> None:
        """Drop what is queued and end the sender thread; for a stream that nobody reads any more. Idempotent."""
        if self._sender is None:
            return
        with self._changed:
            self._queue = []
            self._closing = True
            self._changed.notify_all()
        self._sender.join()
        self._sender = None

    def _has_room(self) -> bool:
        return self._error is not None or (self._rows < BATCH_ROWS and self._bytes < MERGED_BYTES)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._closing)
                if not self._queue:
                    return
            try:
                self._send_queued([])
            except BaseException as error:  # whatever it is: what was queued is lost, and the caller must hear of it
                with self._changed:
                    self._error = error
                    self._changed.notify_all()
                return

    def _send_queued(self, then: Sequence[pa.RecordBatch]) -> None:
        self._raise_error()
        with self._writing:  # taken before the queue is, so that order is kept
            with self._changed:
                queued, self._queue = self._queue, []
                self._rows = self._bytes = 0
                self._changed.notify_all()
            if queued:
                self._writer.batch(merged(queued))
            for batch in then:
                self._writer.batch(batch)
            self._last_sent = time.monotonic()

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error
