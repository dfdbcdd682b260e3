"""From the exceptions of a Spark Connect client back to Headrace's own; driver Python."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException
from pyspark.errors.exceptions.connect import SparkConnectGrpcException

import headrace.errors as errors
from headrace.execute.failure_text import failure_from_text

_OF_A_TASK = "org.apache.spark.SparkException: "  # what PlainErrorsReader throws, where Spark has wrapped it
_AFTER_IT = "\n\nDriver stacktrace:"
_CANCELLED = ("OPERATION_CANCELED", "SPARK_JOB_CANCELLED")
_NOBODY_ANSWERS, _DETAILS = "StatusCode.UNAVAILABLE", "details ="  # in the text of a gRPC error
_FORGOTTEN = ("INVALID_HANDLE.SESSION_", "INVALID_HANDLE.OPERATION_NOT_FOUND", "RESPONSE_ALREADY_RECEIVED")
_ANOTHER_SESSION = "close this SessionContext, and make a new session and a new context"


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


@contextmanager
def naming_a_lost_server() -> Iterator[None]:
    """Raises TransportError in place of Connect's exceptions about a server that is gone; others pass unchanged."""
    try:
        yield
    except PySparkException as error:
        lost = server_lost(error)
        if lost is None:
            raise
        raise lost from error


def server_lost(error: PySparkException) -> errors.TransportError | None:
    """What to tell where the server does not answer any more, or knows nothing of the session."""
    message = _message(error)
    if isinstance(error, SparkConnectGrpcException) and _NOBODY_ANSWERS in message.partition(_DETAILS)[0]:
        return errors.TransportError(f"the Spark Connect server does not answer any more; {_ANOTHER_SESSION}")
    if any(name in message.partition("]")[0] for name in _FORGOTTEN):
        return errors.TransportError(
            "the Spark Connect server knows this session no more: it was closed, or the server was started again; "
            + _ANOTHER_SESSION
        )
    return None


def _message(error: PySparkException) -> str:
    return str(getattr(error, "_message", None) or error)


def translate(error: BaseException) -> errors.HeadraceError | None:
    """The Headrace error behind ``error``, or None where Headrace has no part in it."""
    if not isinstance(error, PySparkException):
        return None
    message = _message(error)
    before, _, wrapped = message.partition(_OF_A_TASK)
    failure = failure_from_text(message) or failure_from_text(wrapped.partition(_AFTER_IT)[0])
    if failure is not None:
        return failure.to_exception()
    if any(name in before for name in _CANCELLED):
        return errors.ScanEndedError(f"the query was cancelled: {message.splitlines()[0]}")
    return server_lost(error)
