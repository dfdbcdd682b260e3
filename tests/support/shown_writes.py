"""What Spark's SQL tab shows of the last write: its plan, and the metrics of each node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

ROWS_TO_PROVIDER = "rows to the provider"


@dataclass(frozen=True)
class ShownWrite:
    """``nodes`` has the metrics of each node of the plan, by the node's name."""

    plan: str
    nodes: dict[str, dict[str, str]]

    @property
    def is_of_columns(self) -> bool:
        """Whether batches were handed over as they were: as the plan says, and as was counted."""
        handed = self.nodes.get("HeadraceHandoff of columns", {}).get("number of output rows", "0")
        assert (handed != "0") == (" of columns" in self.plan and self.written["rows"] != 0)
        return " of columns" in self.plan

    @property
    def written(self) -> dict[str, int]:
        """The metrics of the write itself; ``output`` is Spark's own count, which old versions do not have."""
        names = {"rows": ROWS_TO_PROVIDER, "batches": "Arrow batches", "output": "number of output rows"}
        write = next(metrics for metrics in self.nodes.values() if ROWS_TO_PROVIDER in metrics)
        return {name: int(write[shown].replace(",", "")) for name, shown in names.items() if shown in write}


def last_write(spark: SparkSession) -> ShownWrite:
    session: Any = spark
    session.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(10_000)
    store = session._jsparkSession.sharedState().statusStore()
    executions = store.executionsList()
    for index in reversed(range(executions.size())):
        execution = executions.apply(index)
        values = store.executionMetrics(execution.executionId())
        graph = store.planGraph(execution.executionId()).allNodes()
        nodes = {graph.apply(at).name(): _metrics(graph.apply(at), values) for at in range(graph.size())}
        if any(ROWS_TO_PROVIDER in metrics for metrics in nodes.values()):
            return ShownWrite(execution.physicalPlanDescription(), nodes)
    raise AssertionError("nothing was written")


def _metrics(node: Any, values: Any) -> dict[str, str]:
    metrics = {}
    for at in range(node.metrics().size()):
        metric = node.metrics().apply(at)
        found = values.get(metric.accumulatorId())
        if found.isDefined():
            metrics[metric.name()] = found.get()
    return metrics
