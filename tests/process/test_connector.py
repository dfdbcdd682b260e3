"""The connector's own checks: column vectors against Spark's, value by value (in Java), and who imports whom."""

from __future__ import annotations

import re

import pytest

from java_checks import GOLDEN, compiled_checks, run_check
from places import ROOT

SOURCES = ROOT / "connector" / "src" / "main" / "java" / "org" / "headrace" / "spark"
ROOMS = ["", "planner", "transport", "results", "vectors", "read", "scan", "push", "catalog"]


@pytest.fixture(scope="module")
def classpath(tmp_path_factory: pytest.TempPathFactory) -> str:
    return compiled_checks(tmp_path_factory.mktemp("checks"))


def test_column_vectors_agree_with_sparks_for_every_type(classpath: str) -> None:
    assert "checks passed" in run_check(classpath, "vectors.ArrowColumnsCheck")


def test_protocol_in_java_agrees_with_the_golden_bytes(classpath: str) -> None:
    assert "all numbers agree" in run_check(classpath, "transport.ProtocolCheck", str(GOLDEN))


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
