"""The planner: answers what the JVM asks Python; driver Python, the threads of the endpoint's connections."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

from headrace.errors import ClosedError, HeadraceError, PlanError, ResultClosedError
from headrace.execute.failure import Failure
from headrace.negotiate.asking import ProviderRaised
from headrace.negotiate.registry import Registry
from headrace.results.inbox import ResultInbox
from headrace.spark import words
from headrace.spark.catalogs import Catalogs
from headrace.spark.planning_settings import planning_for
from headrace.spark.scans import Scans
from headrace.spark.streams import Streams
from headrace.spark.task_places import TaskPlaces
from headrace.spark.writes import Writes
from headrace.transport.endpoint import Endpoint

_MAX_ANSWER_CHARS = (2 << 30) - 128  # the JVM reads it into one array


class Planner:
    """Answers the connector's questions about registered tables. Errors go back as data, never as exceptions."""

    def __init__(self, registry: Registry, endpoint: Endpoint, *, python: str, archive: str, by_value: bool) -> None:
        self._registry = registry
        self.catalogs = Catalogs(registry)
        self.places = TaskPlaces(endpoint, python, archive, by_value)
        self.scans = Scans(self.catalogs.find_scanned, self.places)
        self.writes = Writes(self.catalogs.find_id, self.places)
        self.streams = Streams(self.catalogs.find_id)
        self._lock = threading.Lock()
        self._inboxes: dict[str, ResultInbox] = {}
        self._operations: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            **self.catalogs.answers,
            **self.scans.answers,
            **self.writes.answers,
            **self.streams.answers,
            words.QUERY_END: self._query_end,
            words.APPLICATION_END: self._application_end,
            words.RESULT_PARTITIONS: self._result_partitions,
            words.RESULT_LIMIT: self._result_limit,
        }

    def call(self, operation: str, payload: str) -> str:
        """A ``planning.Call``."""
        try:
            question = json.loads(payload)
            with planning_for(question):
                answer = json.dumps(self._operations[operation](question))
            if len(answer) > _MAX_ANSWER_CHARS:
                raise PlanError(
                    f"the answer to {operation!r} has {len(answer)} characters, and can have at most "
                    f"{_MAX_ANSWER_CHARS}: a plan must not hold the data itself, but tell where it is"
                )
            return answer
        except ProviderRaised as raised:
            return json.dumps({words.FAILURE: raised.failure.to_dict()})
        except BaseException as error:  # a bug of ours (or a user's sys.exit) must arrive as a message too
            return json.dumps({words.FAILURE: Failure.of(error).to_dict()})

    def expect_result(self, inbox_id: str, inbox: ResultInbox) -> None:
        """A query is about to send its result to ``inbox``."""
        with self._lock:
            self._inboxes[inbox_id] = inbox

    def forget_result(self, inbox_id: str) -> None:
        with self._lock:
            self._inboxes.pop(inbox_id, None)

    def spark_lost(self, error: HeadraceError) -> None:
        """Nothing will read or send any more: results end with ``error``, and producers learn why. Any thread."""
        with self._lock:
            inboxes = list(self._inboxes.values())
        for inbox in inboxes:
            inbox.fail(error)
        for table in self._registry.tables():
            if table.live is not None:
                table.live.reader_lost(str(error))
        self.streams.close()
        self.writes.close()

    def close(self) -> None:
        with self._lock:
            inboxes = list(self._inboxes.values())
        for inbox in inboxes:
            inbox.fail(ResultClosedError("the session context was closed while this query ran"))
        self.streams.close()
        self.scans.close()
        self.writes.close()

    def _query_end(self, question: dict[str, Any]) -> dict[str, Any]:
        for table in self._registry.tables():
            if table.live is not None:
                error, reason, planned = question[words.ERROR], question[words.REASON], question[words.TABLES]
                table.live.query_ended(question[words.EXECUTION], error, reason, planned=table.id in planned)
        return {}

    def _application_end(self, _question: dict[str, Any]) -> dict[str, Any]:
        self.spark_lost(ClosedError("Spark was stopped"))
        return {}

    def _result_partitions(self, question: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            inbox = self._inboxes.get(question[words.INBOX])
        if inbox is not None:
            inbox.announce(question[words.PARTITIONS])
        return {}

    def _result_limit(self, question: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            inbox = self._inboxes.get(question[words.INBOX])
        if inbox is not None:
            inbox.keep_rows(question[words.FIRST], question[words.END])
        return {}
