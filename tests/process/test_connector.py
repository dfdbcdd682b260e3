"""The connector's own checks, in Java: column vectors against Spark's, the protocol, damaged streams."""

from __future__ import annotations

import json

import pytest

from effort import cases
from java_checks import GOLDEN, compiled_checks, named_outcomes, run_check

DECIMALS = ["decimal(1,0)", "decimal(9,2)", "decimal(18,6)", "decimal(19,0)", "decimal(38,0)", "decimal(38,38)"]
NUMBERS = ["boolean", "tinyint", "smallint", "int", "bigint", "float", "double"]
TYPES = [*NUMBERS, "date", "timestamp", "timestamp_ntz", *DECIMALS, "string", "binary"]
COLUMN_CHECKS = [*TYPES, "dictionaries", "missing validity", "ownership", "other types", "refusals", "memory left"]
MESSAGES = [message["name"] for message in json.loads(GOLDEN.read_text())["messages"]]


@pytest.fixture(scope="module")
def classpath(tmp_path_factory: pytest.TempPathFactory) -> str:
    return compiled_checks(tmp_path_factory.mktemp("checks"))


@pytest.fixture(scope="module")
def columns(classpath: str) -> dict[str, str]:
    return named_outcomes(classpath, "vectors.ArrowColumnsCheck")


@pytest.fixture(scope="module")
def protocol(classpath: str) -> dict[str, str]:
    return named_outcomes(classpath, "transport.ProtocolCheck", str(GOLDEN))


@pytest.mark.daily
def test_column_checks_of_java_are_all_listed(columns: dict[str, str]) -> None:
    assert list(columns) == COLUMN_CHECKS


@pytest.mark.daily
@pytest.mark.parametrize("check", COLUMN_CHECKS)
def test_column_vectors_agree_with_sparks(columns: dict[str, str], check: str) -> None:
    assert columns[check] == "passed", columns[check]


def test_protocol_checks_of_java_are_all_listed(protocol: dict[str, str]) -> None:
    assert list(protocol) == ["numbers", *MESSAGES]


@pytest.mark.parametrize("check", ["numbers", *MESSAGES])
def test_protocol_in_java_agrees_with_the_golden_bytes(protocol: dict[str, str], check: str) -> None:
    assert protocol[check] == "passed", protocol[check]


def test_planner_json_in_java_agrees_with_the_golden_questions_and_answers(classpath: str) -> None:
    printed = run_check(classpath, "scan.PlannerJsonCheck", str(GOLDEN.with_name("planner.json")))
    assert "all words agree" in printed


@pytest.mark.daily
def test_reader_damaged_streams_are_refused_by_name_or_whole(classpath: str) -> None:
    """A part of what `make soak` does."""
    printed = run_check(classpath, "transport.FrameFuzz", str(GOLDEN), "0", "3000", options=("-Xmx256m",))
    assert "3000 streams" in printed


def test_connection_to_workers_of_every_fate_ends_whole_or_by_name(classpath: str) -> None:
    """They pause, die, stall, babble and are stopped, at any byte."""
    count = cases(1200)
    printed = run_check(
        classpath, "transport.WorkerConnectionCheck", str(GOLDEN), "0", str(count), timeout_s=30 + count
    )
    assert f"{count} conversations held" in printed


def test_sender_to_workers_of_every_fate_is_answered_or_fails_by_name(classpath: str) -> None:
    """They answer, fail, pause, die, close, babble and are broken off, at any frame."""
    count = cases(600)
    printed = run_check(classpath, "transport.BatchSenderCheck", "0", str(count), timeout_s=30 + count)
    assert f"{count} partitions sent" in printed
