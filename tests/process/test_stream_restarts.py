"""Streaming queries whose tasks run again, on one machine and on executors, and whose driver is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from places import SCRIPTS
from producing import bare_environment, run_script

pytestmark = pytest.mark.timeout(300)

WHOLE = list(range(60))


@pytest.mark.daily("local?2,4?")
@pytest.mark.parametrize("master", ["local[2,4]", "local-cluster[2,1,1024]"])
def test_stream_whose_tasks_run_again_gives_each_row_once(tmp_path: Path, master: str) -> None:
    found = run_script("streamed.py", master, str(tmp_path / "rows"), "lives", cwd=tmp_path)
    assert [one["numbers"] for one in found.values()] == [WHOLE, WHOLE]
    assert found["EXECUTORS"]["attempts"] == [1], "each task's first attempt failed"


def test_stream_whose_driver_is_killed_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    arguments = ["local[2]", str(tmp_path / "rows")]
    killed = subprocess.run(
        [sys.executable, str(SCRIPTS / "streamed.py"), *arguments, "dies"],
        cwd=tmp_path,
        env=bare_environment(),
        capture_output=True,
        timeout=170,
    )
    assert killed.returncode == -signal.SIGKILL
    kept = {file.name for file in (tmp_path / "rows").glob("*/*.json")}
    assert kept == {"0.json", "1.json", "2.json", "3.json"}
    found = run_script("streamed.py", *arguments, "lives", cwd=tmp_path)
    assert [(one["numbers"], one["batches"]) for one in found.values()] == [(WHOLE, 6), (WHOLE, 6)]
