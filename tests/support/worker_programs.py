"""What a worker does in the tests that play the JVM's side of its connection: small programs, step by step."""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

import headrace as hr
from headrace.execute.partition_stream import ScanTask
from producing import NUMBERS

FOREVER = 1e9


class Ring:
    """Garbage that only the collector frees, and that takes its time to go."""

    def __init__(self, seconds: float) -> None:
        self.own = self
        self.seconds = seconds

    def __del__(self) -> None:
        time.sleep(self.seconds)


class HardToInterrupt:
    """Rows whose ``interrupt`` never returns."""

    def __init__(self, rows: Iterator[pa.RecordBatch]) -> None:
        self._rows = rows

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self._rows

    def interrupt(self) -> None:
        time.sleep(FOREVER)


@dataclass(frozen=True)
class Program(hr.ExecutionPlan):
    """Each step is a word and a number: seconds, or how many rows. The rows of one program all hold ``number``."""

    number: int
    steps: tuple[tuple[str, float], ...]
    schema = NUMBERS
    partitioning = hr.UnknownPartitioning(1)

    def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
        rows = self._run()
        return HardToInterrupt(rows) if ("deaf", 1) in self.steps else rows

    def _run(self) -> Iterator[pa.RecordBatch]:
        for word, amount in self.steps:
            if word == "rows":
                yield pa.record_batch([pa.array([self.number] * int(amount), pa.int64())], schema=NUMBERS)
            elif word == "sleep":
                time.sleep(amount)
            elif word == "hold":
                hold_the_interpreter(amount)
            elif word == "garbage":
                Ring(amount)
            elif word == "import":
                import_slowly()
            elif word == "deaf":
                continue
            elif word == "raise":
                raise LookupError(f"raised by {self.number}")
            else:
                raise AssertionError(word)

    @property
    def rows(self) -> int:
        """All rows that come before it ends or raises."""
        return sum(int(amount) for word, amount in self.steps if word == "rows")


def hold_the_interpreter(seconds: float) -> None:
    """One call into C during which no other thread of Python's runs."""
    ctypes.PyDLL(None).usleep(int(seconds * 1e6))


def import_slowly() -> None:
    half = sys.modules.pop("slow_to_import", None)
    if half is not None and not hasattr(half, "WHOLE"):
        raise AssertionError("an import was stopped half-way")
    import slow_to_import

    assert slow_to_import.WHOLE


def task_of(program: hr.ExecutionPlan) -> ScanTask:
    return ScanTask("t", program, NUMBERS, NUMBERS, None)
