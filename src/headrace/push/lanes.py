"""The queues inside a channel: what waits, which writes are blocked, and when the bounds yield; driver Python.

Standard library only. Everything here is called with ``Lanes.lock`` held. Each partition has a lane of its own,
and all share one more, from which whoever reads takes; with one partition the two are one. A lane is full at
``capacity`` items, and all are once ``max_bytes`` wait. Why a full lane sometimes lets an item through:
docs/decisions/0003-channel-and-deadlock.md.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from time import monotonic
from typing import Any, Generic, Protocol, TypeVar

from headrace.errors import StreamError

T = TypeVar("T")


# What waits: an item, its rows, its bytes, and how many were written to make it; a spilled one has a loader in its
# stead. A plain tuple: they come by the hundred thousand, and a named one costs as much as all else done for it.
Entry = tuple[Any, int, int, int, Callable[[], Any] | None]


class Pack(Protocol[T]):
    """Several items in one, which costs less where they are small. Used under the lock."""

    batches: int
    rows: int
    size: int
    full: bool  # what comes next must go into another pack

    def add(self, item: T, rows: int, size: int) -> None: ...

    def sealed(self) -> T:
        """All of it as one item; called once, last."""


class Outcome(Enum):
    """How a blocked write is let through."""

    WRITTEN = 1
    SPILL = 2  # the writer must put the item away itself: no file is written under the lock


@dataclass(eq=False)
class Offer:
    """A write that found its lane full. It carries its item: a reader lets it in, in the writer's stead."""

    item: Any
    rows: int
    size: int
    wake: Callable[[], None]
    since: float = field(default_factory=monotonic)
    outcome: Outcome | StreamError | None = None


@dataclass(eq=False)
class Lane:
    """A queue, the partitions that may take from it, and the writes it blocks or refuses."""

    partitions: range
    entries: deque[Entry] = field(default_factory=deque)
    pack: Pack[Any] | None = None  # comes behind all entries, and is still being filled
    waiting: int = 0  # how many were written and not taken
    blocked: deque[Offer] = field(default_factory=deque)
    refusal: tuple[type[StreamError], tuple[str, ...]] | None = None  # the error's class and its arguments

    def check(self) -> None:
        """Raises what writes are refused with."""
        if self.refusal is not None:
            raise self.refusal[0](*self.refusal[1])


@dataclass(eq=False)
class Taker:
    """One partition's reading side as the lanes see it."""

    arrived: threading.Condition
    lanes: list[Lane]
    last_take: float | None = None  # None until the partition was claimed
    hungry: bool = False  # waits, and nothing has arrived since it began to


@dataclass
class Tally:
    """What has passed one end of the channel."""

    rows: int = 0
    batches: int = 0
    size: int = 0

    def add(self, rows: int, batches: int, size: int) -> None:
        self.rows += rows
        self.batches += batches
        self.size += size


class Lanes(Generic[T]):
    """All lanes of a channel and their bounds.

    ``stall_s``: how long a partition must have gone unread before the bound may yield for it; ``spills`` says
    whether what passes then goes to disk.
    """

    def __init__(
        self,
        partitions: int,
        capacity: int,
        max_bytes: int,
        stall_s: float,
        *,
        spills: bool,
        new_pack: Callable[[], Pack[T]] | None = None,
    ) -> None:
        self.lock = threading.Lock()
        self.own = [Lane(range(i, i + 1)) for i in range(partitions)]
        self.shared = self.own[0] if partitions == 1 else Lane(range(partitions))
        self.all = list(dict.fromkeys([*self.own, self.shared]))
        self.takers = [
            Taker(threading.Condition(self.lock), list(dict.fromkeys([lane, self.shared]))) for lane in self.own
        ]
        self.written = Tally()
        self.delivered = Tally()
        self.memory = 0  # bytes that wait, without the spilled
        self.hungry = 0  # takers that are
        self.blocked = 0  # offers that are, in all lanes
        self.blocked_s = 0.0  # of those that have settled
        self._capacity = capacity
        self._max_bytes = max_bytes
        self._stall_s = stall_s
        self._past_the_bound = Outcome.SPILL if spills else Outcome.WRITTEN
        self._last_claim = 0.0
        self._new_pack = new_pack

    # Writing

    def submit(self, lane: Lane, item: T, rows: int, size: int) -> bool:
        """Write if there is room; False if there is none."""
        if lane.refusal is not None:
            lane.check()
        if not rows:
            self.written.batches += 1
            self.delivered.batches += 1
            return True
        if not self._has_room(lane):
            return False
        self.push(lane, (item, rows, size, 1, None))
        return True

    def pack(self, lane: Lane, item: T, rows: int, size: int) -> bool:
        """Add to the lane's pack if there is room and nobody waits for the item; False otherwise."""
        if lane.refusal is not None:
            lane.check()
        if self._new_pack is None or not self._has_room(lane):
            return False
        if self.hungry and any(self.takers[partition].hungry for partition in lane.partitions):
            return False
        pack = lane.pack
        if pack is None or pack.full:
            self._seal(lane)
            pack = lane.pack = self._new_pack()
        pack.add(item, rows, size)
        lane.waiting += 1
        self.memory += size
        self.written.add(rows, 1, size)
        return True

    def queue(self, lane: Lane, item: T, rows: int, size: int, wake: Callable[[], None]) -> Offer:
        """Line up after ``submit`` found no room; the offer returned may have been answered already."""
        offer = Offer(item, rows, size, wake)
        lane.blocked.append(offer)
        self.blocked += 1
        if self.hungry:
            self._feed()
        return offer

    def push(self, lane: Lane, entry: Entry) -> None:
        _, rows, size, _, loader = entry
        self._seal(lane)
        lane.entries.append(entry)
        lane.waiting += 1
        if loader is None:
            self.memory += size
        self.written.add(rows, 1, size)
        if self.hungry:
            for partition in lane.partitions:
                self.rouse(self.takers[partition])

    def settle(self, lane: Lane, offer: Offer) -> None:
        """Its writer waits no longer: withdraw the offer unless it was answered."""
        self.blocked_s += monotonic() - offer.since
        if offer.outcome is None:
            lane.blocked.remove(offer)
            self.blocked -= 1

    def refuse(self, lane: Lane, error: type[StreamError], *arguments: str) -> None:
        """Later writes raise this, and so do those that are blocked."""
        lane.refusal = (error, arguments)
        while lane.blocked:
            self._answer(lane, error(*arguments))

    # Reading

    def claimed(self, taker: Taker) -> None:
        taker.last_take = self._last_claim = monotonic()

    def take(self, taker: Taker, max_rows: int, max_bytes: int) -> list[Entry]:
        """What waits, within the limits but at least one entry if there is any; lets blocked writes in."""
        taken: list[Entry] = []
        rows = size = batches = spilled = 0
        for lane in taker.lanes:
            self._seal(lane)
            entries = lane.entries
            while entries:
                _, entry_rows, entry_size, entry_batches, loader = entries[0]
                if taken and (rows + entry_rows > max_rows or size + entry_size > max_bytes):
                    break
                taken.append(entries.popleft())
                lane.waiting -= entry_batches
                rows += entry_rows
                size += entry_size
                batches += entry_batches
                if loader is not None:
                    spilled += entry_size
        if taken:
            taker.lanes.reverse()  # neither of its lanes may starve the other
            taker.last_take = monotonic()
            self.delivered.add(rows, batches, size)
            self.memory -= size - spilled
            self.admit()
        return taken

    def starve(self, taker: Taker, wait_s: float) -> None:
        """Wait until something was pushed for this taker, or it was roused, or ``wait_s`` passed."""
        taker.hungry = True
        self.hungry += 1
        try:
            self._feed()
            if taker.hungry:
                taker.arrived.wait(wait_s)
        finally:
            if taker.hungry:
                taker.hungry = False
                self.hungry -= 1

    def rouse(self, taker: Taker) -> None:
        """Wake it if it is hungry."""
        if taker.hungry:
            taker.hungry = False
            self.hungry -= 1
            taker.arrived.notify()

    def empty(self, lane: Lane) -> None:
        """Nobody will take from it any more."""
        self._seal(lane)
        self.memory -= sum(size for _, _, size, _, loader in lane.entries if loader is None)
        lane.entries.clear()
        lane.waiting = 0

    def admit(self) -> None:
        """Room was made: let blocked writes in, first come first served."""
        for lane in self.all if self.blocked else ():
            while lane.blocked and self._has_room(lane):
                self._answer(lane, Outcome.WRITTEN)

    # The bounds

    def _has_room(self, lane: Lane) -> bool:
        return lane.waiting < self._capacity and self.memory < self._max_bytes

    def _seal(self, lane: Lane) -> None:
        """What comes next comes behind the lane's pack."""
        pack = lane.pack
        if pack is not None:
            lane.pack = None
            lane.entries.append((pack.sealed(), pack.rows, pack.size, pack.batches, None))

    def _feed(self) -> None:
        """Some taker is hungry: no blocked write may be what keeps it waiting.

        Writes for a hungry taker itself pass: bytes held for others shut them out. Writes for a partition
        that nobody reads pass too, to disk: their writer may be who has the hungry taker's next item.
        """
        quiet_since = monotonic() - self._stall_s
        for lane in self.all if self.blocked else ():
            while lane.blocked and any(self.takers[partition].hungry for partition in lane.partitions):
                self._answer(lane, Outcome.WRITTEN)
            if lane is self.shared:
                continue
            last_take = self.takers[lane.partitions[0]].last_take
            unread = (self._last_claim if last_take is None else last_take) <= quiet_since
            while lane.blocked and self.hungry and unread:
                self._answer(lane, self._past_the_bound)

    def _answer(self, lane: Lane, outcome: Outcome | StreamError) -> None:
        """Answer the first write blocked on ``lane``."""
        offer = lane.blocked.popleft()
        self.blocked -= 1
        if outcome is Outcome.WRITTEN:
            self.push(lane, (offer.item, offer.rows, offer.size, 1, None))
        offer.outcome = outcome
        offer.wake()
