"""The metrics of scans and writes, as Spark itself shows them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
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


def shown_metrics(ctx: hr.SessionContext) -> dict[str, str]:
    """What the SQL tab shows of the last execution."""
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
    return shown


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

    shown = shown_metrics(ctx)
    assert shown["rows from the provider"] == shown["rows sent to Spark"] == "20000"
    assert shown["Arrow batches"] == "2"
    assert int(shown["bytes from the provider"]) == values["headraceBytes"]
    assert int(shown["time waiting for the source (ms)"]) == values["headraceWaiting"]


def test_metrics_of_a_write_are_in_the_status_store(ctx: hr.SessionContext, tmp_path: Path) -> None:
    ctx.register_table("files", hr.DatasetTable(tmp_path / "t", schema="id BIGINT, p STRING", partition_by=["p"]))
    ctx.sql("INSERT INTO files SELECT id, CAST(id % 3 AS STRING) FROM range(0, 30000, 1, 2)")
    shown = shown_metrics(ctx)
    assert shown["rows to the provider"] == "30000"
    assert int(shown["Arrow batches"]) >= 1
    assert int(shown["bytes to the provider"]) >= 30_000 * 8
    assert shown["files written"] == str(len(list((tmp_path / "t").rglob("*.parquet"))))


def test_write_without_files_shows_none(ctx: hr.SessionContext) -> None:
    ctx.register_table("rows", hr.MemTable(pa.table({"id": [1]})))
    ctx.sql("INSERT INTO rows SELECT id FROM range(10)")
    shown = shown_metrics(ctx)
    assert shown["rows to the provider"] == "10"
    assert shown["files written"] == "0"


def test_progress_of_a_streaming_write_tells_plan_and_files(ctx: hr.SessionContext, tmp_path: Path) -> None:
    (tmp_path / "landing").mkdir()
    pq.write_table(pa.table({"id": range(10)}), tmp_path / "landing" / "0.parquet")
    ctx.register_table("landing", hr.DatasetTable(tmp_path / "landing"))
    ctx.register_table("files", hr.DatasetTable(tmp_path / "t", schema="id BIGINT"))
    writer = ctx.stream("landing").writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).toTable(f"{ctx.catalog}.files")
    assert query.awaitTermination(120)
    sink: Any = query.recentProgress[0]["sink"]
    assert sink["description"] == "Headrace table files"
    assert sink["numOutputRows"] == 10
    assert sink["metrics"] == {"plan": f"parquet files in {tmp_path / 't'}", "filesWritten": "1"}
