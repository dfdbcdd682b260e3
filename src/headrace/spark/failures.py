"""From Spark's exceptions back to Headrace's own; driver Python."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException

import headrace.errors as errors
from headrace.execute.failure import Failure

_CLASS = "org.headrace.spark.HeadraceException"
_MAX_CAUSES = 20
_TRANSPORT = re.compile(r"TransportError: (?P<message>.*)", re.DOTALL)


@contextmanager
def headrace_errors() -> Iterator[None]:
    """Raises a Headrace error in place of a Spark exception that one of ours caused; others pass unchanged."""
    try:
        yield
    except (CapturedException, Py4JJavaError) as error:
        translated = translate(error)
        if translated is None:
            raise
        if translated.__cause__ is None:
            translated.__cause__ = error
        translated.__suppress_context__ = True
        raise translated from translated.__cause__


def translate(error: BaseException) -> errors.HeadraceError | None:
    """The Headrace error behind ``error``, or None where Headrace has no part in it."""
    cause: Any = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    for _ in range(_MAX_CAUSES):
        if cause is None:
            return None
        if cause.getClass().getName() == _CLASS:
            return _rebuilt(cause.failure(), str(cause.getMessage()))
        cause = cause.getCause()
    return None


def _rebuilt(failure: str | None, message: str) -> errors.HeadraceError:
    if failure is not None:
        try:
            return Failure.from_json(failure).to_exception()
        except Exception:  # user code can write to a worker's connection: what looks like a failure may be none
            return errors.TransportError(message)
    match = _TRANSPORT.match(message)
    return errors.TransportError(match["message"]) if match else errors.HeadraceError(message)
