"""From Spark's exceptions back to Headrace's own; driver Python."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException

import headrace.errors as errors
from headrace.execute.failure import error_of

_CLASS = "org.headrace.spark.HeadraceException"
_CANCELLED = "[SPARK_JOB_CANCELLED"
_MAX_CAUSES = 20
LOST = (Py4JError, ConnectionError)
"""What Py4J raises for a JVM that is gone: errors of its own, and those of a connection that it cannot make."""


@contextmanager
def naming_a_lost_jvm() -> Iterator[None]:
    """Raises TransportError in place of Py4J's errors about a JVM that cannot be reached; others pass unchanged."""
    try:
        yield
    except LOST as error:
        if not is_lost_jvm(error):
            raise
        raise jvm_lost(error) from error


def is_lost_jvm(error: BaseException) -> bool:
    """Whether ``error``, of a call to the JVM, says that it gave no answer, not even an exception."""
    return isinstance(error, LOST) and not isinstance(error, Py4JJavaError)


def jvm_lost(error: BaseException | None = None) -> errors.TransportError:
    """What to tell of a JVM that is gone."""
    seen = f" ({type(error).__name__}: {error})" if error is not None else ""
    return errors.TransportError(
        f"Spark's driver JVM is gone: it was killed or it crashed{seen}; close this SessionContext and make a new one"
    )


@contextmanager
def headrace_errors() -> Iterator[None]:
    """Raises a Headrace error in place of a Spark exception that one of ours caused; others pass unchanged."""
    try:
        yield
    except (CapturedException, *LOST) as error:
        translated = translate(error)
        if translated is None:
            raise
        # Spark's own exception is pages of Java about what this error says in a line, so it is not the cause.
        raise translated from translated.__cause__


def translate(error: BaseException) -> errors.HeadraceError | None:
    """The Headrace error behind ``error``, or None where Headrace has no part in it.

    A query that somebody cancelled is a ScanEndedError, unless an error of ours came first. Never raises.
    """
    if is_lost_jvm(error):
        return jvm_lost(error)
    try:
        return _behind(error)
    except Exception:  # the JVM that knows more is gone
        return None


def _behind(error: BaseException) -> errors.HeadraceError | None:
    cause: Any = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    cancelled: errors.HeadraceError | None = None
    for _ in range(_MAX_CAUSES):
        if cause is None:
            break
        if cause.getClass().getName() == _CLASS:
            return error_of(cause.failure(), str(cause.getMessage()))
        message = str(cause.getMessage())
        if cancelled is None and message.startswith(_CANCELLED):
            cancelled = errors.ScanEndedError(f"the query was cancelled: {message.splitlines()[0]}")
        cause = cause.getCause()
    return cancelled
