"""One scan being negotiated: what was offered, what the provider answered, what was planned; driver Python."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import pyarrow as pa

from headrace.expr.nodes import Column, Expr
from headrace.negotiate.aggregates import (
    OfferedAggregation,
    OfferedFunction,
    answered_aggregation,
    refused_after_average,
)
from headrace.negotiate.asking import asking
from headrace.negotiate.filters import OfferedFilter, answered_filters
from headrace.negotiate.joins import Columns, OfferedJoin, OfferedSide, answered_join
from headrace.negotiate.partitioning import ScanSettings, check_narrowed, why_unused
from headrace.negotiate.plan_checks import checked_plan, table_bytes
from headrace.negotiate.planned import PlannedScan
from headrace.negotiate.registry import RegisteredTable
from headrace.negotiate.top_n import OfferedOffset, OfferedTopN, answered_offset, answered_top_n
from headrace.negotiate.verifying import hash_unverified, promises_of, with_verified_columns
from headrace.plan import Partitioning, ScanRequest, SortKey, UnknownPartitioning
from headrace.provider import AggregatePushdown, JoinType, NestedLiterals, Pushdown, for_scan
from headrace.tables.wrapping import innermost


class Negotiation:
    """Made for each reference to a table in a query; asks the provider, checks its answers and remembers both.

    Spark's planner and the testing kit use this same object. Each ``offer_`` method takes one thing that
    Spark would let the provider do, as a Python object, and returns the answer; ``plan`` then asks for the plan with
    all that was agreed upon. A new kind of pushdown is one more such method and one more field of ``ScanRequest``.
    It may be planned many times: each plan is an object of its own, which the negotiation does not keep.

    One call at a time, on any thread. Every method may raise PlanError where the provider broke the contract, and
    ProviderRaised where its code raised.
    """

    def __init__(self, table: RegisteredTable, id: str | None = None) -> None:
        self.id = id or uuid.uuid4().hex
        self.table = table
        self.filters: tuple[OfferedFilter, ...] = ()
        self.joins: tuple[OfferedJoin, ...] = ()
        self._renamed: set[str] = set()
        self.limit: int | None = None
        self.top_n: OfferedTopN | None = None
        self.offered_offset: OfferedOffset | None = None
        self.aggregation: OfferedAggregation | None = None
        self.left_out: tuple[str, ...] = ()
        self.schema: pa.Schema = table.schema
        self.settings = ScanSettings()
        self._asked: list[OfferedAggregation] = []
        self._plans_made = 0
        with asking(f"{table.provider_name}.for_scan", table.name):
            self._provider = for_scan(table.provider)

    @property
    def takes_nested_literals(self) -> bool:
        """Whether filters that are offered may have them."""
        return isinstance(innermost(self._provider), NestedLiterals)

    def offer_filters(self, filters: Sequence[Expr | None]) -> tuple[OfferedFilter, ...]:
        """All conjuncts of the query at once; None stands for one that has no faithful form here."""
        offered = answered_filters(self.table, self._provider, filters)
        self.filters += offered
        return offered

    def offer_join(
        self, other: Negotiation, how: JoinType, columns: tuple[Columns, Columns], condition: Expr | None
    ) -> OfferedJoin:
        """This scan may yield the rows of a join with another one, which is then not planned: after their filters.

        ``columns``: those needed of this and of the other scan, each with its name among the joined rows, which
        ``condition`` has. If it is taken, ``table`` is that of the joined rows, and all that follows is about them.
        """
        offered = answered_join(self._side, other._side, how, columns, condition)
        self.joins += (offered,)
        if offered.joined is None:
            other.joins += (offered,)
            return offered
        self.table, self._provider = offered.joined, offered.joined.provider
        self.schema, self.filters = self.table.schema, ()
        self._renamed |= {old.lower() for side in columns for old, new in side if old != new}
        return offered

    @property
    def _side(self) -> OfferedSide:
        cut = self._aggregates or self.limit is not None or self.offset > 0
        return OfferedSide(self.table, self._provider, self.filters, cut)

    @property
    def _is_joined(self) -> bool:
        return any(offered.joined is not None for offered in self.joins)

    def offer_columns(self, schema: pa.Schema) -> None:
        """The columns that are needed, nested fields pruned; all of the table's, if this is never called."""
        self.schema = schema

    def offer_limit(self, limit: int) -> None:
        """No more rows than this are needed from the whole scan. Whoever offers it still cuts the result himself.

        Not passed on above an aggregation: it would count groups, and a scan that cuts rows by it would lose some.
        """
        if not self._aggregates:
            self.limit = limit

    def offer_top_n(self, order: Sequence[SortKey], limit: int) -> OfferedTopN:
        """Only the first ``limit`` rows in ``order`` are needed."""
        self.top_n = answered_top_n(self.table, self._provider, order, limit, aggregated=self._aggregates)
        if self.top_n.answer is not Pushdown.UNSUPPORTED:
            self.limit = limit
        return self.top_n

    def offer_offset(self, offset: int) -> bool:
        """The first ``offset`` rows are not needed, counted among those that a limit or top-n offered before allows."""
        if self._aggregates:
            self.offered_offset = OfferedOffset(offset, "it counts groups, and the scan yields aggregates")
        elif self.limit is not None and not self._is_exact_top_n:
            self.offered_offset = OfferedOffset(offset, "Spark cuts to the limit itself, and would cut too much")
        else:
            rest = None if self.limit is None else max(0, self.limit - offset)
            self.offered_offset = answered_offset(self.table, self._provider, offset, rest)
        return self.offered_offset.why_not is None

    @property
    def offset(self) -> int:
        """The rows that the scan leaves out."""
        offered = self.offered_offset
        return offered.rows if offered is not None and offered.why_not is None else 0

    def ask_aggregation(self, group_by: Sequence[Expr], functions: Sequence[OfferedFunction]) -> OfferedAggregation:
        """What the answer to this aggregation would be. Nothing comes of it; the provider is asked once for each."""
        for asked in self._asked:
            if (asked.group_by, asked.functions) == (tuple(group_by), tuple(functions)):
                return asked
        named = {name.lower() for one in functions if one.operand is not None for name in one.operand.columns()}
        if refused_after_average(self._asked) and not named.isdisjoint(self._renamed):
            why = "in place of an average Spark asks for a sum by the names that columns had before the join"
            return OfferedAggregation(tuple(group_by), tuple(functions), None, AggregatePushdown.UNSUPPORTED, why)
        answered = answered_aggregation(self.table, self._provider, group_by, functions)
        self._asked.append(answered)
        return answered

    def offer_aggregation(self, group_by: Sequence[Expr], functions: Sequence[OfferedFunction]) -> OfferedAggregation:
        """Aggregates are needed instead of rows."""
        self.aggregation = self.ask_aggregation(group_by, functions)
        return self.aggregation

    def leave_out_runtime_filters(self, why: Sequence[str]) -> None:
        """Spark learnt these filters, and they are not passed on; each with its reason, for EXPLAIN."""
        self.left_out += tuple(why)

    @property
    def _aggregates(self) -> bool:
        return self.aggregation is not None and self.aggregation.answer is not AggregatePushdown.UNSUPPORTED

    @property
    def _is_exact_top_n(self) -> bool:
        return self.top_n is not None and self.top_n.answer is Pushdown.EXACT

    @property
    def _exact(self) -> list[Expr]:
        """The filters that Spark does not evaluate itself."""
        return [one.expr for one in self.filters if one.expr is not None and one.word in ("exact", "implied")]

    def _filters_come_back(self) -> bool:
        """Whether Spark should filter again what the provider filters exactly.

        In a join Spark looks for a filter on the small side, to tell the large side the keys that are left; without one
        it would not. Worth it for a table that is small enough to be broadcast: the columns of the filters have to be
        read then.
        """
        is_inexact_top_n = self.top_n is not None and self.top_n.answer is Pushdown.INEXACT
        is_cut = self._aggregates or (self.limit is not None and not is_inexact_top_n)
        nodes = [node for expr in self._exact for node in expr.walk()]
        most_bytes = self.settings.filters_back_bytes
        if not nodes or is_cut or most_bytes <= 0 or any(isinstance(node, Column) and node.path for node in nodes):
            return False
        filtered = (one.expr.columns() for one in self.filters if one.expr is not None)
        columns = frozenset(self.schema.names).union(*filtered)
        return table_bytes(self.table, self._provider, columns, most_bytes + 1) <= most_bytes

    def _added_columns(self) -> tuple[str, ...]:
        """Those that only filters which come back need, in the table's order."""
        filtered = frozenset[str]().union(*(expr.columns() for expr in self._exact))
        return tuple(name for name in self.table.schema.names if name in filtered and name not in self.schema.names)

    def request(self, added_columns: Sequence[str] = (), runtime_filters: tuple[Expr, ...] = ()) -> ScanRequest:
        """What the provider is asked to arrange."""
        aggregation = self.aggregation.aggregation if self.aggregation is not None and self._aggregates else None
        schema = self.schema if aggregation is None else aggregation.schema
        for name in added_columns:
            schema = schema.append(self.table.schema.field(name))
        return ScanRequest(
            schema=schema,
            projection=tuple(schema.names),
            filters=tuple(one.requested for one in self.filters if one.requested is not None),
            limit=self.limit if self.limit is None else max(0, self.limit - self.offset),
            order=() if self.top_n is None or self.top_n.answer is Pushdown.UNSUPPORTED else self.top_n.order,
            offset=self.offset,
            aggregation=aggregation,
            runtime_filters=runtime_filters,
        )

    def plan(self) -> PlannedScan:
        """Ask for a plan of all that was agreed upon, and check all it says.

        Raises SchemaMismatchError too, for a plan whose schema is neither the request's nor the table's.
        """
        come_back = self._filters_come_back()
        return self._plan(self.request(self._added_columns() if come_back else ()), come_back)

    def narrow(self, plan: PlannedScan, learnt: Sequence[Expr]) -> PlannedScan:
        """Ask for a plan like ``plan``, with the runtime filters that Spark has learnt since. They add up.

        The new plan may only lose partitions: Spark relies on those that it was told of. Raises as ``plan`` does.
        """
        runtime_filters = tuple(dict.fromkeys((*plan.request.runtime_filters, *learnt)))
        request = self.request(plan.added_columns, runtime_filters)
        return self._plan(request, plan.filters_come_back, narrows=plan.partitioning)

    def _plan(self, request: ScanRequest, come_back: bool, narrows: Partitioning | None = None) -> PlannedScan:
        exact = [one.requested for one in self.filters if one.requested is not None and one.answer is Pushdown.EXACT]
        asked = with_verified_columns(self.table, request, exact)
        one_partition = self._is_exact_top_n or self.offset > 0
        checked = checked_plan(self.table, self._provider, asked, read=request.projection, one_partition=one_partition)
        if narrows is not None:
            check_narrowed(narrows, checked.partitioning, checked.name)
        other_columns = "the scan yields aggregates" if request.aggregation is not None else None
        if self._is_joined:  # Spark looks for what is stated of them among the columns of the left table
            other_columns = other_columns or "the scan yields joined rows"
        unused = other_columns or why_unused(checked.partitioning, request, self.settings)
        unused = unused or hash_unverified(self.table, checked.partitioning, checked.plan.placement)
        ordering = () if other_columns is not None else checked.ordering
        self._plans_made += 1
        return PlannedScan(
            id=f"{self.id}.{self._plans_made}",
            table=self.table,
            request=request,
            filters=self.filters,
            filters_come_back=come_back,
            added_columns=tuple(name for name in request.projection if come_back and name not in self.schema.names),
            joins=self.joins,
            plan=checked.plan,
            plan_schema=checked.schema,
            plan_text=checked.text,
            partitioning=checked.partitioning,
            partitioning_unused=unused,
            ordering=ordering,
            top_n=self.top_n,
            offset=self.offered_offset,
            aggregation=self.aggregation,
            runtime_filter_columns=checked.runtime_filter_columns,
            statistics=checked.statistics,
            promises=promises_of(
                self.table,
                asked,
                exact,
                checked.partitioning if unused is None else UnknownPartitioning(checked.partitioning.n),
                ordering,
                exact_top_n=self._is_exact_top_n,
            ),
        )
