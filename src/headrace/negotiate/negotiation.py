"""One scan being negotiated: what was offered, what the provider answered, what was planned; driver Python."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import pyarrow as pa

from headrace.expr.nodes import Expr
from headrace.negotiate.asking import asking
from headrace.negotiate.filters import OfferedFilter, answered_filters
from headrace.negotiate.partitioning import ScanSettings, why_unused
from headrace.negotiate.plan_checks import checked_plan
from headrace.negotiate.planned import PlannedScan
from headrace.negotiate.registry import RegisteredTable
from headrace.plan import ScanRequest
from headrace.provider import for_scan


class Negotiation:
    """Made for each reference to a table in a query; asks the provider, checks its answers and remembers both.

    Spark's planner, the testing kit and EXPLAIN use this same object. Each ``offer_`` method takes one thing that
    Spark would let the provider do, as a Python object, and returns the answer; ``plan`` then asks for the plan with
    all that was agreed upon. A new kind of pushdown is one more such method and one more field of ``ScanRequest``.

    One call at a time, on any thread. Every method may raise PlanError where the provider broke the contract, and
    ProviderRaised where its code raised.
    """

    def __init__(self, table: RegisteredTable, id: str | None = None) -> None:
        self.id = id or uuid.uuid4().hex
        self.table = table
        self.filters: tuple[OfferedFilter, ...] = ()
        self.limit: int | None = None
        self.schema: pa.Schema = table.schema
        self.settings = ScanSettings()
        self.planned: PlannedScan | None = None
        with asking(f"{table.provider_name}.for_scan", table.name):
            self._provider = for_scan(table.provider)

    def offer_filters(self, filters: Sequence[Expr | None]) -> tuple[OfferedFilter, ...]:
        """All conjuncts of the query at once; None stands for one that has no faithful form here."""
        offered = answered_filters(self.table, self._provider, filters)
        self.filters += offered
        return offered

    def offer_columns(self, schema: pa.Schema) -> None:
        """The columns that are needed, nested fields pruned; all of the table's, if this is never called."""
        self.schema = schema

    def offer_limit(self, limit: int) -> None:
        """No more rows than this are needed from the whole scan. Whoever offers it still cuts the result himself."""
        self.limit = limit

    def request(self) -> ScanRequest:
        """What the provider is asked to arrange."""
        return ScanRequest(
            schema=self.schema,
            projection=tuple(self.schema.names),
            filters=tuple(one.requested for one in self.filters if one.requested is not None),
            limit=self.limit,
        )

    def plan(self) -> PlannedScan:
        """Ask for a plan and check all it says. May be called again after more was offered: the last plan counts.

        Raises SchemaMismatchError too, for a plan whose schema is neither the request's nor the table's.
        """
        request = self.request()
        checked = checked_plan(self.table, self._provider, request)
        self.planned = PlannedScan(
            id=self.id,
            table=self.table,
            request=request,
            filters=self.filters,
            plan=checked.plan,
            plan_schema=checked.schema,
            plan_text=checked.text,
            partitioning=checked.partitioning,
            partitioning_unused=why_unused(checked.partitioning, request, self.settings),
            ordering=checked.ordering,
            statistics=checked.statistics,
        )
        return self.planned

    def release(self) -> None:
        """Nobody will go on with the negotiation or run its plan any more. Called once."""
        live = self.planned.task().live if self.planned is not None else None
        if live is not None:
            live.released()
