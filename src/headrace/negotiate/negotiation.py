"""One scan being negotiated: what was offered, what the provider answered, what was planned; driver Python."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Collection, Sequence

import pyarrow as pa

from headrace.arrow.types import cheapest_column
from headrace.execute.stage.work import StageWork
from headrace.expr.nodes import Column, Expr
from headrace.negotiate.aggregates import (
    FILTERED_HERE,
    OfferedAggregation,
    OfferedFunction,
    answered_aggregation,
    refused_after_average,
)
from headrace.negotiate.asking import asking
from headrace.negotiate.filters import OfferedFilter, answered_filters
from headrace.negotiate.joins import Columns, OfferedJoin, OfferedSide, answered_join
from headrace.negotiate.partitioning import ScanSettings, check_narrowed, why_unused
from headrace.negotiate.plan_checks import CheckedPlan, checked_plan, provider_statistics, table_bytes
from headrace.negotiate.planned import PlannedScan
from headrace.negotiate.registry import RegisteredTable
from headrace.negotiate.stage import (
    NoRows,
    group_names,
    key_columns,
    looked_up,
    partitioning_of_groups,
    staged_aggregation,
    staged_filters,
    staged_top_n,
    with_stage_columns,
)
from headrace.negotiate.top_n import OfferedOffset, OfferedTopN, answered_offset, answered_top_n
from headrace.negotiate.verifying import hash_unverified, promises_of, with_verified_columns
from headrace.plan import Aggregation, Partitioning, ScanRequest, SortKey, Statistics, UnknownPartitioning
from headrace.provider import AggregatePushdown, CountingProvider, JoinType, NestedLiterals, Pushdown, for_scan
from headrace.stream import Offset
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
        self._told_estimates: list[Statistics | None] = []
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
        named = frozenset[str]().union(*(one.expr.columns() for one in offered if one.expr is not None))
        # Before 4.3 Spark puts no filter back, and what else it reads of a small table it has not said yet.
        visible = self.settings.filters_back_bytes <= 0 and self._may_be_broadcast(named)
        offered = staged_filters(offered, self.table.schema, self.settings, visible=visible)
        self.filters += offered
        return offered

    def _may_be_broadcast(self, columns: Collection[str]) -> bool:
        """Whether the table, as to these columns, is so small that Spark would send it whole to all tasks of a join."""
        most_bytes = self.settings.broadcast_bytes
        return most_bytes > 0 and table_bytes(self.table, self._estimates(), columns, most_bytes + 1) <= most_bytes

    def _estimates(self) -> Statistics | None:
        """The provider's; it is asked once."""
        if not self._told_estimates:
            self._told_estimates = [provider_statistics(self.table, self._provider)]
        return self._told_estimates[0]

    @property
    def _counts_rows(self) -> bool:
        """Whether a scan may be asked for no column."""
        provider = innermost(self._provider)
        return isinstance(provider, CountingProvider) and provider.counts_rows()

    @property
    def _filters_here(self) -> tuple[Expr, ...]:
        """Those that Headrace's stage does."""
        return tuple(one.expr for one in self.filters if one.here and one.expr is not None)

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
        self._told_estimates = []
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
        offered = OfferedTopN(tuple(order), limit, Pushdown.UNSUPPORTED)
        if order and not self._aggregates and all(key.column in self.table.schema.names for key in order):
            if not self._filters_here:
                offered = answered_top_n(self.table, self._provider, order, limit)
            if offered.answer is not Pushdown.UNSUPPORTED:
                self.limit = limit
            elif not self._is_joined:
                offered = staged_top_n(offered, self.table.schema, self.settings)
        self.top_n = offered
        return offered

    def offer_offset(self, offset: int) -> bool:
        """The first ``offset`` rows are not needed, counted among those that a limit or top-n offered before allows."""
        if self._aggregates:
            self.offered_offset = OfferedOffset(offset, "it counts groups, and the scan yields aggregates")
        elif self._filters_here:
            self.offered_offset = OfferedOffset(offset, FILTERED_HERE)
        elif (self.limit is not None or self._top_n_here is not None) and not self._is_exact_top_n:
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
        provider = None if self._filters_here else self._provider
        answered = answered_aggregation(self.table, provider, group_by, functions)
        if answered.answer is AggregatePushdown.UNSUPPORTED and not self._is_joined:
            answered = staged_aggregation(answered, self._asked, self.table.schema, self.settings)
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
    def _aggregation_here(self) -> Aggregation | None:
        """What Headrace's stage aggregates."""
        return self.aggregation.aggregation if self.aggregation is not None and self.aggregation.here else None

    @property
    def _top_n_here(self) -> OfferedTopN | None:
        """The first rows of each partition that Headrace's stage finds."""
        return self.top_n if self.top_n is not None and self.top_n.here else None

    @property
    def _is_exact_top_n(self) -> bool:
        return self.top_n is not None and self.top_n.answer is Pushdown.EXACT

    @property
    def _exact(self) -> list[Expr]:
        """The filters that Spark does not evaluate itself."""
        return [one.expr for one in self.filters if one.expr is not None and one.word in ("exact", "implied")]

    def _filters_come_back(self) -> bool:
        """Whether Spark should filter again what is filtered exactly.

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
        return table_bytes(self.table, self._estimates(), columns, most_bytes + 1) <= most_bytes

    def _added_columns(self) -> tuple[str, ...]:
        """Those that only filters which come back need, in the table's order."""
        filtered = frozenset[str]().union(*(expr.columns() for expr in self._exact))
        return tuple(name for name in self.table.schema.names if name in filtered and name not in self.schema.names)

    def request(self, added_columns: Sequence[str] = (), runtime_filters: tuple[Expr, ...] = ()) -> ScanRequest:
        """What the provider is asked to arrange: all that it agreed to, and the columns that Headrace's stage needs.

        Where neither Spark nor the stage needs a column, the cheapest one is asked for, as pyarrow makes no rows of
        values without a column: ``pa.RecordBatch.from_pylist(rows, pa.schema([]))`` is empty.
        """
        schema = self._rows(added_columns)
        aggregation = None
        if self.aggregation is not None and self._aggregates and not self.aggregation.here:
            aggregation = self.aggregation.aggregation
        work = self._work()
        if work is not None:
            schema = pa.schema([]) if work.aggregation is not None else schema
            schema = with_stage_columns(schema, work, self.table.schema)
        if not schema.names and aggregation is None and not self._counts_rows:
            schema = cheapest_column(self.table.schema)
        ordered = self.top_n is not None and not self.top_n.here and self.top_n.answer is not Pushdown.UNSUPPORTED
        limit = None if self.limit is None or self._filters_here else max(0, self.limit - self.offset)
        return ScanRequest(
            schema=schema,
            projection=tuple(schema.names),
            filters=tuple(one.requested for one in self.filters if one.requested is not None),
            limit=limit,
            order=self.top_n.order if self.top_n is not None and ordered else (),
            offset=self.offset,
            aggregation=aggregation,
            runtime_filters=runtime_filters,
        )

    def _rows(self, added_columns: Sequence[str]) -> pa.Schema:
        """The columns that Spark gets, ``added_columns`` behind them."""
        if self.aggregation is not None and self.aggregation.aggregation is not None and self._aggregates:
            return self.aggregation.aggregation.schema
        return pa.schema([*self.schema, *(self.table.schema.field(name) for name in added_columns)])

    def _work(self) -> StageWork | None:
        """What Headrace's stage does with the provider's rows, whatever a join learns; None where it does nothing."""
        top_n = self._top_n_here
        work = StageWork(
            filters=self._filters_here,
            aggregation=self._aggregation_here,
            order=() if top_n is None else top_n.order,
            limit=None if top_n is None else top_n.limit,
            ansi=self.settings.ansi,
        )
        return None if work.is_empty else work

    def plan(self) -> PlannedScan:
        """Ask for a plan of all that was agreed upon, and check all it says.

        Raises SchemaMismatchError too, for a plan whose schema is neither the request's nor the table's.
        """
        come_back = self._filters_come_back()
        return self._plan(self._added_columns() if come_back else (), come_back)

    def narrow(self, plan: PlannedScan, learnt: Sequence[Expr]) -> PlannedScan:
        """A plan like ``plan``, with the runtime filters that Spark has learnt since. They add up.

        The provider is asked for those on the columns that its plan names; the new plan may only lose partitions, as
        Spark relies on those that it was told of. Headrace's stage looks up the keys of all of them. Raises as ``plan``
        does.
        """
        named = frozenset(plan.provider_filter_columns)
        asked = [expr for expr in learnt if expr.columns() <= named]
        if asked:
            runtime_filters = tuple(dict.fromkeys((*plan.request.runtime_filters, *asked)))
            new = self._plan(plan.added_columns, plan.filters_come_back, runtime_filters, narrows=plan.partitioning)
        else:
            new = dataclasses.replace(plan, id=self._next_id())
        earlier = () if plan.work is None else plan.work.runtime_filters
        keys = dict.fromkeys((*earlier, *looked_up(learnt, self.table.schema, plan.partitioning)))
        if not keys or not self.settings.work_at_source:
            return new
        work = new.work or StageWork(ansi=self.settings.ansi)
        return dataclasses.replace(new, work=dataclasses.replace(work, runtime_filters=tuple(keys)))

    def plan_between(self, start: Offset, end: Offset) -> PlannedScan:
        """Ask a StreamProvider for a plan of one range of its offsets, with all that was agreed upon. As ``plan``."""
        return self._plan((), come_back=False, between=(start, end))

    def _next_id(self) -> str:
        self._plans_made += 1
        return f"{self.id}.{self._plans_made}"

    def _plan(
        self,
        added_columns: Sequence[str],
        come_back: bool,
        runtime_filters: tuple[Expr, ...] = (),
        narrows: Partitioning | None = None,
        between: tuple[Offset, Offset] | None = None,
    ) -> PlannedScan:
        exact = [one.requested for one in self.filters if one.requested is not None and one.answer is Pushdown.EXACT]
        request = self.request(added_columns, runtime_filters)
        rows = self._rows(added_columns)
        asked = with_verified_columns(self.table, request, exact)
        one_partition = self._is_exact_top_n or self.offset > 0
        grouped = None if self._aggregation_here is None else group_names(self._aggregation_here)
        read = tuple(rows.names if grouped is None else grouped)
        checked = checked_plan(
            self.table,
            self._provider,
            asked,
            estimates=self._estimates,
            read=read,
            one_partition=one_partition,
            between=between,
        )
        if narrows is not None:
            check_narrowed(narrows, checked.partitioning, checked.name)
        if grouped == {} and checked.partitioning.n == 0 and not self._has_groups:
            empty = NoRows(checked.schema, checked.plan.placement, checked.text)
            checked = dataclasses.replace(checked, plan=empty, partitioning=empty.partitioning)
        other_columns = "the scan yields aggregates" if request.aggregation is not None else None
        if self._is_joined:  # Spark looks for what is stated of them among the columns of the left table
            other_columns = other_columns or "the scan yields joined rows"
        told, partitioning = rows, checked.partitioning
        if grouped is not None:
            told = pa.schema([self.table.schema.field(name) for name in grouped])
            partitioning = partitioning_of_groups(partitioning, grouped)
        unused = other_columns or why_unused(partitioning, told, self.settings, grouped=grouped is not None)
        unused = unused or hash_unverified(self.table, partitioning, checked.plan.placement)
        ordering = () if other_columns is not None or self._top_n_here is not None else checked.ordering
        return PlannedScan(
            id=self._next_id(),
            table=self.table,
            request=request,
            schema=rows,
            limit=self.limit if self._filters_here else request.limit,
            work=self._work(),
            filters=self.filters,
            filters_come_back=come_back,
            added_columns=tuple(added_columns),
            joins=self.joins,
            plan=checked.plan,
            plan_schema=checked.schema,
            plan_text=checked.text,
            partitioning=partitioning,
            partitioning_unused=unused,
            ordering=ordering,
            group_names=grouped,
            top_n=self.top_n,
            offset=self.offered_offset,
            aggregation=self.aggregation,
            provider_filter_columns=() if self._is_cut else checked.runtime_filter_columns,
            runtime_filter_columns=() if self._is_cut or between else self._runtime_filter_columns(checked, rows),
            statistics=checked.statistics,
            promises=promises_of(
                self.table,
                asked,
                exact,
                checked.partitioning if unused is None else UnknownPartitioning(checked.partitioning.n),
                ordering,
                exact_top_n=self._is_exact_top_n,
            ),
            between=between,
        )

    @property
    def _has_groups(self) -> bool:
        return self.aggregation is not None and bool(self.aggregation.group_by)

    @property
    def _is_cut(self) -> bool:
        """Whether fewer rows, or other ones, would come if rows were left out before."""
        return self._aggregates or self.limit is not None or self.offset > 0 or self._top_n_here is not None

    def _runtime_filter_columns(self, checked: CheckedPlan, rows: pa.Schema) -> tuple[str, ...]:
        """The columns on which Spark is to tell what a join has learnt: the provider's, and those of Headrace's stage.

        None of the stage's for a table that may be small enough to be broadcast, from which others learn: Spark plans
        the query behind each filter anew, and behind those that this query has again.
        """
        named = checked.runtime_filter_columns
        if not self.settings.work_at_source or self._is_joined or self._may_be_broadcast(rows.names):
            return named
        return (*named, *(name for name in key_columns(rows) if name not in named))
