"""Runs the tests, with one wheel, on every Spark, JDK and Python that the machine has; writes docs/compatibility.md.

``python -m tools.matrix`` runs all cells: all tests on the usual JDK and Python, the core elsewhere. ``--spark 4.0``,
``--jdk 25`` and ``--python 3.13`` run those only. Results of earlier runs are kept for the cells that are not run.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tools import compatibility
from tools.compatibility import Cell, Result
from tools.environments import JDKS, PYTHONS, ROOT, SPARKS, environment, jdk

CONNECT = "tests/process/connect"
SUITES = {"all": (CONNECT, "tests/spark"), "core": ("tests/spark", "-m", "core")}
PARALLEL = ("-n", "2", "--dist", "loadfile", "--no-loadscope-reorder")
USUAL_PYTHON, USUAL_JDK = PYTHONS[0], JDKS[0]
CELL_SECONDS = 3600.0
SPARK_ALONE = """
import pyspark
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").getOrCreate()
spark.range(3).count()
spark.sparkContext.addFile(pyspark.__file__)
"""


def cells() -> list[Cell]:
    """Every Spark on the usual JDK and Python and on other JDKs; other Pythons with some; what platforms run."""
    usual = [Cell(spark, USUAL_PYTHON, USUAL_JDK, "all") for spark in SPARKS]
    jdks = [Cell(spark, USUAL_PYTHON, version, "core") for version in JDKS[1:] for spark in SPARKS]
    pythons = [Cell(spark, version, USUAL_JDK, "core") for version in PYTHONS[1:] for spark in ("4.0", "4.1", "4.3")]
    platforms = [Cell("4.0", "3.12", "21", "core"), Cell("4.1", "3.13", "21", "core")]  # Google's serverless; Fabric
    return [*usual, *jdks, *pythons, *platforms]


def main() -> None:
    """Ends with status 1 if a test failed in any cell."""
    arguments = _arguments()
    tests = ", ".join(arguments.tests) if arguments.tests else None
    chosen = [
        replace(cell, tests=tests or cell.tests)
        for cell in cells()
        if cell.spark in (arguments.spark or SPARKS)
        and cell.python in (arguments.python or PYTHONS)
        and cell.jdk in (arguments.jdk or JDKS)
    ]
    wheel = arguments.wheel or build_wheel()
    failed = False
    for cell in chosen:
        result = run(cell, wheel)
        compatibility.record(cell, result, cells())
        print(f"{cell}: {result.text()}", flush=True)
        failed = failed or bool(result.failed)
    sys.exit(1 if failed else 0)


def build_wheel() -> Path:
    """The one wheel, built as a release is: in isolation, against the oldest Spark."""
    (ROOT / "src" / "headrace" / "headrace-connector.jar").unlink(missing_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="headrace-wheel-"))
    subprocess.run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, ROOT], check=True)
    (wheel,) = folder.glob("headrace-*.whl")
    return wheel


def run(cell: Cell, wheel: Path) -> Result:
    """Install the wheel where the cell's Spark is and run the tests against it, not against the sources."""
    today = dt.date.today().isoformat()
    home = jdk(cell.jdk)
    if home is None:
        return Result(today, missing=f"no JDK {cell.jdk} on this machine")
    python = environment(cell.spark, cell.python)
    if python is None:
        return Result(today, missing=f"no Python {cell.python} on this machine")
    pip: list[str | Path] = [python, "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, f"{wheel}[cli,sql,pandas]"], check=True)
    subprocess.run([*pip, "--force-reinstall", "--no-deps", wheel], check=True)
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.xml"
        pytest: list[str | Path] = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
        path = f"{home}/bin{os.pathsep}{python.parent}{os.pathsep}{os.environ['PATH']}"
        environ = {**os.environ, "JAVA_HOME": home, "PATH": path}
        environ.pop("PYTHONPATH", None)
        if reason := _spark_that_does_not_run(python, environ):
            return Result(today, missing=f"Spark {cell.spark} itself does not run on JDK {cell.jdk} ({reason})")
        # It only saves time, and the runtime of headrace[java] cannot make one.
        subprocess.run([python, "tests/support/class_archive.py"], cwd=ROOT, env=environ, check=False)
        try:
            subprocess.run(
                [*pytest, *PARALLEL, *_paths(cell.tests)], cwd=ROOT, env=environ, timeout=CELL_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return Result(today, failed=("the run took longer than an hour",))
        return _read(report, today)


def _spark_that_does_not_run(python: Path, environ: Mapping[str, str]) -> str:
    """What a Spark without Headrace fails with, e.g. on a JDK that is too new for it; empty if it runs."""
    done = subprocess.run([python, "-c", SPARK_ALONE], env=environ, capture_output=True, text=True, timeout=300)
    if done.returncode == 0:
        return ""
    found = [line for line in done.stderr.splitlines() if "Exception: " in line]
    return found[-1].removeprefix("Caused by").lstrip(": ") if found else f"status {done.returncode}"


def _paths(tests: str) -> tuple[str, ...]:
    return SUITES.get(tests) or tuple(f"tests/spark/test_{name}.py" for name in tests.split(", "))


def _read(report: Path, today: str) -> Result:
    if not report.exists():
        return Result(today, failed=("pytest did not run",))
    cases = list(ElementTree.parse(report).getroot().iter("testcase"))
    bad = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    skipped = sum(case.find("skipped") is not None for case in cases)
    names = tuple(f"{case.get('classname')}.{case.get('name')}" for case in bad)
    return Result(today, passed=len(cases) - len(bad) - skipped, skipped=skipped, failed=names)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spark", action="append", choices=SPARKS)
    parser.add_argument("--python", action="append", choices=PYTHONS)
    parser.add_argument("--jdk", action="append", choices=JDKS)
    parser.add_argument("--tests", nargs="+", metavar="NAME", help="core, or tests/spark/test_NAME.py, in every cell")
    parser.add_argument("--wheel", type=Path, help="a wheel that was built already")
    return parser.parse_args()


if __name__ == "__main__":
    main()
