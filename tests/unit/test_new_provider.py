"""``headrace new provider``: what it writes passes its own tests, and a name that cannot be is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import headrace
from headrace.cli.app import app
from places import ROOT

FILES = {
    ".gitignore",
    "README.md",
    "pyproject.toml",
    "src/my_events/__init__.py",
    "src/my_events/table.py",
    "tests/test_table.py",
}


def new(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["new", "provider", *arguments], env={"COLUMNS": "400"})


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("projects")
    done = new("my-events", "--in", str(folder))
    assert done.exit_code == 0, done.output
    return folder / "my-events"


def run(project: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """A command as a user would run it in the project: of this repository it sees the package alone."""
    environment = {**os.environ, "PYTHONPATH": str(Path(headrace.__file__).parent.parent), "COLUMNS": "200"}
    return subprocess.run(
        [sys.executable, "-m", *command], cwd=project, env=environment, capture_output=True, text=True, timeout=110
    )


def test_new_provider_writes_a_package_its_tests_and_a_readme(project: Path) -> None:
    written = {path.relative_to(project).as_posix() for path in project.rglob("*") if path.is_file()}
    assert written == FILES
    for path in FILES:
        assert "$" not in (project / path).read_text().replace("\n$ ", "\n")


@pytest.mark.daily
def test_new_provider_passes_its_own_tests(project: Path) -> None:
    done = run(project, "pytest", "-q", "-rs", "-p", "no:cacheprovider")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    skipped = [line for line in done.stdout.splitlines() if line.startswith("SKIPPED")]
    assert all("MyEvents does not offer this" in line for line in skipped)


@pytest.mark.daily
def test_new_provider_tests_fail_where_a_promise_is_broken(project: Path, tmp_path: Path) -> None:
    """The tests that it comes with would see a provider that is wrong."""
    broken = tmp_path / "broken"
    subprocess.run(["cp", "-r", str(project), str(broken)], check=True)
    table = broken / "src" / "my_events" / "table.py"
    table.write_text(table.read_text().replace("parts = parts.filter(expr.evaluate(parts))", "pass"))
    done = run(broken, "pytest", "-q", "-p", "no:cacheprovider")
    assert done.returncode == 1
    assert "test_promise[filters]" in done.stdout


@pytest.mark.daily
def test_new_provider_is_found_by_the_command_that_its_readme_shows(project: Path) -> None:
    done = run(project / "src", "headrace", "check", "my_events:MyEvents", "--samples", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "headrace check my_events:MyEvents" in (project / "README.md").read_text()


def test_new_provider_is_written_in_the_style_of_this_project(project: Path) -> None:
    settings = ["--config", str(ROOT / "pyproject.toml"), "--no-cache", str(project)]
    for command in (["check", "--ignore", "I001"], ["format", "--check"]):  # the package is first-party there
        done = run(project, "ruff", *command, *settings)
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("2fast", "cannot be the name of a package"),
        ("my.events", "cannot be the name of a package"),
        ("../up", "cannot be the name of a package"),
        ("class", "is a word of Python's own"),
        ("json", "would hide the module 'json'"),
        ("headrace", "would hide the module 'headrace'"),
    ],
)
def test_new_provider_of_an_impossible_name_explains_itself(tmp_path: Path, name: str, message: str) -> None:
    done = new(name, "--in", str(tmp_path))
    assert done.exit_code == 2
    assert message in done.output
    assert list(tmp_path.iterdir()) == []


def test_new_provider_leaves_what_is_there_alone(tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "notes").write_text("mine")
    done = new("events", "--in", str(tmp_path))
    assert done.exit_code == 1
    assert "exists already" in done.output
    assert [path.name for path in (tmp_path / "events").iterdir()] == ["notes"]
