"""The layers of the tests: every test file lies in one of them, and the unit layer knows no Spark."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys

from places import ROOT

LAYERS = ("unit", "spark", "process", "soak")
COLLECT_UNIT = """
import sys, pytest
assert pytest.main(["--collect-only", "-qq", "-p", "no:cacheprovider", "-p", "no:xdist", "tests/unit"]) == 0
loaded = sorted(name for name in sys.modules if name.partition(".")[0] in ("pyspark", "py4j"))
assert not loaded, f"collecting tests/unit loaded {loaded[:3]}"
"""


def test_every_test_file_lies_in_one_layer() -> None:
    astray = [
        path.relative_to(ROOT)
        for path in (ROOT / "tests").rglob("test_*.py")
        if path.parent.parent != ROOT / "tests" or path.parent.name not in LAYERS
    ]
    assert astray == []


def test_file_names_of_tests_are_unique_over_the_layers() -> None:
    """Test modules and the modules of tests/support are imported by their bare names."""
    names = sorted(path.name for path in (ROOT / "tests").rglob("*.py") if path.name != "conftest.py")
    assert [name for name, following in itertools.pairwise(names) if name == following] == []


def test_unit_layer_collected_on_its_own_does_not_load_pyspark() -> None:
    """That no test loads it while it runs is for the fixture in conftest.py to see."""
    done = subprocess.run(
        [sys.executable, "-c", COLLECT_UNIT],
        cwd=ROOT,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
