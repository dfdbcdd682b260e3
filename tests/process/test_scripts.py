"""Scripts and commands that start a Spark of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from documents import python_blocks
from places import EXAMPLES


@pytest.mark.daily
def test_readme_code_runs_as_a_script(tmp_path: Path) -> None:
    script = tmp_path / "readme.py"
    script.write_text("\n".join(python_blocks("README.md")))
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=120, cwd=tmp_path, env=dict(os.environ)
    )
    assert "166666166667000000" in done.stdout, done.stderr


@pytest.mark.daily
def test_sharded_source_as_a_script_elsewhere_finds_the_module_beside_it(tmp_path: Path) -> None:
    script = EXAMPLES / "sharded_source.py"
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env=os.environ, capture_output=True, text=True, timeout=110
    )
    assert done.returncode == 0, done.stderr
    assert "'east': 43500" in done.stdout


TABLES = """
import pyarrow as pa
import headrace as hr

def make():
    return hr.MemTable(pa.table({"n": range(200)}))
"""


@pytest.mark.daily
def test_module_run_as_a_command_is_quiet_and_right(tmp_path: Path) -> None:
    (tmp_path / "cli_tables.py").write_text(TABLES)
    done = subprocess.run(
        [sys.executable, "-m", "headrace", "sql", "SELECT count(*) AS c FROM t", "--table", "t=cli_tables:make"],
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "80"},
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "200" in done.stdout


SCRIPT_THAT_LEAVES_A_STREAM_OPEN = """
import headrace as hr
ctx = hr.SessionContext(master="local[1]")
stream = ctx.execute_stream("SELECT id, repeat('x', 1000) AS s FROM range(0, 100000000)")
next(stream)
print("left open")
"""


@pytest.mark.daily
def test_script_that_leaves_a_stream_open_exits_at_once() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT_THAT_LEAVES_A_STREAM_OPEN], capture_output=True, text=True, timeout=90
    )
    assert (done.returncode, done.stdout) == (0, "left open\n"), done.stderr[-3000:]
    assert "Traceback" not in done.stderr
