"""Spark that dies or is stopped under a context: everybody is told, by name, within seconds; own Sparks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from typing import Any

import pytest

from places import SCRIPTS
from pushing import findings

SOON_S = 20.0  # a second is promised; the machines that run tests are busy


@cache
def killed(signal: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="hr", dir="/tmp") as directory:
        done = subprocess.run(
            [sys.executable, str(SCRIPTS / "jvm_killed.py"), signal],
            capture_output=True,
            text=True,
            timeout=280,
            env={**os.environ, "TMPDIR": directory},
        )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


SIGNALS = pytest.mark.parametrize("signal", ["SIGKILL", "SIGTERM"])
pytestmark = [pytest.mark.timeout(300), pytest.mark.daily]


@SIGNALS
@pytest.mark.parametrize("who", ["collect", "stream"])
def test_jvm_killed_ends_queries_with_one_named_error(signal: str, who: str) -> None:
    """One that is asked to end stops Spark first, and says so."""
    kind, text, seconds = killed(signal)[who]
    assert (kind, text.partition(":")[0]) in [
        ("TransportError", "Spark's driver JVM is gone"),
        *([("ClosedError", "Spark was stopped")] if signal == "SIGTERM" else []),
    ]
    assert seconds < SOON_S


@SIGNALS
@pytest.mark.parametrize("who", ["sink that is read", "sink that is not read"])
def test_jvm_killed_releases_producers(signal: str, who: str) -> None:
    kind, text, seconds = killed(signal)[who]
    assert kind == "ScanEndedError"
    assert "JVM is gone" in text or "its reader went away" in text or "cancelled" in text or "stopped" in text
    assert seconds < SOON_S


@SIGNALS
@pytest.mark.parametrize("method", ["sql", "register", "names"])
def test_jvm_killed_is_what_methods_say_afterwards(signal: str, method: str) -> None:
    kind, text = killed(signal)[method]
    assert kind == "TransportError"
    assert "make a new one" in text


@SIGNALS
def test_jvm_killed_close_ends_and_leaves_nothing(signal: str) -> None:
    found = killed(signal)
    assert found["close"][0] == "no error"
    assert found["close"][2] < SOON_S
    assert found["directories"] == []


@SIGNALS
def test_jvm_killed_another_context_can_be_started(signal: str) -> None:
    assert killed(signal)["active"] is False
    assert killed(signal)["again"] == [{"one": 1}]


def test_spark_stopped_is_one_plain_error_of_every_method() -> None:
    found = findings("spark_stopped.py", timeout_s=280)
    assert {tuple(seen) for seen in found["methods"].values()} == {
        ("ClosedError", "Spark was stopped; close this SessionContext and make a new one")
    }
    assert found["close"][0] == "no error"
    assert found["attach"][0] == "ClosedError"


def test_spark_stopped_releases_producers() -> None:
    kind, text = findings("spark_stopped.py", timeout_s=280)["write"]
    assert kind == "ScanEndedError"
    assert "Spark was stopped" in text
