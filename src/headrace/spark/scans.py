"""The scans that Spark may still go on with or run, with their plans and tickets; driver Python, thread-safe."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from headrace.errors import ClosedError, HeadraceError
from headrace.negotiate.filters import MOST_RUNTIME_VALUES
from headrace.negotiate.keys import key_batch
from headrace.negotiate.negotiation import Negotiation
from headrace.negotiate.offsets import offset_of
from headrace.negotiate.pickling import pickled_task
from headrace.negotiate.planned import PlannedScan
from headrace.negotiate.registry import RegisteredTable
from headrace.plan import HashPartitioning, KeyPartitioning, Placement
from headrace.spark import words
from headrace.spark.ended import EndedIds
from headrace.spark.offers import take_offers
from headrace.spark.predicates import decode
from headrace.spark.task_places import TaskPlaces
from headrace.transport.driver_partition import DriverPartition


@dataclass(frozen=True)
class _LivePlan:
    """A plan that Spark may still run, and the ticket by which the endpoint serves it; None where workers do."""

    scan: PlannedScan
    ticket: bytes | None


@dataclass(frozen=True)
class _LiveScan:
    negotiation: Negotiation
    plans: dict[str, _LivePlan] = field(default_factory=dict)


class Scans:
    """Answers what the JVM asks about scans: ``answers``, by the operations' names. They raise as negotiations do.

    The JVM tells when nothing in Spark can run a plan any more, and when nothing can go on with a scan. So a scan that
    is planned again and again keeps the plans that are in use and no others.
    """

    def __init__(self, find_table: Callable[[str], RegisteredTable | None], places: TaskPlaces) -> None:
        self._find_table = find_table
        self._places = places
        self._lock = threading.Lock()
        self._scans: dict[str, _LiveScan] = {}
        self._released = EndedIds()
        self.answers: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            words.OFFER: self._offer,
            words.PLAN: self._plan,
            words.RELEASE: self._release,
            words.RELEASE_PLAN: self._release_plan,
        }

    def __len__(self) -> int:
        return len(self._scans)

    def find(self, plan_id: str) -> PlannedScan | None:
        """The plan of a Scan object of Spark's, for explain."""
        with self._lock:
            scan = next((scan for scan in self._scans.values() if plan_id in scan.plans), None)
            plan = None if scan is None else scan.plans[plan_id].scan
        return None if scan is None or plan is None else replace(plan, left_out=scan.negotiation.left_out)

    def plans(self) -> list[PlannedScan]:
        """Those that Spark may still run, in the order in which their scans began."""
        with self._lock:
            live = [(scan.negotiation, plan.scan) for scan in self._scans.values() for plan in scan.plans.values()]
        return [replace(plan, left_out=negotiation.left_out) for negotiation, plan in live]

    def close(self) -> None:
        """The endpoint, which has the tickets, is closed next."""
        with self._lock:
            self._scans.clear()

    def _offer(self, question: dict[str, Any]) -> dict[str, Any]:
        return take_offers(self._scan(question).negotiation, question[words.OFFERS], self._negotiation)

    def _plan(self, question: dict[str, Any]) -> dict[str, Any]:
        scan = self._scan(question)
        take_offers(scan.negotiation, question[words.OFFERS], self._negotiation)
        narrows, start = question.get(words.NARROWS), question.get(words.START)
        if start is not None:
            planned = scan.negotiation.plan_between(offset_of(start), offset_of(question[words.END]))
        elif narrows is None:
            planned = scan.negotiation.plan()
        else:
            learnt = [decode(node) for node in question[words.RUNTIME_FILTERS]]
            with self._lock:
                old = scan.plans[narrows].scan
            planned = scan.negotiation.narrow(old, [expr for expr in learnt if expr is not None])
        return {**_plan_json(planned), **self._keep(planned, scan, question)}

    def _keep(self, planned: PlannedScan, scan: _LiveScan, question: dict[str, Any]) -> dict[str, Any]:
        """Keep the plan, with a ticket if this process runs it; returns where its rows come from, as JSON."""
        task, ticket = planned.task(), None
        if planned.plan.placement is Placement.DRIVER:
            ticket = self._places.endpoint.offer(
                lambda claim: DriverPartition(task, claim.partition, claim.execution), planned.partitioning.n
            )
            place = self._places.here(ticket)
        else:
            place = self._places.workers(pickled_task(task, by_value=self._places.by_value))
        plan = _LivePlan(planned, ticket)
        with self._lock:
            kept = question[words.SCAN] not in self._released
            if kept:
                scan.plans[planned.id] = plan
        if not kept:
            self._drop([plan])
            raise _over()
        return place

    def _release(self, question: dict[str, Any]) -> dict[str, Any]:
        """Nothing in Spark can go on with the negotiation or run one of its plans any more."""
        with self._lock:
            self._released.add(question[words.SCAN])
            scan = self._scans.pop(question[words.SCAN], None)
        return self._drop([] if scan is None else list(scan.plans.values()))

    def _release_plan(self, question: dict[str, Any]) -> dict[str, Any]:
        """Nothing in Spark can run this plan any more."""
        with self._lock:
            scan = self._scans.get(question[words.SCAN])
            plan = None if scan is None else scan.plans.pop(question[words.PLAN], None)
            kept = [] if scan is None else list(scan.plans.values())
        return self._drop([] if plan is None else [plan], kept)

    def _drop(self, plans: list[_LivePlan], kept: Iterable[_LivePlan] = ()) -> dict[str, Any]:
        """``kept``: other plans of the same scan, which may run the same plan of the user's with other work."""
        in_use = {id(plan.scan.plan) for plan in kept}
        for plan in plans:
            if plan.ticket is not None:
                self._places.endpoint.withdraw(plan.ticket)
            if id(plan.scan.plan) not in in_use:
                in_use.add(id(plan.scan.plan))
                plan.scan.release()
        return {}

    def _negotiation(self, question: dict[str, Any]) -> Negotiation:
        return self._scan(question).negotiation

    def _scan(self, question: dict[str, Any]) -> _LiveScan:
        """The one with the id that the JVM chose; made when it is first heard of."""
        with self._lock:
            scan = self._scans.get(question[words.SCAN])
        if scan is None:
            table = self._find_table(question[words.TABLE])
            if table is None:
                raise HeadraceError(
                    "the table behind this DataFrame was deregistered or replaced; build the query again"
                )
            scan = _LiveScan(Negotiation(table, question[words.SCAN]))
            with self._lock:
                if question[words.SCAN] in self._released:
                    raise _over()
                self._scans[scan.negotiation.id] = scan
        return scan


def _over() -> ClosedError:
    return ClosedError("the query that asked for this scan was cancelled or stopped")


def _plan_json(planned: PlannedScan) -> dict[str, Any]:
    return {
        words.PLAN: planned.id,
        words.DESCRIPTION: planned.description(),
        words.PUSH: planned.table.live is not None,
        words.PARTITIONS: planned.partitioning.n,
        words.PARTITIONING: _partitioning_json(planned),
        words.ORDERING: [
            {
                words.COLUMN: planned.name_in_rows(key.column),
                words.DESCENDING: key.descending,
                words.NULLS_FIRST: key.nulls_first,
            }
            for key in planned.ordering
        ],
        words.GROUPED: planned.group_names is not None,
        words.ROWS: planned.statistics.num_rows,
        words.BYTES: planned.statistics.size_in_bytes,
        words.FILTERS_COME_BACK: planned.filters_come_back,
        words.ADDED_COLUMNS: list(planned.added_columns),
        words.RUNTIME_FILTER_COLUMNS: list(planned.runtime_filter_columns),
        words.MOST_RUNTIME_VALUES: MOST_RUNTIME_VALUES,
    }


def _partitioning_json(planned: PlannedScan) -> dict[str, Any] | None:
    partitioning = planned.partitioning
    if planned.partitioning_unused is not None:
        return None
    assert isinstance(partitioning, (HashPartitioning, KeyPartitioning))
    keys = key_batch(planned.table, partitioning)
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, keys.schema) as writer:
        writer.write_batch(keys)
    return {
        words.COLUMNS: [planned.name_in_rows(column) for column in partitioning.columns],
        words.FUNCTION: partitioning.function if isinstance(partitioning, HashPartitioning) else None,
        words.KEYS: base64.b64encode(stream.getvalue()).decode(),
    }
