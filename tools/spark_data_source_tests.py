"""Runs Spark's own tests of the Python Data Source through ``from_data_source``: ``make spark-tests SPARK_SOURCE=...``.

Takes a checkout of apache/spark, of the release that is installed. Its test file is used as it is; only
``spark.read.format(...).load()`` of a data source that a test has registered goes through Headrace. Prints what came
of each test, and ends with status 1 unless those that fail are just those that are known to.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import signal
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path("python/pyspark/sql/tests/test_python_datasource.py")
MIXIN = "BasePythonDataSourceTestsMixin"
MODULE = "spark_test_python_datasource"
TEST_SECONDS = 300.0

NOT_OF_READING = {
    "test_basic_data_source_class": "no scan",
    "test_basic_data_source_reader_class": "no scan",
    "test_case_insensitive_dict": "no scan",
    "test_assert_classic_mode": "no scan",
    "test_custom_json_data_source_write": "writes",
    "test_custom_json_data_source_commit": "writes",
    "test_custom_json_data_source_abort": "writes",
    "test_arrow_batch_sink": "writes",
    "test_data_source_writer_with_logging": "writes",
    "test_data_source_perf_profiler": "a profiler of Spark's own workers",
    "test_data_source_memory_profiler": "a profiler of Spark's own workers",
}
KNOWN = {
    "test_data_source_reader_with_logging": "all but read runs in the user's process, and logs there",
    "test_data_source_reader_pushdown_with_logging": "all but read runs in the user's process, and logs there",
    "test_data_source_segfault": "schema() runs in the user's process, which it ends",
}
KNOWN_BEFORE_4_2 = dict.fromkeys(
    (
        "test_data_source_read_output_named_row_with_wrong_schema",
        "test_data_source_read_output_none",
        "test_data_source_read_output_with_schema_mismatch",
        "test_read_with_invalid_return_row_type",
        "test_arrow_batch_data_source",
    ),
    "the same error arrives as SparkRuntimeException, and as PythonException from Spark 4.2 on",
)
ENDS_ITS_PROCESS = ("test_data_source_segfault",)  # is given a process of its own


@dataclass(frozen=True)
class Outcome:
    """What came of one test: passed, failed or not applicable, and why."""

    test: str
    word: str
    reason: str = ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path, help="a checkout of apache/spark")
    parser.add_argument("--only", metavar="TEST", help="this test alone, in this process, with its traceback")
    arguments = parser.parse_args()
    if not (arguments.source / FILE).is_file():
        parser.error(f"{arguments.source} has no {FILE}: expected a checkout of https://github.com/apache/spark")
    if arguments.only:
        (outcome,) = outcomes(arguments.source, [arguments.only])
        print(outcome.reason)
        return 0 if outcome.word == "passed" else 1
    names = test_names(arguments.source)
    here = [name for name in names if name not in (*NOT_OF_READING, *ENDS_ITS_PROCESS)]
    found = {outcome.test: outcome for outcome in outcomes(arguments.source, here)}
    for name in names:
        if name in NOT_OF_READING:
            found[name] = Outcome(name, "not applicable", NOT_OF_READING[name])
        elif name in ENDS_ITS_PROCESS:
            found[name] = _in_own_process(arguments.source, name)
    text, right = judged([found[name] for name in names], known_failures())
    print(text)
    return 0 if right else 1


def known_failures() -> dict[str, str]:
    """Those of the Spark that is installed."""
    import pyspark

    from headrace.spark.versions import minor_version

    return KNOWN if minor_version(pyspark.__version__) >= (4, 2) else {**KNOWN, **KNOWN_BEFORE_4_2}


def judged(found: Iterable[Outcome], known: Mapping[str, str]) -> tuple[str, bool]:
    """The table with its sums, and whether all failed that are known to, and nothing else."""
    found = list(found)
    width = max((len(outcome.test) for outcome in found), default=0)
    lines, right = [], True
    for outcome in found:
        reason = outcome.reason.strip().splitlines()[-1] if outcome.reason.strip() else ""
        if outcome.word == "failed" and outcome.test in known:
            reason = f"known: {known[outcome.test]}"
        elif outcome.word == "failed":
            right = False
        elif outcome.word == "passed" and outcome.test in known:
            right = False
            reason = "known to fail, and does no more: take it off the list of this tool and of docs/howto/databases.md"
        lines.append(f"{outcome.test:<{width}}  {outcome.word:<14}  {reason}".rstrip())
    read = [outcome for outcome in found if outcome.word != "not applicable"]
    passed = sum(outcome.word == "passed" for outcome in read)
    others = sum(outcome.word == "failed" and outcome.test not in known for outcome in read)
    lines.append(
        f"{passed} of {len(read)} tests of reading passed, {len(read) - passed - others} failed as known, "
        f"{others} failed otherwise; {len(found) - len(read)} not applicable"
    )
    for outcome in found:
        if outcome.word == "failed" and outcome.test not in known:
            lines.append(f"\n{outcome.test}\n{outcome.reason}")
    return "\n".join(lines), right


def test_names(source: Path) -> list[str]:
    """In the order of the file."""
    case = getattr(_module(source), MIXIN)
    return [name for name in vars(case) if name.startswith("test_")]


def outcomes(source: Path, names: list[str]) -> list[Outcome]:
    """Runs these tests in this process, with one Spark."""
    case = _case(source)
    result = unittest.TextTestRunner(stream=io.StringIO()).run(unittest.TestSuite(map(case, names)))
    failed: dict[str, str] = {}
    for test, text in (*result.failures, *result.errors):
        of = getattr(test, "test_case", test)  # of a part of it (subTest)
        failed.setdefault(getattr(of, "_testMethodName", ""), text)
    if "" in failed:  # not of a test: Spark did not start
        raise RuntimeError(failed[""])
    skipped = {getattr(test, "_testMethodName", ""): why for test, why in result.skipped}
    return [
        Outcome(name, "failed", failed[name])
        if name in failed
        else Outcome(name, "not applicable", skipped[name])
        if name in skipped
        else Outcome(name, "passed")
        for name in names
    ]


def _in_own_process(source: Path, name: str) -> Outcome:
    command = [sys.executable, "-m", "tools.spark_data_source_tests", str(source), "--only", name]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=TEST_SECONDS)
    if ended.returncode < 0:
        return Outcome(name, "failed", f"its process was ended by {signal.Signals(-ended.returncode).name}")
    return Outcome(name, "passed" if ended.returncode == 0 else "failed", ended.stdout)


def _module(source: Path) -> Any:
    if MODULE in sys.modules:
        return sys.modules[MODULE]
    spec = importlib.util.spec_from_file_location(MODULE, source / FILE)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    sys.modules[MODULE] = module
    spec.loader.exec_module(module)
    module.SPARK_HOME = str(source.resolve())  # where the files are that it reads; PySpark's own folder has none
    return module


def _case(source: Path) -> Any:
    from tools.through_headrace import Session

    module = _module(source)
    mixin: Any = getattr(module, MIXIN)
    case: Any = module.ReusedSQLTestCase

    class ThroughHeadrace(mixin, case):  # type: ignore[misc]
        spark: Any

        @classmethod
        def conf(cls) -> Any:
            return super().conf().set("spark.sql.warehouse.dir", tempfile.mkdtemp(prefix="headrace-spark-tests-"))

        @classmethod
        def setUpClass(cls) -> None:
            super().setUpClass()
            cls.spark = Session(cls.spark)

    return ThroughHeadrace


if __name__ == "__main__":
    sys.exit(main())
