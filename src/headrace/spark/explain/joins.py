"""What ctx.explain says of joins: those that a scan took in, and why one above it was not pushed; driver Python."""

from __future__ import annotations

from pyspark.sql import SparkSession

from headrace.negotiate.joins import OfferedJoin
from headrace.negotiate.planned import PlannedScan
from headrace.provider import JoiningProvider
from headrace.spark import versions
from headrace.spark.explain.physical_plan import (
    EXCHANGES,
    PASS_ROWS_ON,
    FoundScan,
    Step,
    conditions,
    elements,
    scans_of,
)
from headrace.spark.planner import Planner
from headrace.tables.wrapping import innermost

_OFFERED = ("Inner", "LeftOuter", "RightOuter")
_BELOW_JOINS = (*PASS_ROWS_ON, *EXCHANGES, "FilterExec", "SortExec")


def join_entries(found: FoundScan, scan: PlannedScan, planner: Planner, spark: SparkSession) -> list[str]:
    """Empty where the scan joins nothing, and no join with a table that could join stands above it."""
    entries = [_offered(join) for join in scan.joins]
    if not entries or scan.joins[-1].joined is not None:
        why = _why_not_offered(found, scan, planner, spark)
        entries += [f"not pushed: {why}"] if why else []
    return entries


def taken_joins(scan: PlannedScan) -> list[str]:
    """What is known of joins where Spark's plan is but a text."""
    return [_offered(join) for join in scan.joins]


def _offered(join: OfferedJoin) -> str:
    if join.joined is None:
        return f"{join!r}  not pushed: {join.why_not}"
    sides = (join.left, join.right)
    filters = [f"{one.requested!r} of {side.table.name}" for side in sides for one in side.filters if one.requested]
    return f"{join!r}  taken: one scan for both" + (f", filters: {', '.join(filters)}" if filters else "")


def _why_not_offered(found: FoundScan, scan: PlannedScan, planner: Planner, spark: SparkSession) -> str:
    if not isinstance(innermost(scan.table.provider), JoiningProvider):
        return ""
    step = _join_above(found.above)
    if step is None:
        return ""
    sides = [side for index, side in enumerate(elements(step.node.children())) if index != step.child]
    others = [other for side in sides for other in scans_of(side, (), False)]
    records = [planner.scans.find(str(other.scan.planId())) for other in others]
    if not any(one is not None and isinstance(innermost(one.table.provider), JoiningProvider) for one in records):
        return ""  # with what Headrace does not read, or cannot join
    if step.name != "CartesianProductExec" and step.node.joinType().toString() not in _OFFERED:
        return f"Spark never offers a join of this type ({step.node.joinType().toString()})"
    setting = versions.join_pushdown_setting()
    if setting is None:
        return "Spark offers joins from 4.1 on"
    if spark.conf.get(setting, "false") != "true":
        return f"Spark offers joins only after spark.conf.set({setting!r}, 'true')"
    left = [
        condition
        for one in (found, *others)
        if one.scan.reflectsFullyPushedDownFilters()  # else Spark put the filter back after it offered joins
        for condition in conditions(one.above)
    ]
    if left:
        return f"Spark still filters below it ({' AND '.join(left)})"
    return "Spark offers joins only with a condition that has a form outside of it, of plain columns"


def _join_above(above: tuple[Step, ...]) -> Step | None:
    for step in above:
        if step.name.endswith("JoinExec") or step.name == "CartesianProductExec":
            return step
        if step.name not in _BELOW_JOINS:
            return None
    return None
