"""What the JVM that Headrace starts writes to standard error: kept while Spark starts, then passed on; driver."""

from __future__ import annotations

import atexit
import collections
import contextlib
import os
import select
import threading
import time
import uuid
from collections.abc import Mapping
from typing import Any

from py4j.java_gateway import JavaClass, JavaGateway
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from headrace.errors import HeadraceError
from headrace.spark.console import one_line

_LINES_KEPT = 20
_JOIN_SECONDS = 5.0
_DRAIN_SECONDS = 1.0
_GRAVE = (" ERROR ", " FATAL ")
# What Spark logs of a failed task or query, which the exception of the query tells, too.
_TOLD_BY_EXCEPTIONS = (
    r"(?s)Exception in task .*|Task .* in stage .* failed .* times; aborting job|Abort(ing|ed) (task|job|commit).*|"
    r"Job\b.* aborted.*|Data source write support .* abort.*|Query .* terminated with error.*"
)
_jvms: dict[int, JvmErrors] = {}
"""By the id of the gateway, which lives as long as its JVM."""


def start_quietly(settings: Mapping[str, str]) -> SparkSession:
    """A new session, in this process's JVM or a new one. Nothing is printed unless Spark logs an error meanwhile.

    Raises HeadraceError, with the last of what the JVM wrote, where it does not start.
    """
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    errors = _jvms.get(id(SparkContext._gateway)) or JvmErrors()
    errors.keep()
    try:
        if SparkContext._gateway is None:
            gateway = errors.launched(SparkConf().setAll(list(settings.items())))
            SparkContext._ensure_initialized(gateway=gateway)
            _jvms[id(gateway)] = errors
        spark = builder.getOrCreate()
    except Exception as error:  # whatever PySpark raises when Java, or Spark in it, does not come up
        said = [line for line in errors.last_lines() if not line.startswith("\tat ")]
        raise HeadraceError("\n".join([f"Spark did not start: {one_line(error) or error}", *said])) from error
    errors.pass_on(SparkContext._gateway)
    return spark


def leave_failures_to_exceptions(gateway: Any) -> None:
    """The JVM's log has no lines about failed tasks from now on: the query that needed them raises."""
    client = gateway._gateway_client
    result = JavaClass("org.apache.logging.log4j.core.Filter$Result", client)
    log_context = JavaClass("org.apache.logging.log4j.core.LoggerContext", client).getContext(False)
    regex_filter = JavaClass("org.apache.logging.log4j.core.filter.RegexFilter", client)
    for appender in log_context.getConfiguration().getAppenders().values():
        appender.addFilter(regex_filter.createFilter(_TOLD_BY_EXCEPTIONS, None, False, result.DENY, result.NEUTRAL))


class JvmErrors:
    """Standard error of one JVM: a pipe that a thread reads until the JVM ends."""

    def __init__(self) -> None:
        self._lines: collections.deque[str] = collections.deque(maxlen=_LINES_KEPT)
        self._mark = uuid.uuid4().hex
        self._keeps = True
        self._reader: threading.Thread | None = None

    def launched(self, conf: SparkConf) -> JavaGateway:
        """PySpark's gateway to a new JVM. One that ``spark-submit`` started before keeps its standard error."""
        reading, writing = os.pipe()
        self._reader = threading.Thread(target=self._read, args=(reading,), name="headrace-stderr", daemon=True)
        self._reader.start()
        atexit.register(self._drain, reading)
        try:
            return launch_gateway(conf, {"stderr": writing})  # type: ignore[no-untyped-call]
        finally:
            os.close(writing)

    def keep(self) -> None:
        """Print nothing from here on, until Spark has started."""
        self._keeps = True

    def pass_on(self, gateway: Any) -> None:
        """Print what is written from here on. What came before may be on its way yet, so the JVM writes a mark."""
        if self._reader is not None:
            gateway.jvm.System.err.println(self._mark)

    def last_lines(self) -> list[str]:
        """Where the JVM has ended, all that it wrote has been read."""
        if self._reader is not None and SparkContext._gateway is None:
            self._reader.join(_JOIN_SECONDS)
        return list(self._lines)

    def _read(self, reading: int) -> None:
        with open(reading, "rb") as lines:
            for line in lines:
                text = line.decode(errors="replace").rstrip()
                if text == self._mark:
                    self._keeps = False
                    if any(grave in kept for kept in self._lines for grave in _GRAVE):
                        _print("".join(f"{kept}\n" for kept in self._lines).encode())
                    self._lines.clear()
                elif self._keeps:
                    self._lines.append(text)
                else:
                    _print(line)

    def _drain(self, reading: int) -> None:
        """At exit: what Python workers printed is passed on as far as it has come."""
        deadline = time.monotonic() + _DRAIN_SECONDS
        with contextlib.suppress(OSError, ValueError):  # the JVM has ended, and the pipe is closed
            while self._reader is not None and self._reader.is_alive() and time.monotonic() < deadline:
                if not select.select([reading], [], [], 0)[0]:
                    break
                time.sleep(0.01)


def _print(data: bytes) -> None:
    with contextlib.suppress(OSError):  # standard error was closed
        os.write(2, data)
