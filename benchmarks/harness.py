"""Runs contenders alternately and keeps every round, wall and CPU seconds, and what they answered."""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from benchmarks.clock import cpu_times


class WrongAnswerError(AssertionError):
    """Two contenders of a case disagree: what they took is then worth nothing."""


@dataclass(frozen=True)
class Contender:
    """One way of doing the case. ``run`` returns the answer, which all contenders must agree on.

    A limit does only a part of the work (moving the bytes, or adding up what is in memory already) and shows how
    far the whole can go; it answers where it can, and None otherwise.
    """

    name: str
    run: Callable[[], Any]
    limit: bool = False


@dataclass(frozen=True)
class Case:
    """What is measured. The first contender is Headrace.

    ``bars`` maps a rival to the ratio to be reached: how many times as long as Headrace it takes at least.
    ``cpu_bars`` maps a rival to how many times its CPU seconds Headrace may use at most. Bars are meant for the full
    size; with ``either`` one of several is enough. ``prepare`` runs once before everything, ``finish`` after it, and
    neither is measured. ``curve`` names the picture that this case is a point of, and ``x`` where. With ``turns``
    another contender begins each round: whoever begins finds the caches of the one before, and pays for it.
    """

    name: str
    contenders: Sequence[Contender]
    bars: dict[str, float] = field(default_factory=dict)
    agree: bool = True
    warmups: int = 1
    cpu_bars: dict[str, float] = field(default_factory=dict)
    either: bool = False
    rows: int | None = None
    most_rounds: int | None = None
    prepare: Callable[[], object] | None = None
    finish: Callable[[], object] | None = None
    curve: str | None = None
    x: float | None = None
    turns: bool = False


@dataclass(frozen=True)
class Timing:
    """Every measured round of one contender."""

    contender: str
    seconds: tuple[float, ...]
    cpu_seconds: tuple[float, ...]
    limit: bool = False

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
    """A measured case."""

    case: Case
    timings: tuple[Timing, ...]

    def ratio(self, rival: str) -> float:
        """How many times as long the rival takes, best against best: more than 1 means that Headrace is faster."""
        return self.timing(rival).best / self.timings[0].best

    def median_ratio(self, rival: str) -> float:
        return self.timing(rival).median / self.timings[0].median

    def cpu_ratio(self, rival: str) -> float:
        """How many times the rival's CPU seconds Headrace uses: less than 1 means that Headrace is cheaper."""
        return self.timings[0].best_cpu / max(self.timing(rival).best_cpu, 1e-9)

    def timing(self, name: str) -> Timing:
        return next(timing for timing in self.timings if timing.contender == name)


def total(name: str, results: Sequence[Result], contenders: Iterable[str], bars: dict[str, float]) -> Result:
    """The best times of each contender summed over ``results``, with bars for the sums alone."""
    timings = [
        Timing(
            contender,
            (sum(result.timing(contender).best for result in results),),
            (sum(result.timing(contender).best_cpu for result in results),),
        )
        for contender in contenders
    ]
    return Result(Case(name, (), bars), tuple(timings))


@dataclass(frozen=True)
class Figure:
    """A number that is no ratio of two contenders; ``bar`` is what it may be at most."""

    name: str
    value: float
    unit: str
    bar: float | None = None

    @property
    def reached(self) -> bool | None:
        return None if self.bar is None else self.value <= self.bar


@dataclass(frozen=True)
class Probe:
    """Something that has to measure by itself: latencies, planning, a process's start."""

    name: str
    run: Callable[[], list[Figure]]


def measure(case: Case, rounds: int, warm_seconds: float = 0.0) -> Result:
    """Every contender once per round, in turn, so that a noisy minute hits all of them alike.

    Each contender warms up for the same time, ``warm_seconds``, but ``case.warmups`` times at least: the JVM compiles
    while it runs. Raises WrongAnswerError when two contenders disagree.
    """
    try:
        if case.prepare is not None:
            case.prepare()
        return _measured(case, min(rounds, case.most_rounds or rounds), warm_seconds)
    finally:
        if case.finish is not None:
            case.finish()


def _measured(case: Case, rounds: int, warm_seconds: float) -> Result:
    seconds: dict[str, list[float]] = {contender.name: [] for contender in case.contenders}
    cpu: dict[str, list[float]] = {contender.name: [] for contender in case.contenders}
    answers: list[tuple[str, Any]] = []
    for contender in case.contenders:
        runs, until = 0, time.perf_counter() + warm_seconds
        while runs < case.warmups or time.perf_counter() < until:
            answer = contender.run()
            runs += 1
    for number in range(rounds):
        first = number % len(case.contenders) if case.turns else 0
        for contender in (*case.contenders[first:], *case.contenders[:first]):
            gc.collect()
            cpu_before, before = cpu_times(), time.perf_counter()
            answer = contender.run()
            took = time.perf_counter() - before
            cpu[contender.name].append(cpu_times().since(cpu_before))
            seconds[contender.name].append(took)
            if not (contender.limit and answer is None):
                answers.append((contender.name, answer))
    if case.agree:
        _check(case, answers)
    limits = {contender.name: contender.limit for contender in case.contenders}
    return Result(case, tuple(Timing(name, tuple(seconds[name]), tuple(cpu[name]), limits[name]) for name in seconds))


def _check(case: Case, answers: list[tuple[str, Any]]) -> None:
    own, first = answers[0]
    for name, answer in answers[1:]:
        if not same(answer, first):
            raise WrongAnswerError(f"{case.name}: {name} answers {_short(answer)}, {own} {_short(first)}")


def _short(answer: Any, most: int = 300) -> str:
    text = repr(answer)
    return text if len(text) <= most else text[:most] + "..."


def same(one: Any, other: Any) -> bool:
    """Equal, floating point up to the order of summation."""
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if one is None or other is None:
        return one is other
    if isinstance(one, (float, Decimal)) and isinstance(other, (int, float, Decimal)):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9) or (math.isnan(one) and math.isnan(other))
    if isinstance(one, int) and isinstance(other, (float, Decimal)):
        return same(other, one)
    return bool(one == other)
