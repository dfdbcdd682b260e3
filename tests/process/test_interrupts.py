"""Ctrl-C and SIGKILL for a process that reads a streaming table."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from places import SCRIPTS


@pytest.fixture(scope="module")
def interrupted(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """A process that got Ctrl-C twice, while it collected and while it read a stream, and reads again."""
    command = [sys.executable, str(SCRIPTS / "interrupted.py"), "native", "stream", "again"]
    said = tmp_path_factory.mktemp("interrupted") / "stderr"
    with said.open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    assert process.stdout is not None
    found = {}
    try:
        for action in ("native", "stream"):
            assert process.stdout.readline() == "reading\n", said.read_text()
            process.send_signal(signal.SIGINT)
            line = process.stdout.readline()
            assert line, said.read_text()
            found[action] = json.loads(line)
        assert process.stdout.readline() == "reading\n", said.read_text()
        yield process, found
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("action", ["collect", "show", "stream", "pandas", "insert"])
def test_ctrl_c_that_ends_a_script_prints_one_line(action: str) -> None:
    """Needs a JVM each, as the script ends."""
    command = [sys.executable, str(SCRIPTS / "interrupted.py"), "--uncaught", action]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "reading\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert errors == "KeyboardInterrupt: the query was cancelled\n"
    assert process.returncode in (-signal.SIGINT, 130)


@pytest.mark.parametrize("action", ["native", "stream"])
def test_ctrl_c_releases_the_producer(interrupted: tuple[Any, dict[str, Any]], action: str) -> None:
    found = interrupted[1][action]
    assert found["interrupted"] is True
    assert found["producer"][0] == "ScanEndedError"
    assert "cancelled" in found["producer"][1] or "closed" in found["producer"][1]


def test_producer_process_killed_ends_its_spark_too(interrupted: tuple[subprocess.Popen[str], Any]) -> None:
    process = interrupted[0]
    children = psutil.Process(process.pid).children(recursive=True)
    assert any("java" in child.name() for child in children)
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs(children, timeout=30)
    assert alive == []
