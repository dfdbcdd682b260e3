"""ctx.explain: what was negotiated for each scan, and why something was not used; driver Python."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from headrace.plan import UnknownPartitioning
from headrace.spark.planner import Planner
from headrace.spark.scans import IMPLIED, PlannedScan, partitioning_text, sort_key_text

_SCAN_CLASS = "org.headrace.spark.HeadraceScan"
_REASONS = {
    "exact": "Spark does not filter again",
    "inexact": "used to skip data; Spark filters again",
    "unsupported": "the provider does not use it; Spark filters",
    IMPLIED: "another EXACT filter implies it",
}


def explain(frame: DataFrame, planner: Planner) -> str:
    """Plans the query (nothing runs) and describes its Headrace scans, in the order of the plan."""
    execution: Any = frame._jdf.queryExecution()
    found: list[tuple[str, tuple[str, ...]]] = []
    _collect(_physical_root(execution.executedPlan()), (), found)
    blocks = []
    for number, (scan_id, above) in enumerate(found, 1):
        scan = planner.scan_record(scan_id)
        if scan is not None:
            blocks.append(_block(number, scan, above))
    return "\n\n".join(blocks) if blocks else "no Headrace table is scanned by this query"


def _physical_root(plan: Any) -> Any:
    return plan.initialPlan() if plan.getClass().getSimpleName() == "AdaptiveSparkPlanExec" else plan


def _collect(node: Any, above: tuple[str, ...], found: list[tuple[str, tuple[str, ...]]]) -> None:
    name = node.getClass().getSimpleName()
    if name == "BatchScanExec" and node.scan().getClass().getName() == _SCAN_CLASS:
        found.append((node.scan().scanId(), above))
    children = node.children()
    for index in range(children.size()):
        _collect(children.apply(index), (*above, name), found)


def _block(number: int, scan: PlannedScan, above: tuple[str, ...]) -> str:
    request = scan.request
    lines = [
        f"scan {number}: {scan.table.name} ({scan.table.provider_name}: {scan.plan_text})",
        f"  runs in       {_placement(scan)}",
        f"  partitions    {scan.partitioning.n}",
        f"  columns       {', '.join(request.projection) or 'none (rows are only counted)'}"
        f"  [{len(request.projection)} of {len(scan.table.schema)}]",
    ]
    lines += _labelled("filters", [_filter_line(expr, answer) for expr, answer in scan.filters])
    lines.append(f"  limit         {_limit(scan, above)}")
    lines.append(f"  partitioning  {_partitioning(scan, above)}")
    lines.append(f"  ordering      {', '.join(map(sort_key_text, scan.ordering)) or _no_ordering(scan)}")
    lines.append(f"  statistics    {_statistics(scan)}")
    return "\n".join(lines)


def _labelled(label: str, entries: list[str]) -> list[str]:
    first, *rest = entries or ["none"]
    return [f"  {label:<13} {first}", *(f"  {'':<13} {entry}" for entry in rest)]


def _placement(scan: PlannedScan) -> str:
    return "Spark's Python workers" if scan.plan.placement.name == "EXECUTORS" else "this process (DRIVER)"


def _filter_line(expr: Any, answer: str) -> str:
    if expr is None:
        return "(a filter of Spark's that has no form here)  UNSUPPORTED: Spark filters"
    return f"{expr!r}  {answer.upper()}: {_REASONS[answer]}"


def _limit(scan: PlannedScan, above: tuple[str, ...]) -> str:
    if scan.request.limit is not None:
        return f"{scan.request.limit} rows are enough"
    if not any("Limit" in name or name.startswith("TakeOrdered") for name in above):
        return "none in the query"
    left = [repr(expr) for expr, answer in scan.filters if answer in ("inexact", "unsupported")]
    if left:
        return f"not pushed: Spark still filters above the scan ({', '.join(left)})"
    return "not pushed: Spark needs more rows than the limit for what stands between (sort, join, aggregate)"


def _partitioning(scan: PlannedScan, above: tuple[str, ...]) -> str:
    if isinstance(scan.partitioning, UnknownPartitioning):
        return "none stated"
    text = partitioning_text(scan.partitioning)
    if scan.partitioning_unused is not None:
        return f"{text}, not used: {scan.partitioning_unused}"
    shuffled = any("ShuffleExchange" in name for name in above)
    return f"{text}, reported" + ("; Spark shuffles all the same: the query groups by something else" if shuffled else "")


def _no_ordering(scan: PlannedScan) -> str:
    stated = list(scan.plan.ordering)
    if not stated:
        return "none stated"
    return f"{sort_key_text(stated[0])}, not used: the query does not read {stated[0].column!r}"


def _statistics(scan: PlannedScan) -> str:
    rows, size = scan.statistics.num_rows, scan.statistics.size_in_bytes
    if rows is None and size is None:
        return "unknown: Spark assumes a large table"
    return f"{'?' if rows is None else format(rows, ',')} rows, {'?' if size is None else format(size, ',')} bytes"
