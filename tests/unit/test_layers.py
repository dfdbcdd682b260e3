"""The layers of the tests: every test file lies in one of them, and the unit layer knows no Spark."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest

import costs
from places import ROOT, SUPPORT

LAYERS = ("unit", "spark", "process", "soak")
PARTS = """
import sys, pytest
class Ran:
    def __init__(self):
        self.ids = []
    def pytest_runtest_logreport(self, report):
        self.ids += [report.nodeid.partition("::")[2]] if report.when == "call" else []
for file in ("test_grid.py", "test_renamed.py"):
    for part in sys.argv[1:]:
        ran = Ran()
        options = ["-qq", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "effort", "--part", part]
        code = pytest.main([*options, file], [ran])
        print("\\n" + file, part, int(code), *sorted(ran.ids))
"""
GRID = """
import pytest
pytestmark = pytest.mark.daily("a*")
def test_alone(): ...
@pytest.mark.daily("*")
def test_kept(): ...
@pytest.mark.parametrize("n", ["a1", "b1"])
def test_of_the_module(n): ...
@pytest.mark.daily("b?")
@pytest.mark.parametrize("n", ["a1", "b1"])
def test_of_its_own(n): ...
@pytest.mark.daily("4", every=2)
@pytest.mark.parametrize("n", range(1, 6))
def test_numbered(n): ...
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What each part ran of two files of tests, in a process of its own."""
    folder = tmp_path_factory.mktemp("parts")
    (folder / "pytest.ini").write_text("[pytest]")
    (folder / "test_grid.py").write_text(GRID)
    (folder / "test_renamed.py").write_text(GRID.replace('"b?"', '"c?"'))
    done = subprocess.run(
        [sys.executable, "-c", PARTS, "daily", "rest"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(SUPPORT)},
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if line.startswith("test_")]


def test_every_test_file_lies_in_one_layer() -> None:
    astray = [
        path.relative_to(ROOT)
        for path in (ROOT / "tests").rglob("test_*.py")
        if path.relative_to(ROOT / "tests").parts[0] not in LAYERS  # perhaps in a folder of the layer's
    ]
    assert astray == []


def test_file_names_of_tests_are_unique_over_the_layers() -> None:
    """Test modules and the modules of tests/support are imported by their bare names."""
    names = sorted(path.name for path in (ROOT / "tests").rglob("*.py") if path.name != "conftest.py")
    assert [name for name, following in itertools.pairwise(names) if name == following] == []


@pytest.mark.daily
def test_parts_together_run_every_case_once(ran: list[str]) -> None:
    numbered = "test_numbered[1] test_numbered[3] test_numbered[4] test_numbered[5]"
    assert ran[:2] == [
        f"test_grid.py daily 0 test_kept {numbered} test_of_its_own[b1] test_of_the_module[a1]",
        "test_grid.py rest 0 test_alone test_numbered[2] test_of_its_own[a1] test_of_the_module[b1]",
    ]


@pytest.mark.daily
def test_pattern_that_fits_no_case_is_a_usage_error(ran: list[str]) -> None:
    """Else a case that is renamed would be lost to every day."""
    assert ran[2:] == ["test_renamed.py daily 4", "test_renamed.py rest 4"]


def test_unit_layer_collected_on_its_own_does_not_load_pyspark(request: pytest.FixtureRequest) -> None:
    """That no test loads it while it runs is for the fixture in conftest.py to see."""
    if not all(
        Path(arg.partition("::")[0]).resolve().is_relative_to(ROOT / "tests" / "unit") for arg in request.config.args
    ):
        pytest.skip("other layers were collected too")
    loaded = sorted(name for name in sys.modules if name.partition(".")[0] in ("pyspark", "py4j"))
    assert not loaded, f"collecting tests/unit loaded {loaded[:3]}"


def test_costs_are_those_of_files_then_of_tests_the_costliest_first() -> None:
    found = {"a.py::test_x": 1.0, "b.py::test_y[::1]": 2.5, "a.py::test_z": 2.0}
    assert [line.split() for line in costs.lines(found)] == [
        ["5.5", "in", "all"],
        ["3.0", "a.py"],
        ["2.5", "b.py"],
        ["2.5", "b.py::test_y[::1]"],
        ["2.0", "a.py::test_z"],
        ["1.0", "a.py::test_x"],
    ]
