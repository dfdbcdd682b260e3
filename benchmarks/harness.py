"""Runs contenders alternately and reports the best and median of their rounds, wall and CPU seconds."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import psutil


@dataclass(frozen=True)
class Contender:
    """One way of doing the case. ``run`` returns the answer, which all contenders must agree on."""

    name: str
    run: Callable[[], Any]


@dataclass(frozen=True)
class Case:
    """What is measured. The first contender is Headrace; ``bars`` maps a rival to the ratio to be reached."""

    name: str
    contenders: Sequence[Contender]
    bars: dict[str, float] = field(default_factory=dict)
    agree: bool = True
    warmups: int = 1


@dataclass(frozen=True)
class Timing:
    contender: str
    seconds: tuple[float, ...]
    cpu_seconds: tuple[float, ...]

    @property
    def best(self) -> float:
        return min(self.seconds)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def best_cpu(self) -> float:
        return min(self.cpu_seconds)


@dataclass(frozen=True)
class Result:
    case: Case
    timings: tuple[Timing, ...]

    def ratio(self, rival: str) -> float:
        """How many times as long the rival takes: more than 1 means that Headrace is faster."""
        return self._timing(rival).best / self.timings[0].best

    def _timing(self, name: str) -> Timing:
        return next(timing for timing in self.timings if timing.contender == name)


def measure(case: Case, rounds: int) -> Result:
    """Every contender once per round, in turn, so that a noisy minute hits all of them alike.

    Raises AssertionError when two contenders disagree about the answer.
    """
    seconds: dict[str, list[float]] = {contender.name: [] for contender in case.contenders}
    cpu: dict[str, list[float]] = {contender.name: [] for contender in case.contenders}
    answers: dict[str, Any] = {}
    for number in range(-case.warmups, rounds):
        for contender in case.contenders:
            gc.collect()
            cpu_before, before = cpu_seconds(), time.perf_counter()
            answer = contender.run()
            took, cpu_took = time.perf_counter() - before, cpu_seconds() - cpu_before
            answers[contender.name] = answer
            if number >= 0:
                seconds[contender.name].append(took)
                cpu[contender.name].append(cpu_took)
    if case.agree:
        first = next(iter(answers.values()))
        for name, answer in answers.items():
            assert same(answer, first), f"{case.name}: {name} answers {answer!r}, {case.contenders[0].name} {first!r}"
    return Result(case, tuple(Timing(name, tuple(seconds[name]), tuple(cpu[name])) for name in seconds))


def same(one: Any, other: Any) -> bool:
    """Equal, floating point up to the order of summation."""
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) or isinstance(other, float):
        return abs(one - other) <= 1e-9 * max(1.0, abs(one), abs(other))
    return bool(one == other)


def cpu_seconds() -> float:
    """User and system time of this process and everything below it: the JVM and the Python workers."""
    total = 0.0
    me = psutil.Process()
    for process in (me, *me.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total
