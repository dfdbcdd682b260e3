"""From the exceptions of a classic session, whose causes are Java's, back to Headrace's own; driver Python."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError

from headrace.errors import HeadraceError, TransportError
from headrace.execute.failure import error_of
from headrace.spark.failures import cancelled

_CLASS = "org.headrace.spark.HeadraceException"
_CANCELLED = "[SPARK_JOB_CANCELLED"
_MAX_CAUSES = 20
LOST = (Py4JError, ConnectionError)
"""What Py4J raises for a JVM that is gone: errors of its own, and those of a connection that it cannot make."""


def lost_jvm(error: BaseException | None = None) -> TransportError:
    """What to tell of a JVM that is gone."""
    seen = f" ({type(error).__name__}: {error})" if error is not None else ""
    return TransportError(
        f"Spark's driver JVM is gone: it was killed or it crashed{seen}; close this SessionContext and make a new one"
    )


def lost_behind(error: BaseException) -> TransportError | None:
    """What to tell where ``error``, of a call to the JVM, says that it gave no answer, not even an exception."""
    if not isinstance(error, LOST) or isinstance(error, Py4JJavaError):
        return None
    lost = lost_jvm(error)
    lost.__cause__ = error
    return lost


def translate(error: BaseException) -> HeadraceError | None:
    """The Headrace error behind ``error``, or None where Headrace has no part in it.

    A query that somebody cancelled is a ScanEndedError, unless an error of ours came first. Never raises.
    """
    try:
        return lost_behind(error) or _behind(error)
    except Exception:  # the JVM that knows more is gone
        return None


def _behind(error: BaseException) -> HeadraceError | None:
    cause: Any = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    ended: HeadraceError | None = None
    for _ in range(_MAX_CAUSES):
        if cause is None:
            break
        if cause.getClass().getName() == _CLASS:
            return error_of(cause.failure(), str(cause.getMessage()))
        message = str(cause.getMessage())
        if ended is None and message.startswith(_CANCELLED):
            ended = cancelled(message)
        cause = cause.getCause()
    return ended
