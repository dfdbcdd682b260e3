"""check_provider: each broken promise is named, with the rows that show it; honest providers pass. Without Spark."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import functools
import importlib
import re
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import bad_providers as bad
import headrace as hr
import headrace.testing
from effort import cases, share
from headrace.testing import BrokenPromise, Finding, Promise, Report, Severity
from places import ROOT, SUPPORT
from random_predicates import random_table

ROW = r"\{'city': .*\}"
BROKEN: dict[Promise, dict[type[hr.TableProvider], str]] = {
    Promise.FILTERS: {
        bad.WrongExact: rf"answered EXACT for `\w+ > .*` but returned \d+ rows? that .* not match: {ROW}",
        bad.ExactKeepsNulls: r"answered EXACT for `.*` but returned \d+ rows that do not match: .*None",
        bad.ExactDropsNaN: r"answered EXACT for `.*` but dropped \d+ rows? that match.*: .*'score': nan",
        bad.InexactDropsRows: r"answered INEXACT for `(ENDS_WITH|CONTAINS).*` but dropped \d+ rows? that",
        bad.DuplicatesFilteredRows: r"but returned \d+ rows? that a plain scan does not have, or not as",
        bad.FiltersOnlyReadColumns: r"but not for a scan that does not read \w+: \d+ rows are new",
        bad.UsesOneFilterOnly: r"EXACT for `.*` and EXACT for `.*` but returned .* not match `.*`: \{",
        bad.TooFewAnswers: r"supports_filters_pushdown returned 1 answers for \d+ filters",
        bad.AnswersWithBooleans: r"answered True for the filter .*, expected a FilterPushdown",
        bad.AnswersRaise: r"supports_filters_pushdown raised LookupError: no such op.*bad_providers.py:\d",
    },
    Promise.LIMIT: {
        bad.LimitTooSmall: r"asked for limit=1 where 30 rows are there, but the scan returned 0 rows \(0, 0",
        bad.LimitSplitEvenly: r"limit=29 where 30 rows are there, but the scan returned 22 rows \(10, 6, 6 ",
        bad.LimitBeforeFilters: r"limit=\d+ with the EXACT filters `.*` where \d+ rows? match, but the scan",
    },
    Promise.PARTITIONING: {
        bad.LyingKeys: rf"partition 1 is stated to hold .* city='ulm', but has 6 other rows: {ROW}",
        bad.SameKeyTwice: r"partitions 1 and 2 are stated to have the same key \('kiel',\)",
        bad.KeyOfAnotherType: r"the partition key 1 is not a string, the type of column 'city'",
        bad.LyingHash: r"hash of \(value\) is stated, but equal rows are in partitions 0 and 1: \{",
    },
    Promise.ORDERING: {
        bad.LyingOrder: r"sorted by value DESC NULLS FIRST, but \{'value': \d+\} comes before \{'value': ",
        bad.LyingNullsOrder: r"sorted by value NULLS LAST, but \{'value': None\} comes before \{'value': ",
        bad.LyingSecondKey: r"sorted by city NULLS FIRST, score NULLS FIRST, but .* \(rows \d+ and \d+\)",
    },
    Promise.EXECUTE: {
        bad.UnstableExecute: r"partition 0 gave other rows when it was executed again: 1 row is missing: ",
        bad.SharedIterator: r"partition 0 gave other rows when it was executed again: 30 rows are missing",
        bad.ExecuteReturnsNone: r"execute\(0\) raised TypeError: .* returned NoneType, expected an iterable",
        bad.LastPartitionFails: r"execute\(2\) raised ConnectionError: shard 2 is down \(bad_providers.py:",
        bad.BoundToOneThread: r"raised RuntimeError: used on another thread than the one that made it",
    },
    Promise.FRESH_SCANS: {
        bad.IteratorUsedUpByScan: r"a second scan has other rows than the first: 30 rows are missing",
    },
    Promise.BATCHES: {
        bad.ExecuteYieldsTables: r"execute yielded Table, expected pyarrow.RecordBatch; use Table.to_batch",
        bad.WrongNames: r"schema is not the plan's(.|\n)*expected:\n.*city(.|\n)*found:\n.*CITY",
        bad.WrongTypes: r"schema is not the plan's(.|\n)*value: int64(.|\n)*found:(.|\n)*value: int32",
        bad.NullsWhereNoneAreDeclared: r"yielded nulls in column 'city', which the schema declares not n",
    },
    Promise.EARLY_STOP: {
        bad.RefusesToStop: r"closing what OwnPlan.execute\(0\) .* raised RuntimeError: generator ignored",
    },
    Promise.PLANNING: {
        bad.ReadsAFile: r"ReadsAFile.scan opened '.*bad_providers.py' \(bad_providers.py:\d+\); planning",
        bad.ReadsAFileWhenAsked: r"ReadsAFileWhenAsked.supports_filters_pushdown opened '.*bad_prov",
        bad.Sleeps: r"Sleeps.scan slept \(bad_providers.py:\d+\); planning does no I/O",
        bad.ExecutesInScan: r"ExecutesInScan.scan ran Plan.execute: rows are produced when Spark reads",
        bad.PlansOnOneThread: r"planning works on the calling thread only, but Spark plans on threads of",
        bad.ScanReturnsNone: r"ScanReturnsNone.scan returned None.*, expected an ExecutionPlan",
        bad.ScanRaises: r"ScanRaises.scan raised ValueError: no such shard \(bad_providers.py:\d+\)",
        bad.WrongPlanSchema: r"a schema that is neither the request's nor the table's(.|\n)*other: int64",
        bad.StatisticsNegative: r"gave the statistic -1, expected an integer that is not negative",
    },
    Promise.PICKLING: {
        bad.Unpicklable: r"cannot be pickled for Spark's Python workers: TypeError: .*lock",
        bad.UnpicklableWithFilters: r"cannot be pickled for Spark's Python workers: TypeError: .*lock",
        bad.PickledWithoutItsState: r"other rows after it was pickled and unpickled: 30 rows are missing",
    },
    Promise.SCHEMA: {
        bad.SchemaIsAList: r"SchemaIsAList.schema returned list, expected pyarrow.Schema",
        bad.SchemaChanges: r"schema gave another schema when it was called again\n(.|\n)*then\n",
        bad.SchemaSparkHasNoTypesFor: r"column 'at' has Arrow type month_day_nano_interval, which Spark has no equal",
    },
    Promise.PROJECTION: {
        bad.IgnoresProjectionOrder: r"neither the request's nor the table's\nrequested:\n.*name.*\n.*place.*\n.*city",
        bad.RenamesInTableOrder: r"other values than in a scan of all columns: 30 rows are missing: \{",
        bad.FailsWithoutColumns: r"30 rows are missing: .*, in the scan of columns \[\]",
        bad.PrunesNestedFieldsWrongly: r"rows are missing: .*\{'place': \{'x': 0\}\}.* are new: .*None",
    },
}
check_provider = functools.partial(headrace.testing.check_provider, planning_budget_s=60)  # one that is not in the way
CASES = [(provider, promise, text) for promise, found in BROKEN.items() for provider, text in found.items()]
LIES_ABOUT_FILTERS = (*BROKEN[Promise.FILTERS], *BROKEN[Promise.LIMIT], bad.UnpicklableWithFilters)


def errors(report: Report) -> list[Finding]:
    return list(report.of(Severity.ERROR))


@pytest.mark.daily(every=4)  # every other small one
@pytest.mark.parametrize("size", ["small", "whole"])
@pytest.mark.parametrize(("provider", "promise", "message"), CASES, ids=[case[0].__name__ for case in CASES])
def test_bad_provider_is_caught_with_its_promise_and_message(
    provider: type[hr.TableProvider], promise: Promise, message: str, size: str
) -> None:
    """A small one has fewer columns or, where its lie is not about filters, takes none."""
    if size == "small":
        smaller = bad.with_some_columns if provider in LIES_ABOUT_FILTERS else bad.without_filters
        provider = smaller(provider)
    samples = 2 if promise is Promise.LIMIT or (promise is Promise.FILTERS and size == "whole") else 1
    report = check_provider(provider(), samples=samples)
    assert not report.ok
    assert report.outcome(promise) == "broken", str(report)
    texts = [finding.message for finding in errors(report.about(promise))]
    assert any(re.search(message, text) for text in texts), str(report)
    assert {finding.promise for finding in errors(report)} == {promise}, str(report)


def test_hand_written_provider_with_filters_keys_order_and_limit_passes() -> None:
    report = check_provider(bad.HonestTable(), samples=cases(3))
    assert report.ok, str(report)
    assert [finding.severity for finding in report.findings] == [Severity.NOTE]  # weight has no nulls
    assert report.rows == 30
    assert report.scans > 100


def batches_of(table: pa.Table) -> Iterator[pa.RecordBatch]:
    yield from table.to_batches(max_chunksize=7)


RANDOM = random_table(Random(5), 40).select(
    share(["id", "i", "d", "n", "f", "y", "s", "b", "t", "p", "z", "st"])  # id, a number, a text and a point in time
)
NUMBERED = pa.table({"a": pa.array([3, 1, None, 2]), "s": ["x", None, "é", ""]})
GOOD: dict[str, Any] = {
    "mem": lambda: hr.MemTable(RANDOM, partitions=3),
    "empty mem": lambda: hr.MemTable(RANDOM.schema.empty_table()),
    "simple": lambda: hr.SimpleTable(RANDOM.schema, lambda: batches_of(RANDOM)),
    "simple with request": lambda: hr.SimpleTable(
        RANDOM.schema, lambda request: RANDOM.select(list(request.projection)).to_reader()
    ),
    "streams": lambda: hr.StreamTable(
        RANDOM.schema, [lambda: batches_of(RANDOM.slice(0, 9)), lambda: RANDOM.slice(9).to_batches()]
    ),
    "no streams": lambda: hr.StreamTable(RANDOM.schema, []),
    "sorted": lambda: hr.SortedTable(hr.MemTable(RANDOM, partitions=2), [hr.SortKey("id")]),
    "sorted, descending": lambda: hr.SortedTable(
        hr.MemTable(pa.table({"x": [None, float("nan"), 2.0, -1.0]})), [hr.SortKey("x", descending=True)]
    ),
    "no columns": lambda: hr.MemTable(NUMBERED.select([])),
}


@pytest.mark.parametrize("kind", GOOD)
def test_ready_made_table_keeps_its_promises(kind: str) -> None:
    report = check_provider(GOOD[kind](), samples=cases(2))
    assert report.ok, str(report)
    assert report.of(Severity.UNCHECKED) == ()
    warnings = [finding.message for finding in report.of(Severity.WARNING)]
    assert len(warnings) == (kind == "no streams"), warnings  # a table without partitions is one without rows


@pytest.mark.daily("0")
@pytest.mark.parametrize("group", [0, 1, 2])
def test_awkward_types_are_read_filtered_and_pruned(group: int) -> None:
    point = pa.struct([("x", pa.int32()), ("inner", pa.struct([("k", pa.string()), ("l", pa.float32())]))])
    table = pa.table(
        {
            "dictionary": pa.array(["a", "b", None, "a"]).dictionary_encode(),
            "unsigned": pa.array([0, 2**64 - 1, None, 5], pa.uint64()),
            "list": pa.array([[1], None, [], [2, None]], pa.list_(pa.int8())),
            "map": pa.array([[("k", 1)], None, [], [("l", None)]], pa.map_(pa.string(), pa.int64())),
            "point": pa.array(
                [{"x": 1, "inner": {"k": "a", "l": 0.5}}, None, {"x": None, "inner": None}, {"x": 2}], point
            ),
            "points": pa.array([[{"x": 1}], None, [], [None, {"inner": {"k": "b"}}]], pa.list_(point)),
            "decimal": pa.array([decimal.Decimal("1.50"), None, decimal.Decimal(-3), decimal.Decimal(0)]),
            "date": pa.array([dt.date(2024, 2, 29), None, dt.date.min, dt.date.max]),
            "far future": pa.array([2**62, None, 0, -(2**62)], pa.timestamp("us")),
            "zoned": pa.array([0, None, 1, 10**12], pa.timestamp("ms", tz="Europe/Berlin")),
            "span": pa.array([dt.timedelta(1), None, dt.timedelta(0), dt.timedelta(-1)]),
            "nothing": pa.nulls(4),
            "half": pa.array([1.5, None, float("nan"), -0.0], pa.float16()),
            "large": pa.array(["x", None, "", "y"], pa.large_string()),
        }
    )
    table = table.select(table.column_names[group::3])
    stream = hr.StreamTable(table.schema, [lambda: batches_of(table.slice(0, 2)), lambda: batches_of(table.slice(2))])
    for provider in (hr.MemTable(table, partitions=2), stream):
        report = check_provider(provider, samples=1)
        assert report.ok, str(report)


@pytest.mark.daily
@pytest.mark.parametrize("seed", share([1, 2]))
@pytest.mark.parametrize(
    "provider", [bad.WrongExact, bad.ExactKeepsNulls, bad.InexactDropsRows, bad.LimitBeforeFilters]
)
def test_few_samples_with_any_seed_suffice_for_common_mistakes(provider: type[hr.TableProvider], seed: int) -> None:
    assert not check_provider(provider(), samples=1, seed=seed).ok


@pytest.mark.daily
def test_same_seed_gives_the_same_report() -> None:
    wrong = bad.with_some_columns(bad.WrongExact)
    first, second = (check_provider(wrong(), samples=1, seed=4) for _ in range(2))
    assert first == second
    assert first.findings != check_provider(wrong(), samples=1, seed=5).findings


def test_given_filter_is_asked_about_and_shown() -> None:
    odd = hr.Comparison(">", hr.Column("weight"), hr.Literal(12, pa.int64()))
    report = check_provider(bad.WrongExact(), filters=[odd], samples=1)
    assert "answered EXACT for `weight > 12` but returned 1 row that does not match: {'city': 'bonn'" in str(report)
    assert "'weight': 12," in str(report)


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
    assert f"answered EXACT for `{name}(" in str(report)


@pytest.mark.parametrize("expr", [hr.IsNull(hr.Column("nope")), hr.Column("weight")], ids=repr)
def test_given_filter_that_is_no_predicate_over_the_table_raises(expr: hr.Expr) -> None:
    with pytest.raises(ValueError, match="is no predicate over this table"):
        check_provider(bad.HonestTable(), filters=[expr])


def test_endless_table_is_read_up_to_max_rows_and_noted() -> None:
    schema = pa.schema([("n", pa.int64())])

    def numbers() -> Iterator[pa.RecordBatch]:
        for start in range(0, sys.maxsize, 100):
            yield pa.record_batch({"n": range(start, start + 100)}, schema)

    report = check_provider(hr.SimpleTable(schema, numbers), max_rows=1000)
    assert report.ok, str(report)
    assert report.rows == 1000
    notes = [finding for finding in report.of(Severity.NOTE) if "more than max_rows=1,000 rows" in finding.message]
    assert {note.promise for note in notes} == {Promise.EXECUTE, Promise.FILTERS, Promise.LIMIT}


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


def test_report_of_a_broken_provider_reads_well_and_raises() -> None:
    report = check_provider(bad.LastPartitionFails())
    lines = str(report).splitlines()
    assert lines[0] == "LastPartitionFails: 1 promise broken, 13 not checked (2 scans, 0 rows)"
    assert lines[3] == "  broken     execute"
    assert lines[4].startswith("      error: OwnPlan.execute(2) raised ConnectionError: shard 2 is down")
    assert "      unchecked: to be checked when this is mended: execute" in lines
    with pytest.raises(BrokenPromise) as raised:
        report.raise_if_failed()
    assert isinstance(raised.value, AssertionError)
    assert str(raised.value) == str(report)
    assert raised.value.report is report
    check_provider(hr.MemTable(NUMBERED), samples=1).raise_if_failed()


def test_many_errors_of_one_kind_are_counted_not_listed() -> None:
    report = check_provider(bad.with_some_columns(bad.ExactKeepsNulls)())
    assert len(report.about(Promise.FILTERS).of(Severity.ERROR)) == 5
    assert re.search(r"note: \d+ more errors like these", str(report))


@pytest.mark.parametrize("nothing", [None, "table", hr.MemTable], ids=repr)
def test_what_is_no_provider_raises(nothing: Any) -> None:
    with pytest.raises(TypeError, match="check_provider takes a TableProvider"):
        check_provider(nothing)


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
    for promise in Promise:
        assert f"test_mine.py::test_honest[{promise}] PASSED" in out
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


def test_documented_code_runs_and_finds_what_it_says(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    document = (ROOT / "docs" / "howto" / "testing.md").read_text()
    namespace: dict[str, Any] = {"__name__": "testing_md"}
    for block in re.findall(r"^```python\n(.*?)^```", document, re.DOTALL | re.MULTILINE):
        exec(compile(block, "docs/howto/testing.md", "exec"), namespace)
    out = capsys.readouterr().out
    (shown,) = re.findall(r"^```text\n(.*?)^```", document, re.DOTALL | re.MULTILINE)
    for line in shown.splitlines():
        assert line.rstrip(".") in out
    for promise in Promise:
        namespace["test_temperatures"](promise)
    namespace["test_temperatures_keep_their_promises"](tmp_path)
