"""Stopping code of the user's when Spark needs no more rows; runs where ``execute`` runs."""

from __future__ import annotations

import inspect
import logging
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from headrace.errors import ScanEnd
from headrace.forks import OwnProcess

IMPORT_POLL_S = 0.02
"""How often a stop that an import has put off is tried again."""

_LOG = logging.getLogger("headrace")


class Ending(str):
    """Why a scan is stopped: a sentence for people. ``reason`` is its word for programs, that of a ScanEndedError."""

    reason: ScanEnd

    def __new__(cls, reason: ScanEnd, sentence: str) -> Ending:
        ending = super().__new__(cls, sentence)
        ending.reason = reason
        return ending


class StopRequested(BaseException):
    """Raised inside user code when Spark needs no more rows, so that its ``finally`` blocks run."""


class StopFlag:
    """Stops a thread that runs user code: at its next batch, or inside the code through ``interrupt``.

    ``request`` may be called from any thread; ``interrupt`` must make the running thread raise StopRequested
    soon. It returns False if this is no time for it, or if it cannot know: it is called again a moment later, until the
    thread has left the user's code. The lock makes sure that it is
    never raised after the thread has left the user's code, where it could hit the user's clean-up. An Interruptible
    source is stopped through its own ``interrupt`` instead: it knows best how to wake its thread. One that raises is
    logged, and the thread is stopped the other way.
    """

    def __init__(self, interrupt: Callable[[], bool] = lambda: True) -> None:
        """Without an ``interrupt`` the thread is stopped at its next batch only."""
        self.requested = False
        self.ending: Ending | None = None
        """Of the first request."""
        self.inside = False
        self.process = OwnProcess()
        self._interrupt = interrupt
        self._interrupt_source: Callable[..., object] | None = None
        self._leaving = threading.Lock()
        self._user_code = _UserCode(self)

    def watch(self, source: Any) -> None:
        """``source`` is what the user's code returned to be iterated over; None once it is to be closed."""
        interrupt = getattr(source, "interrupt", None)  # whether it is Interruptible, which is slow to ask
        self._interrupt_source = interrupt if callable(interrupt) else None

    def request(self, ending: Ending) -> None:
        """Stop the stream. Idempotent. May take as long as the source's own ``interrupt`` does, or as an import that
        user code is in; never raises."""
        with self._leaving:
            self.ending = self.ending or ending  # first: who sees the request asks for its ending, without the lock
            already, self.requested = self.requested, True
            interrupt_source = self._interrupt_source
        if already:
            return
        if interrupt_source is not None:
            try:
                _call_interrupt(interrupt_source, ending)
                return
            except BaseException:  # user code may raise anything
                _LOG.warning("%r raised; its stream is stopped at the next bytecode", interrupt_source, exc_info=True)
        while not self._left_or_interrupted():
            time.sleep(IMPORT_POLL_S)

    def check(self) -> None:
        """Raises StopRequested if a stop was asked for."""
        if self.requested:
            raise StopRequested

    def user_code(self) -> _UserCode:
        """Surrounds calls into user code. Raises StopRequested if a stop was asked for before or meanwhile."""
        return self._user_code

    def enter(self) -> None:
        """User code runs from now on. Raises StopRequested if a stop was asked for."""
        self.inside = True
        if self.requested:
            self.leave()
            raise StopRequested

    def leave(self) -> None:
        """User code runs no more; whoever stops it has to know that. In a forked child this does not return."""
        self.process.end_child()  # first: the lock may be held by a thread that the child does not have
        with self._leaving:
            self.inside = False

    def _left_or_interrupted(self) -> bool:
        with self._leaving:
            return not self.inside or self._interrupt()


class _UserCode:
    """No generator of ``contextlib``: it surrounds each step of a source, for each partition several times."""

    def __init__(self, flag: StopFlag) -> None:
        self._flag = flag

    def __enter__(self) -> None:
        self._flag.enter()

    def __exit__(self, *_: object) -> None:
        self._flag.leave()


def is_importing(frame: FrameType | None) -> bool:
    """Whether the code that runs in ``frame`` was called by an import.

    An import is not stopped half-way: whoever imports the module next would find half of it, and some of those written
    in C can be begun only once.
    """
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _call_interrupt(interrupt: Callable[..., object], reason: str) -> None:
    """With the reason if it takes one. Those of sqlite3 and duckdb connections take none; duckdb's does not say so."""
    try:
        inspect.signature(interrupt).bind(reason)
    except (TypeError, ValueError):
        interrupt()
    else:
        interrupt(reason)
