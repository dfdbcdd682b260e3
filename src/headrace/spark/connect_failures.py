"""From the exceptions of a Spark Connect client back to Headrace's own; driver Python."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException

import headrace.errors as errors
from headrace.execute.failure_text import failure_from_text

_OF_A_TASK = "org.apache.spark.SparkException: "  # what PlainErrorsReader throws, where Spark has wrapped it
_AFTER_IT = "\n\nDriver stacktrace:"
_CANCELLED = ("OPERATION_CANCELED", "SPARK_JOB_CANCELLED")


@contextmanager
def headrace_errors() -> Iterator[None]:
    """Raises a Headrace error in place of an exception of Connect's that one of ours caused; others pass unchanged."""
    try:
        yield
    except PySparkException as error:
        translated = translate(error)
        if translated is None:
            raise
        raise translated from translated.__cause__


def translate(error: BaseException) -> errors.HeadraceError | None:
    """The Headrace error behind ``error``, or None where Headrace has no part in it."""
    if not isinstance(error, PySparkException):
        return None
    message = str(getattr(error, "_message", None) or error)
    before, _, wrapped = message.partition(_OF_A_TASK)
    failure = failure_from_text(message) or failure_from_text(wrapped.partition(_AFTER_IT)[0])
    if failure is not None:
        return failure.to_exception()
    if any(name in before for name in _CANCELLED):
        return errors.ScanEndedError(f"the query was cancelled: {message.splitlines()[0]}")
    return None
