"""Writes whose tasks run again, or whose executors are lost: readers see each row once, or none."""

from __future__ import annotations

from typing import Any

import pytest

from pushing import findings

pytestmark = pytest.mark.timeout(500)

ROWS = 30_000


@pytest.fixture(scope="module")
def retried() -> dict[str, Any]:
    return findings("written.py", "local[2,4]", timeout_s=200)


@pytest.fixture(scope="module")
def clustered() -> dict[str, Any]:
    return findings("written.py", "local-cluster[2,1,1024]", timeout_s=400)


def assert_whole(found: dict[str, Any]) -> None:
    assert found["ending"] == "whole"
    assert (found["rows"], found["different"], found["commits"], found["aborts"]) == (ROWS, ROWS, 1, [])
    assert found["attempts"] == found["writes"]
    assert found["left"] == 0


@pytest.mark.parametrize("placement", ["EXECUTORS", "DRIVER"])
@pytest.mark.parametrize("place", ["write", "batch", "end"])
def test_task_that_fails_once_is_run_again_and_its_rows_come_once(
    retried: dict[str, Any], placement: str, place: str
) -> None:
    found = retried[f"{placement} {place} once"]
    assert_whole(found)
    assert found["writes"] == 4


@pytest.mark.parametrize("placement", ["EXECUTORS", "DRIVER"])
@pytest.mark.parametrize("place", ["write", "batch", "end"])
def test_task_that_fails_four_times_publishes_nothing_and_tells_the_users_error(
    retried: dict[str, Any], placement: str, place: str
) -> None:
    found = retried[f"{placement} {place} always"]
    assert found["ending"].startswith(f"ProviderError: LookupError: raised at {place}")
    assert (found["rows"], found["commits"], found["left"]) == (0, 0, 0)
    assert len(found["aborts"]) == 1
    assert found["aborts"][0][1][1] is False
    assert found["attempts"] >= 4


@pytest.mark.parametrize("placement", ["EXECUTORS", "DRIVER"])
@pytest.mark.parametrize("often", ["once", "always"])
def test_commit_that_fails_is_not_tried_again(retried: dict[str, Any], placement: str, often: str) -> None:
    found = retried[f"{placement} commit {often}"]
    assert found["ending"].startswith("ProviderError: LookupError: raised at commit")
    assert (found["rows"], found["commits"], found["aborts"]) == (0, 1, [["abort", [True, True, True]]])


def test_worker_that_dies_is_replaced_and_the_rows_come_once(retried: dict[str, Any]) -> None:
    assert_whole(retried["EXECUTORS dies once"])
    found = retried["EXECUTORS dies always"]
    assert "the Python worker died while it received partition 1 of table 't'" in found["ending"]
    assert (found["rows"], found["commits"]) == (0, 0)


@pytest.mark.daily  # executors that were killed take their time to come back
@pytest.mark.parametrize("placement", ["EXECUTORS", "DRIVER"])
def test_executors_that_are_lost_leave_each_row_once(clustered: dict[str, Any], placement: str) -> None:
    found = clustered[f"{placement} executor killed"]
    assert_whole(found)
    assert found["writes"] >= 4
