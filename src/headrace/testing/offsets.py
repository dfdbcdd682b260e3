"""Offsets of a stream under test: asked for, held against the contract, and walked along; no Spark needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from headrace.errors import PlanError
from headrace.negotiate.offsets import checked_text, ends_until_now, goes_back, offset_of, offset_text
from headrace.stream import Offset, ReadLimit, StreamProvider
from headrace.testing.probe import USER_ERRORS, CheckStopped, error_text, on_other_thread
from headrace.testing.report import Findings, Promise

MOST_STEPS = 200
"""Of a walk: one whose every step is tiny ends there."""


class Offsets:
    """Asks a stream for offsets. What is wrong with an answer is a finding, and raises CheckStopped.

    Offsets go to the provider as they come back from a checkpoint: read from their JSON.
    """

    def __init__(self, stream: StreamProvider, findings: Findings) -> None:
        self._stream = stream
        self._name = type(stream).__name__
        self._findings = findings

    def initial(self) -> Offset:
        """Asked three times, once on another thread: it stays the same."""
        answers = [self._asked("initial_offset", self._stream.initial_offset) for _ in range(2)]
        on_other_thread(lambda: answers.append(self._asked("initial_offset", self._stream.initial_offset)))
        for other in answers[1:]:
            if not same(other, answers[0]):
                found = f"{shown(answers[0])}, then {shown(other)}"
                self._stop(Promise.OFFSETS, f"{self._name}.initial_offset gave {found}: it stays the same")
        return answers[0]

    def latest(self, start: Offset, limit: ReadLimit, blame: Promise = Promise.OFFSETS) -> Offset:
        found = self._asked("latest_offset", lambda: self._stream.latest_offset(start, limit), blame)
        if goes_back(start, found):
            self._stop(
                Promise.OFFSETS,
                f"{self._name}.latest_offset({shown(start)}, {limit_text(limit)}) gave {shown(found)}, which is less "
                "than the start: offsets only grow",
            )
        return found

    def now(self, start: Offset) -> Offset:
        """Where the stream is now. A provider that caps its own steps is asked again, at most MOST_STEPS times."""
        where = f"{self._name}.latest_offset"
        try:
            ends = ends_until_now(
                offset_text(start),
                lambda text: offset_text(self.latest(offset_of(text), ReadLimit())),
                where,
                MOST_STEPS,
            )
        except PlanError as error:
            self._stop(Promise.OFFSETS, str(error), error)
        return offset_of(ends[-1]) if ends else start

    def walk(self, start: Offset, end: Offset, limit: ReadLimit) -> list[Offset]:
        """From ``start`` to ``end`` in steps of ``limit``, whose ``until`` is the end. All offsets, both ends too.

        A walk that is not over after MOST_STEPS steps takes the last one at once.
        """
        steps = [start]
        seen = {offset_text(start)}
        while offset_text(steps[-1]) != offset_text(end):
            if len(steps) > MOST_STEPS:
                return [*steps, end]
            found = self.latest(steps[-1], limit, Promise.READ_LIMITS)
            asked = f"{self._name}.latest_offset({shown(steps[-1])}, {limit_text(limit)})"
            if same(found, steps[-1]):
                self._stop(
                    Promise.READ_LIMITS,
                    f"{asked} gave its start, although there is more up to {shown(end)}: the stream stands still for "
                    "ever; a limit lets pass at least something",
                )
            if offset_text(found) in seen:
                self._stop(Promise.OFFSETS, f"{asked} gave {shown(found)}, where it was before: offsets only grow")
            if goes_back(found, end):
                self._stop(Promise.READ_LIMITS, f"{asked} gave {shown(found)}, which is past until")
            seen.add(offset_text(found))
            steps.append(found)
        return steps

    def _asked(self, method: str, ask: Callable[[], Any], blame: Promise = Promise.OFFSETS) -> Offset:
        try:
            answer = ask()
        except USER_ERRORS as error:
            self._stop(blame, f"{self._name}.{method} raised {error_text(error)}", error)
        try:
            return offset_of(checked_text(answer, f"{self._name}.{method}", self._name))
        except PlanError as error:
            self._stop(Promise.OFFSETS, str(error), error)

    def _stop(self, promise: Promise, message: str, cause: BaseException | None = None) -> NoReturn:
        self._findings.add(promise, message)
        raise CheckStopped from cause


def same(one: Offset, other: Offset) -> bool:
    return offset_text(one) == offset_text(other)


def shown(offset: Offset) -> str:
    """For a message."""
    text = offset_text(offset)
    return text if len(text) <= 100 else f"{text[:100]}..."


def limit_text(limit: ReadLimit) -> str:
    given = {"max_rows": limit.max_rows, "max_bytes": limit.max_bytes}
    parts = [f"{name}={value}" for name, value in given.items() if value is not None]
    parts += [] if limit.until is None else [f"until={shown(limit.until)}"]
    return f"ReadLimit({', '.join(parts)})"
