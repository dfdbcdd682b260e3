"""Without the extra ``cli``: the command and the progress bar say what to install, and nothing else breaks."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from headrace.spark.progress import Progress, ProgressBar

WITHOUT = """
import sys
for name in sys.argv[1].split(","):
    sys.modules[name] = None  # as if it were not installed: importing it raises ModuleNotFoundError
sys.argv = ["headrace", "--version"]
from headrace.cli import main
main()
"""


def run_without(packages: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT, packages]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=dict(os.environ))


@pytest.mark.parametrize(("packages", "named"), [("typer,rich", "typer"), ("rich", "rich")])
def test_command_without_the_extra_says_what_to_install(packages: str, named: str) -> None:
    done = run_without(packages)
    assert done.returncode == 1
    assert done.stderr == f"The headrace command needs {named}, which is not installed: pip install 'headrace[cli]'\n"
    assert done.stdout == ""


def test_package_without_the_extra_imports_and_checks_a_provider() -> None:
    script = """
import sys
sys.modules["typer"] = sys.modules["rich"] = None
import pyarrow as pa, headrace as hr
from headrace.testing import check_provider
assert check_provider(hr.MemTable(pa.table({"a": [1, None]})), samples=1).ok
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60, env=dict(os.environ))


@pytest.fixture
def no_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "rich"]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("rich", "rich.console", "rich.progress"):
        monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.usefixtures("no_rich")
def test_progress_bar_without_rich_warns_what_to_install_and_shows_nothing() -> None:
    bar = ProgressBar()
    with pytest.warns(RuntimeWarning, match=r"needs rich, which is not installed: pip install 'headrace\[cli\]'"):
        bar.start()
    bar(Progress(1, 1, 0, None, 0.1))
    bar.close()
