"""Providers for tests whose partitions are made by a function, and what is needed to watch them from outside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import headrace as hr
from places import SCRIPTS

NUMBERS = pa.schema([("a", pa.int64())])
BOTH_PLACEMENTS = (hr.Placement.EXECUTORS, hr.Placement.DRIVER)


class FunctionPlan(hr.ExecutionPlan):
    """``execute(i)`` is ``function(i)``."""

    def __init__(
        self, schema: pa.Schema, function: Callable[[int], Any], partitions: int, placement: hr.Placement
    ) -> None:
        self.schema = schema
        self.function = function
        self.partitioning = hr.UnknownPartitioning(partitions)
        self.placement = placement

    def execute(self, partition: int) -> Any:
        return self.function(partition)


class FunctionTable(hr.TableProvider):
    """A table whose partition *i* is what ``function(i)`` returns."""

    def __init__(
        self,
        function: Callable[[int], Any],
        *,
        schema: pa.Schema = NUMBERS,
        partitions: int = 1,
        placement: hr.Placement = hr.Placement.EXECUTORS,
    ) -> None:
        self.table_schema = schema
        self.function = function
        self.partitions = partitions
        self.placement = placement

    def schema(self) -> pa.Schema:
        return self.table_schema

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        return FunctionPlan(self.table_schema, self.function, self.partitions, self.placement)


def numbers(count: int, start: int = 0) -> pa.RecordBatch:
    """One batch ``a = start .. start + count - 1``."""
    return pa.record_batch([pa.array(range(start, start + count), pa.int64())], schema=NUMBERS)


def ten_rows(partition: int) -> Iterator[pa.RecordBatch]:
    """Ten rows per partition, numbered through."""
    yield numbers(10, partition * 10)


PATIENCE_SECONDS = 60.0  # until a test gives up; says nothing of speed: what it waits for would never come by itself


def wait_until(condition: Callable[[], bool], timeout_s: float = PATIENCE_SECONDS, what: str = "the condition") -> None:
    """Waits for a condition; fails the test where it never holds."""
    start = time.monotonic()
    while not condition():
        if time.monotonic() - start > timeout_s:
            raise AssertionError(f"{what} did not come true within {timeout_s} s")
        time.sleep(0.005)


class Marks:
    """Files that user code leaves behind, in whatever process it runs."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def leave(self, name: str, text: str = "") -> None:
        scratch = self.directory / f".{name}"
        scratch.write_text(text)
        scratch.rename(self.directory / name)

    def has(self, name: str) -> bool:
        return (self.directory / name).exists()

    def text(self, name: str) -> str:
        return (self.directory / name).read_text()

    def count(self, prefix: str) -> int:
        return sum(1 for _ in self.directory.glob(f"{prefix}*"))


SOURCES = Path(hr.__file__).parent.parent


def bare_environment() -> dict[str, str]:
    """This process's, without what says where Headrace, Python or Spark are."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYSPARK", "SPARK"))}
    return kept | {"SPARK_SUBMIT_OPTS": os.environ.get("SPARK_SUBMIT_OPTS", "")}


def run_script(name: str, *arguments: str, cwd: Path, python: str = sys.executable, timeout_s: float = 170) -> Any:
    """Runs a script of tests/support/scripts as a user would and returns the JSON that it prints last.

    Its environment says nothing of where to find Headrace or Python, only how a JVM is started quickly.
    """
    process = subprocess.run(
        [python, str(SCRIPTS / name), *arguments],
        cwd=cwd,
        env=bare_environment(),
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
    results = [line for line in process.stdout.splitlines() if line.startswith("RESULT ")]
    assert results, f"{name} ended with {process.returncode}:\n{process.stdout[-3000:]}\n{process.stderr[-5000:]}"
    return json.loads(results[-1].removeprefix("RESULT "))
