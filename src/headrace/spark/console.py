"""Spark behind a command line: started without its chatter, its errors in one line; driver Python."""

from __future__ import annotations

import collections
import contextlib
import logging
import os
import re
import sys
import threading
from collections.abc import Iterator

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from headrace.errors import HeadraceError
from headrace.spark.session import SessionContext

_SQLSTATE = re.compile(r"\s*SQLSTATE: \w+")
_LINES_KEPT = 20


def quiet_session() -> SessionContext:
    """A SessionContext whose Spark writes nothing to standard error itself; what Python workers print does come.

    Attaches to a Spark that runs in this process already, as it is. Raises HeadraceError, with the last of what
    Spark wrote, if it does not start.
    """
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # pyspark's: every error, as JSON
    if SparkContext._active_spark_context is not None:
        return SessionContext()
    chatter = _Chatter()
    try:
        with chatter.captured():
            context = SessionContext()
            context.spark.sparkContext.setLogLevel("OFF")  # failed tasks are reported by the query that needed them
    except HeadraceError:
        raise
    except Exception as error:  # whatever pyspark raises when Java does not come up
        said = "\n".join(chatter.lines)
        raise HeadraceError(f"Spark did not start: {type(error).__name__}: {error}\n{said}".rstrip()) from error
    return context


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


class _Chatter:
    """What the JVM writes to standard error: dropped while it starts, passed on afterwards.

    The JVM inherits the file descriptor when it starts and keeps it, so it gets a pipe that a thread reads until
    the JVM ends.
    """

    def __init__(self) -> None:
        self.lines: collections.deque[str] = collections.deque(maxlen=_LINES_KEPT)
        self._starting = True

    @contextlib.contextmanager
    def captured(self) -> Iterator[None]:
        sys.stderr.flush()
        terminal = os.dup(2)
        reading, writing = os.pipe()
        threading.Thread(target=self._pump, args=(reading,), name="headrace-stderr", daemon=True).start()
        os.dup2(writing, 2)
        os.close(writing)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(terminal, 2)
            os.close(terminal)
            self._starting = False

    def _pump(self, reading: int) -> None:
        with open(reading, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if self._starting:
                    self.lines.append(line.rstrip())
                else:
                    with contextlib.suppress(ValueError, OSError):  # standard error was closed at exit
                        sys.stderr.write(line)
                        sys.stderr.flush()
