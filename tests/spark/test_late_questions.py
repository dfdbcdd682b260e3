"""Questions that arrive after what they are about has ended begin nothing again; answers too large to send."""

from __future__ import annotations

import json
import threading
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
import headrace.spark.planner as planner_module
from growing import Counter
from headrace.negotiate.registry import RegisteredTable, Registry
from headrace.spark.ended import _MOST, EndedIds
from headrace.spark.launch import connector_class
from headrace.spark.scans import Scans
from headrace.spark.streams import Streams
from headrace.spark.task_places import TaskPlaces
from headrace.stream import listeners_of
from headrace.transport.endpoint import Endpoint
from pushing import InBackground


def test_ended_ids_keep_the_last_ones_only() -> None:
    ended = EndedIds()
    for number in range(_MOST + 10):
        ended.add(str(number))
    assert str(_MOST + 9) in ended
    assert "9" not in ended


@pytest.mark.parametrize("operation", ["stream_initial", "stream_latest", "stream_commit", "stream_behind"])
def test_stream_asked_after_its_end_is_closed_and_has_no_listener(operation: str) -> None:
    counter = Counter(10)
    table = RegisteredTable.of("numbers", counter)
    streams = Streams(lambda _id: table)
    question = {"stream": "s", "table": table.id, "start": "0", "end": "0", "max_rows": None, "max_bytes": None}
    streams.answers["stream_initial"](question)
    assert len(listeners_of(counter)) == 1
    streams.answers["stream_end"](question)
    with pytest.raises(hr.ClosedError, match="stopped"):
        streams.answers[operation]({**question, "available_now": False})
    assert len(streams) == 0
    assert listeners_of(counter) == []


def test_plan_that_is_ready_after_its_scan_was_released_keeps_no_ticket() -> None:
    asked, go_on = threading.Event(), threading.Event()

    class Slow(Counter):
        def scan_between(self, *args: Any) -> hr.ExecutionPlan:
            asked.set()
            assert go_on.wait(60)
            return super().scan_between(*args)

    table = RegisteredTable.of("numbers", Slow(10))
    endpoint = Endpoint()
    try:
        scans = Scans(lambda _id: table, TaskPlaces(endpoint, "", "", True))
        question = {"scan": "s", "table": table.id, "offers": {}, "start": "0", "end": "5"}
        planning = InBackground(lambda: scans.answers["plan"](question))
        assert asked.wait(60)
        scans.answers["release"]({"scan": "s"})
        go_on.set()
        with pytest.raises(hr.ClosedError, match="stopped"):
            planning.result()
        assert endpoint._tickets == {}
        with pytest.raises(hr.ClosedError, match="stopped"):
            scans.answers["offer"](question)
        assert len(scans) == 0
    finally:
        endpoint.close()


def test_answer_that_the_jvm_could_not_read_is_an_error_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner_module, "_MAX_ANSWER_CHARS", 10)
    endpoint = Endpoint()
    try:
        planner = planner_module.Planner(Registry(), endpoint, python="", archive="", by_value=True)
        answer = json.loads(planner.call("schemas", '{"catalog": "headrace", "namespace": []}'))
    finally:
        endpoint.close()
    assert answer["failure"]["error"] == "PlanError"
    assert "at most 10" in answer["failure"]["message"]


def test_context_closed_while_its_provider_plans_is_what_the_query_fails_with(ctx: hr.SessionContext) -> None:
    asked, go_on = threading.Event(), threading.Event()

    class Slow(hr.MemTable):
        def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
            asked.set()
            assert go_on.wait(60)
            return super().scan(request)

    other = hr.SessionContext(ctx.spark)
    other.register_table("slow", Slow(pa.table({"a": [1, 2]})))
    frame = other.table("slow").where("a > 1")
    query = InBackground(frame.collect)
    assert asked.wait(60)
    other.close()
    try:
        with pytest.raises(Exception, match="ClosedError"):
            query.result()
    finally:
        go_on.set()


def test_commit_under_way_while_its_context_closes_ends_as_a_success(ctx: hr.SessionContext) -> None:
    asked, go_on = threading.Event(), threading.Event()
    other = hr.SessionContext(ctx.spark)
    planner: Any = other._attached.planner
    delete = threading.Event()

    def slow(_question: dict[str, Any]) -> dict[str, Any]:
        asked.set()
        assert go_on.wait(60)
        delete.set()
        return {}

    planner._operations = {**planner._operations, "delete": slow}
    planners: Any = connector_class(ctx.spark, "planner.Planners")
    context_id = other._attached._context_id  # type: ignore[attr-defined]
    jvm: Any = ctx.spark.sparkContext._jvm
    telling = InBackground(lambda: planners.tell(context_id, "delete", jvm.java.util.HashMap()).toString())
    assert asked.wait(60)
    other.close()
    go_on.set()
    assert telling.result() == "{}"
    assert delete.is_set()
