"""docs/compatibility.md says what the matrix found, and the matrix, the wheel and the check agree on the versions."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from tools import compatibility
from tools.environments import SPARKS
from tools.matrix import cells

from places import ROOT


def test_document_is_the_one_made_of_the_results() -> None:
    assert compatibility.DOCUMENT.read_text() == compatibility.document(compatibility.load(), cells())


def test_document_says_of_every_cell_what_came_of_it_or_that_it_was_not_run() -> None:
    cell, other = cells()[0], cells()[1]
    result = compatibility.Result("2026-01-01", passed=7, skipped=1, failed=("test_x.test_y",))
    text = compatibility.document({cell: result}, [cell, other])
    assert f"| {cell.spark} | {cell.python} | {cell.jdk} | {cell.tests} | 7 passed, 1 skipped, **1 failed** |" in text
    assert f"| {other.spark} | {other.python} | {other.jdk} | {other.tests} | not run yet |" in text
    assert "`test_x.test_y`" in text


def test_document_results_are_of_cells_of_the_matrix() -> None:
    known = {replace(cell, tests="") for cell in cells()}
    assert {replace(cell, tests="") for cell in compatibility.load()} <= known


def test_wheel_is_built_against_the_oldest_spark_of_the_matrix() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert f"pyspark=={SPARKS[0]}.*" in project["build-system"]["requires"]
    assert not [name for name in project["project"]["dependencies"] if name.startswith("pyspark")]


def test_document_leaves_out_a_planned_cell_of_which_some_tests_were_run() -> None:
    cell = cells()[0]
    result = compatibility.Result("2026-01-01", passed=7)
    text = compatibility.document({replace(cell, tests="session, results"): result}, [cell])
    assert "| session, results | 7 passed |" in text
    assert "not run yet" not in text


def test_result_of_a_cell_replaces_the_word_that_it_could_not_be_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compatibility, "RESULTS", tmp_path / "results.json")
    monkeypatch.setattr(compatibility, "DOCUMENT", tmp_path / "document.md")
    cell = cells()[0]
    compatibility.record(cell, compatibility.Result("2026-01-01", missing="no JDK 99"), cells())
    short = replace(cell, tests="session")
    compatibility.record(short, compatibility.Result("2026-01-02", passed=3), cells())
    assert list(compatibility.load()) == [short]
