"""The faults: each is done to a run at work, and undone when the run is over or after a stated time; driver Python."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from faults.jobs import Stage

EXECUTOR = "CoarseGrainedExecutorBackend"
DAEMON = "headrace.worker.daemon"


@dataclass
class World:
    """What a fault may touch: this application's processes, the driver's network, the workers' scratch files."""

    application: str
    scratch: list[Path]
    switch: str = ""
    """The namespace with the hosts' links; empty where there is none."""
    links: list[str] = field(default_factory=list)
    """The workers' ends in it."""

    def executors(self) -> list[int]:
        return [pid for pid, text in _commands() if EXECUTOR in text and self.application in text]

    def daemons(self) -> list[int]:
        executors = set(self.executors())
        return [pid for pid, text in _commands() if DAEMON in text and _parent(pid) in executors]

    def workers(self) -> list[int]:
        daemons = set(self.daemons())
        return [pid for pid, text in _commands() if DAEMON in text and _parent(pid) in daemons]


Inject = Callable[[Stage, World, random.Random], None]


@dataclass(frozen=True)
class Fault:
    """``kinds``: jobs with one of these roads can meet it; empty for all. ``network``: needs namespaces."""

    name: str
    inject: Inject
    kinds: frozenset[str] = frozenset()
    network: bool = False
    harmless: bool = False
    """The answer must be right all the same."""
    cause: str = ""
    """What an error must say, if there is one: the first cause, whatever Spark tried since."""


def _signal(pids: Callable[[World], list[int]], number: signal.Signals, resume_after_s: float = 0) -> Inject:
    def inject(_stage: Stage, world: World, rng: random.Random) -> None:
        found = pids(world)
        if not found:
            return
        pid = rng.choice(found)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
            if resume_after_s:
                _later(resume_after_s, lambda: _resume(pid))

    return inject


def _filtered(verdict: str, seconds: float | None) -> Inject:
    """Packets to and from the endpoint's port meet ``verdict``, for ``seconds`` or to the end of the run."""

    def inject(stage: Stage, _world: World, _rng: random.Random) -> None:
        attached: Any = stage.ctx._attached
        port = attached.endpoint._port
        refuse = "drop" if verdict == "drop" else "reject with tcp reset"
        rules = (
            "add table inet faults\n"
            "add chain inet faults arriving { type filter hook input priority 0; }\n"
            "add chain inet faults leaving { type filter hook output priority 0; }\n"
            f"add rule inet faults arriving tcp dport {port} {refuse}\n"
        )
        if verdict == "drop":
            rules += f"add rule inet faults leaving tcp sport {port} drop\n"
        subprocess.run(["nft", "-f", "-"], input=rules.encode(), check=True, timeout=10)
        if seconds is not None:
            _later(seconds, heal_filters)

    return inject


def heal_filters() -> None:
    subprocess.run(["nft", "delete", "table", "inet", "faults"], capture_output=True, check=False, timeout=10)


def _link_down(seconds: float) -> Inject:
    def inject(_stage: Stage, world: World, rng: random.Random) -> None:
        link = rng.choice(world.links)
        _set_link(world, link, "down")
        _later(seconds, lambda: _set_link(world, link, "up"))

    return inject


def heal(world: World) -> None:
    """Undo whatever may still be in force."""
    if world.switch:
        heal_filters()
        for link in world.links:
            _set_link(world, link, "up")
    for pid in (*world.executors(), *world.daemons(), *world.workers()):
        _resume(pid)


def _order(order: str) -> Inject:
    def inject(stage: Stage, _world: World, _rng: random.Random) -> None:
        stage.order = order
        if order == "vanish":
            stage.sinks.clear()  # the last reference outside of the producers, who end too

    return inject


def _cancel(stage: Stage, _world: World, _rng: random.Random) -> None:
    stage.ctx.spark.sparkContext.cancelAllJobs()


def _close_result(stage: Stage, _world: World, _rng: random.Random) -> None:
    if stage.result is not None:
        stage.result.close()


def _deregister(stage: Stage, _world: World, rng: random.Random) -> None:
    stage.ctx.deregister_table(rng.choice(stage.ctx.table_names()))


def _close(stage: Stage, _world: World, _rng: random.Random) -> None:
    stage.ctx.close()


def _lose_shuffle(_stage: Stage, world: World, rng: random.Random) -> None:
    for path in rng.choice(world.scratch).rglob("shuffle_*"):
        with contextlib.suppress(FileNotFoundError):
            path.unlink()


def _nothing(_stage: Stage, _world: World, _rng: random.Random) -> None: ...


_PUSH, _EXECUTORS, _DRIVER = frozenset({"push"}), frozenset({"executors"}), frozenset({"driver"})

FAULTS = [
    Fault("none", _nothing, harmless=True),
    Fault("kill a Python worker", _signal(World.workers, signal.SIGKILL), _EXECUTORS),
    Fault("stop a Python worker for 3 s", _signal(World.workers, signal.SIGSTOP, 3), _EXECUTORS, harmless=True),
    Fault("kill a daemon", _signal(World.daemons, signal.SIGKILL), _EXECUTORS),
    Fault("stop a daemon for 3 s", _signal(World.daemons, signal.SIGSTOP, 3), _EXECUTORS, harmless=True),
    Fault("kill an executor", _signal(World.executors, signal.SIGKILL)),
    Fault("stop an executor for 3 s", _signal(World.executors, signal.SIGSTOP, 3), harmless=True),
    Fault("drop packets for 3 s", _filtered("drop", 3), _DRIVER, network=True),
    Fault("half-open for good", _filtered("drop", None), _DRIVER, network=True),
    Fault("refuse connections for 3 s", _filtered("reject", 3), _DRIVER, network=True),
    Fault("reset connections", _filtered("reject", 0.3), _DRIVER, network=True),
    Fault("link down for 3 s", _link_down(3), network=True),
    Fault("link down for 25 s", _link_down(25), network=True),
    Fault("producer raises", _order("raise"), _PUSH, cause="the producer lost its way"),
    Fault("producer vanishes", _order("vanish"), _PUSH, cause="ProducerLostError"),
    Fault("cancel all jobs", _cancel, cause="cancel"),
    Fault("close the result", _close_result, frozenset({"result"})),
    Fault("deregister a table", _deregister),
    Fault("close the context", _close),
    Fault("lose shuffle files", _lose_shuffle, frozenset({"shuffle"})),
]


def _later(seconds: float, action: Callable[[], object]) -> None:
    timer = threading.Timer(seconds, action)
    timer.daemon = True
    timer.start()


def _set_link(world: World, link: str, state: str) -> None:
    subprocess.run(["ip", "-n", world.switch, "link", "set", link, state], check=False, timeout=10)


def _resume(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


def _commands() -> Iterator[tuple[int, str]]:
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            with contextlib.suppress(OSError):
                yield int(path.name), (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")


def _parent(pid: int) -> int:
    with contextlib.suppress(OSError, StopIteration):
        status = Path(f"/proc/{pid}/status").read_text()
        return int(next(line.split()[1] for line in status.splitlines() if line.startswith("PPid:")))
    return 0
