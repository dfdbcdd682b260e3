"""A task that receives: code of the user's over the batches that Spark sends; runs where that code runs."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from headrace.errors import HeadraceError, StreamError
from headrace.execute.failure import Failure
from headrace.execute.stopping import StopFlag

Receive = Callable[[int, int, Iterator[pa.RecordBatch]], bytes]
"""Takes a partition's number, Spark's id of the task attempt, and all batches; returns the message for the driver."""


@dataclass(frozen=True)
class ReceivingTask:
    """Everything needed to receive any partition; pickled for EXECUTORS placement."""

    table: str
    schema: pa.Schema
    """Of the batches that Spark sends, in wire types."""
    place: str
    """Who is blamed for an error: the class and method of the user's that ``receive`` calls."""
    receive: Receive

    def who(self, partition: int) -> str:
        """The subject of an error's sentence."""
        return f"{self.place} (table {self.table!r}, partition {partition})"

    def failure(self, error: BaseException, partition: int) -> Failure:
        return Failure.of(error, where=self.place, table=self.table, partition=partition)


class OfferedBatches(Iterator[pa.RecordBatch]):
    """The batches as user code sees them: an iterator that ends only when the stream did.

    While it waits for the next batch its thread is not inside of user code, and a stop need not interrupt it: whoever
    stops it ends the connection too. Once it has raised an error it raises that again, and ``check`` does too: code
    cannot pass over it. Any number of threads, one after the other.
    """

    def __init__(self, received: Iterator[pa.RecordBatch], stop: StopFlag, who: str = "it") -> None:
        self.reading = threading.Lock()
        """Held while the connection is read."""
        self._received = received
        self._stop = stop
        self._who = who
        self._error: BaseException | None = None

    def __next__(self) -> pa.RecordBatch:
        if self._stop.process.is_child:
            raise StreamError(
                f"{self._who} was forked: batches come to process {self._stop.process.pid} alone, not to its child "
                f"{os.getpid()}. Take them in the parent, and give the child what it needs"
            )
        self._stop.leave()
        batch = self._next()
        self._stop.enter()
        if batch is None:
            raise StopIteration
        return batch

    def _next(self) -> pa.RecordBatch | None:
        if self._error is not None:
            raise self._error
        try:
            with self.reading:
                return next(self._received, None)
        except BaseException as error:
            self._error = error
            raise

    def check(self) -> None:
        """To be called when user code has returned. Raises what it was told and passed over, and for rows it left."""
        while (batch := self._next()) is not None:
            if batch.num_rows:
                raise StreamError(
                    f"{self._who} returned before it had taken all batches, and the rest would be lost: iterate to the "
                    "end"
                )


def checked_message(message: object, most_bytes: int, who: str = "it") -> bytes:
    """What user code returned. Raises HeadraceError where that cannot be sent to the driver."""
    if not isinstance(message, bytes):
        raise HeadraceError(f"{who} returned {type(message).__name__}, expected bytes")
    if len(message) > most_bytes:
        raise HeadraceError(
            f"{who} returned a message of {len(message):,} bytes, and the driver takes {most_bytes:,}: store what is "
            "long where the rows go, and return how to find it"
        )
    return message
