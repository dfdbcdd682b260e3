"""A query of a Spark Connect session: its result comes through Connect's own Arrow batches; driver Python.

The server sends a partition when all of it is computed, in order, and holds what is not sent yet: a first batch comes
later than in a classic session, and what the client does not read waits in the server's memory.
"""

from __future__ import annotations

import threading
import uuid
from collections import deque
from contextlib import closing
from time import monotonic
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from headrace.errors import ResultClosedError, TransportError
from headrace.spark import versions
from headrace.spark.connect.failures import translate
from headrace.spark.connect.patience import answers
from headrace.spark.results import check_types

_WAITING_BYTES = 16 << 20
_CANCEL_AGAIN_SECONDS = 0.2
_CANCEL_SECONDS = 30.0


class ConnectQuery:
    """A RunningQuery: one thread receives batches until ``_WAITING_BYTES`` of them wait.

    The result is whole only once ``_whole`` is set, which one line does: after the server's own end of the result.
    """

    def __init__(self, frame: DataFrame, *, bounded: bool) -> None:
        self._frame: Any = frame
        self._spark: Any = frame.sparkSession
        self.schema: pa.Schema = versions.arrow_schema(frame.schema)
        check_types(self.schema)
        self._most_bytes = _WAITING_BYTES if bounded else None
        self._tag = f"headrace-{uuid.uuid4().hex}"
        self._tags = {*self._spark.getTags(), self._tag}
        self._changed = threading.Condition()
        self._batches: deque[pa.RecordBatch] = deque()
        self._bytes = 0
        self._whole = False
        self._error: BaseException | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headrace-query", daemon=True)

    @property
    def failed(self) -> bool:
        return self._error is not None

    def start(self) -> None:
        self._thread.start()

    def take(self) -> pa.RecordBatch | None:
        with self._changed:
            self._changed.wait_for(lambda: self._batches or self._whole or self._error is not None)
            if self._error is not None:
                raise self._error
            if self._batches:
                batch = self._batches.popleft()
                self._bytes -= batch.nbytes
                self._changed.notify_all()
                return batch
            return None  # it is whole, and all of it was taken

    def progress(self) -> tuple[int, int | None]:
        """Connect does not tell of partitions."""
        return 0, None

    def is_over(self) -> bool:
        return self._over.is_set()

    def cancel(self, reason: str = "the result stream was closed before its end") -> None:
        """Asks repeatedly: what has not begun cannot be interrupted."""
        with self._changed:
            if self._batches or not self._whole:
                self._fail(ResultClosedError(reason))
        deadline = monotonic() + _CANCEL_SECONDS
        while not self._over.wait(_CANCEL_AGAIN_SECONDS) and monotonic() < deadline:
            if self._spark.is_stopped or not answers(self._spark.client):
                return  # the server is gone, or the session, and its queries with it
            try:
                self._spark.interruptTag(self._tag)
            except PySparkException:  # just now
                return

    def _run(self) -> None:
        """All of the thread: whatever ends it but the end of the result is an error, even one of memory."""
        error: BaseException | None = TransportError("the result broke off, and nothing tells why")
        try:
            self._receive()
            error = None
        except BaseException as raised:
            error = raised
            error = translate(raised) or raised
        finally:
            with self._changed:
                if error is None:
                    self._whole = True
                else:
                    self._fail(error)
                self._over.set()
                self._changed.notify_all()

    def _receive(self) -> None:
        """Returns at the end of the result, as the server tells it."""
        for tag in self._tags:  # of this thread
            self._spark.addTag(tag)
        plan = self._frame._plan
        client = self._spark.client
        # Closing it tells the server that nobody wants the rest.
        with closing(client.to_table_as_iterator(plan.to_proto(client), plan.observations)) as parts:
            for part in parts:
                if isinstance(part, pa.Table):
                    for batch in part.cast(self.schema).to_batches():
                        self._put(batch)

    def _put(self, batch: pa.RecordBatch) -> None:
        """Waits for room. Raises what ended the query meanwhile."""
        if batch.num_rows == 0:
            return
        with self._changed:
            self._changed.wait_for(
                lambda: self._error is not None or self._most_bytes is None or self._bytes < self._most_bytes
            )
            if self._error is not None:
                raise self._error
            self._batches.append(batch)
            self._bytes += batch.nbytes
            self._changed.notify_all()

    def _fail(self, error: BaseException) -> None:
        """The first cause counts. With the lock held."""
        if self._error is None:
            self._error = error
        self._batches.clear()
        self._bytes = 0
        self._changed.notify_all()
