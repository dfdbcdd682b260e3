"""StreamProvider: what a user implements for a table that grows; runs in the driver process."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.arguments import check_fields
from headrace.errors import PlanError
from headrace.plan import ExecutionPlan, ScanRequest
from headrace.provider import TableProvider

Offset = Any
"""A place in a stream: any JSON value but null. Offsets are compared by their canonical JSON."""


@dataclass(frozen=True)
class ReadLimit:
    """How far one micro-batch may go. All None: as far as there is data.

    ``max_rows`` and ``max_bytes`` come from the options ``maxRowsPerTrigger`` and ``maxBytesPerTrigger``: about as
    many, and at least something where there is something. ``until``: an offset to stop at, availableNow's end.
    """

    max_rows: int | None = None
    max_bytes: int | None = None
    until: Offset | None = None

    def __post_init__(self) -> None:
        check_fields(self)


class StreamProvider(TableProvider):
    """A table that grows. ``ctx.stream(name)`` reads it as a stream; a batch query needs ``scan`` as well.

    All methods are called on threads of Spark's, one at a time for one query, any number of queries at once. What they
    raise fails the streaming query with its class and message.
    """

    @abstractmethod
    def initial_offset(self) -> Offset:
        """Where a query without a checkpoint starts. Asked repeatedly: it stays the same."""

    @abstractmethod
    def latest_offset(self, start: Offset, limit: ReadLimit) -> Offset:
        """How far a micro-batch that starts at ``start`` can go now; ``start`` itself where there is nothing new.

        It may be less than all that there is, also without a limit: availableNow asks again from each answer.
        """

    @abstractmethod
    def scan_between(self, start: Offset, end: Offset, request: ScanRequest) -> ExecutionPlan:
        """Arrange a scan of what came after ``start``, up to ``end``. The same range gives the same rows, also after a
        restart of the program. Cheap, without I/O, as ``scan`` is. Raises OffsetLostError where the rows are gone.
        """

    def commit(self, end: Offset) -> None:
        """Everything before ``end`` was processed, and no query asks for it again. Called late, and repeatedly."""
        return None

    def rows_behind(self, offset: Offset) -> int | None:
        """How many rows came after ``offset``, for the query's progress; None where that is not known.

        Without it Headrace takes the difference of offsets that are whole numbers. Called once a micro-batch.
        """
        return None

    def scan(self, request: ScanRequest) -> ExecutionPlan:
        """A batch query: what is in the table now. By default there is none."""
        raise PlanError(f"{type(self).__name__} is a stream, and has no batch scan: read it with ctx.stream(name)")

    def advanced(self) -> None:
        """Something came: queries that wait ask ``latest_offset`` now. Any thread, any time; it is never lost.

        A provider that never calls it is asked every second.
        """
        for wake in listeners_of(self):
            wake()

    def _why_no_stream(self) -> str | None:
        """Why this very table cannot be read as a stream: of a ready-made one that was not told how. None if it can."""
        return None


def why_no_stream(provider: TableProvider) -> str | None:
    """Why a table cannot be read as a stream, and what to do; None if it can. Cheap, and raises nothing."""
    if not isinstance(provider, StreamProvider):
        return f"{type(provider).__name__} is no StreamProvider"
    return provider._why_no_stream()


def has_batch_scan(provider: TableProvider) -> bool:
    """Whether a batch query of it works: a stream may have no ``scan``."""
    return type(provider).scan is not StreamProvider.scan


def stream_of(provider: TableProvider) -> StreamProvider:
    """The provider as a stream. Raises PlanError where it is none."""
    if not isinstance(provider, StreamProvider):
        raise PlanError(f"{type(provider).__name__} is no StreamProvider")
    return provider


_lock = threading.Lock()
_listeners: dict[int, dict[object, Callable[[], None]]] = {}
"""By the provider's id: one that is a dataclass has no hash. Whoever listens keeps the provider alive."""


def listeners_of(provider: StreamProvider) -> list[Callable[[], None]]:
    """Who waits for the provider to advance."""
    with _lock:
        return list(_listeners.get(id(provider), {}).values())


def listen(provider: StreamProvider, wake: Callable[[], None]) -> Callable[[], None]:
    """Have ``wake`` called whenever the provider advances; returns what ends that. Any thread."""
    token = object()
    with _lock:
        _listeners.setdefault(id(provider), {})[token] = wake

    def forget() -> None:
        with _lock:
            waiting = _listeners.get(id(provider), {})
            waiting.pop(token, None)
            if not waiting:
                _listeners.pop(id(provider), None)

    return forget
