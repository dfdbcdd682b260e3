"""A query of a classic session: its tasks send the result to this process; driver Python."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable
from time import monotonic
from typing import Any

import pyarrow as pa
from pyspark import InheritableThread
from pyspark.sql import DataFrame

from headrace.results.inbox import ResultInbox
from headrace.spark.failures import LOST, translate
from headrace.spark.launch import connector_class
from headrace.spark.planner import Planner
from headrace.spark.results import check_types
from headrace.transport.endpoint import Endpoint

_CANCEL_AGAIN_SECONDS = 0.05
_CANCEL_SECONDS = 30.0


class _QueryThread(InheritableThread):
    """Takes Spark's local properties of its starter along, which may fail too: ``run`` is given all that may."""

    def __init__(self, job: Callable[[], None], run: Callable[[Callable[[], None]], None]) -> None:
        super().__init__(target=job, name="headrace-query", daemon=True)
        self._run_guarded = run

    def run(self) -> None:
        self._run_guarded(super().run)


class ClassicQuery:
    """A RunningQuery: the thread that runs it, the inbox that its tasks send to, and how to end it."""

    def __init__(
        self, frame: DataFrame, planner: Planner, endpoint: Endpoint, context_id: str, *, bounded: bool
    ) -> None:
        self._job: Any = connector_class(frame.sparkSession, "results.ResultJob")
        message = self._job.schema(frame._jdf)
        self.schema: pa.Schema = pa.ipc.read_schema(pa.py_buffer(message))
        check_types(self.schema)
        self.inbox = ResultInbox(self.schema, bounded=bounded)
        self._frame = frame
        self._planner = planner
        self._endpoint = endpoint
        self._context_id = context_id
        self._tag = f"headrace-{uuid.uuid4().hex}"
        self._over = threading.Event()
        self._ticket = endpoint.offer(self.inbox.open, receives=True)

    @property
    def failed(self) -> bool:
        return self.inbox.failed

    def is_over(self) -> bool:
        return self._over.is_set()

    def take(self) -> pa.RecordBatch | None:
        return self.inbox.take()

    def progress(self) -> tuple[int, int | None]:
        return self.inbox.progress()

    def start(self) -> None:
        self._planner.expect_result(self._tag, self.inbox)
        _QueryThread(self._run_job, self._run).start()

    def cancel(self) -> None:
        """End the query and wait until it has ended. Asks repeatedly: a job cannot be cancelled before it starts."""
        self.inbox.close()
        context: Any = self._frame.sparkSession.sparkContext
        deadline = monotonic() + _CANCEL_SECONDS
        while not self._over.wait(_CANCEL_AGAIN_SECONDS) and monotonic() < deadline:
            if context._jsc is None:  # Spark was stopped, and its jobs with it
                return
            try:
                context._jsc.sc().cancelJobsWithTag(self._tag)
            except (*LOST, AttributeError):  # the JVM is gone, or Spark was stopped just now
                return

    def _run(self, job: Callable[[], None]) -> None:
        """All of the thread. The result is whole only where ``job`` came to its end."""
        try:
            job()
            self.inbox.finish()
        except BaseException as error:  # whatever ends the query ends the result: somebody waits for it
            self.inbox.fail(translate(error) or error)
        finally:
            self._over.set()
            self._endpoint.withdraw(self._ticket)
            self._planner.forget_result(self._tag)

    def _run_job(self) -> None:
        address = json.dumps(self._endpoint.address(self._ticket))
        self._job.run(self._frame._jdf, self._context_id, address, self._tag, self._tag)
