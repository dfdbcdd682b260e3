"""The planner callback: the one narrow door through which the JVM asks Python; driver Python.

Called on Py4J's threads, or on those of the endpoint's connections where Spark Connect is between.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from headrace.errors import ClosedError, HeadraceError, ResultClosedError
from headrace.execute.failure import Failure
from headrace.negotiate.asking import ProviderRaised
from headrace.negotiate.keys import key_batch
from headrace.negotiate.negotiation import Negotiation
from headrace.negotiate.pickling import pickled_task
from headrace.negotiate.planned import PlannedScan
from headrace.negotiate.registry import Registry
from headrace.plan import HashPartitioning, KeyPartitioning, Placement
from headrace.results.inbox import ResultInbox
from headrace.spark.catalogs import Catalogs
from headrace.spark.offers import take_offers
from headrace.spark.planning_settings import planning_for
from headrace.transport.driver_partition import DriverPartition
from headrace.transport.endpoint import Endpoint
from headrace.worker.payload import payload_of


class Planner:
    """Answers the connector's questions about registered tables. Errors go back as data, never as exceptions."""

    def __init__(self, registry: Registry, endpoint: Endpoint, *, python: str, archive: str, by_value: bool) -> None:
        self._registry = registry
        self.catalogs = Catalogs(registry)
        self._endpoint = endpoint
        self._python = python
        self._archive = archive
        self.by_value = by_value
        """Whether modules that are not installed travel with the plans: executors could not import them."""
        self._lock = threading.Lock()
        self._scans: dict[str, Negotiation] = {}
        self._tickets: dict[str, list[bytes]] = {}
        self._inboxes: dict[str, ResultInbox] = {}
        self._operations: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            **self.catalogs.answers,
            "offer": self._offer,
            "plan": self._plan,
            "release": self._release,
            "query_end": self._query_end,
            "application_end": self._application_end,
            "result_partitions": self._result_partitions,
            "result_limit": self._result_limit,
        }

    def call(self, operation: str, payload: str) -> str:
        """Called from the JVM."""
        try:
            question = json.loads(payload)
            with planning_for(question):
                return json.dumps(self._operations[operation](question))
        except ProviderRaised as raised:
            return json.dumps({"failure": raised.failure.to_dict()})
        except BaseException as error:  # a bug of ours (or a user's sys.exit) must arrive as a message too: Py4J hangs
            return json.dumps({"failure": Failure.of(error).to_dict()})

    def scan_record(self, scan_id: str) -> PlannedScan | None:
        """The negotiated scan behind a Scan object of Spark's, for explain."""
        with self._lock:
            negotiation = self._scans.get(scan_id)
        return negotiation.planned if negotiation is not None else None

    def planned_scans(self) -> list[PlannedScan]:
        """Those that Spark may still run, in the order in which they began."""
        with self._lock:
            negotiations = list(self._scans.values())
        return [negotiation.planned for negotiation in negotiations if negotiation.planned is not None]

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

    def close(self) -> None:
        with self._lock:
            tickets = [ticket for tickets in self._tickets.values() for ticket in tickets]
            inboxes = list(self._inboxes.values())
            self._scans.clear()
            self._tickets.clear()
        for inbox in inboxes:
            inbox.fail(ResultClosedError("the session context was closed while this query ran"))
        for ticket in tickets:
            self._endpoint.withdraw(ticket)

    def _offer(self, question: dict[str, Any]) -> dict[str, Any]:
        return take_offers(self._negotiation(question), question["offers"], self._negotiation)

    def _plan(self, question: dict[str, Any]) -> dict[str, Any]:
        negotiation = self._negotiation(question)
        take_offers(negotiation, question["offers"], self._negotiation)
        scan = negotiation.plan()
        answer: dict[str, Any] = {
            "description": scan.description(),
            "streaming": scan.table.live is not None,
            "partitions": scan.partitioning.n,
            "partitioning": _partitioning_json(scan),
            "ordering": [
                {"column": key.column, "descending": key.descending, "nulls_first": key.nulls_first}
                for key in scan.ordering
            ],
            "rows": scan.statistics.num_rows,
            "bytes": scan.statistics.size_in_bytes,
            "runtime_filter_columns": list(scan.runtime_filter_columns),
        }
        task = scan.task()
        if scan.plan.placement is Placement.DRIVER:
            ticket = self._endpoint.offer(
                lambda claim: DriverPartition(task, claim.partition, claim.execution), scan.partitioning.n
            )
            with self._lock:
                self._tickets.setdefault(scan.id, []).append(ticket)
            answer["endpoint"] = self._endpoint.address(ticket)
        else:
            payload = payload_of(pickled_task(task, by_value=self.by_value))
            answer["worker"] = {
                "python": self._python,
                "archive": self._archive,
                "task": base64.b64encode(payload).decode(),
            }
        return answer

    def _release(self, question: dict[str, Any]) -> dict[str, Any]:
        """Nothing in Spark can go on with the negotiation or run its plan any more."""
        with self._lock:
            negotiation = self._scans.pop(question["scan"], None)
            tickets = self._tickets.pop(question["scan"], [])
        for ticket in tickets:
            self._endpoint.withdraw(ticket)
        if negotiation is not None:
            negotiation.release()
        return {}

    def _query_end(self, question: dict[str, Any]) -> dict[str, Any]:
        for table in self._registry.tables():
            if table.live is not None:
                planned = table.id in question["tables"]
                table.live.query_ended(question["execution"], question["error"], question["reason"], planned=planned)
        return {}

    def _application_end(self, _question: dict[str, Any]) -> dict[str, Any]:
        self.spark_lost(ClosedError("Spark was stopped"))
        return {}

    def _result_partitions(self, question: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            inbox = self._inboxes.get(question["inbox"])
        if inbox is not None:
            inbox.announce(question["partitions"])
        return {}

    def _result_limit(self, question: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            inbox = self._inboxes.get(question["inbox"])
        if inbox is not None:
            inbox.keep_rows(question["first"], question["end"])
        return {}

    def _negotiation(self, question: dict[str, Any]) -> Negotiation:
        """The one with the id that the JVM chose; made when it is first heard of."""
        with self._lock:
            negotiation = self._scans.get(question["scan"])
        if negotiation is None:
            table = self.catalogs.find_id(question["table"])
            if table is None:
                raise HeadraceError(
                    "the table behind this DataFrame was deregistered or replaced; build the query again"
                )
            negotiation = Negotiation(table, question["scan"])
            with self._lock:
                self._scans[negotiation.id] = negotiation
        return negotiation

    class Java:
        implements = ("org.headrace.spark.planner.Planner",)


def _partitioning_json(scan: PlannedScan) -> dict[str, Any] | None:
    partitioning = scan.partitioning
    if scan.partitioning_unused is not None:
        return None
    assert isinstance(partitioning, (HashPartitioning, KeyPartitioning))
    keys = key_batch(scan.table, partitioning)
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, keys.schema) as writer:
        writer.write_batch(keys)
    return {
        "columns": list(partitioning.columns),
        "function": partitioning.function if isinstance(partitioning, HashPartitioning) else None,
        "keys": base64.b64encode(stream.getvalue()).decode(),
    }
