"""ctx.explain in a Spark Connect session, where Spark's plan is but a text; driver Python."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from headrace.spark.explain.answer import Explanation
from headrace.spark.explain.explanation import block_without_plan
from headrace.spark.planner import Planner


def explain(frame: DataFrame, planner: Planner | None) -> Explanation:
    """Plans the query (nothing runs): a block per scan that this process planned, then Spark's own plan."""
    query: Any = frame
    client = query.sparkSession.client
    text = client.explain_string(query._plan.to_proto(client), "simple").strip()
    scans = [] if planner is None else planner.scans.plans()
    found = {scan.description(): scan for scan in scans if scan.description() in text}
    blocks = [block_without_plan(number + 1, scan) for number, scan in enumerate(found.values())]
    return Explanation("\n\n".join([*blocks, text]))
