"""Stopping code of the user's when Spark needs no more rows; runs where ``execute`` runs."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any


class StopRequested(BaseException):
    """Raised inside user code when Spark needs no more rows, so that its ``finally`` blocks run."""


class StopFlag:
    """Stops a thread that runs user code: at its next batch, or inside the code through ``interrupt``.

    ``request`` may be called from any thread; ``interrupt`` must make the running thread raise StopRequested
    soon. The lock makes sure that it is never raised after the thread has left the user's code, where it could
    hit the user's clean-up. A source that has an ``interrupt(reason)`` method of its own (thread-safe; it makes a
    waiting ``next`` return or raise) is stopped through that instead: it knows best how to wake its thread.
    """

    def __init__(self, interrupt: Callable[[], None]) -> None:
        self.requested = False
        self.inside = False
        self._interrupt = interrupt
        self._interrupt_source: Callable[[str], None] | None = None
        self._leaving = threading.Lock()

    def watch(self, source: Any) -> None:
        """``source`` is what the user's code returned to be iterated over."""
        interrupt = getattr(source, "interrupt", None)
        self._interrupt_source = interrupt if callable(interrupt) else None

    def request(self, reason: str) -> None:
        """Stop the stream. Idempotent."""
        with self._leaving:
            already, self.requested = self.requested, True
            interrupt_source = self._interrupt_source
            if self.inside and not already and interrupt_source is None:
                self._interrupt()
        if interrupt_source is not None and not already:
            interrupt_source(reason)

    def check(self) -> None:
        """Raises StopRequested if a stop was asked for."""
        if self.requested:
            raise StopRequested

    @contextlib.contextmanager
    def user_code(self) -> Iterator[None]:
        """Surrounds calls into user code. Raises StopRequested if a stop was asked for before or meanwhile."""
        self.inside = True
        try:
            self.check()
            yield
        finally:
            with self._leaving:
                self.inside = False
