"""ctx.explain: what was negotiated for each scan, and why something was not used; driver Python."""

from __future__ import annotations

import re
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.arrow.rows import counted
from headrace.negotiate.filters import OfferedFilter
from headrace.negotiate.planned import PlannedScan, partitioning_text, range_text, sort_key_text
from headrace.plan import UnknownPartitioning
from headrace.promises.checks import SAMPLE_ROWS
from headrace.provider import AggregatePushdown, Pushdown
from headrace.spark.explain.answer import Explanation
from headrace.spark.explain.joins import join_entries, taken_joins
from headrace.spark.explain.physical_plan import (
    EXCHANGES,
    LIMITS,
    PASS_ROWS_ON,
    FoundScan,
    Step,
    conditions,
    elements,
    not_offered,
    scans_of,
)
from headrace.spark.explain.streams import explain_stream
from headrace.spark.planner import Planner

_REASONS = {
    "exact": "Spark does not filter again",
    "inexact": "used to skip data; Spark filters again",
    "unsupported": "the provider does not use it; Spark filters",
    "implied": "another filter implies it",
}
_HERE = "done in Arrow"
_AGAIN = "Spark filters again, for joins to learn from it"


def explain(frame: DataFrame, planner: Planner) -> Explanation:
    """Plans the query (nothing runs) and describes its Headrace scans, in the order of the plan.

    A streaming query has a plan only while it runs, one for each micro-batch: see ``explain_batch``.
    """
    execution: Any = frame._jdf.queryExecution()
    if execution.analyzed().isStreaming():
        return explain_stream(execution.analyzed(), planner)
    return _explained(execution.executedPlan(), planner, frame.sparkSession)


def explain_batch(query: StreamingQuery, planner: Planner, spark: SparkSession) -> Explanation:
    """Describes the Headrace scans of a streaming query's last micro-batch."""
    running: Any = query._jsq
    execution = running.streamingQuery().lastExecution()
    if execution is None:
        return Explanation("the query has had no micro-batch yet")
    return _explained(execution.executedPlan(), planner, spark)


def _explained(plan: Any, planner: Planner, spark: SparkSession) -> Explanation:
    blocks: dict[str, str] = {}
    for found in scans_of(plan, (), False):
        plan_id = str(found.scan.planId())
        if plan_id not in blocks:  # one behind a cache or a reused exchange is met again
            blocks[plan_id] = _block(len(blocks) + 1, found, planner, spark)
    return Explanation("\n\n".join(blocks.values()) or "no Headrace table is scanned by this query")


def _block(number: int, found: FoundScan, planner: Planner, spark: Any) -> str:
    scan = planner.scans.find(str(found.scan.planId()))
    if scan is None:
        whose = "a range that was committed" if found.scan.isStream() else "of another session context"
        return f"scan {number}: {whose}\n  {found.scan.description()}"
    above = found.above
    lines = _scan_lines(number, scan, ", once: the result is cached" if found.cached else "")
    left = conditions(above)
    if left:
        lines.append(f"  left to Spark {' AND '.join(left)}")
        untold = not_offered(above, spark._jvm)
        lines += _labelled("not offered", untold) if untold else []
    joins = join_entries(found, scan, planner, spark)
    withheld = scan.between is None and bool(found.scan.withholdsKeys())
    return "\n".join(lines + _use_lines(scan, above, joins, withheld=withheld))


def block_without_plan(number: int, scan: PlannedScan) -> str:
    """A scan's block where Spark's plan is only a text, which does not tell what Spark used of the scan."""
    return "\n".join(_scan_lines(number, scan) + _use_lines(scan, None, taken_joins(scan), withheld=False))


def _use_lines(scan: PlannedScan, above: tuple[Step, ...] | None, joins: list[str], *, withheld: bool) -> list[str]:
    """What the plan uses of what the scan states; ``above`` is None where that is not known."""
    lines = [f"  limit         {_limit(scan, above)}"]
    lines += _labelled("join", joins) if joins else []
    lines += _deeper(scan)
    lines.append(f"  partitioning  {_partitioning(scan, above, withheld=withheld)}")
    lines.append(f"  ordering      {_ordering(scan, above)}")
    lines.append(f"  statistics    {_statistics(scan)}")
    lines += _labelled("verified", _verified(scan)) if scan.table.verify is not None else []
    return lines


def _verified(scan: PlannedScan) -> list[str]:
    """What is checked on the rows, and what cannot be."""
    promises = scan.promises
    entries: list[str] = []
    if promises is not None:
        checked = [f"{expr!r}" for expr in promises.filters]
        checked += ["the order of the top-n" if promises.top_n else "the ordering"] * bool(promises.ordering)
        checked += ["the partitioning"] * (promises.keys is not None or bool(promises.hash_columns))
        rows = "every row" if promises.every_row else f"up to {SAMPLE_ROWS} rows of each batch"
        entries.append(f"on {rows}: {', '.join(checked)}")
    exact = [one.requested for one in scan.filters if one.requested is not None and one.answer is Pushdown.EXACT]
    left = [expr for expr in exact if promises is None or expr not in promises.filters]
    if left:
        entries.append(f"cannot be: {', '.join(map(repr, left))}")
    return entries or ["nothing: no promise is relied on here"]


def _scan_lines(number: int, scan: PlannedScan, runs: str = "") -> list[str]:
    request = scan.request
    columns = ", ".join(map(str, request.projection)) or "none"
    why = " (rows are only counted)" if scan.only_counts else ""
    return [
        f"scan {number}: {scan.table.name} ({scan.table.provider_name}: {scan.plan_text})",
        *([] if scan.between is None else [f"  range         {range_text(scan.between)}"]),
        f"  runs in       {_placement(scan)}{runs}",
        f"  partitions    {scan.partitioning.n}" + ("" if scan.partitioning.n else "  [the scan gives no rows]"),
        f"  columns       {columns}{why}  [{len(request.projection)} of {len(scan.table.schema)}]",
        *_labelled("filters", [_filter_line(offered, again=scan.filters_come_back) for offered in scan.filters]),
    ]


def _labelled(label: str, entries: list[str]) -> list[str]:
    first, *rest = entries or ["none"]
    return [f"  {label:<13} {first}", *(f"  {'':<13} {entry}" for entry in rest)]


_TOP_N = {
    Pushdown.EXACT: "Spark neither sorts nor cuts",
    Pushdown.INEXACT: "each partition gives its own first rows; Spark sorts again",
    Pushdown.UNSUPPORTED: "the provider does not order rows",
}
_AGGREGATES = {
    AggregatePushdown.COMPLETE: "Spark does not aggregate again",
    AggregatePushdown.PARTIAL: "Spark merges what the partitions give",
}


def _deeper(scan: PlannedScan) -> list[str]:
    """Lines for what not every query offers: top-n, offset, aggregates, runtime filters."""
    lines: list[str] = []
    if scan.top_n is not None:
        keys = ", ".join(map(sort_key_text, scan.top_n.order))
        answer = scan.top_n.answer
        who = "HEADRACE" if scan.top_n.here else answer.name
        why = f"{_done_here(scan.top_n.here)}{_TOP_N[answer]}{_not_here(scan.top_n.why_not_here)}"
        lines.append(f"  top-n         first {scan.top_n.limit} by {keys}  {who}: {why}")
    if scan.offset is not None:
        rows, why_not = scan.offset.rows, scan.offset.why_not
        first, are = ("the first row", "is") if rows == 1 else (f"the first {rows:,} rows", "are")
        what = f" {are} left out" if why_not is None else f", not pushed: {why_not}"
        lines.append(f"  offset        {first}{what}")
    if scan.aggregation is not None:
        offered = scan.aggregation
        shown = repr(offered.aggregation) if offered.aggregation is not None else "an aggregation"
        who = "HEADRACE" if offered.here else offered.answer.name
        why = f"{offered.why_not or _AGGREGATES[offered.answer]}{_not_here(offered.why_not_here)}"
        why = f"{_done_here(offered.here)}{why}"
        lines.append(f"  aggregation   {shown}  {who}: {why}")
    return lines + (_labelled("runtime", entries) if (entries := _learnt(scan)) else [])


def _learnt(scan: PlannedScan) -> list[str]:
    """Of filters that joins learn: the provider's, and those whose keys Headrace looks up."""
    entries: list[str] = []
    left_out = [f"not used: {why}" for why in scan.left_out]
    if scan.provider_filter_columns:
        learnt = [*map(repr, scan.request.runtime_filters), *left_out]
        found = ", ".join(learnt) or "none learnt yet: they come while the query runs"
        entries.append(f"filters on {', '.join(scan.provider_filter_columns)}: {found}")
    else:
        entries += left_out
    here = () if scan.work is None else scan.work.runtime_filters
    return entries + [f"{expr!r}  HEADRACE: {_HERE}, as long as that pays" for expr in here]


def _placement(scan: PlannedScan) -> str:
    return "Spark's Python workers" if scan.plan.placement.name == "EXECUTORS" else "this process (DRIVER)"


def _filter_line(offered: OfferedFilter, *, again: bool) -> str:
    """``again``: Spark puts the filters of a small table back, for the other tables of a join to learn from."""
    if offered.expr is None:
        return "(a filter of Spark's that has no form here)  UNSUPPORTED: Spark filters"
    if offered.here:
        after = _AGAIN if again or offered.visible else _REASONS["exact"]
        skips = "the provider skips data by it; " if offered.answer is Pushdown.INEXACT else ""
        return f"{offered.expr!r}  {offered.who}: {skips}{_HERE}; {after}"
    reason = _AGAIN if again and offered.word == "exact" else _REASONS[offered.word]
    return f"{offered.expr!r}  {offered.who}: {reason}{_not_here(offered.why_not_here)}"


def _done_here(here: bool) -> str:
    return f"{_HERE}; " if here else ""


def _not_here(why: str) -> str:
    """Why Headrace does not do either what the provider does not."""
    return f" (not Headrace: {why})" if why else ""


def _limit(scan: PlannedScan, above: tuple[Step, ...] | None) -> str:
    if scan.limit is not None:
        here = any(one.here for one in scan.filters)
        enough = "1 row is enough" if scan.limit == 1 else f"{scan.limit:,} rows are enough"
        return f"{enough}{', after the filters that Headrace does' if here else ''}"
    if above is None:
        return "none was offered"
    between: list[str] = []
    for step in above:
        if step.name == "TakeOrderedAndProjectExec":
            return "not pushed: the query orders first, and the smallest rows may be anywhere"
        if step.name in LIMITS and step.node.limit() < 0:  # an OFFSET alone
            continue
        if step.name in LIMITS:
            left = conditions(above)
            reasons = [f"Spark still filters above the scan ({' AND '.join(left)})"] if left else []
            if between or not left:
                reasons.append(f"{', '.join(between) or 'Spark'} may need more rows than the limit")
            return f"not pushed: {' and '.join(reasons)}"
        if step.name not in (*PASS_ROWS_ON, *EXCHANGES, "FilterExec"):
            between.append(str(step.node.nodeName()))
    return "none in the query"


def _partitioning(scan: PlannedScan, above: tuple[Step, ...] | None, *, withheld: bool) -> str:
    if isinstance(scan.partitioning, UnknownPartitioning):
        return "none stated"
    text = partitioning_text(scan.partitioning)
    if scan.partitioning_unused is not None:
        return f"{text}, not used: {scan.partitioning_unused}"
    if above is None:
        return f"{text}, stated"
    if withheld:
        return f"{text}, not told: nothing groups by it, and each key that a runtime filter leaves out would be a task"
    for step in above:
        if step.name == "ShuffleExchangeExec":
            target = _plain(step.node.outputPartitioning())
            if target == "SinglePartition":
                return f"{text}, not needed: Spark brings all rows into one partition"
            return f"{text}, not used: Spark shuffles by {target}"
        if step.name == "BroadcastExchangeExec":
            return f"{text}, not needed: the rows are broadcast"
        if _class_name(elements(step.node.requiredChildDistribution())[step.child]) == "ClusteredDistribution":
            return f"{text}, used: no shuffle before {step.node.nodeName()}"
    return f"{text}, not needed: nothing in the query groups or joins"


def _ordering(scan: PlannedScan, above: tuple[Step, ...] | None) -> str:
    stated = list(scan.plan.ordering)
    if not stated or scan.is_joined:
        return "none stated"
    if not scan.ordering:
        why = f"the query does not read {stated[0].column!r}"
        if scan.top_n is not None and scan.top_n.here:
            why = "Headrace picks the first rows"
        elif scan.group_names is not None:
            why = f"{stated[0].column!r} is none of the groups"
        return f"{sort_key_text(stated[0])}, not used: {why}"
    text = ", ".join(map(sort_key_text, scan.ordering))
    if above is None:
        return f"{text}, stated"
    for step in above:
        if step.name in EXCHANGES:
            return f"{text}, not used: {'a shuffle' if 'Shuffle' in step.name else 'a broadcast'} comes first"
        if step.name in ("SortExec", "TakeOrderedAndProjectExec"):
            return f"{text}, not used: Spark sorts by {', '.join(map(_plain, elements(step.node.sortOrder())))}"
        if elements(step.node.requiredChildOrdering())[step.child].nonEmpty():
            return f"{text}, used: no sort before {step.node.nodeName()}"
    return f"{text}, not needed: nothing in the query sorts"


def _class_name(value: Any) -> str:
    return str(value.getClass().getSimpleName())


def _plain(value: Any) -> str:
    """Spark's text without the numbers it gives to columns and exchanges."""
    return re.sub(r"#\d+L?|, ENSURE_REQUIREMENTS|, \[plan_id=\d+\]", "", str(value.toString()))


def _statistics(scan: PlannedScan) -> str:
    rows, size = scan.statistics.num_rows, scan.statistics.size_in_bytes
    if rows is None and size is None:
        return "unknown: Spark assumes a large table"
    counts = ("? rows" if rows is None else counted(rows, "row"), "? bytes" if size is None else counted(size, "byte"))
    return ", ".join(counts)
