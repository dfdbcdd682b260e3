"""Streaming tables for tests: filled ones, and producers on threads of their own that remember how they ended."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import headrace as hr
from places import SCRIPTS
from producing import PATIENCE_SECONDS, wait_until
from session_settings import session_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = pa.schema([("a", pa.int64()), ("s", pa.string())])
LIVE = "SELECT a FROM t WHERE a >= 0"


def rows(start: int, count: int = 1) -> pa.RecordBatch:
    """``count`` rows: a = start, start + 1, ...; s = its last digit."""
    numbers = range(start, start + count)
    return pa.record_batch([pa.array(numbers, pa.int64()), pa.array([str(n % 10) for n in numbers])], schema=ROWS)


def filled(ctx: hr.SessionContext, name: str, count: int = 100, *, partitions: int = 1) -> hr.TableSink:
    """A closed streaming table of rows 0 .. count - 1, out of order, in a few batches over all partitions."""
    sink = ctx.register_streaming_table(name, ROWS, partitions=partitions)
    with sink:
        for i, start in enumerate(range(count - 10, -10, -10)):
            sink.partition(i % partitions).write(rows(max(start, 0), min(10, start + 10)))
    return sink


def reading(sink: hr.TableSink) -> None:
    """Waits until a query has begun to read."""
    wait_until(lambda: sink.stats.rows_delivered > 0, what="the first rows to be read")


class Producer(threading.Thread):
    """Runs ``write(i)`` for i = 0, 1, ... until that raises, and keeps what it raised."""

    def __init__(self, write: Callable[[int], None]) -> None:
        super().__init__(daemon=True)
        self._write = write
        self.written = 0
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            while True:
                self._write(self.written)
                self.written += 1
        except BaseException as error:
            self.error = error

    def ended(self) -> BaseException:
        """What ended it; fails the test if nothing does, soon."""
        wait_until(lambda: self.error is not None, PATIENCE_SECONDS, "the producer's end")
        assert self.error is not None
        return self.error

    def scan_ended(self) -> str:
        """The reason that it was told; fails the test if it was anything but the end of the scan."""
        error = self.ended()
        assert type(error) is hr.ScanEndedError, repr(error)
        return str(error)


class InBackground(threading.Thread):
    """Runs a function on a thread of its own, whose result or error is asked for later."""

    def __init__(self, function: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self._function = function
        self._result: object = None
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._result = self._function()
        except BaseException as error:
            self._error = error

    def result(self, patience_s: float = 60.0) -> object:
        self.join(patience_s)
        assert not self.is_alive(), "it hangs"
        if self._error is not None:
            raise self._error
        return self._result

    def error(self, patience_s: float = 60.0) -> BaseException:
        self.join(patience_s)
        assert not self.is_alive(), "it hangs"
        assert self._error is not None, f"it succeeded with {self._result!r}"
        return self._error


@contextmanager
def settings(spark: SparkSession, **values: object) -> Iterator[None]:
    """Sets ``spark.sql.*``; ``__`` stands for a dot."""
    names = {f"spark.sql.{name.replace('__', '.')}": str(value).lower() for name, value in values.items()}
    with session_settings(spark, names):
        yield


def running_jobs(spark: SparkSession) -> int:
    return len(spark.sparkContext.statusTracker().getActiveJobsIds())


@cache
def findings(script: str, *arguments: str, timeout_s: float = 110) -> dict[str, Any]:
    """Runs a script that prints what it found as JSON on its last line; once for all who ask."""
    command = [sys.executable, str(SCRIPTS / script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found
