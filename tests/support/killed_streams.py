"""Streaming queries whose process, JVM and workers are killed again and again, and what must be there afterwards."""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil

from killed_writers import check_folder, check_no_staging, check_written
from places import SCRIPTS
from postgres import Postgres

_START_SECONDS = 240.0  # says nothing of speed
_LATER_SECONDS = 3.0
_MORE_EPOCHS = 3


def check_killed_streams(path: Path, postgres: Postgres, kills: int, seed: int) -> int:
    """A folder and two tables of PostgreSQL, each filled by a query, have all rows once, whatever the process was doing
    when it was killed. Returns how many queries were in a micro-batch then."""
    specifications: list[dict[str, Any]] = [{"folder": str(path / "written")}]
    for staged in (True, False):
        name = f"streamed_{seed}_{int(staged)}"
        postgres.run(f"CREATE TABLE {name} (epoch bigint, number bigint, text text)")
        specifications.append({"driver": "postgresql", "uri": postgres.uri, "table": name, "staged": staged})
    checkpoints = [path / "checkpoints" / str(number) for number in range(len(specifications))]
    command = [
        sys.executable,
        str(SCRIPTS / "streamed_epochs.py"),
        json.dumps(specifications),
        str(path / "checkpoints"),
    ]
    with (path / "log").open("wb") as log:
        within = _killed(command, checkpoints, kills, random.Random(seed), log)
        epochs = max(_planned(checkpoint) for checkpoint in checkpoints) + 1 + _MORE_EPOCHS
        last = _started([*command, str(epochs)], log)
        try:
            assert last.wait(_START_SECONDS) == 0, f"the last process ended with {last.returncode}; see {log.name}"
        finally:
            _kill(last)
    for number, specification in enumerate(specifications):
        check_written(specification, epochs, f"seed {seed}, {epochs} epochs, {number}")
    check_folder(path / "written")
    check_no_staging(postgres)
    return within


def _killed(command: list[str], checkpoints: list[Path], kills: int, rng: random.Random, log: Any) -> int:
    within = 0
    for number in range(kills):
        process = _started(command, log)
        try:
            _await(process, b"begun")
            if rng.random() < 0.8:
                _await(process, b"committed %d" % rng.randrange(len(checkpoints)))
            time.sleep(rng.uniform(0, _LATER_SECONDS))
            assert process.poll() is None, f"the process of kill {number} ended with {process.returncode} by itself"
        finally:
            _kill(process)
        within += sum(_planned(checkpoint) > _done(checkpoint) for checkpoint in checkpoints)
        print(f"kill {number + 1}: {[(_planned(one), _done(one)) for one in checkpoints]}", file=sys.stderr, flush=True)
    return within


def _started(command: list[str], log: Any) -> subprocess.Popen[bytes]:
    """In a session of its own, by which all that it starts is found."""
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, start_new_session=True)


def _await(process: subprocess.Popen[bytes], line: bytes) -> None:
    assert process.stdout is not None
    end = time.monotonic() + _START_SECONDS
    os.set_blocking(process.stdout.fileno(), False)
    told = b""
    while line not in told:
        ready, _, _ = select.select([process.stdout], [], [], max(0.0, end - time.monotonic()))
        more = process.stdout.read() if ready else b""
        assert more, f"the process did not say {line!r}, but {told!r}"
        told += more


def _kill(process: subprocess.Popen[bytes]) -> None:
    """The process, its JVM and their workers: Spark's daemon of workers has a process group of its own."""
    while left := [one for one in psutil.process_iter(["status"]) if _is_of(process.pid, one)]:
        for one in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
        time.sleep(0.005)
    process.wait(_START_SECONDS)
    if process.stdout is not None:
        process.stdout.close()


def _is_of(session: int, process: psutil.Process) -> bool:
    """Whether it is alive and was started by the process of that session."""
    try:
        return process.info["status"] != psutil.STATUS_ZOMBIE and os.getsid(process.pid) == session
    except ProcessLookupError:
        return False


def _planned(checkpoint: Path) -> int:
    """The last micro-batch that the query has planned; -1 for none."""
    return _last(checkpoint / "offsets")


def _done(checkpoint: Path) -> int:
    return _last(checkpoint / "commits")


def _last(directory: Path) -> int:
    return max((int(file.name) for file in directory.glob("*") if file.name.isdigit()), default=-1)
