"""One streaming query's reading of a stream: where it begins, how far it can go, when to ask again; driver Python."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from headrace.errors import ClosedError, DeregisteredError, PlanError
from headrace.negotiate.asking import asking, kind_of
from headrace.negotiate.offsets import checked_text, ends_until_now, goes_back, offset_of
from headrace.negotiate.registry import RegisteredTable
from headrace.stream import ReadLimit, listen, stream_of

_LOG = logging.getLogger("headrace")
MOST_STEPS = 10_000
"""Of what is available now, if the provider caps its own steps: one that has ever more ends a query there."""
ASKED_SECONDS = 1.0
"""How often a provider is asked that never says that it advanced. It is also how soon a lost table is noticed."""
LONGEST_WAIT_SECONDS = 10.0
"""How often one is asked that does say so: a call that it forgot costs no more than this."""


@dataclass(frozen=True)
class Latest:
    """How far a micro-batch can go. ``advances``: how often the provider had advanced before it was asked."""

    end: str
    advances: int


class StreamReading:
    """Asks the provider and checks its answers. Offsets come and go as canonical JSON.

    Spark asks one thing at a time; ``wait`` runs beside that, on another thread, and so may ``close``. Every method
    raises PlanError where the provider broke the contract, ProviderRaised where its code raised, DeregisteredError
    where the table is gone, ClosedError after ``close``.
    """

    def __init__(self, table: RegisteredTable, is_registered: Callable[[], bool]) -> None:
        self.table = table
        self._provider = stream_of(table.provider)
        self._is_registered = is_registered
        self._changed = threading.Condition()
        self._advances = 0
        self._closed = False
        self._until: str | None = None
        self._steps: dict[str, str] = {}
        self._head: Any = None
        self._head_at = 0.0
        self._forget = listen(self._provider, self._advanced)

    def close(self) -> None:
        """Nobody reads any more; a ``wait`` under way ends. Idempotent, any thread."""
        self._forget()
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _advanced(self) -> None:
        with self._changed:
            self._advances += 1
            self._changed.notify_all()

    def initial(self) -> str:
        """Where a query without a checkpoint starts."""
        self._require()
        where = self._method("initial_offset")
        with asking(where, self.table.name):
            offset = self._provider.initial_offset()
        return checked_text(offset, where, self.table.name)

    def latest(
        self, start: str, max_rows: int | None = None, max_bytes: int | None = None, *, available_now: bool = False
    ) -> Latest:
        """How far a micro-batch from ``start`` can go; ``start`` itself where there is nothing new.

        ``available_now``: no further than what there was when this was first asked, and without limits in the steps
        in which the provider answered then.
        """
        with self._changed:
            advances = self._advances  # before the provider is asked: one that advances meanwhile is asked again
        if not available_now:
            return Latest(self._ask_latest(start, ReadLimit(max_rows, max_bytes)), advances)
        if self._until is None:
            ends = [start, *self.ends_until_now(start)]
            self._steps, self._until = dict(pairwise(ends)), ends[-1]
        until = self._until
        if start == until or (max_rows is None and max_bytes is None):
            return Latest(self._steps.get(start, until), advances)
        end = self._ask_latest(start, ReadLimit(max_rows, max_bytes, offset_of(until)))
        if end == start:
            raise PlanError(
                f"{self._method('latest_offset')} found nothing after {start} (table {self.table.name!r}), expected "
                f"something: it answered {until} when the query began to read what is available now"
            )
        return Latest(until if goes_back(offset_of(end), offset_of(until)) else end, advances)

    def ends_until_now(self, start: str) -> list[str]:
        """The ends of the steps from ``start`` to where the table is now, in the provider's own steps; empty where
        nothing is new."""
        where = f"{self._method('latest_offset')} (table {self.table.name!r})"
        ends = ends_until_now(start, lambda offset: self._ask_latest(offset, ReadLimit()), where, MOST_STEPS)
        if len(ends) == MOST_STEPS:
            _LOG.warning(
                "%s was asked %d times and still has more than %s: the query ends there, and the next one goes on; let "
                "it answer in larger steps",
                where,
                MOST_STEPS,
                ends[-1],
            )
        return ends

    def _ask_latest(self, start: str, limit: ReadLimit) -> str:
        self._require()
        where = self._method("latest_offset")
        with asking(where, self.table.name):
            offset = self._provider.latest_offset(offset_of(start), limit)
        end = checked_text(offset, where, self.table.name)
        if goes_back(offset_of(start), offset_of(end)):
            raise PlanError(
                f"{where} went back from {start} to {end} (table {self.table.name!r}), expected {start} or more: "
                "offsets that are numbers only grow. Rows that are gone are told by an hr.OffsetLostError"
            )
        if limit == ReadLimit():
            self._head, self._head_at = offset_of(end), time.monotonic()
        return end

    def wait(self, advances: int) -> None:
        """Returns when it is time to ask ``latest`` again, whose last answer had these ``advances``."""
        with self._changed:
            longest = LONGEST_WAIT_SECONDS if self._advances else ASKED_SECONDS
            end = time.monotonic() + longest
            while self._advances == advances and not self._closed and (left := end - time.monotonic()) > 0:
                if not self._is_registered():
                    return
                self._changed.wait(min(left, ASKED_SECONDS))

    def commit(self, end: str) -> None:
        """Everything before ``end`` was processed."""
        self._require()
        with asking(self._method("commit"), self.table.name):
            self._provider.commit(offset_of(end))

    def rows_behind(self, offset: str) -> int | None:
        """How many rows come after ``offset``; None where nobody knows."""
        self._require()
        where, consumed = self._method("rows_behind"), offset_of(offset)
        with asking(where, self.table.name):
            told = self._provider.rows_behind(consumed)
        if told is not None and not _is_count(told):
            raise PlanError(f"{where} returned {kind_of(told)}, expected a whole number or None ({self.table.name!r})")
        if told is not None or not _is_count(consumed):
            return told
        if time.monotonic() - self._head_at > ASKED_SECONDS:  # a limit was in the way of the last answers
            self._ask_latest(offset, ReadLimit())
        return max(0, self._head - consumed) if _is_count(self._head) else None

    def _method(self, name: str) -> str:
        return f"{self.table.provider_name}.{name}"

    def _require(self) -> None:
        if self._closed:
            raise ClosedError(f"the stream of table {self.table.name!r} is closed, or its session context")
        if not self._is_registered():
            raise DeregisteredError(
                f"the table {self.table.name!r} was deregistered or replaced while a streaming query read it; start "
                "the query again, with the same checkpoint, on a table of that name"
            )


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
