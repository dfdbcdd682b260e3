"""Providers and writers that fork, and what their children do; for the tests."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import pyarrow as pa

import headrace as hr
from producing import NUMBERS, numbers

ROWS = 3


@dataclass(frozen=True)
class ForkingPlan(hr.ExecutionPlan):
    """Yields ROWS rows, forks, and yields ROWS more. ``child`` says what the child does instead of going away."""

    child: str
    placement: hr.Placement = hr.Placement.EXECUTORS
    schema = NUMBERS
    partitioning = hr.UnknownPartitioning(1)

    def execute(self, partition: int) -> Iterator[pa.RecordBatch] | AsyncIterator[pa.RecordBatch]:
        return self._async() if self.child == "async" else self._sync()

    def _sync(self) -> Iterator[pa.RecordBatch]:
        yield numbers(ROWS)
        if self.child == "multiprocessing":
            child = multiprocessing.get_context("fork").Process(target=os.getpid)
            child.start()
            child.join()
            assert child.exitcode == 0
        else:
            fork_and(self.child)
        yield numbers(ROWS)

    async def _async(self) -> AsyncIterator[pa.RecordBatch]:
        yield numbers(ROWS)
        fork_and("go on")
        yield numbers(ROWS)


def fork_and(child: str) -> None:
    """Returns in the parent once the child has ended; raises AssertionError if that ended otherwise than expected."""
    pid = os.fork()
    if pid == 0:
        if child == "raise":
            raise LookupError("raised in the child")
        if child == "exit":
            raise SystemExit(7)
        assert child == "go on", child
        return
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status == (7 if child == "exit" else 1), status


@dataclass(frozen=True)
class ForkingReceiver:
    """Takes all batches, and forks before: ``child`` "take" asks for them in the child too. The message: its rows."""

    child: str

    def __call__(self, partition: int, attempt: int, batches: Iterator[pa.RecordBatch]) -> bytes:
        if self.child == "take":
            pid = os.fork()
            if pid == 0:
                try:
                    next(batches)
                except hr.StreamError:
                    os._exit(5)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 5
        else:
            fork_and(self.child)
        return str(sum(batch.num_rows for batch in batches)).encode()
