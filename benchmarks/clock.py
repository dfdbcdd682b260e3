"""CPU seconds of this process and everything below it: the JVM, Spark's Python workers, other helpers."""

from __future__ import annotations

import contextlib
import sys
import time
from dataclasses import dataclass

import psutil

_SCHEDULER_CLOCK = 2


@dataclass(frozen=True)
class CpuTimes:
    """User and system seconds so far: of each live process, and of those that ended and were waited for."""

    live: dict[tuple[int, float], float]
    ended: float

    def since(self, before: CpuTimes) -> float:
        """What was used in between. A process that ended moves from one account to the other, if its parent waits."""
        used = sum(seconds - before.live.get(process, 0.0) for process, seconds in self.live.items())
        gone = sum(seconds for process, seconds in before.live.items() if process not in self.live)
        return used + max(0.0, self.ended - before.ended - gone)


def cpu_times() -> CpuTimes:
    """Now."""
    live: dict[tuple[int, float], float] = {}
    ended = 0.0
    me = psutil.Process()
    for process in (me, *me.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            live[process.pid, process.create_time()] = _precise(process.pid) or times.user + times.system
            ended += times.children_user + times.children_system
    return CpuTimes(live, ended)


def _precise(pid: int) -> float | None:
    """To the nanosecond where the kernel tells: psutil's ticks of 10 ms are too coarse for a query of 50 ms."""
    if sys.platform != "linux":
        return None
    try:
        return time.clock_gettime((~pid << 3) | _SCHEDULER_CLOCK)  # the clock's id, as clock_getcpuclockid makes it
    except OSError:  # it has ended, and nobody has waited for it yet
        return None
