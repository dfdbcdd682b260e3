"""What the JVM asks about the offsets of streams, from its JSON to Python and back; driver Python, thread-safe."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from headrace.errors import ClosedError, DeregisteredError
from headrace.negotiate.reading import StreamReading
from headrace.negotiate.registry import RegisteredTable
from headrace.spark import words
from headrace.spark.ended import EndedIds


class Streams:
    """The streams that Spark reads, each by the id that the JVM chose: ``answers``, by the operations' names.

    The ranges of a stream are planned as scans are (``Scans``). The JVM tells when a query has stopped.
    """

    def __init__(self, find_table: Callable[[str], RegisteredTable | None]) -> None:
        self._find_table = find_table
        self._lock = threading.Lock()
        self._readings: dict[str, StreamReading] = {}
        self._ended = EndedIds()
        self._closed = False
        self.answers: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            words.STREAM_INITIAL: self._initial,
            words.STREAM_LATEST: self._latest,
            words.STREAM_WAIT: self._wait,
            words.STREAM_COMMIT: self._commit,
            words.STREAM_BEHIND: self._behind,
            words.STREAM_END: self._end,
        }

    def __len__(self) -> int:
        return len(self._readings)

    def close(self) -> None:
        """No stream goes on: those that wait end. Idempotent."""
        with self._lock:
            self._closed = True
            readings = list(self._readings.values())
            self._readings.clear()
        for reading in readings:
            reading.close()

    def _initial(self, question: dict[str, Any]) -> dict[str, Any]:
        return {words.START: self._reading(question).initial()}

    def _latest(self, question: dict[str, Any]) -> dict[str, Any]:
        latest = self._reading(question).latest(
            question[words.START],
            question[words.MAX_ROWS],
            question[words.MAX_BYTES],
            available_now=question[words.AVAILABLE_NOW],
        )
        return {words.END: latest.end, words.ADVANCES: latest.advances}

    def _wait(self, question: dict[str, Any]) -> dict[str, Any]:
        """The JVM waits on a thread of its own, perhaps a moment longer than the query reads."""
        with self._lock:
            reading = self._readings.get(question[words.STREAM])
        if reading is not None:
            reading.wait(question[words.ADVANCES])
        return {}

    def _commit(self, question: dict[str, Any]) -> dict[str, Any]:
        self._reading(question).commit(question[words.END])
        return {}

    def _behind(self, question: dict[str, Any]) -> dict[str, Any]:
        return {words.ROWS: self._reading(question).rows_behind(question[words.END])}

    def _end(self, question: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            self._ended.add(question[words.STREAM])
            reading = self._readings.pop(question[words.STREAM], None)
        if reading is not None:
            reading.close()
        return {}

    def _reading(self, question: dict[str, Any]) -> StreamReading:
        """Made when it is first heard of. Raises ClosedError where the query has stopped, or the context closed."""
        table_id = question[words.TABLE]
        with self._lock:
            if self._closed:
                raise ClosedError("the session context of this stream is closed")
            if question[words.STREAM] in self._ended:
                raise ClosedError("the query that read this stream has stopped")
            reading = self._readings.get(question[words.STREAM])
            if reading is None:
                table = self._find_table(table_id)
                if table is None:
                    raise DeregisteredError(
                        "the table of this streaming DataFrame was deregistered or replaced; make the DataFrame again"
                    )
                reading = StreamReading(table, lambda: self._find_table(table_id) is not None)
                self._readings[question[words.STREAM]] = reading
            return reading
