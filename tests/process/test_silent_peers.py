"""Hosts and networks that vanish without a word, between two network namespaces; no Spark.

The cases run at the same time: each takes as long as a silent peer is borne.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from java_checks import java_check
from networks import Network, network
from places import SCRIPTS

PROMISED_S = 30.0
LONG_PAUSE_S = 40.0  # longer than a silent peer is borne
pytestmark = [pytest.mark.timeout(400), pytest.mark.daily]


SCRIPT = [sys.executable, str(SCRIPTS / "silent_peer.py")]


class Pair:
    """A server on host a and its reader on host b: a Python one, or an executor's if ``executor`` is how to run it."""

    def __init__(self, net: Network, case: str, stack: ExitStack, executor: list[str] | None = None) -> None:
        self.net = net
        self.server = self._start(stack, net.a, *SCRIPT, "serve", case, net.address_a)
        address = json.dumps({**event(self.server, "address")["address"], "path": ""})
        self.reader = self._start(stack, net.b, *(executor or [*SCRIPT, "read", case]), address)
        event(self.reader, "reading")

    def _start(self, stack: ExitStack, host: str, *command: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(self.net.on(host, *command), stdout=subprocess.PIPE, text=True)
        stack.callback(process.wait)
        stack.callback(process.kill)
        return process


def event(process: subprocess.Popen[str], name: str) -> dict[str, Any]:
    assert process.stdout is not None
    seen: dict[str, Any] = json.loads(process.stdout.readline())
    assert seen["event"] == name, seen
    return seen


@pytest.fixture(scope="module")
def seconds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, float]]:
    """How long each end took to notice."""
    found: dict[str, float] = {}
    with ExitStack() as stack:
        first, second, third = (stack.enter_context(network()) for _ in range(3))
        java = java_check("org.headrace.spark.transport.SilentDriverCheck", tmp_path_factory.mktemp("classes"))
        executors = {
            "executor that reads": Pair(first, "idle", stack, [*java, "read"]),
            "executor that sends": Pair(first, "stalled", stack, [*java, "send"]),
            "executor that sends for long": Pair(second, "stalled", stack, [*java, "send"]),
            "executor that awaits an answer": Pair(first, "busy", stack, [*java, "await"]),
            "executor that awaits an answer for long": Pair(second, "busy", stack, [*java, "await"]),
            "executor that says nothing": Pair(first, "waiting", stack, [*java, "hold"]),
        }
        resumed = Pair(third, "resumed", stack)
        late = Pair(second, "paused", stack)
        started = time.monotonic()
        early = {case: Pair(first, case, stack) for case in ("idle", "sending", "paused")}
        time.sleep(3)  # all of them in the middle of it, with full buffers: nothing says so that could be awaited
        first.cut()
        cut_at = time.monotonic()
        for case, pair in early.items():
            found[case] = event(pair.server, "stopped")["at"] - cut_at
        for case in ("executor that reads", "executor that sends", "executor that awaits an answer"):
            event(executors[case].reader, "lost")
            found[case] = time.monotonic() - cut_at
        for case, executor in (("busy", "executor that awaits an answer"), ("waiting", "executor that says nothing")):
            found[case] = event(executors[executor].server, "stopped")["at"] - cut_at
        time.sleep(max(0.0, started + LONG_PAUSE_S - time.monotonic()))  # the pause not to be taken for silence
        second.cut()
        cut_at = time.monotonic()
        found["paused for long"] = event(late.server, "stopped")["at"] - cut_at
        for case in ("executor that sends for long", "executor that awaits an answer for long"):
            event(executors[case].reader, "lost")
            found[case] = time.monotonic() - cut_at
        found["resumed"] = event(resumed.reader, "received")["bytes"]
        yield found


@pytest.mark.parametrize("case", ["busy", "waiting"])
def test_silent_sender_is_noticed_in_time_by_code_that_receives(seconds: dict[str, float], case: str) -> None:
    assert 0 < seconds[case] < PROMISED_S


@pytest.mark.parametrize("case", ["idle", "sending", "paused", "paused for long"])
def test_silent_reader_is_noticed_in_time(seconds: dict[str, float], case: str) -> None:
    assert 0 < seconds[case] < PROMISED_S


@pytest.mark.parametrize(
    "case",
    [
        "executor that reads",
        "executor that sends",
        "executor that awaits an answer",
        "executor that sends for long",
        "executor that awaits an answer for long",
    ],
)
def test_silent_driver_is_noticed_in_time(seconds: dict[str, float], case: str) -> None:
    """The last two were kept waiting by a driver that lived, longer than a silent one is borne, before that went."""
    assert 0 < seconds[case] < PROMISED_S


def test_reader_that_reads_nothing_for_long_is_not_taken_for_silent(seconds: dict[str, float]) -> None:
    assert seconds["resumed"] >= 20_000_000
