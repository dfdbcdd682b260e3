"""The ``headrace`` command: results, files, exit codes and messages."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

import headrace as hr
from headrace.cli.app import app
from headrace.cli.demo import demo
from headrace.spark.console import one_line

MODULE = """
import pyarrow as pa
import headrace as hr

numbers = hr.MemTable(pa.table({"n": range(200), "name": [f"[b]{i}[/b]" if i else None for i in range(200)]}))
nested = hr.MemTable(pa.table({"xs": [[1, 2]]}))
not_a_table = 5

def make():
    return numbers

class Broken(hr.TableProvider):
    def schema(self):
        return pa.schema([("a", pa.int64())])
    def scan(self, request):
        return BrokenPlan()

class BrokenPlan(hr.ExecutionPlan):
    schema = pa.schema([("a", pa.int64())])
    def execute(self, partition):
        yield pa.record_batch({"a": [1]})
        raise ValueError("the disk is on fire")

def fails():
    raise KeyError("no such setting")
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty directory with a module of tables, as the current one."""
    (tmp_path / "cli_tables.py").write_text(MODULE)
    (tmp_path / "cli_broken_import.py").write_text("import no_such_dependency\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("cli_tables", None)


def headrace(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "100"}, catch_exceptions=False)


@pytest.mark.usefixtures("spark", "here")
@pytest.mark.parametrize("place", ["cli_tables:numbers", "cli_tables:make"])
def test_sql_provider_or_function_prints_the_rows(place: str) -> None:
    done = headrace("sql", "SELECT n, name FROM t WHERE n < 2 ORDER BY n", "--table", f"t={place}")
    assert done.exit_code == 0, done.output
    assert [line.split() for line in done.stdout.splitlines() if line][2:] == [
        ["0", "NULL"],
        ["1", "[b]1[/b]"],
        ["2", "rows"],
    ]


@pytest.mark.usefixtures("spark", "here")
def test_sql_more_rows_than_the_limit_are_cut_with_a_note() -> None:
    done = headrace("sql", "SELECT n FROM t ORDER BY n", "-t", "t=cli_tables:numbers", "--limit", "3")
    assert "the first 3 rows; there are more" in done.stdout
    assert [line.strip() for line in done.stdout.splitlines()[2:5]] == ["0", "1", "2"]
    assert "\n 3" not in done.stdout


@pytest.mark.usefixtures("spark")
def test_sql_output_files_hold_the_whole_result(here: Path) -> None:
    readers = {
        "out.parquet": pq.read_table,
        "out.csv": pyarrow.csv.read_csv,
        "out.arrow": lambda path: pa.ipc.open_file(path).read_all(),
    }
    for name, read in readers.items():
        done = headrace("sql", "SELECT n FROM t ORDER BY n", "-t", "t=cli_tables:numbers", "--output", name)
        assert done.exit_code == 0, done.output
        assert "200 rows written to" in done.stderr
        assert read(name).to_pydict() == {"n": list(range(200))}
    assert not list(here.glob(".*.part"))


@pytest.mark.usefixtures("spark", "here")
def test_sql_output_dash_is_csv_on_standard_output() -> None:
    done = headrace("sql", "SELECT n FROM t WHERE n < 3 ORDER BY n", "-t", "t=cli_tables:numbers", "-o", "-")
    assert done.stdout == '"n"\n0\n1\n2\n'


@pytest.mark.usefixtures("spark")
def test_sql_output_of_a_failed_query_leaves_no_file(here: Path) -> None:
    done = headrace("sql", "SELECT * FROM t", "-t", "t=cli_tables:Broken", "-o", "out.parquet")
    assert done.exit_code == 1
    assert "the disk is on fire" in done.stderr
    assert sorted(path.name for path in here.iterdir() if path.is_file()) == [
        "cli_broken_import.py",
        "cli_tables.py",
    ]


@pytest.mark.usefixtures("spark", "here")
def test_sql_nested_result_as_csv_is_refused_with_advice() -> None:
    done = headrace("sql", "SELECT * FROM t", "-t", "t=cli_tables:nested", "-o", "-")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "CSV cannot hold the nested column 'xs'" in done.stderr


@pytest.mark.usefixtures("spark", "here")
def test_sql_provider_error_prints_the_users_traceback() -> None:
    done = headrace("sql", "SELECT * FROM t", "-t", "t=cli_tables:Broken")
    assert done.exit_code == 1
    assert done.stderr.startswith("error: ValueError: the disk is on fire\n")
    assert 'cli_tables.py", line' in done.stderr
    assert "java" not in done.stderr


@pytest.mark.usefixtures("spark", "here")
@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT * FROM nowhere", "error: [TABLE_OR_VIEW_NOT_FOUND] The table or view `nowhere` cannot be found."),
        ("SELEC 1", "error: [PARSE_SYNTAX_ERROR] Syntax error at or near 'SELEC'. (line 1, pos 0)"),
        ("SELECT 1 / 0", "error: [DIVIDE_BY_ZERO] Division by zero."),
    ],
)
def test_sql_bad_query_prints_one_line(query: str, message: str) -> None:
    done = headrace("sql", query)
    assert done.exit_code == 1
    assert done.stderr.startswith(message)
    assert done.stderr.count("\n") == 1


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("numbers", "name=module:attribute"),
        ("=cli_tables:numbers", "name=module:attribute"),
        ("t=cli_tables", "module:attribute"),
        ("t=no_such_module:x", "no module 'no_such_module'"),
        ("t=cli_tables:nothing", "no attribute 'nothing'"),
        ("t=cli_tables:not_a_table", "is a int, not a TableProvider"),
    ],
)
def test_sql_bad_table_option_is_bad_usage(table: str, words: str) -> None:
    done = headrace("sql", "SELECT 1", "--table", table)
    assert done.exit_code == 2
    assert words in " ".join(done.stderr.replace("│", " ").split())


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    "arguments",
    [
        ["sql"],
        ["nonsense"],
        ["sql", "SELECT 1", "-o", "out.xlsx"],
        ["sql", "SELECT 1", "-o", "no/such/dir/out.csv"],
        ["sql", "SELECT 1", "--limit", "0"],
        ["sql", "SELECT 1", "-t", "t=cli_tables:numbers", "-t", "t=cli_tables:numbers"],
    ],
)
def test_command_bad_usage_exits_with_2_without_starting_spark(arguments: list[str]) -> None:
    assert headrace(*arguments).exit_code == 2


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("cli_tables:fails", "KeyError: 'no such setting'"),
        ("cli_broken_import:x", "No module named 'no_such_dependency'"),
    ],
)
def test_sql_users_module_that_raises_is_an_error_with_its_traceback(place: str, words: str) -> None:
    done = headrace("sql", "SELECT 1", "-t", f"t={place}")
    assert done.exit_code == 1
    assert words in done.stderr
    assert f'{place.partition(":")[0]}.py", line' in done.stderr
    assert "cli.py" not in done.stderr


@pytest.mark.usefixtures("spark", "here")
def test_explain_query_shows_the_negotiated_scan() -> None:
    done = headrace("explain", "SELECT name FROM t WHERE n = 7", "-t", "t=cli_tables:numbers")
    assert done.exit_code == 0, done.output
    assert "n = 7  EXACT" in done.stdout


def test_demo_in_80_columns_shows_what_pushdown_saves(ctx: hr.SessionContext) -> None:
    text = io.StringIO()
    demo(ctx, Console(file=text, width=80))
    shown = text.getvalue()
    assert max(map(len, shown.splitlines())) <= 80
    assert "class Archive(hr.TableProvider):" in shown
    assert "day = DATE '2024-02-17'  EXACT" in shown
    assert "UNSUPPORTED" in shown
    rows = [[cell.strip() for cell in line.split("│")[1:4]] for line in shown.splitlines() if "│ with" in line]
    assert rows == [["without pushdown", "60", "1,200,000"], ["with pushdown", "1", "20,000"]]


def test_one_line_exception_of_others_is_none() -> None:
    assert one_line(ValueError("x")) is None
