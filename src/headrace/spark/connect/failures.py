"""From the exceptions of a Spark Connect client back to Headrace's own; driver Python.

The connector gives the record of an error to Spark as one more parameter of Spark's message, which no text shows. The
server tells a client the parameters of an error and of its causes, as data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.errors import PySparkException
from pyspark.errors.exceptions.connect import SparkConnectGrpcException

from headrace.errors import HeadraceError, TransportError
from headrace.execute.failure import error_of
from headrace.spark.failures import cancelled

_RECORD = "headrace"  # the parameter; see HeadraceException in Java
_CANCELLED = ("OPERATION_CANCELED", "SPARK_JOB_CANCELLED")
_NOBODY_ANSWERS, _DETAILS = "StatusCode.UNAVAILABLE", "details ="  # in the text of a gRPC error
_FORGOTTEN = ("INVALID_HANDLE.SESSION_", "INVALID_HANDLE.OPERATION_NOT_FOUND", "RESPONSE_ALREADY_RECEIVED")


def be_told_of_causes(client: Any) -> None:
    """From now on an exception of ``client`` shows the first of its causes that has a record, if any has.

    PySpark drops the causes. Spark wraps what a subquery or one of several stages failed with, and the text of the
    wrapping says nothing of it. For the calls of PySpark too. A PySpark without that method shows what it shows.
    """
    fetch = getattr(client, "_fetch_enriched_error", None)
    if fetch is not None and not isinstance(fetch, _Causes):
        client._fetch_enriched_error = _Causes(fetch)


class _Causes:
    """Asks the server for the details of an error, as PySpark does with each, and chooses what it shows of them."""

    def __init__(self, fetch: Callable[[Any], Any]) -> None:
        self._fetch = fetch

    def __call__(self, info: Any) -> Any:
        """``info`` is what the server said at first; from that Spark 4.0 leaves out the condition if it is long."""
        details = self._fetch(info)
        for index, error in enumerate(details.errors if details is not None else ()):
            if _RECORD in error.spark_throwable.message_parameters:
                details.root_error_idx = index
                info.metadata["errorClass"] = error.spark_throwable.error_class
                break
        return details


def lost_server(seen: str) -> TransportError:
    """What to tell of a server of which ``seen`` was seen."""
    return TransportError(
        f"the Spark Connect server {seen}; close this SessionContext, and make a new session and a new context"
    )


def lost_behind(error: BaseException) -> TransportError | None:
    """What to tell where ``error`` says that the server does not answer any more, or knows nothing of the session."""
    if not isinstance(error, PySparkException):
        return None
    message = _message(error)
    lost: TransportError | None = None
    if isinstance(error, SparkConnectGrpcException) and _NOBODY_ANSWERS in message.partition(_DETAILS)[0]:
        lost = lost_server("does not answer any more")
    elif any(name in message.partition("]")[0] for name in _FORGOTTEN):
        lost = lost_server("knows this session no more: it was closed, or the server was started again")
    if lost is not None:
        lost.__cause__ = error
    return lost


def _message(error: PySparkException) -> str:
    return str(getattr(error, "_message", None) or error)


def translate(error: BaseException) -> HeadraceError | None:
    """The Headrace error behind ``error``, or None where Headrace has no part in it. Never raises."""
    if not isinstance(error, PySparkException):
        return None
    message = _message(error)
    record = (error.getMessageParameters() or {}).get(_RECORD)
    if record is not None:
        return error_of(record, message)
    if error.getCondition() in _CANCELLED:
        return cancelled(message)
    return lost_behind(error)
