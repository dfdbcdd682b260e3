"""Declarative Pipelines: the example runs with ``spark-pipelines`` itself, its source and its sink being Headrace's."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from places import EXAMPLES
from versions import skip_module_without

skip_module_without("declarative pipelines")


@pytest.mark.daily
@pytest.mark.timeout(600)
def test_pipeline_reads_and_writes_by_the_format_name_and_goes_on_where_it_was(tmp_path: Path) -> None:
    script = EXAMPLES / "declarative_pipeline.py"
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env=dict(os.environ), capture_output=True, text=True, timeout=580
    )
    assert done.returncode == 0, done.stderr
    said = dict(line.split(": ", 1) for line in done.stdout.splitlines() if line.startswith(("turnover", "alerts")))
    assert ast.literal_eval(said["turnover"]) == [{"town": "Ghent", "euros": 230}, {"town": "Lund", "euros": 120}]
    # Each order over the limit came once: the second run took only what was new.
    assert ast.literal_eval(said["alerts"]) == [{"customer": "bob", "euros": 120}, {"customer": "cy", "euros": 200}]
    assert list(tmp_path.iterdir()) == []
