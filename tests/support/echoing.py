"""A task that receives and only the tests have: it echoes what it is sent, and does on the way what it is told to."""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from headrace.execute.receiving import Receive, ReceivingTask
from producing import NUMBERS


@dataclass
class Echo:
    """Takes all batches. ``steps`` say what happens after how many of them: a word for each number.

    The message is how many rows and batches came, their checksum, and who received them. What the code saw in the end
    is appended to the file ``seen``.
    """

    number: int = 0
    steps: tuple[tuple[int, str], ...] = ()
    seen: str = ""

    def __call__(self, partition: int, attempt: int, batches: Iterator[pa.RecordBatch]) -> bytes:
        rows = count = checksum = 0
        try:
            self._say("begun")  # inside: it may be stopped from here on
            self._do(0)
            for batch in batches:
                count += 1
                rows += batch.num_rows
                checksum = checksum_of(batch, checksum)
                self._do(count)
            self._say("end")
        except BaseException as error:
            self._say(type(error).__name__)
            if any(word == "deny" for _, word in self.steps):
                return b"all is well"
            raise
        finally:
            self._say("finally")
        if any(word == "large" for _, word in self.steps):
            return bytes(2 << 20)
        return message(self.number, partition, rows, count, checksum)

    def _do(self, count: int) -> None:
        for after, word in self.steps:
            if after != count:
                continue
            if word == "sleep":
                self._say("sleeping")
                while True:  # a single call into C would not be interrupted in the driver's process
                    time.sleep(0.01)
            elif word == "pause":
                time.sleep(0.02)
            elif word == "raise":
                raise LookupError(f"raised by {self.number}")
            elif word == "exit":
                raise SystemExit(3)
            elif word == "die":
                os._exit(9)
            elif word == "leave":
                raise Leave
            else:
                assert word in ("deny", "large"), word

    def _say(self, word: str) -> None:
        if self.seen:
            with open(self.seen, "a") as file:
                file.write(f"{word}\n")


class Leave(Exception):
    """To be told apart from other errors by ``EarlyEcho``."""


class EarlyEcho(Echo):
    """One that returns where it is told to leave."""

    def __call__(self, partition: int, attempt: int, batches: Iterator[pa.RecordBatch]) -> bytes:
        try:
            return super().__call__(partition, attempt, batches)
        except Leave:
            return b"early"


def words(path: Path) -> list[str]:
    """What the code said so far."""
    return path.read_text().split() if path.exists() else []


def checksum_of(batch: pa.RecordBatch, before: int = 0) -> int:
    for column in batch.columns:
        before = zlib.crc32(repr(column.to_pylist()).encode(), before)
    return before


def message(number: int, partition: int, rows: int, batches: int, checksum: int) -> bytes:
    return json.dumps([number, partition, rows, batches, checksum]).encode()


def echo_task(echo: Receive, schema: pa.Schema = NUMBERS) -> ReceivingTask:
    return ReceivingTask("t", schema, "Echo.write", echo)


def batches_of(number: int, count: int) -> list[pa.RecordBatch]:
    return [pa.record_batch([pa.array([number, i, None], pa.int64())], schema=NUMBERS) for i in range(count)]


def echoed(number: int, batches: list[pa.RecordBatch], partition: int = 0) -> bytes:
    """The message for these batches."""
    checksum = 0
    for batch in batches:
        checksum = checksum_of(batch, checksum)
    return message(number, partition, sum(batch.num_rows for batch in batches), len(batches), checksum)
