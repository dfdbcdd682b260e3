"""From Spark's exceptions back to Headrace's own, in whichever session; driver Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from headrace.errors import HeadraceError, ScanEndedError

ErrorBehind = Callable[[BaseException], HeadraceError | None]
"""The error to raise in place of one of Spark's; None where Headrace has no part in it. Never raises."""


@contextmanager
def raising(error_behind: ErrorBehind) -> Iterator[None]:
    """Raises what ``error_behind`` makes of an exception in its place; others pass unchanged."""
    try:
        yield
    except Exception as error:
        own = error_behind(error)
        if own is None:
            raise
        # Spark's own exception is pages of Java about what this error says in a line, so it is not the cause.
        raise own from own.__cause__


def cancelled(message: str) -> ScanEndedError:
    """What a query ends with that somebody cancelled, as Spark says in ``message``."""
    return ScanEndedError(f"the query was cancelled: {message.splitlines()[0]}")
