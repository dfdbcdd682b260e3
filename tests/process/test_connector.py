"""The connector's own checks: column vectors against Spark's, value by value (in Java), and who imports whom."""

from __future__ import annotations

import re

import pytest

from effort import cases
from headrace import errors
from java_checks import GOLDEN, compiled_checks, run_check
from places import ROOT

SOURCES = ROOT / "connector" / "src" / "main" / "java" / "org" / "headrace" / "spark"
ROOMS = ["", "planner", "transport", "send", "results", "vectors", "read", "scan", "push", "catalog"]


@pytest.fixture(scope="module")
def classpath(tmp_path_factory: pytest.TempPathFactory) -> str:
    return compiled_checks(tmp_path_factory.mktemp("checks"))


@pytest.mark.daily
def test_column_vectors_agree_with_sparks_for_every_type(classpath: str) -> None:
    assert "checks passed" in run_check(classpath, "vectors.ArrowColumnsCheck")


def test_protocol_in_java_agrees_with_the_golden_bytes(classpath: str) -> None:
    assert "all numbers agree" in run_check(classpath, "transport.ProtocolCheck", str(GOLDEN))


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


def test_java_packages_import_only_packages_that_stand_before_them() -> None:
    found = {source.parent.relative_to(SOURCES).as_posix().strip(".") for source in SOURCES.rglob("*.java")}
    assert found == set(ROOMS)
    wrong = []
    for source in SOURCES.rglob("*.java"):
        room = source.parent.relative_to(SOURCES).as_posix().strip(".")
        for name in re.findall(r"^import org\.headrace\.spark\.(?:(\w+)\.)?[A-Z]", source.read_text(), re.M):
            if ROOMS.index(name) >= ROOMS.index(room):
                wrong.append(f"{source.relative_to(SOURCES)} imports {name}")
    assert wrong == []


def test_java_names_only_errors_that_python_has() -> None:
    sources = "".join(source.read_text() for source in SOURCES.rglob("*.java"))
    names = set(re.findall(r"\bof\(\s*\"(\w*Error)\"", sources))
    assert {"TransportError", "StreamConsumedError", "HeadraceError"} <= names
    assert [name for name in names if not issubclass(getattr(errors, name), errors.HeadraceError)] == []
