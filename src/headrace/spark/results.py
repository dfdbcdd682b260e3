"""ResultStream: a query's result as Arrow batches while the query still runs; driver Python."""

from __future__ import annotations

import json
import threading
import uuid
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import monotonic
from types import TracebackType
from typing import Any

import pyarrow as pa
from pyspark import InheritableThread
from pyspark.sql import DataFrame

from headrace.errors import HeadraceError
from headrace.spark.failures import translate
from headrace.spark.planner import Planner
from headrace.transport.endpoint import Endpoint
from headrace.transport.inbox import ResultInbox

_CANCEL_AGAIN_SECONDS = 0.05
_CANCEL_SECONDS = 30.0


@dataclass(frozen=True)
class Progress:
    """How far a result is: what was handed out, and how many of its partitions have arrived (None: unknown yet)."""

    rows: int
    batches: int
    partitions_done: int
    partitions: int | None
    seconds: float


class ResultStream:
    """An iterator of ``pa.RecordBatch`` in the query's order, with bounded memory.

    One consumer at a time. Closing it (or leaving its ``with`` block, or dropping it) cancels the Spark job if it
    still runs. Raises Headrace's own errors; Spark's own pass unchanged. Readable by anything that takes an
    Arrow stream (``pl.from_arrow``, ``duckdb``, ``pa.RecordBatchReader.from_stream``).
    """

    def __init__(
        self,
        frame: DataFrame,
        planner: Planner,
        endpoint: Endpoint,
        context_id: str,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> None:
        connector: Any = frame.sparkSession.sparkContext._jvm
        message = connector.org.headrace.spark.ResultJob.schema(frame._jdf)
        self.schema: pa.Schema = pa.ipc.read_schema(pa.py_buffer(message))
        self._inbox = ResultInbox(self.schema)
        self._on_progress = on_progress
        self._started = monotonic()
        self._rows = self._batches = 0
        self._ended = False
        query = _RunningQuery(frame, planner, endpoint, context_id, self._inbox)
        self._finalizer = weakref.finalize(self, query.cancel)
        query.start()

    def read_next_batch(self) -> pa.RecordBatch:
        """The next batch; StopIteration at the end. Blocks until there is one."""
        if self._ended:
            raise StopIteration
        try:
            batch = self._inbox.take()
        except BaseException:
            self.close()
            raise
        if batch is None:
            self.close()
            self._report()
            raise StopIteration
        self._rows += batch.num_rows
        self._batches += 1
        self._report()
        return batch

    def close(self) -> None:
        """Cancel the query if it still runs, and wait until it has ended. Idempotent."""
        self._ended = True
        self._finalizer()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        return self.read_next_batch()

    def __enter__(self) -> ResultStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.close()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return pa.RecordBatchReader.from_batches(self.schema, self).__arrow_c_stream__(requested_schema)

    def _report(self) -> None:
        if self._on_progress is not None:
            done, count = self._inbox.progress()
            self._on_progress(Progress(self._rows, self._batches, done, count, monotonic() - self._started))


class _RunningQuery:
    """The thread that runs the query, and how to end it. Does not know the ResultStream, so that may be dropped."""

    def __init__(
        self, frame: DataFrame, planner: Planner, endpoint: Endpoint, context_id: str, inbox: ResultInbox
    ) -> None:
        self._frame = frame
        self._planner = planner
        self._endpoint = endpoint
        self._inbox = inbox
        self._context_id = context_id
        self._tag = f"headrace-{uuid.uuid4().hex}"
        self._over = threading.Event()
        self._ticket = endpoint.offer(inbox.open)
        self._thread = InheritableThread(target=self._run, name="headrace-query", daemon=True)

    def start(self) -> None:
        self._planner.expect_result(self._tag, self._inbox)
        self._thread.start()

    def cancel(self) -> None:
        """End the query and wait for that. A job that has not started yet cannot be cancelled: so again and again."""
        self._inbox.close()
        context: Any = self._frame.sparkSession.sparkContext._jsc
        deadline = monotonic() + _CANCEL_SECONDS
        while not self._over.wait(_CANCEL_AGAIN_SECONDS) and monotonic() < deadline:
            context.sc().cancelJobsWithTag(self._tag)

    def _run(self) -> None:
        context = self._frame.sparkSession.sparkContext
        connector: Any = context._jvm
        try:
            connector.org.headrace.spark.ResultJob.run(
                self._frame._jdf,
                self._context_id,
                json.dumps(self._endpoint.address(self._ticket)),
                self._tag,
                self._tag,
            )
            self._inbox.finish()
        except Exception as error:  # Spark's and Py4J's exceptions: all of them end the result
            self._inbox.fail(_own(error))
        finally:
            self._endpoint.withdraw(self._ticket)
            self._planner.forget_result(self._tag)
            self._over.set()


def _own(error: Exception) -> BaseException:
    translated = translate(error)
    if translated is None:
        return error
    if translated.__cause__ is None and not isinstance(error, HeadraceError):
        translated.__cause__ = error
    return translated
