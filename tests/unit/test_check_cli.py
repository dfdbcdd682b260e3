"""``headrace check``: the report, and its exit code."""

from __future__ import annotations

import sys

import pytest
from typer.testing import CliRunner, Result

from headrace.cli.app import app
from places import SUPPORT


def check(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["check", *arguments], env={"COLUMNS": "400"})


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The directory of the modules named below as the current one, in which modules are found."""
    monkeypatch.chdir(SUPPORT)
    monkeypatch.setattr(sys, "path", list(sys.path))


def test_check_of_an_honest_table_exits_with_0() -> None:
    done = check("bad_providers:HonestTable", "--samples", "1")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[-1].startswith("HonestTable: 14 promises kept, 4 not offered (")
    assert "  not offered  top-n, aggregates, joins, runtime filters" in lines


def test_check_of_a_broken_table_prints_findings_and_exits_with_1() -> None:
    done = check("bad_providers:WrongExact", "--samples", "1", "--seed", "3")
    assert done.exit_code == 1
    assert "  broken       filters" in done.stdout.splitlines()
    assert "      error: answered EXACT for `" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("WrongExact: 1 promise broken")


@pytest.mark.daily
def test_check_with_max_rows_notes_what_was_cut_short() -> None:
    done = check("bad_providers:HonestTable", "--samples", "1", "--max-rows", "5")
    assert done.exit_code == 0, done.output
    assert "the table has more than max_rows=5 rows" in done.stdout


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("bad_providers", "is not of the form module:attribute"),
        ("bad_providers:NoSuchTable", "has no attribute 'NoSuchTable'"),
        ("no_such_module:table", "there is no module 'no_such_module'"),
        ("bad_providers:ROWS", "not a TableProvider"),
    ],
)
def test_check_of_nothing_explains_itself(place: str, message: str) -> None:
    done = check(place)
    assert done.exit_code == 2
    assert message in done.output


def test_check_of_writes_prints_their_promises() -> None:
    done = check("bad_writers:HonestWriter", "--writes")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[-1].startswith("HonestWriter: 6 promises kept (")
    assert check("bad_writers:SeenAtOnce", "--writes").exit_code == 1


def test_check_of_writes_to_a_table_that_is_read_only_says_so() -> None:
    done = check("bad_providers:HonestTable", "--writes")
    assert done.exit_code == 1
    assert "check_writer takes a WritableProvider, not HonestTable" in done.output
