"""Private directories: who may read them, and that neither exits nor kills leave them for good; no Spark."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.spill.arrow_spill import ArrowSpill
from headrace.spill.private_directory import PrivateDirectory, remove_leftovers

OWNER = """
import os, sys, threading
import pyarrow as pa
from headrace.spill.arrow_spill import ArrowSpill
from headrace.transport.endpoint import Endpoint

os.umask(0)
endpoint, spill = Endpoint(), ArrowSpill()
loader = spill.store(pa.record_batch({"a": [1]}))
print("ready", flush=True)
if sys.argv[1] == "exit":
    sys.exit()
if sys.argv[1] == "raise":
    raise RuntimeError("a bug of the user's")
if sys.argv[1] == "fork":
    child = os.fork()
    if child == 0:
        sys.exit()  # runs what was registered for the exit of its parent
    os.waitpid(child, 0)
    print("forked", flush=True)
threading.Event().wait(60)
"""


@contextmanager
def owner(base: Path, how: str) -> Iterator[subprocess.Popen[str]]:
    """A process with an endpoint and a spilled batch, under ``base``."""
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, how],
        env={**os.environ, "TMPDIR": str(base)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Short enough for a socket's path."""
    path = Path(f"/tmp/hr-test-{os.getpid()}-{abs(hash(str(tmp_path))) % 10_000}")
    path.mkdir()
    return path


@pytest.fixture(autouse=True)
def _removed(base: Path) -> Iterator[None]:
    yield
    for path in sorted(base.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    base.rmdir()


def made(base: Path) -> list[str]:
    return sorted(path.name.rsplit("-", 1)[0] for path in base.iterdir())


@pytest.mark.parametrize("how", ["exit", "raise"])
def test_process_that_ends_without_close_leaves_nothing(base: Path, how: str) -> None:
    with owner(base, how) as process:
        process.wait(30)
    assert made(base) == []


def test_process_killed_leaves_what_the_next_start_removes(base: Path) -> None:
    with owner(base, "wait") as process:
        process.send_signal(signal.SIGKILL)
        process.wait(30)
        assert made(base) == ["headrace-endpoint", "headrace-spill"]
    with owner(base, "exit") as process:
        process.wait(30)
    assert made(base) == []


def test_leftovers_of_a_process_that_lives_are_kept(base: Path) -> None:
    with owner(base, "wait"):
        assert remove_leftovers(str(base)) == []
        assert made(base) == ["headrace-endpoint", "headrace-spill"]


def test_fork_that_exits_leaves_its_parents_directories(base: Path) -> None:
    with owner(base, "fork") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "forked\n"
        assert made(base) == ["headrace-endpoint", "headrace-spill"]
        assert remove_leftovers(str(base)) == []


def test_leftovers_that_are_none_of_ours_are_kept(base: Path) -> None:
    (base / "headrace-of-somebody").mkdir()
    (base / "headrace-file").write_text("x")
    (base / "other").mkdir()
    (base / "other" / "lock").write_text("")
    (base / "headrace-link").symlink_to(base / "other")
    assert remove_leftovers(str(base)) == []
    assert sorted(path.name for path in base.iterdir()) == [
        "headrace-file",
        "headrace-link",
        "headrace-of-somebody",
        "other",
    ]


def test_directory_and_spilled_files_are_readable_by_this_user_only(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with owner(base, "wait"):
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in base.rglob("*") if not path.is_socket()}
    assert {mode for name, mode in modes.items() if name.startswith("headrace-")} == {0o700}
    assert modes["lock"] == 0o600
    assert modes["0.arrow"] == 0o600


def test_directory_dropped_or_closed_is_removed(base: Path) -> None:
    directory = PrivateDirectory("kind", str(base))
    (Path(directory.path) / "file").write_text("x")
    directory.close()
    directory.close()
    assert made(base) == []
    directory = PrivateDirectory("kind", str(base))
    del directory
    assert made(base) == []


def test_spill_closed_removes_its_directory(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(base))
    spill = ArrowSpill()
    spill.store(pa.record_batch({"a": [1]}))
    assert made(base) == ["headrace-spill"]
    spill.close()
    assert made(base) == []
