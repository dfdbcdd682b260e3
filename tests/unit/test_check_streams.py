"""check_provider of streams: honest ones pass, each planted fault is found, under the right promise. Without Spark."""

from __future__ import annotations

import sys

import pytest
from typer.testing import CliRunner

import headrace as hr
import honest_stream as streams
from checking import check_provider, errors
from headrace.cli.app import app
from headrace.testing import Promise, Severity
from headrace.testing.report import OF_STREAMS
from places import SUPPORT


@pytest.mark.parametrize(
    "provider", [streams.Numbers, streams.NamedOffsets, streams.Capped, streams.Forgetful, streams.GrowsMeanwhile]
)
def test_stream_that_keeps_its_promises_passes(provider: type[streams.Numbers]) -> None:
    report = check_provider(provider(), samples=1)
    assert report.ok, str(report)
    assert {report.outcome(promise) for promise in OF_STREAMS} == {"kept"}
    assert report.outcome(Promise.LIMIT) == "not offered"
    assert report.outcome(Promise.FILTERS) == "kept"
    assert not report.of(Severity.WARNING)


def test_stream_with_a_batch_scan_is_checked_as_both() -> None:
    report = check_provider(streams.NumbersInATable(), samples=1)
    assert report.ok, str(report)
    assert {report.outcome(promise) for promise in (*OF_STREAMS, Promise.LIMIT)} == {"kept"}


def test_table_that_is_no_stream_says_nothing_of_streams() -> None:
    report = check_provider(hr.MemTable({"a": [1, 2]}), samples=1)
    assert not set(OF_STREAMS) & set(report.promises)
    assert report.outcome(Promise.RANGES) == "not offered"


@pytest.mark.parametrize(
    ("provider", "promise", "message"),
    [
        (streams.NullOffset, Promise.OFFSETS, "NullOffset.initial_offset returned None"),
        (streams.OffsetIsNoJson, Promise.OFFSETS, "Object of type datetime is not JSON serializable"),
        (streams.InitialOffsetMoves, Promise.OFFSETS, "InitialOffsetMoves.initial_offset gave 1, then 2"),
        (streams.InitialOffsetRaises, Promise.OFFSETS, "raised ConnectionError: no broker (honest_stream.py:"),
        (streams.OffsetNeedsItsType, Promise.OFFSETS, "latest_offset raised TypeError: can only concatenate list"),
        (streams.OffsetsGoBack, Promise.OFFSETS, ", which is less than the start: offsets only grow"),
        (streams.OffsetsGoInACircle, Promise.OFFSETS, 'gave {"page":0,"row":1}, where it was before'),
        (streams.CappedInACircle, Promise.OFFSETS, 'answered {"page":0,"row":0} when asked from {"page":2,"row":0}'),
        (streams.LosesRowsBeyondItsCap, Promise.RANGES, "none has 10 rows of the whole range: {'n': 30"),
        (streams.StandsStill, Promise.READ_LIMITS, "gave its start, although there is more up to 40"),
        (streams.PassesUntil, Promise.READ_LIMITS, "gave 40; there is data up to until, which is where it has to stop"),
        (streams.EndsAreShared, Promise.RANGES, "rows too many: {'n': "),
        (streams.LosesTheFirstRow, Promise.RANGES, "none has 4 rows of the whole range: {'n': "),
        (streams.RangesChange, Promise.RANGES, "the range from 0 to 40 has other rows: 1 row is"),
        (streams.RangesGrow, Promise.RANGES, "rows too many"),
        (streams.RangeReadsAFile, Promise.PLANNING, "RangeReadsAFile.scan_between opened '"),
        (streams.RangeRaises, Promise.RANGES, "RangeRaises.scan_between raised LookupError: no such offset"),
        (streams.RangeForgetsFilters, Promise.FILTERS, "answered EXACT for `"),
        (streams.RangePlansCannotTravel, Promise.PICKLING, "cannot pickle"),
        (streams.CommitsOnce, Promise.STREAM_COMMIT, "raised ValueError: "),
        (streams.CommitDropsTooMuch, Promise.STREAM_COMMIT, "has other rows: 3 rows are missing: {'n': "),
        (streams.CommitDropsInSilence, Promise.STREAM_COMMIT, "has other rows, and no OffsetLostError is raised"),
    ],
)
def test_stream_with_a_planted_fault_is_found(provider: type[streams.Numbers], promise: Promise, message: str) -> None:
    report = check_provider(provider(), samples=1)
    found = [finding.message for finding in errors(report) if finding.promise is promise]
    assert any(message in text for text in found), str(report)


def test_stream_that_ignores_max_rows_is_warned_of() -> None:
    report = check_provider(streams.IgnoresMaxRows(200), samples=1)
    assert report.ok
    (warning,) = report.of(Severity.WARNING)
    assert warning.promise is Promise.READ_LIMITS
    assert "ReadLimit(max_rows=10)) let pass all of 200 rows" in warning.message


def test_stream_that_never_begins_is_warned_of_where_a_scan_has_rows() -> None:
    report = check_provider(streams.NeverBegins(), samples=1)
    (warning,) = report.of(Severity.WARNING)
    assert "although a batch scan has 40 rows" in warning.message
    assert "it stands still for ever" in warning.message


def test_rows_that_come_twice_pass_where_that_is_said() -> None:
    report = check_provider(streams.EndsAreShared(), samples=1, at_least_once=True)
    assert report.outcome(Promise.RANGES) == "kept", str(report)
    report = check_provider(streams.LosesTheFirstRow(), samples=1, at_least_once=True)
    assert report.outcome(Promise.RANGES) == "broken"


def test_stream_with_more_rows_than_max_rows_says_what_was_not_seen() -> None:
    report = check_provider(streams.Numbers(200), samples=1, max_rows=50)
    assert report.ok, str(report)
    assert "whether ranges add up could not be told" in str(report)


def test_command_checks_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(SUPPORT)
    monkeypatch.setattr(sys, "path", list(sys.path))
    done = CliRunner().invoke(app, ["check", "honest_stream:EndsAreShared", "--samples", "1"], env={"COLUMNS": "400"})
    assert done.exit_code == 1
    assert "  broken       ranges" in done.stdout.splitlines()
    arguments = ["check", "honest_stream:EndsAreShared", "--samples", "1", "--at-least-once"]
    assert CliRunner().invoke(app, arguments, env={"COLUMNS": "400"}).exit_code == 0
