"""check_provider: filters that are given, what is noted and warned of, the report, tests for pytest. Without Spark."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
import subprocess
import sys
import sysconfig
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bad_providers as bad
import headrace as hr
import headrace.testing
from checking import NUMBERED, check_provider, errors
from headrace.testing import BrokenPromise, Promise, Severity
from headrace.testing.report import OF_STREAMS, READ_PROMISES
from headrace.testing.user_lines import user_line
from places import ROOT, SUPPORT

# Filters that are given, and generated ones with functions


def test_given_filter_is_asked_about_and_shown() -> None:
    odd = hr.Comparison(">", hr.Column("weight"), hr.Literal(12, pa.int64()))
    report = check_provider(bad.WrongExact(), filters=[odd], samples=1)
    expected = "answered EXACT for `weight > 12`, but partition 0 has 1 row for which it is not true: {'weight': 12}"
    assert expected in str(report)


def trusting(wanted: Callable[[hr.Expr], bool]) -> hr.TableProvider:
    """Answers EXACT where ``wanted`` says so, and filters nothing."""

    class Trusting(hr.MemTable):
        def supports_filters_pushdown(self, filters: Any) -> Any:
            return [hr.FilterPushdown.EXACT if wanted(f) else hr.FilterPushdown.UNSUPPORTED for f in filters]

        def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
            return super().scan(dataclasses.replace(request, filters=()))

    return Trusting(NUMBERED)


SOUNDEX = hr.Comparison("=", hr.Call("SOUNDEX", (hr.Column("s"),)), hr.Literal("A", pa.string()))
NO_INT = hr.Comparison("=", hr.Cast(hr.Column("s"), "int"), hr.Literal(1, pa.int32()))


@pytest.mark.parametrize(
    ("expr", "reason"),
    [
        (SOUNDEX, "no reference evaluation for Spark's function SOUNDEX"),
        (NO_INT, r"[CAST_INVALID_INPUT]"),
    ],
)
def test_given_filter_that_cannot_be_verified_is_noted(expr: hr.Expr, reason: str) -> None:
    report = check_provider(trusting(lambda asked: asked == expr), filters=[expr], samples=1)
    assert report.ok, str(report)
    (note,) = [f for f in report.findings if f.promise is Promise.FILTERS]
    assert note.severity is Severity.NOTE
    assert f"could not be verified: {reason}" in note.message


@pytest.mark.parametrize("name", ["UPPER", "CHAR_LENGTH", "SUBSTRING", "CONCAT", "COALESCE", "CASE_WHEN", "%", "ABS"])
def test_generated_filters_with_functions_catch_who_does_not_apply_them(name: str) -> None:
    def called(expr: hr.Expr) -> bool:
        return any(isinstance(node, hr.Call) and node.name == name for node in expr.walk())

    report = check_provider(trusting(called), samples=1)
    assert not report.ok
    shown = {"CASE_WHEN": "CASE WHEN ", "%": r"a % 2 "}.get(name, rf"{name}\(")
    assert re.search(f"answered EXACT for `{shown}", str(report))


@pytest.mark.parametrize("expr", [hr.IsNull(hr.Column("nope")), hr.Column("weight")], ids=repr)
def test_given_filter_that_is_no_predicate_over_the_table_raises(expr: hr.Expr) -> None:
    with pytest.raises(ValueError, match="is no predicate over this table"):
        check_provider(bad.HonestTable(), filters=[expr])


# Large tables, planning, statistics: what is noted, and what is warned of


def test_endless_table_is_read_up_to_max_rows_and_noted() -> None:
    schema = pa.schema([("n", pa.int64())])

    def numbers() -> Iterator[pa.RecordBatch]:
        for start in range(0, sys.maxsize, 100):
            yield pa.record_batch({"n": range(start, start + 100)}, schema)

    report = check_provider(hr.SimpleTable(schema, numbers), max_rows=1000)
    assert report.ok, str(report)
    assert report.rows == 1000
    notes = [finding for finding in report.of(Severity.NOTE) if "more than max_rows=1,000 rows" in finding.message]
    assert {note.promise for note in notes} == {Promise.EXECUTE, Promise.FILTERS, Promise.LIMIT, Promise.WORK_AT_SOURCE}


@pytest.mark.daily
def test_table_cut_short_still_shows_rows_that_do_not_match() -> None:
    report = check_provider(bad.with_some_columns(bad.ExactKeepsNulls)(), max_rows=12)
    assert report.outcome(Promise.FILTERS) == "broken"
    assert "that filters drop no matching row was not checked" in str(report)


def test_slow_planning_is_an_error_beyond_its_budget() -> None:
    report = check_provider(bad.without_filters(bad.WorksHard)(), samples=1, planning_budget_s=0.05)
    (error,) = errors(report)
    assert error.promise is Promise.PLANNING
    assert re.search(r"WorksHard.scan takes \d+\.\d s, more than planning_budget_s=0.05", error.message)


def test_statistics_far_off_are_a_warning() -> None:
    report = check_provider(bad.without_filters(bad.StatisticsFarOff)(), samples=1)
    assert report.ok
    (warning,) = report.of(Severity.WARNING)
    assert warning.message == "num_rows=3,000,000 is stated, but a scan returned 30 rows"


def test_thread_started_while_planning_is_a_warning() -> None:
    class StartsThread(bad.HonestTable):
        def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
            thread = threading.Thread(target=lambda: None)
            thread.start()
            thread.join()
            return bad.Plan(request)

    report = check_provider(bad.without_filters(StartsThread)(), samples=1)
    assert report.ok
    assert "StartsThread.scan started a thread" in report.of(Severity.WARNING)[0].message


def test_import_while_planning_is_no_io(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "imported_late.py").write_text("rows = 3")
    monkeypatch.syspath_prepend(str(tmp_path))

    class Imports(bad.HonestTable):
        def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
            monkeypatch.delitem(sys.modules, "imported_late", raising=False)
            importlib.import_module("imported_late")
            return bad.Plan(request)

    assert check_provider(bad.without_filters(Imports)(), samples=1).ok


def test_io_outside_of_planning_is_not_held_against_anyone(tmp_path: Path) -> None:
    (tmp_path / "rows").write_text("1 2 3")
    schema = pa.schema([("n", pa.int64())])

    def read() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"n": [int(n) for n in (tmp_path / "rows").read_text().split()]}, schema)

    assert check_provider(hr.SimpleTable(schema, read)).findings == ()


def test_schema_that_reads_a_file_is_noted(tmp_path: Path) -> None:
    (tmp_path / "schema").touch()

    class FromFile(hr.MemTable):
        def schema(self) -> pa.Schema:
            (tmp_path / "schema").read_text()
            return super().schema()

    report = check_provider(FromFile(NUMBERED), samples=1)
    assert report.ok
    assert "FromFile.schema opened" in report.about(Promise.SCHEMA).of(Severity.NOTE)[0].message


def test_list_of_batches_is_noted_as_not_lazy() -> None:
    report = check_provider(hr.SimpleTable(NUMBERED.schema, lambda: NUMBERED.to_batches(max_chunksize=1)))
    assert report.ok
    assert "execute returns a list of 4 batches" in str(report.about(Promise.EXECUTE))


# The report


def test_report_of_a_broken_provider_reads_well_and_raises() -> None:
    report = check_provider(bad.LastPartitionFails())
    lines = str(report).splitlines()
    assert lines[0] == "LastPartitionFails: 1 promise broken, 2 kept, 15 unchecked (2 scans, 0 rows)"
    assert lines[1] == "  broken       execute"
    assert lines[2].startswith(
        "      error: OwnPlan.execute(2) raised ConnectionError: shard 2 is down (bad_providers.py:"
    )
    assert lines[3] == "  kept         schema, planning"
    assert lines[4].startswith("  unchecked    batches, fresh scans, ")
    assert lines[6:] == ["      unchecked: to be checked when this is fixed: execute"]
    with pytest.raises(BrokenPromise) as raised:
        report.raise_if_failed()
    assert isinstance(raised.value, AssertionError)
    assert str(raised.value) == str(report)
    assert raised.value.report is report
    check_provider(hr.MemTable(NUMBERED), samples=1).raise_if_failed()


def test_report_of_a_provider_that_promises_little_says_what_it_does_not_offer() -> None:
    report = check_provider(hr.SimpleTable(NUMBERED.schema, lambda: iter(NUMBERED.to_batches())))
    assert str(report).splitlines() == [
        f"SimpleTable: 10 promises kept, 8 not offered ({report.scans} scans, 4 rows)",
        "  kept         schema, planning, execute, batches, fresh scans, projection, limit, work at the source, "
        "pickling, early",
        "               stop",
        "  not offered  filters, top-n, aggregates, joins, runtime filters, partitioning, ordering, statistics",
    ]
    assert report.outcome(Promise.FILTERS) == "not offered"
    assert report.outcome(Promise.LIMIT) == "kept"
    assert report.about(Promise.FILTERS).summary().startswith("SimpleTable: 1 promise not offered (")


def test_report_of_one_broken_promise_is_a_few_lines_and_shows_each_row_once() -> None:
    lines = str(check_provider(bad.without_filters(bad.LyingKeys)(), samples=1)).splitlines()
    assert lines[1] == "  broken       partitioning"
    expected = "states that partition 1 holds the rows with {'city': 'ulm'}, but it has 6 other rows: {'city': 'kiel'}"
    assert lines[2] == f"      error: {expected}"
    assert len(lines) < 12


def test_error_of_a_library_is_placed_at_the_line_of_the_user_that_called_it() -> None:
    class CallsPyarrow(hr.MemTable):
        def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
            NUMBERED.select(["nope"])
            return super().scan(request)

    (error,) = errors(check_provider(CallsPyarrow(NUMBERED)))
    line = inspect.getsourcelines(CallsPyarrow.scan)[1] + 1
    assert error.message.endswith(f"(test_check_findings.py:{line})"), error.message


def test_file_that_a_library_opened_is_placed_at_the_line_of_the_user_that_called_it(tmp_path: Path) -> None:
    (tmp_path / "rows").touch()

    class ReadsText(hr.MemTable):
        def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
            (tmp_path / "rows").read_text()
            return super().scan(request)

    (error,) = errors(check_provider(ReadsText(NUMBERED), samples=1))
    line = inspect.getsourcelines(ReadsText.scan)[1] + 1
    assert f"(test_check_findings.py:{line}); planning does no I/O" in error.message


INSTALLED = f"{sysconfig.get_paths()['purelib']}/their_tables/table.py"


def test_user_line_of_an_installed_provider_is_that_of_its_own_method() -> None:
    library = f"{sysconfig.get_paths()['purelib']}/pyarrow/compute.py"
    kit = str(Path(headrace.testing.__file__).parent / "probe.py")
    frames = [("pyarrow/table.pxi", 7), (library, 3), (INSTALLED, 12), (kit, 80), ("/home/me/test_tables.py", 5)]
    assert user_line(frames) == " (table.py:12)"
    assert user_line([(kit, 80), ("/home/me/test_tables.py", 5)]) == ""
    assert user_line([(library, 3), ("/home/me/mine.py", 4), (INSTALLED, 12), (kit, 80)]) == " (mine.py:4)"


@pytest.mark.daily
def test_many_errors_of_one_kind_are_counted_not_listed() -> None:
    report = check_provider(bad.with_some_columns(bad.ExactKeepsNulls)())
    assert len(report.about(Promise.FILTERS).of(Severity.ERROR)) == 3
    assert re.search(r"note: \d+ more errors like these", str(report))
    assert len(str(report).splitlines()) < 12


@pytest.mark.parametrize("nothing", [None, "table", hr.MemTable], ids=repr)
def test_what_is_no_provider_raises(nothing: Any) -> None:
    with pytest.raises(TypeError, match="check_provider takes a TableProvider"):
        check_provider(nothing)


# Tests for pytest, and what is documented


def run_pytest(directory: Path, code: str) -> str:
    """The lines that pytest prints for a test file with ``code``."""
    (directory / "test_mine.py").write_text(textwrap.dedent(code))
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "--rootdir", str(directory)]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=110)
    return done.stdout


@pytest.mark.daily
def test_provider_tests_give_a_test_per_promise(tmp_path: Path) -> None:
    out = run_pytest(
        tmp_path,
        f"""
        import sys
        sys.path.insert(0, {str(SUPPORT)!r})
        import bad_providers
        from headrace.testing import provider_tests

        made = []
        def honest():
            made.append(1)
            return bad_providers.with_some_columns(bad_providers.HonestTable)()

        test_honest = provider_tests(honest, samples=1)
        test_wrong = provider_tests(bad_providers.with_some_columns(bad_providers.WrongExact), samples=1)
        test_failing = provider_tests(lambda: bad_providers.LastPartitionFails())

        def test_made_once():
            assert made == [1]
        """,
    )
    not_offered = {Promise.TOP_N, Promise.AGGREGATES, Promise.JOINS, Promise.RUNTIME_FILTERS, *OF_STREAMS}
    for promise in READ_PROMISES:
        outcome = "SKIPPED (HonestT" if promise in not_offered else "PASSED"
        assert f"test_mine.py::test_honest[{promise}] {outcome}" in out
    assert "test_mine.py::test_wrong[filters] FAILED" in out
    assert "test_mine.py::test_wrong[schema] PASSED" in out
    assert "test_mine.py::test_failing[execute] FAILED" in out
    assert re.search(r"test_mine.py::test_failing\[limit\] SKIPPED \(to be checked when", out)
    assert "BrokenPromise: WrongExact: 1 promise broken" in out
    assert "error: answered EXACT for `" in out
    assert "test_made_once PASSED" in out


def test_testing_kit_does_not_load_pyspark() -> None:
    code = "import sys, headrace.testing; assert not {'pyspark', 'py4j', 'pytest', 'typer'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.daily
def test_documented_code_runs_and_finds_what_it_says(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    document = (ROOT / "docs" / "howto" / "testing.md").read_text()
    namespace: dict[str, Any] = {"__name__": "testing_md"}
    for block in re.findall(r"^```python\n(.*?)^```", document, re.DOTALL | re.MULTILINE):
        exec(compile(block, "docs/howto/testing.md", "exec"), namespace)
    out = capsys.readouterr().out
    shown = re.findall(r"^```text\n(.*?)^```", document, re.DOTALL | re.MULTILINE)
    assert len(shown) == 2
    for line in "".join(shown).splitlines():
        assert line.rstrip(".") in out
    for promise in (Promise.SCHEMA, Promise.FILTERS, Promise.LIMIT):
        namespace["test_temperatures"](promise)
    with pytest.raises(pytest.skip.Exception, match="MemTable does not offer this"):
        namespace["test_temperatures"](Promise.JOINS)
    namespace["test_temperatures_keep_their_promises"](tmp_path)
