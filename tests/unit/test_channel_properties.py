"""The channel against a model, and with real threads: exactly once, in order, within bounds, no hang."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from effort import cases
from headrace.errors import (
    DeregisteredError,
    ScanEndedError,
    SinkClosedError,
    StreamConsumedError,
    WriteTimeout,
)
from headrace.execute.stopping import Ending
from headrace.push.channel import END, Channel, Reader

CAPACITY, MAX_BYTES, PARTITIONS = 3, 40, 2
SHARED = -1
PARTITION = st.integers(0, PARTITIONS - 1)


class Boom(Exception):
    """The producer's failure."""


class ListPack:
    """A pack that is a list of two items at most."""

    def __init__(self) -> None:
        self.batches = self.rows = self.size = 0
        self.full = False
        self._items: list[Any] = []

    def add(self, item: Any, rows: int, size: int) -> None:
        self._items.append(item)
        self.batches += 1
        self.rows += rows
        self.size += size
        self.full = self.batches == 2

    def sealed(self) -> list[Any]:
        return self._items


def unpacked(taken: list[Any]) -> list[Any]:
    return [item for each in taken for item in (each if isinstance(each, list) else [each])]


class ChannelMachine(RuleBasedStateMachine):
    """One thread, no waiting: every call's outcome follows from the model alone."""

    def __init__(self) -> None:
        super().__init__()
        self.channel: Channel[Any] = Channel(
            "t",
            CAPACITY,
            partitions=PARTITIONS,
            max_bytes=MAX_BYTES,
            new_pack=ListPack,
        )
        self.readers: dict[int, Reader[Any]] = {}
        self.lanes: dict[int, list[tuple[int, int, int]]] = {lane: [] for lane in range(SHARED, PARTITIONS)}
        self.endings: dict[int, type[Exception] | None] = {}  # by the producer; None is a clean end
        self.refused: dict[int, type[Exception]] = {}  # lanes shut by the producer
        self.over: dict[int, bool] = {}  # partitions that are; True: early
        self.next_item = 0
        self.delivered: list[int] = []
        self.written = 0

    def may_write(self, lane: int) -> type[Exception] | None:
        readers = range(PARTITIONS) if lane == SHARED else [lane]
        if lane in self.refused:
            return self.refused[lane]
        return ScanEndedError if all(reader in self.over for reader in readers) else None

    @rule(lane=st.integers(SHARED, PARTITIONS - 1), rows=st.integers(0, 3), size=st.integers(1, 50))
    def offer(self, lane: int, rows: int, size: int) -> None:
        self.next_item += 1
        waiting = sum(each[2] for queue in self.lanes.values() for each in queue)
        expected = self.may_write(lane)
        if expected is None and rows and (len(self.lanes[lane]) >= CAPACITY or waiting >= MAX_BYTES):
            expected = WriteTimeout
        partition = None if lane == SHARED else lane
        if expected is not None:
            with pytest.raises(expected):
                self.channel.offer(self.next_item, rows, size, partition, timeout_s=0)
            return
        self.channel.offer(self.next_item, rows, size, partition, timeout_s=0)
        self.written += 1
        if rows:
            self.lanes[lane].append((self.next_item, rows, size))
        else:
            self.delivered.append(self.next_item)

    @rule(lane=st.integers(SHARED, PARTITIONS - 1), rows=st.integers(1, 3), size=st.integers(1, 50))
    def pack(self, lane: int, rows: int, size: int) -> None:
        self.next_item += 1
        waiting = sum(each[2] for queue in self.lanes.values() for each in queue)
        partition = None if lane == SHARED else lane
        expected = self.may_write(lane)
        if expected is not None:
            with pytest.raises(expected):
                self.channel.pack(self.next_item, rows, size, partition)
            return
        room = len(self.lanes[lane]) < CAPACITY and waiting < MAX_BYTES
        assert self.channel.pack(self.next_item, rows, size, partition) == room
        if room:
            self.written += 1
            self.lanes[lane].append((self.next_item, rows, size))

    @rule(partition=PARTITION)
    def claim(self, partition: int) -> None:
        if partition in self.readers:
            with pytest.raises(StreamConsumedError):
                self.channel.claim(partition)
        elif self.over.get(partition):
            with pytest.raises(ScanEndedError):
                self.channel.claim(partition)
        else:
            self.readers[partition] = self.channel.claim(partition)

    @rule(partition=PARTITION, max_rows=st.integers(1, 9), max_bytes=st.integers(1, 100))
    def take(self, partition: int, max_rows: int, max_bytes: int) -> None:
        reader = self.readers.get(partition)
        if reader is None:
            return
        if self.over.get(partition):
            with pytest.raises(ScanEndedError):
                reader.take(max_rows, max_bytes, timeout_s=0)
            return
        available = self.lanes[partition] + self.lanes[SHARED]
        ending = self.endings.get(partition)
        if not available and ending is not None:
            with pytest.raises(ending):
                reader.take(max_rows, max_bytes, timeout_s=0)
            self.over[partition] = False
            return
        items = reader.take(max_rows, max_bytes, timeout_s=0)
        if not available:
            ended = partition in self.endings
            assert items is END if ended else items == []
            if ended:
                self.over[partition] = False
            return
        assert isinstance(items, list)
        taken = unpacked(items)
        assert taken
        entries = [entry for entry in available if entry[0] in taken]
        assert len(entries) == len(taken) == len(set(taken))
        assert len(items) == 1 or sum(entry[1] for entry in entries) <= max_rows
        assert len(items) == 1 or sum(entry[2] for entry in entries) <= max_bytes
        for lane in (partition, SHARED):  # what was taken of a lane was its front, in order
            front = [item for item in taken if item in {entry[0] for entry in self.lanes[lane]}]
            assert front == [entry[0] for entry in self.lanes[lane][: len(front)]]
            del self.lanes[lane][: len(front)]
        self.delivered += taken

    def shut(self, error: type[Exception]) -> None:
        for lane in self.lanes:
            readers = range(PARTITIONS) if lane == SHARED else [lane]
            if all(reader in self.endings for reader in readers):
                self.refused.setdefault(lane, error)

    @rule(partition=st.none() | PARTITION)
    def close(self, partition: int | None) -> None:
        self.channel.close(partition)
        for each in range(PARTITIONS) if partition is None else [partition]:
            self.endings.setdefault(each, None)
        self.shut(SinkClosedError)

    @rule(deregister=st.booleans())
    def fail(self, deregister: bool) -> None:
        if deregister:
            self.channel.abandon(DeregisteredError("gone"))
        elif len(self.endings) == PARTITIONS and not any(self.endings.values()):
            with pytest.raises(SinkClosedError):
                self.channel.fail(Boom())
            return
        else:
            self.channel.fail(Boom())
        for each in range(PARTITIONS):
            self.endings.setdefault(each, DeregisteredError if deregister else Boom)
        self.shut(DeregisteredError if deregister else SinkClosedError)

    @rule(partition=st.none() | PARTITION)
    def end(self, partition: int | None) -> None:
        if partition is None:
            self.channel.end_scan(Ending("limit", "enough"))
        elif partition in self.readers:
            self.readers[partition].end(Ending("limit", "enough"))
        else:
            return
        for each in range(PARTITIONS) if partition is None else [partition]:
            self.over.setdefault(each, True)
            if self.over[each]:
                self.lanes[each].clear()
        if len(self.over) == PARTITIONS:
            self.lanes[SHARED].clear()

    @invariant()
    def statistics_and_bounds_agree_with_the_model(self) -> None:
        stats = self.channel.stats
        entries = [entry for lane in self.lanes.values() for entry in lane]
        assert stats.waiting == len(entries)
        assert self.channel._lanes.memory == sum(entry[2] for entry in entries)
        assert all(len(lane) <= CAPACITY for lane in self.lanes.values())
        assert (stats.batches_written, stats.batches_delivered) == (self.written, len(self.delivered))
        assert len(self.delivered) == len(set(self.delivered))
        assert stats.state == self.state()

    def state(self) -> str:
        over = len(self.over) == PARTITIONS
        if over and any(self.over.values()):
            return "ended"
        if any(self.endings.values()):
            return "failed"
        if over:
            return "finished"
        return "closed" if len(self.endings) == PARTITIONS else "open"


TestChannelMachine = ChannelMachine.TestCase
TestChannelMachine.settings = settings(max_examples=cases(150), stateful_step_count=40, deadline=None)


@settings(max_examples=cases(100), deadline=None)
@given(
    partitions=st.integers(1, 5),
    slots=st.integers(1, 3),
    capacity=st.integers(1, 4),
    writers=st.lists(st.lists(st.integers(-1, 4), max_size=40), min_size=1, max_size=3),
    max_take=st.integers(1, 5),
    packs=st.booleans(),
)
def test_channel_any_writers_and_slots_delivers_exactly_once_in_order(
    partitions: int, slots: int, capacity: int, writers: list[list[int]], max_take: int, packs: bool
) -> None:
    channel: Channel[Any] = Channel(
        "t", capacity, partitions=partitions, stall_s=0.0, new_pack=ListPack if packs else None
    )
    todo = iter(range(partitions))
    got: dict[int, list[Any]] = defaultdict(list)
    lock = threading.Lock()

    def slot() -> None:
        while True:
            with lock:
                partition = next(todo, None)
            if partition is None:
                return
            with channel.claim(partition) as reader:
                while (taken := reader.take(max_take, 1 << 30)) is not END:
                    assert isinstance(taken, list)
                    got[partition] += unpacked(taken)

    def write(writer: int, targets: list[int]) -> None:
        for i, target in enumerate(targets):
            lane = None if target < 0 else target % partitions
            item = (lane, writer, i)
            if not channel.pack(item, 1, 1, lane):
                channel.offer(item, 1, 1, lane)

    reading = [threading.Thread(target=slot, daemon=True) for _ in range(slots)]
    writing = [threading.Thread(target=write, args=each, daemon=True) for each in enumerate(writers)]
    for thread in [*reading, *writing]:
        thread.start()
    for thread in writing:
        thread.join(30)
        assert not thread.is_alive(), "a writer hangs"
    channel.close()
    for thread in reading:
        thread.join(30)
        assert not thread.is_alive(), "a reader hangs"
    everything = [item for items in got.values() for item in items]
    expected = [
        (None if target < 0 else target % partitions, writer, i)
        for writer, targets in enumerate(writers)
        for i, target in enumerate(targets)
    ]
    assert len(everything) == len(expected)
    assert set(everything) == set(expected)
    for partition, items in got.items():
        orders = defaultdict(list)
        for lane, writer, i in items:
            assert lane in (None, partition)
            orders[lane, writer].append(i)
        assert all(order == sorted(order) for order in orders.values())
