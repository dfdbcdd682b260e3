"""A query of a classic session: its tasks send the result to this process; driver Python."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark import InheritableThread
from pyspark.sql import DataFrame

from headrace.errors import HeadraceError
from headrace.spark.classic.failures import LOST, translate
from headrace.spark.launch import connector_class
from headrace.spark.planner import Planner
from headrace.spark.query import QueryOnThread
from headrace.transport.endpoint import Endpoint


class _QueryThread(InheritableThread):
    """Takes Spark's local properties of its starter along, which may fail too: ``run`` is given all that may."""

    def __init__(self, job: Callable[[], None], run: Callable[[Callable[[], None]], None]) -> None:
        super().__init__(target=job, name="headrace-query", daemon=True)
        self._run_guarded = run

    def run(self) -> None:
        self._run_guarded(super().run)


class ClassicQuery(QueryOnThread):
    """A RunningQuery: the endpoint receives the result that its tasks send."""

    def __init__(
        self, frame: DataFrame, planner: Planner, endpoint: Endpoint, context_id: str, *, bounded: bool
    ) -> None:
        self._job: Any = connector_class(frame.sparkSession, "results.ResultJob")
        super().__init__(pa.ipc.read_schema(pa.py_buffer(self._job.schema(frame._jdf))), bounded=bounded)
        self._frame = frame
        self._planner = planner
        self._endpoint = endpoint
        self._context_id = context_id
        self._ticket = endpoint.offer(self.inbox.open, receives=True)

    def start(self) -> None:
        self._planner.expect_result(self._tag, self.inbox)
        _QueryThread(self._run_job, self._run).start()

    def _run_job(self) -> None:
        address = json.dumps(self._endpoint.address(self._ticket))
        self._job.run(self._frame._jdf, self._context_id, address, self._tag, self._tag)

    def _ask_to_cancel(self) -> bool:
        context: Any = self._frame.sparkSession.sparkContext
        if context._jsc is None:  # Spark was stopped, and its jobs with it
            return False
        try:
            context._jsc.sc().cancelJobsWithTag(self._tag)
        except (*LOST, AttributeError):  # the JVM is gone, or Spark was stopped just now
            return False
        return True

    def _error_behind(self, error: BaseException) -> HeadraceError | None:
        return translate(error)

    def _run(self, work: Callable[[], None]) -> None:
        try:
            super()._run(work)
        finally:
            self._endpoint.withdraw(self._ticket)
            self._planner.forget_result(self._tag)
