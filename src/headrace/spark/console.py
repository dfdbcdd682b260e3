"""Errors of Spark for a command line: one line each; driver Python."""

from __future__ import annotations

import re

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

_SQLSTATE = re.compile(r"\s*SQLSTATE: \w+")


def one_line(error: BaseException) -> str | None:
    """What a Spark exception says, without its plan, its SQL excerpt and its stack; None for other exceptions."""
    if isinstance(error, Py4JJavaError):
        text = str(error.java_exception)
    elif isinstance(error, PySparkException):
        text = str(error)
    else:
        return None
    first = next((line for line in text.splitlines() if line.strip()), type(error).__name__)
    return _SQLSTATE.sub("", first).strip().rstrip(";")
