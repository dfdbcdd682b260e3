"""A bounded channel from many writers to one reader per partition; driver Python, without Arrow.

Items are opaque: whoever offers one says how many rows and bytes it has. Here are the two ends and how each may
end; the queues between them are in ``headrace.push.lanes``. Who may end first:
docs/decisions/0003-channel-and-deadlock.md.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from time import monotonic
from types import TracebackType
from typing import Final, Generic, Protocol, TypeVar, cast

from headrace.errors import (
    ProducerLostError,
    ScanEndedError,
    SinkClosedError,
    StreamConsumedError,
    StreamError,
    WriteTimeout,
)
from headrace.execute.failure import headline_of, traceback_of
from headrace.execute.stopping import Ending
from headrace.forks import OwnProcess
from headrace.push.lanes import Lane, Lanes, Offer, Outcome, Pack, Taker

T = TypeVar("T")
_TICK_S = 0.5  # how often one who waits looks up for what cannot wake it: lost sink, quiet lane, exit
HINT_S = 5.0  # how long one end waits before it is said that nobody is at the other
_UNREAD = (
    "no query is reading this table yet; if none is on its way, start one with ctx.execute_stream(...), or in another "
    "thread"
)
_UNWRITTEN = (
    "a query has been waiting for %s for %g s, and nothing has been written to it: write to its sink from another "
    "thread, or start the query with ctx.execute_stream(...) and write before you read the result"
)
_UNENDED = (
    "a query waits for %s: it has read %d batches, and nothing has come for %.2g s. The sink is open; if all is "
    "written, call its close(), which ends the query"
)
_LOG = logging.getLogger("headrace")
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


class Reader(Generic[T]):
    """The reading end of one partition, from ``Channel.claim``. As a context manager it finishes."""

    def __init__(self, channel: Channel[T], taker: Taker) -> None:
        self._channel = channel
        self._lanes = channel._lanes
        self.taker = taker
        self.ending: End | Exception | None = None  # what the producer left behind the last item
        self.traceback: TracebackType | None = None  # of that exception, as it was left
        self.over = False  # nothing more will be taken: it ended cleanly, or early
        self.reason: Ending | None = None  # why it ended early
        self._ended_early = threading.Event()

    def take(self, max_rows: int, max_bytes: int, timeout_s: float | None = None) -> list[T] | End:
        """Wait for an item, then return what is there at once, within the limits but at least one item.

        Returns END after the last item of a closed stream, [] when ``timeout_s`` passed. Raises the cause
        after the last item of a failed one, ScanEndedError once this reader was ended. One thread at a time.
        """
        deadline = None if timeout_s is None else monotonic() + timeout_s
        with self._lanes.lock:
            while True:
                self._channel._take_lost_producer()
                if self.reason is not None:
                    raise self._channel._scan_ended(self.reason)
                if entries := self._lanes.take(self.taker, max_rows, max_bytes):
                    break
                if self.ending is not None:
                    self.over = True
                    self._channel._end_reading()
                    break
                left_s = _TICK_S if deadline is None else min(_TICK_S, deadline - monotonic())
                if left_s <= 0:
                    return []
                self._lanes.starve(self.taker, left_s)
        if entries:
            return [item if loader is None else loader() for item, _, _, _, loader in entries]
        self._channel._clean_up()
        if isinstance(self.ending, Exception):
            raise BaseException.with_traceback(self.ending, self.traceback)
        return END

    def finish(self) -> None:
        """The reader is done; before END that is an early end."""
        self.end(Ending("cancelled", "its reader stopped before the end of the stream"))

    def end(self, reason: Ending) -> None:
        """Stop reading early, from any thread: writes for this partition raise a ScanEndedError with the reason.

        No-op once the partition is over.
        """
        with self._lanes.lock:
            if not self.over:
                self.over, self.reason = True, reason
                self._ended_early.set()
                self._lanes.rouse(self.taker)
                self._channel._end_reading()
        self._channel._clean_up()

    def await_early_end(self, timeout_s: float) -> bool:
        """Whether somebody else calls ``end`` within this time, or has called it."""
        return self._ended_early.wait(timeout_s)

    def __enter__(self) -> Reader[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()


class Channel(Generic[T]):
    """Any method, from any thread. ``partition=None`` means the shared lane, or all partitions.

    ``stall_s``: how long a partition must have gone unread before the bound may yield for it. ``new_pack`` makes what
    ``pack`` fills.
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
        new_pack: Callable[[], Pack[T]] | None = None,
    ) -> None:
        if capacity < 1 or partitions < 1 or max_bytes < 1:
            raise ValueError(f"{capacity=}, {partitions=} and {max_bytes=} must all be at least 1")
        self.name = f"the streaming table {table!r}"
        self.capacity = capacity
        self.partitions = partitions
        self._spill = spill
        self._lanes: Lanes[T] = Lanes(
            partitions, capacity, max_bytes, stall_s, spills=spill is not None, new_pack=new_pack
        )
        self._lock = self._lanes.lock
        self._process = OwnProcess()
        self._readers = [Reader(self, taker) for taker in self._lanes.takers]
        self._lost_producer: StreamError | None = None
        self._hinted: set[str] = set()  # what was said: once is enough, however many wait

    # Writing

    def offer(
        self, item: T, rows: int, size: int, partition: int | None = None, timeout_s: float | None = None
    ) -> None:
        """Write; blocks while the lane is full (not with ``timeout_s=0``). An item of no rows only counts.

        Raises, with nothing written: WriteTimeout; SinkClosedError after the producer's own end;
        ScanEndedError when nobody will read it; what ``abandon`` was given; OSError when it had to be spilled
        and could not.
        """
        self._refuse_child()
        lane = self._lane(partition)
        with self._lock:
            if self._lanes.submit(lane, item, rows, size):
                return
            gate = threading.Lock()
            gate.acquire()
            offer = self._lanes.queue(lane, item, rows, size, gate.release)
        deadline = None if timeout_s is None else offer.since + timeout_s
        hint_at = offer.since + HINT_S
        unread_s = 0.0
        try:
            while offer.outcome is None and unread_s < _EXIT_GRACE_S:
                left_s = _TICK_S if deadline is None else min(_TICK_S, deadline - monotonic())
                if left_s <= 0:
                    break
                if not gate.acquire(timeout=left_s):
                    if monotonic() > hint_at:
                        hint_at = math.inf
                        self._hint_blocked()
                    unread_s = unread_s + left_s if self._exiting_unread() else 0.0
        finally:
            self._settle(lane, offer)
        if not self._conclude(lane, offer):
            if unread_s >= _EXIT_GRACE_S:
                raise ScanEndedError(f"the program is exiting and nobody reads {self.name}", "lost")
            unread = f"; {_UNREAD}" if self._is_unread() else ""
            raise WriteTimeout(f"{self.name} stayed full for {timeout_s} s; nothing was written{unread}")

    def pack(self, item: T, rows: int, size: int, partition: int | None = None) -> bool:
        """Add an item that is cheaper to keep in a pack, at once. False, with nothing written, if ``offer`` must do it.

        That is: while the lane is full, and while its reader waits, who is served best by the item itself. Raises
        what ``offer`` raises.
        """
        if os.getpid() != self._process.pid:  # without the calls: they would be a tenth of a small write
            self._refuse_child()
        with self._lock:
            return self._lanes.pack(self._lane(partition), item, rows, size)

    async def offer_async(self, item: T, rows: int, size: int, partition: int | None = None) -> None:
        """``offer`` for an event loop, which it does not block. Cancelled, it has written or it has not."""
        self._refuse_child()
        await asyncio.sleep(0)  # a producer whose writes always find room must still let its loop run
        loop = asyncio.get_running_loop()
        settled = asyncio.Event()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop was closed: nobody waits there any more
                loop.call_soon_threadsafe(settled.set)

        lane = self._lane(partition)
        with self._lock:
            if self._lanes.submit(lane, item, rows, size):
                return
            offer = self._lanes.queue(lane, item, rows, size, wake)
        hint = loop.call_later(HINT_S, self._hint_blocked)
        try:
            if offer.outcome is None:
                await settled.wait()
        finally:
            hint.cancel()
            self._settle(lane, offer)
        loader = None
        if offer.outcome is Outcome.SPILL:  # cancelled meanwhile, it is put away but not written
            loader = await loop.run_in_executor(None, self._put_away, lane, offer)
        self._conclude(lane, offer, loader)

    # Ending, by the producer

    def close(self, partition: int | None = None) -> None:
        """Clean end: readers end after what was written. No-op after any end."""
        self._refuse_child()
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
        self._refuse_child()
        text = headline_of(cause)
        kind = type(cause)  # isinstance would ask the user's object
        if issubclass(kind, Exception) and not issubclass(kind, (StopIteration, StopAsyncIteration)):
            failure = cast("Exception", cause)
        else:  # Ctrl-C, a cancelled task: not to fly through a reader's thread. A StopIteration there is a clean end
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
        self._lost_producer = error
        if self._lock.acquire(blocking=False):
            try:
                self._take_lost_producer()
            finally:
                self._lock.release()

    # Reading

    def claim(self, partition: int) -> Reader[T]:
        """Take the one scan of a partition. Raises StreamConsumedError for ever after."""
        with self._lock:
            reader = self._readers[partition]
            if reader.taker.last_take is not None:
                raise StreamConsumedError(
                    f"{self.name} can be scanned once, and that scan was taken; use a TableProvider to scan again"
                )
            if reader.reason is not None:
                raise self._scan_ended(reader.reason)
            self._lanes.claimed(reader.taker)
            return reader

    def hint_waiting(self, after_s: float) -> None:
        """Say, once, that a reader waits for what does not come. Not while another partition gets something."""
        with self._lock:
            waited_s = monotonic() - max(taker.last_take or 0.0 for taker in self._lanes.takers)
            batches = self._lanes.delivered.batches
            text = _UNENDED if self._lanes.written.batches else _UNWRITTEN
            if waited_s < after_s or text in self._hinted:
                return
            self._hinted.add(text)
        _LOG.warning(text, self.name, *((batches, waited_s) if text == _UNENDED else (after_s,)))

    def end_scan(self, reason: Ending) -> None:
        """The query is over: end every partition early, read or not. No-op where it is over."""
        for reader in self._readers:
            reader.end(reason)

    @property
    def stats(self) -> ChannelStats:
        with self._lock:
            self._take_lost_producer()
            now = monotonic()
            lanes = self._lanes
            return ChannelStats(
                state=self._state(),
                capacity=self.capacity,
                rows_written=lanes.written.rows,
                batches_written=lanes.written.batches,
                bytes_written=lanes.written.size,
                rows_delivered=lanes.delivered.rows,
                batches_delivered=lanes.delivered.batches,
                bytes_delivered=lanes.delivered.size,
                waiting=sum(lane.waiting for lane in lanes.all),
                spilled=sum(loader is not None for lane in lanes.all for _, _, _, _, loader in lane.entries),
                blocked_s=lanes.blocked_s + sum(now - o.since for lane in lanes.all for o in lane.blocked),
            )

    def _refuse_child(self) -> None:
        if self._process.is_child:
            raise SinkClosedError(
                f"{self.name} belongs to process {self._process.pid}: what its forked child {os.getpid()} writes "
                "would reach no query. Send the data to the parent, and write it there"
            )

    # Inside, with the lock held (_settle, _conclude, _put_away and _clean_up: without)

    def _scan_ended(self, reason: Ending) -> ScanEndedError:
        return ScanEndedError(f"the scan of {self.name} ended: {reason}", reason.reason)

    def _lane(self, partition: int | None) -> Lane:
        return self._lanes.shared if partition is None else self._lanes.own[partition]

    def _state(self) -> str:
        over = all(reader.over for reader in self._readers)
        if over and any(reader.reason is not None for reader in self._readers):
            return "ended"
        if any(isinstance(reader.ending, Exception) for reader in self._readers):
            return "failed"
        if over:
            return "finished"
        return "closed" if all(reader.ending is END for reader in self._readers) else "open"

    def _is_unread(self) -> bool:
        """Whether no query has begun to read."""
        return all(reader.taker.last_take is None for reader in self._readers)

    def _hint_blocked(self) -> None:
        with self._lock:
            hint = _UNREAD not in self._hinted and self._is_unread()
            if hint:
                self._hinted.add(_UNREAD)
        if hint:
            _LOG.warning("a write to %s has been blocked for %g s: it is full, and %s", self.name, HINT_S, _UNREAD)

    def _exiting_unread(self) -> bool:
        reading = any(reader.taker.last_take is not None and not reader.over for reader in self._readers)
        return not reading and not threading.main_thread().is_alive()

    def _settle(self, lane: Lane, offer: Offer) -> None:
        with self._lock:
            self._lanes.settle(lane, offer)

    def _conclude(self, lane: Lane, offer: Offer, loader: Callable[[], T] | None = None) -> bool:
        """Do what the answer asks of the writer. False when there was no answer."""
        if isinstance(offer.outcome, StreamError):
            raise offer.outcome
        if offer.outcome is Outcome.SPILL:
            loader = loader or self._put_away(lane, offer)
            with self._lock:
                lane.check()
                self._lanes.push(lane, (None, offer.rows, offer.size, 1, loader))
        return offer.outcome is not None

    def _put_away(self, lane: Lane, offer: Offer) -> Callable[[], T]:
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
                reader.ending, reader.traceback = failure, traceback_of(failure)
        self._end_writing(refusal, text)

    def _take_lost_producer(self) -> None:
        if self._lost_producer is not None:
            error, self._lost_producer = self._lost_producer, None
            self._leave(error, type(error), str(error))

    def _end_writing(self, refusal: type[StreamError], text: str) -> None:
        """The producer left endings: shut the lanes concerned. Its own end outranks the readers'."""
        for lane in self._lanes.all:
            ended = all(self._readers[partition].ending is not None for partition in lane.partitions)
            if ended and (lane.refusal is None or lane.refusal[0] is ScanEndedError):
                self._lanes.refuse(lane, refusal, text)
        for reader in self._readers:
            if reader.ending is not None:
                self._lanes.rouse(reader.taker)

    def _end_reading(self) -> None:
        """A reader is over: shut and empty the lanes that nobody is left to read."""
        for lane in self._lanes.all:
            readers = [self._readers[partition] for partition in lane.partitions]
            if all(reader.over for reader in readers):
                self._lanes.empty(lane)
                if lane.refusal is None:  # the producer has not ended it, so a reader ended early
                    ended = self._scan_ended(next(reader.reason for reader in readers if reader.reason is not None))
                    self._lanes.refuse(lane, ScanEndedError, str(ended), ended.reason)
        self._lanes.admit()

    def _clean_up(self) -> None:
        with self._lock:
            over = all(reader.over for reader in self._readers)
        if over and self._spill is not None:
            self._spill.close()
