"""What a streaming query reads is told: by ctx.explain, by Spark's own plan, by the metrics of its scans."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import headrace as hr
from growing import Batches, Counter, running
from producing import wait_until

pytestmark = pytest.mark.core


def test_explain_of_a_streaming_query_describes_its_last_batch(
    ctx: hr.SessionContext, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    counter, batches = Counter(3, filters=hr.FilterPushdown.INEXACT), Batches()
    ctx.register_table("numbers", counter)
    with running(ctx.stream("numbers").where("n > 1").select("square"), tmp_path, batches) as query:
        batches.wait_for_rows(1)
        counter.grow(4)
        batches.wait_for_rows(5)
        wait_until(lambda: "(3, 7]" in ctx.explain(query))
        lines = [" ".join(line.split()) for line in ctx.explain(query).splitlines()]
        query.explain()
        described = "Counter(3 to 7) placement=DRIVER partitions=2 columns=[square, n]"
        assert described in " ".join(capsys.readouterr().out.split())
    assert lines[0] == "scan 1: numbers (Counter: 3 to 7)"
    assert "range (3, 7]" in lines
    assert "columns square, n [2 of 4]" in lines
    assert any("n > 1 INEXACT" in line for line in lines)


def test_explain_of_a_streaming_frame_names_its_streams(ctx: hr.SessionContext) -> None:
    ctx.register_table("numbers", Counter(3))
    text = ctx.explain(ctx.stream("numbers").where("n > 1"))
    assert text.startswith("stream 1: numbers (Counter)\n  columns       n, square, text, odd\n")
    assert "one for each micro-batch" in text


def test_explain_of_a_query_without_a_batch_says_so(ctx: hr.SessionContext, tmp_path: Path) -> None:
    ctx.register_table("numbers", Counter(0))
    with running(ctx.stream("numbers"), tmp_path, Batches()) as query:
        assert ctx.explain(query) == "the query has had no micro-batch yet"


def test_metrics_of_a_batch_are_those_of_a_scan(ctx: hr.SessionContext, tmp_path: Path) -> None:
    ctx.register_table("numbers", Counter(8, parts=2))
    with running(ctx.stream("numbers").select("n"), tmp_path, Batches(), availableNow=True) as query:
        assert query.awaitTermination(60)
        running_query: Any = query._jsq
        plan = running_query.streamingQuery().lastExecution().executedPlan()
        scan = plan.collectLeaves().head()
        metrics = {name: int(scan.metrics().apply(name).value()) for name in ("headraceRows", "headraceBatches")}
    assert metrics == {"headraceRows": 8, "headraceBatches": 2}
