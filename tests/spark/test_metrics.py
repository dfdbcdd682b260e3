"""The scan's metrics, as Spark itself shows them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from recording import table_of


def scan_node(node: Any) -> Any:
    name = node.getClass().getSimpleName()
    if name == "BatchScanExec":
        return node
    inner = {"AdaptiveSparkPlanExec": "executedPlan", "ResultQueryStageExec": "plan", "ShuffleQueryStageExec": "plan"}
    children = [getattr(node, inner[name])()] if name in inner else []
    children += [node.children().apply(i) for i in range(node.children().size())]
    return next((found for child in children if (found := scan_node(child)) is not None), None)


@pytest.mark.usefixtures("provider_alone")
@pytest.mark.parametrize("placement", list(hr.Placement))
def test_metrics_of_a_scan_are_in_the_plan_and_the_status_store(
    ctx: hr.SessionContext, placement: hr.Placement
) -> None:
    data = pa.table({"i": range(20_000), "s": ["some text"] * 20_000})
    ctx.register_table("t", table_of(data, 2, placement=placement))
    frame = ctx.sql("SELECT sum(i), max(s) FROM t")
    frame.collect()
    node = scan_node(frame._jdf.queryExecution().executedPlan())
    values = {
        name: node.metrics().apply(name).value()
        for name in ("headraceRows", "headraceBatches", "headraceBytes", "headraceWaiting", "numOutputRows")
    }
    assert values["headraceRows"] == values["numOutputRows"] == 20_000
    assert values["headraceBatches"] == 2
    assert data.nbytes <= values["headraceBytes"] <= data.nbytes + 20_000
    assert values["headraceWaiting"] >= 0

    spark: Any = ctx.spark
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    store = spark._jsparkSession.sharedState().statusStore()
    shown: dict[str, str] = {}
    execution = store.executionsList().last()
    texts = store.executionMetrics(execution.executionId())
    for i in range(execution.metrics().size()):
        metric = execution.metrics().apply(i)
        if texts.contains(metric.accumulatorId()):
            shown.setdefault(metric.name(), texts.apply(metric.accumulatorId()))
    assert shown["rows from the provider"] == shown["rows sent to Spark"] == "20000"
    assert shown["Arrow batches"] == "2"
    assert int(shown["bytes from the provider"]) == values["headraceBytes"]
    assert int(shown["time waiting for the source (ms)"]) == values["headraceWaiting"]
