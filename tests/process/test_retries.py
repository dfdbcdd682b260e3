"""Tasks that run again and executors that die, each in a Spark of its own."""

from __future__ import annotations

import pytest

from pushing import findings


@pytest.mark.daily
def test_task_run_again_after_part_was_handed_out_fails_and_says_why() -> None:
    kind, message = findings("retried.py", "local[2,4]")["handed out"]
    assert kind == "StreamError"
    assert "computed again (attempt 1)" in message
    assert "first attempt fails" in message


@pytest.mark.daily
def test_task_run_again_before_any_was_handed_out_is_whole() -> None:
    found = findings("retried.py", "local[2,4]")
    assert found["not handed out"] == 1001
    assert found["collected"] == 200_000
    assert found["limited"] == 195_000


@pytest.mark.daily
def test_task_retried_after_it_read_fails_the_query_with_both_errors() -> None:
    retried = findings("retried.py", "local[2,4]")
    assert retried["stream"][0] == "StreamConsumedError"
    for _, message in (retried["native"], retried["stream"]):
        assert "can be scanned once" in message
        assert "first attempt fails" in message
    assert retried["producer"] == "ScanEndedError"


@pytest.mark.daily
def test_executor_killed_midstream_fails_the_query() -> None:
    found = findings("retried.py", "local-cluster[1,1,1024]")
    kind, message = found["executor killed"]
    assert kind == "StreamConsumedError"
    assert "can be scanned once" in message
    assert "reader went away" in message
    assert found["producer"] == "ScanEndedError"
    assert found["afterwards"] == 10


@pytest.mark.daily
@pytest.mark.parametrize("master", ["local[2,4]", "local-cluster[1,1,1024]"])
def test_worker_asked_while_it_frees_what_the_last_task_left_needs_no_second_attempt(master: str) -> None:
    assert findings("retried.py", master)["workers: garbage"] == [0] * 60


@pytest.mark.daily
@pytest.mark.parametrize("master", ["local[2,4]", "local-cluster[1,1,1024]"])
def test_worker_killed_while_somebody_keeps_its_connection_open_is_tried_again(master: str) -> None:
    assert findings("retried.py", master)["workers: killed"] == [1]


ENDINGS = {
    "limit of collect": "limit",
    "limit of a native query": "limit",
    "jobs cancelled": "cancelled",
    "result stream closed": "cancelled",
    "query failed in one of its tasks": "failed",
    "spark stopped": "lost",
}


@pytest.mark.timeout(300)
@pytest.mark.daily("*local[[]2,4]")
@pytest.mark.parametrize("master", ["local[2]", "local[2,4]"])
@pytest.mark.parametrize("way", ENDINGS)
def test_scan_ended_tells_each_producer_the_ending_of_its_query(master: str, way: str) -> None:
    assert findings("scan_endings.py", master, timeout_s=280)[way] == [ENDINGS[way]] * 2
