"""A bounded channel from many writers to one reader per partition; driver Python, standard library only.

Items are opaque: whoever offers one says how many rows and bytes it has. Each partition has a lane (a queue)
of its own, and all share one more, from which whoever reads takes; with one partition the two are one. A lane
is full at ``capacity`` items, and all are once ``max_bytes`` wait. Who may end first, and why a full lane
sometimes lets an item through: docs/decisions/0003-channel-and-deadlock.md.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from time import monotonic
from types import TracebackType
from typing import Any, Final, Generic, Protocol, TypeVar

from headrace.errors import (
    ProducerLostError,
    ScanEndedError,
    SinkClosedError,
    StreamConsumedError,
    StreamError,
    WriteTimeout,
)

T = TypeVar("T")
_TICK_S = 0.5  # how often one who waits looks up for what cannot wake it: lost sink, quiet lane, exit
_EXIT_GRACE_S = 10.0  # how long a write stays blocked once the main thread has ended and nobody reads


class End(Enum):
    """The type of ``END``, which ``Reader.take`` returns when the stream ended cleanly."""

    END = "end"


END: Final = End.END


class Spill(Protocol[T]):
    """Keeps items outside memory. Called from any thread, never under the channel's lock."""

    def store(self, item: T) -> Callable[[], T]:
        """Put ``item`` away; the function returned brings it back and is called at most once."""

    def close(self) -> None:
        """Forget everything: nothing will be read any more. May be called again."""


@dataclass(frozen=True)
class ChannelStats:
    """A snapshot. ``waiting`` batches were written and not yet delivered; ``spilled`` of them are on disk.

    ``state``: ``open``; ``closed`` or ``failed`` by the producer; ``finished`` when every reader has had its
    clean end; ``ended`` when nobody reads any more and some reader stopped early.
    """

    state: str
    capacity: int
    rows_written: int
    batches_written: int
    bytes_written: int
    rows_delivered: int
    batches_delivered: int
    bytes_delivered: int
    waiting: int
    spilled: int
    blocked_s: float


class _Outcome(Enum):
    WRITTEN = 1
    SPILL = 2  # let through, but the writer must put the item away itself: no file is written under the lock


@dataclass(eq=False)
class _Offer:
    """A write that found its lane full. It carries its item: a reader lets it in, in the writer's stead."""

    item: Any
    rows: int
    size: int
    wake: Callable[[], None]
    since: float = field(default_factory=monotonic)
    outcome: _Outcome | StreamError | None = None


@dataclass(eq=False)
class _Lane:
    """A queue of (item, rows, bytes, loader if spilled), who may take from it, and the writes it blocks."""

    readers: Sequence[Reader[Any]]
    entries: deque[tuple[Any, int, int, Callable[[], Any] | None]] = field(default_factory=deque)
    blocked: deque[_Offer] = field(default_factory=deque)
    refusal: tuple[type[StreamError], str] | None = None

    def check(self) -> None:
        if self.refusal is not None:
            raise self.refusal[0](self.refusal[1])


class Reader(Generic[T]):
    """The reading end of one partition, from ``Channel.claim``. As a context manager it finishes."""

    def __init__(self, channel: Channel[T]) -> None:
        self._channel = channel
        self._arrived = threading.Condition(channel._lock)
        self.lanes: list[_Lane] = []
        self.claimed = False
        self.hungry = False  # waits, and nothing has arrived since it began to
        self.last_take = 0.0
        self.ending: End | Exception | None = None  # what the producer left behind the last item
        self.traceback: TracebackType | None = None  # of that exception, as it was left
        self.over = False  # nothing more will be taken: it ended cleanly, or early
        self.reason: str | None = None  # why it ended early

    def take(self, max_rows: int, max_bytes: int, timeout_s: float | None = None) -> list[T] | End:
        """Wait for an item, then return what is there at once, within the limits but at least one item.

        Returns END after the last item of a closed stream, [] when ``timeout_s`` passed. Raises the cause
        after the last item of a failed one, ScanEndedError once this reader was ended. One thread at a time.
        """
        deadline = None if timeout_s is None else monotonic() + timeout_s
        with self._channel._lock:
            while True:
                self._channel._read_obituary()
                if self.reason is not None:
                    raise ScanEndedError(f"the scan of {self._channel.name} ended: {self.reason}")
                if entries := self._pop(max_rows, max_bytes):
                    break
                if self.ending is not None:
                    self.over = True
                    self._channel._end_reading()
                    break
                left_s = _TICK_S if deadline is None else min(_TICK_S, deadline - monotonic())
                if left_s <= 0:
                    return []
                self._starve(left_s)
        if entries:
            return [item if loader is None else loader() for item, _, _, loader in entries]
        self._channel._clean_up()
        if isinstance(self.ending, Exception):
            raise self.ending.with_traceback(self.traceback)
        return END

    def finish(self) -> None:
        """The reader is done; before END that is an early end."""
        self.end("its reader stopped before the end of the stream")

    def end(self, reason: str) -> None:
        """Stop reading early, from any thread: writes for this partition raise ScanEndedError(reason).

        No-op once the partition is over.
        """
        with self._channel._lock:
            if not self.over:
                self.over, self.reason = True, reason
                self._arrived.notify()
                self._channel._end_reading()
        self._channel._clean_up()

    def __enter__(self) -> Reader[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()

    def rouse(self) -> bool:
        """Wake it if it is hungry."""
        if not self.hungry:
            return False
        self.hungry = False
        self._channel._hungry -= 1
        self._arrived.notify()
        return True

    def _pop(self, max_rows: int, max_bytes: int) -> list[Any]:
        taken: list[Any] = []
        rows = size = spilled = 0
        for lane in self.lanes:
            entries = lane.entries
            while entries:
                _, more_rows, more_size, loader = entries[0]
                if taken and (rows + more_rows > max_rows or size + more_size > max_bytes):
                    break
                taken.append(entries.popleft())
                rows += more_rows
                size += more_size
                if loader is not None:
                    spilled += more_size
        if taken:
            self.lanes.reverse()  # neither of its lanes may starve the other
            self.last_take = monotonic()
            self._channel._deliver(rows, len(taken), size, size - spilled)
        return taken

    def _starve(self, wait_s: float) -> None:
        """Wait until something was pushed for this reader, or it was ended, or ``wait_s`` passed."""
        self.hungry = True
        self._channel._hungry += 1
        try:
            self._channel._feed()
            if self.hungry:
                self._arrived.wait(wait_s)
        finally:
            if self.hungry:
                self.hungry = False
                self._channel._hungry -= 1


class Channel(Generic[T]):
    """Any method, from any thread. ``partition=None`` means the shared lane, or all partitions.

    ``stall_s``: how long a partition must have gone unread before the bound may yield for it.
    """

    def __init__(
        self,
        table: str,
        capacity: int = 16,
        *,
        partitions: int = 1,
        max_bytes: int = 256 * 1024 * 1024,
        spill: Spill[T] | None = None,
        stall_s: float = 1.0,
    ) -> None:
        if capacity < 1 or partitions < 1 or max_bytes < 1:
            raise ValueError(f"{capacity=}, {partitions=} and {max_bytes=} must all be at least 1")
        self.name = f"the streaming table {table!r}"
        self.capacity = capacity
        self.partitions = partitions
        self._max_bytes = max_bytes
        self._spill = spill
        self._stall_s = stall_s
        self._lock = threading.Lock()
        self._readers = [Reader(self) for _ in range(partitions)]
        self._own = [_Lane([reader]) for reader in self._readers]
        self._shared = self._own[0] if partitions == 1 else _Lane(self._readers)
        self._lanes = list(dict.fromkeys([*self._own, self._shared]))
        for reader, lane in zip(self._readers, self._own, strict=True):
            reader.lanes = list(dict.fromkeys([lane, self._shared]))
        self._obituary: StreamError | None = None
        self._last_claim = 0.0
        self._hungry = 0  # readers that are hungry
        self._blocked = 0  # offers that are blocked, in all lanes
        self._memory = 0  # bytes that wait, without the spilled
        self._rows_written = self._batches_written = self._bytes_written = 0
        self._rows_delivered = self._batches_delivered = self._bytes_delivered = 0
        self._blocked_s = 0.0

    # Writing

    def offer(
        self, item: T, rows: int, size: int, partition: int | None = None, timeout_s: float | None = None
    ) -> None:
        """Write; blocks while the lane is full (not with ``timeout_s=0``). An item of no rows only counts.

        Raises, with nothing written: WriteTimeout; SinkClosedError after the producer's own end;
        ScanEndedError when nobody will read it; what ``abandon`` was given; OSError when it had to be spilled
        and could not.
        """
        lane = self._shared if partition is None else self._own[partition]
        gate = threading.Lock()
        gate.acquire()
        offer = self._submit(lane, item, rows, size, gate.release)
        if offer is None:
            return
        deadline = None if timeout_s is None else offer.since + timeout_s
        unread_s = 0.0
        try:
            while offer.outcome is None and unread_s < _EXIT_GRACE_S:
                left_s = _TICK_S if deadline is None else min(_TICK_S, deadline - monotonic())
                if left_s <= 0:
                    break
                if not gate.acquire(timeout=left_s):
                    unread_s = unread_s + left_s if self._exiting_unread() else 0.0
        finally:
            self._settle(lane, offer)
        if not self._conclude(lane, offer):
            if unread_s >= _EXIT_GRACE_S:
                raise ScanEndedError(f"the program is exiting and nobody reads {self.name}")
            raise WriteTimeout(f"{self.name} stayed full for {timeout_s} s; nothing was written")

    async def offer_async(self, item: T, rows: int, size: int, partition: int | None = None) -> None:
        """``offer`` for an event loop, which it does not block. Cancelled, it has written or it has not."""
        await asyncio.sleep(0)  # a producer whose writes always find room must still let its loop run
        loop = asyncio.get_running_loop()
        settled = asyncio.Event()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop was closed: nobody waits there any more
                loop.call_soon_threadsafe(settled.set)

        lane = self._shared if partition is None else self._own[partition]
        offer = self._submit(lane, item, rows, size, wake)
        if offer is None:
            return
        try:
            if offer.outcome is None:
                await settled.wait()
        finally:
            self._settle(lane, offer)
        loader = None
        if offer.outcome is _Outcome.SPILL:  # cancelled meanwhile, it is put away but not written
            loader = await loop.run_in_executor(None, self._put_away, lane, offer)
        self._conclude(lane, offer, loader)

    # Ending, by the producer

    def close(self, partition: int | None = None) -> None:
        """Clean end: readers end after what was written. No-op after any end."""
        which = self.name if partition is None else f"partition {partition} of {self.name}"
        with self._lock:
            for reader in self._readers if partition is None else [self._readers[partition]]:
                if reader.ending is None:
                    reader.ending = END
            self._end_writing(SinkClosedError, f"{which} was closed; nothing can be written after that")

    def fail(self, cause: BaseException) -> None:
        """Failed end of all that is open: readers get what was written before, then ``cause``.

        The first failure counts, a second is a no-op. After ``close()`` it raises SinkClosedError: readers
        may have been told that the stream is whole, so the failure must not pass for delivered.
        """
        text = f"{type(cause).__name__}: {cause}"
        failure = cause
        if not isinstance(
            failure, Exception
        ):  # Ctrl-C, a cancelled task: not to fly through a reader's thread
            failure = ProducerLostError(f"the producer of {self.name} was stopped by {text}")
            failure.__cause__ = cause
        with self._lock:
            if all(reader.ending is END for reader in self._readers):
                raise SinkClosedError(f"{self.name} was closed before it failed with {text}")
            self._leave(failure, SinkClosedError, f"{self.name} has failed with {text}")

    def abandon(self, error: StreamError) -> None:
        """The producer is gone: readers get what was written before, then ``error``; writes get it at once.

        No-op after any end.
        """
        with self._lock:
            self._leave(error, type(error), str(error))

    def abandon_soon(self, error: StreamError) -> None:
        """``abandon`` for finalizers: they may run in a thread that holds the lock, so it does not wait.

        If the lock is taken, readers find ``error`` at their next tick.
        """
        self._obituary = error
        if self._lock.acquire(blocking=False):
            try:
                self._read_obituary()
            finally:
                self._lock.release()

    # Reading

    def claim(self, partition: int) -> Reader[T]:
        """Take the one scan of a partition. Raises StreamConsumedError for ever after."""
        with self._lock:
            reader = self._readers[partition]
            if reader.claimed:
                raise StreamConsumedError(
                    f"{self.name} can be scanned once, and that scan was taken; "
                    "use a TableProvider to scan again"
                )
            if reader.reason is not None:
                raise ScanEndedError(f"the scan of {self.name} ended: {reader.reason}")
            reader.claimed = True
            reader.last_take = self._last_claim = monotonic()
            return reader

    def end_scan(self, reason: str) -> None:
        """The query is over: end every partition early, read or not. No-op where it is over."""
        for reader in self._readers:
            reader.end(reason)

    @property
    def stats(self) -> ChannelStats:
        with self._lock:
            self._read_obituary()
            now = monotonic()
            entries = [entry for lane in self._lanes for entry in lane.entries]
            return ChannelStats(
                state=self._state(),
                capacity=self.capacity,
                rows_written=self._rows_written,
                batches_written=self._batches_written,
                bytes_written=self._bytes_written,
                rows_delivered=self._rows_delivered,
                batches_delivered=self._batches_delivered,
                bytes_delivered=self._bytes_delivered,
                waiting=len(entries),
                spilled=sum(loader is not None for *_, loader in entries),
                blocked_s=self._blocked_s + sum(now - o.since for lane in self._lanes for o in lane.blocked),
            )

    # Inside, with the lock held (_submit, _settle, _conclude, _put_away and _clean_up: without)

    def _state(self) -> str:
        over = all(reader.over for reader in self._readers)
        if over and any(reader.reason is not None for reader in self._readers):
            return "ended"
        if any(isinstance(reader.ending, Exception) for reader in self._readers):
            return "failed"
        if over:
            return "finished"
        return "closed" if all(reader.ending is END for reader in self._readers) else "open"

    def _exiting_unread(self) -> bool:
        reading = any(reader.claimed and not reader.over for reader in self._readers)
        return not reading and not threading.main_thread().is_alive()

    def _submit(self, lane: _Lane, item: T, rows: int, size: int, wake: Callable[[], None]) -> _Offer | None:
        """Write if there is room (None), else queue up; the offer returned may have been answered already."""
        with self._lock:
            if lane.refusal is not None:
                lane.check()
            if not rows:
                self._batches_written += 1
                self._batches_delivered += 1
                return None
            if len(lane.entries) < self.capacity and self._memory < self._max_bytes:
                self._push(lane, item, rows, size)
                return None
            offer = _Offer(item, rows, size, wake)
            lane.blocked.append(offer)
            self._blocked += 1
            if self._hungry:
                self._feed()
            return offer

    def _push(
        self, lane: _Lane, item: T | None, rows: int, size: int, loader: Callable[[], T] | None = None
    ) -> None:
        lane.entries.append((item, rows, size, loader))
        if loader is None:
            self._memory += size
        self._rows_written += rows
        self._batches_written += 1
        self._bytes_written += size
        if self._hungry:
            for reader in lane.readers:
                reader.rouse()

    def _deliver(self, rows: int, batches: int, size: int, from_memory: int) -> None:
        self._rows_delivered += rows
        self._batches_delivered += batches
        self._bytes_delivered += size
        self._memory -= from_memory
        self._admit()

    def _answer(self, lane: _Lane, outcome: _Outcome | StreamError) -> None:
        """Answer the first write blocked on ``lane``."""
        offer = lane.blocked.popleft()
        self._blocked -= 1
        if outcome is _Outcome.WRITTEN:
            self._push(lane, offer.item, offer.rows, offer.size)
        offer.outcome = outcome
        offer.wake()

    def _admit(self) -> None:
        """Room was made: let blocked writes in, first come first served."""
        for lane in self._lanes if self._blocked else ():
            while lane.blocked and len(lane.entries) < self.capacity and self._memory < self._max_bytes:
                self._answer(lane, _Outcome.WRITTEN)

    def _feed(self) -> None:
        """Some reader is hungry: no blocked write may be what keeps it waiting.

        Writes for a hungry reader itself pass: bytes held for others shut them out. Writes for a partition
        that nobody reads pass too, to disk: their writer may be who has the hungry reader's next item.
        """
        quiet_since = monotonic() - self._stall_s
        for lane in self._lanes if self._blocked else ():
            while lane.blocked and any(reader.hungry for reader in lane.readers):
                self._answer(lane, _Outcome.WRITTEN)
            owner = lane.readers[0]
            unread = (owner.last_take if owner.claimed else self._last_claim) <= quiet_since
            while lane.blocked and self._hungry and unread and lane is not self._shared:
                self._answer(lane, _Outcome.WRITTEN if self._spill is None else _Outcome.SPILL)

    def _settle(self, lane: _Lane, offer: _Offer) -> None:
        """The writer waits no longer: withdraw its offer unless it was answered."""
        with self._lock:
            self._blocked_s += monotonic() - offer.since
            if offer.outcome is None:
                lane.blocked.remove(offer)
                self._blocked -= 1

    def _conclude(self, lane: _Lane, offer: _Offer, loader: Callable[[], T] | None = None) -> bool:
        """Do what the answer asks of the writer. False when there was no answer."""
        if isinstance(offer.outcome, StreamError):
            raise offer.outcome
        if offer.outcome is _Outcome.SPILL:
            loader = loader or self._put_away(lane, offer)
            with self._lock:
                lane.check()
                self._push(lane, None, offer.rows, offer.size, loader)
        return offer.outcome is not None

    def _put_away(self, lane: _Lane, offer: _Offer) -> Callable[[], T]:
        assert self._spill is not None
        try:
            return self._spill.store(offer.item)
        except OSError:
            lane.check()  # the spill was closed because the scan is over: that is the news, not the file
            raise

    def _leave(self, failure: Exception, refusal: type[StreamError], text: str) -> None:
        """End what is open with ``failure``."""
        for reader in self._readers:
            if reader.ending is None:
                reader.ending, reader.traceback = failure, failure.__traceback__
        self._end_writing(refusal, text)

    def _read_obituary(self) -> None:
        if self._obituary is not None:
            error, self._obituary = self._obituary, None
            self._leave(error, type(error), str(error))

    def _end_writing(self, refusal: type[StreamError], text: str) -> None:
        """The producer left endings: shut the lanes concerned. Its own end outranks the readers'."""
        for lane in self._lanes:
            if all(reader.ending is not None for reader in lane.readers):
                if lane.refusal is None or lane.refusal[0] is ScanEndedError:
                    lane.refusal = (refusal, text)
                self._refuse(lane)
        for reader in self._readers:
            if reader.ending is not None:
                reader.rouse()

    def _end_reading(self) -> None:
        """A reader is over: shut and empty the lanes that nobody is left to read."""
        for lane in self._lanes:
            if all(reader.over for reader in lane.readers):
                reasons = [reader.reason for reader in lane.readers if reader.reason is not None]
                if lane.refusal is None:
                    lane.refusal = (
                        ScanEndedError,
                        f"the scan of {self.name} ended: {', '.join(reasons[:1])}",
                    )
                self._memory -= sum(size for _, _, size, loader in lane.entries if loader is None)
                lane.entries.clear()
                self._refuse(lane)
        self._admit()

    def _refuse(self, lane: _Lane) -> None:
        while lane.blocked and lane.refusal is not None:
            self._answer(lane, lane.refusal[0](lane.refusal[1]))

    def _clean_up(self) -> None:
        with self._lock:
            over = all(reader.over for reader in self._readers)
        if over and self._spill is not None:
            self._spill.close()
