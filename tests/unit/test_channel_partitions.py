"""The channel's partitions: who reads what, and that fewer readers than partitions do not deadlock."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from channels import PATIENCE_S, blocked, drain, hungry, put
from headrace.errors import ScanEndedError, SinkClosedError, WriteTimeout
from headrace.execute.stopping import Ending
from headrace.push.channel import END, Channel
from pushing import InBackground


class MemorySpill:
    """Counts what it keeps."""

    def __init__(self, error: OSError | None = None) -> None:
        self.stored: list[Any] = []
        self.closed = 0
        self._error = error

    def store(self, item: Any) -> Callable[[], Any]:
        if self._error is not None:
            raise self._error
        self.stored.append(item)
        return lambda: item

    def close(self) -> None:
        self.closed += 1


def put_alternately(channel: Channel[Any], count: int) -> None:
    for i in range(count):
        put(channel, i, partition=i % 2)
    channel.close()


# Partitions


def test_partition_write_reaches_that_partition_alone() -> None:
    channel: Channel[str] = Channel("t", partitions=2)
    put(channel, "a", partition=0)
    put(channel, "b", partition=1)
    channel.close()
    assert [drain(channel.claim(i)) for i in (1, 0)] == [["b"], ["a"]]


def test_shared_write_feeds_whichever_reads() -> None:
    channel: Channel[str] = Channel("t", partitions=3)
    taking = InBackground(lambda: channel.claim(2).take(1, 1))
    hungry(channel)
    put(channel, "a")
    assert taking.result() == ["a"]


def test_shared_and_own_items_waiting_neither_starves() -> None:
    channel: Channel[str] = Channel("t", partitions=2)
    put(channel, "own 1", "own 2", partition=0)
    put(channel, "shared 1", "shared 2")
    reader = channel.claim(0)
    first_two = [*reader.take(1, 1), *reader.take(1, 1)]  # type: ignore[misc]
    assert sorted(first_two) == ["own 1", "shared 1"]


def test_partition_closed_alone_ends_its_reader_alone() -> None:
    channel: Channel[str] = Channel("t", partitions=2)
    put(channel, "a", partition=0)
    channel.close(0)
    assert drain(channel.claim(0)) == ["a"]
    with pytest.raises(SinkClosedError, match="partition 0 of the streaming table 't'"):
        put(channel, "b", partition=0)
    put(channel, "c", partition=1)
    put(channel, "d")
    assert channel.stats.state == "open"
    channel.close(1)
    assert channel.stats.state == "closed"
    assert sorted(drain(channel.claim(1))) == ["c", "d"]
    assert channel.stats.state == "finished"


def test_one_reader_ends_early_others_and_shared_writes_go_on() -> None:
    channel: Channel[str] = Channel("t", partitions=2)
    channel.claim(0).end(Ending("limit", "LIMIT"))
    with pytest.raises(ScanEndedError, match="LIMIT"):
        put(channel, "a", partition=0)
    put(channel, "b", partition=1)
    put(channel, "c")
    other = channel.claim(1)
    assert sorted(other.take(9, 99)) == ["b", "c"]  # type: ignore[arg-type]
    other.end(Ending("limit", "LIMIT too"))
    with pytest.raises(ScanEndedError, match="LIMIT"):
        put(channel, "d")


def test_shared_write_readers_ended_early_and_cleanly_is_refused() -> None:
    channel: Channel[str] = Channel("t", partitions=2)
    channel.claim(0).end(Ending("limit", "LIMIT"))
    channel.close(1)
    put(channel, "partition 1 can still read this")
    assert len(drain(channel.claim(1))) == 1
    with pytest.raises(ScanEndedError, match="LIMIT"):
        put(channel, "nobody can read this")


# More partitions than readers at a time


def run_tasks(channel: Channel[Any], slots: int) -> list[list[Any]]:
    """What Spark does: ``slots`` tasks at a time, the next partition's starts when one ends."""
    results: list[list[Any]] = [[] for _ in range(channel.partitions)]
    todo = iter(range(channel.partitions))
    lock = threading.Lock()

    def slot() -> None:
        while True:
            with lock:
                partition = next(todo, None)
            if partition is None:
                return
            with channel.claim(partition) as reader:
                results[partition] = drain(reader)

    threads = [InBackground(slot) for _ in range(slots)]
    for thread in threads:
        thread.result(60)
    return results


@pytest.mark.parametrize("slots", [1, 2])
@pytest.mark.parametrize("max_bytes", [1 << 20, 100])
@pytest.mark.parametrize("order", ["round robin", "one after the other", "last first"])
def test_more_partitions_than_slots_one_writer_in_any_order_does_not_deadlock(
    slots: int, max_bytes: int, order: str
) -> None:
    spill = MemorySpill()
    channel: Channel[Any] = Channel("t", 4, partitions=6, max_bytes=max_bytes, spill=spill, stall_s=0.05)
    targets = [i % 6 for i in range(300)]
    if order != "round robin":
        targets.sort(reverse=order == "last first")
    most_in_memory = 0

    def write() -> None:
        nonlocal most_in_memory
        for i, target in enumerate(targets):
            put(channel, (target, i), partition=target)
            most_in_memory = max(most_in_memory, channel._lanes.memory)
        channel.close()

    writing = InBackground(write)
    results = run_tasks(channel, slots)
    writing.result()
    for partition, items in enumerate(results):
        assert items == [(target, i) for i, target in enumerate(targets) if target == partition]
    assert spill.stored
    assert spill.closed
    assert most_in_memory <= min(max_bytes, 6 * 4 * 10) + slots * 10


def test_more_partitions_than_slots_no_spill_given_keeps_items_in_memory() -> None:
    channel: Channel[int] = Channel("t", 1, partitions=2, stall_s=0.0)
    writing = InBackground(lambda: put_alternately(channel, 50))
    results = run_tasks(channel, 1)
    writing.result()
    assert results == [list(range(0, 50, 2)), list(range(1, 50, 2))]


def test_unread_partition_full_and_no_reader_hungry_write_blocks() -> None:
    spill = MemorySpill()
    channel: Channel[int] = Channel("t", 1, partitions=2, spill=spill, stall_s=0.0)
    put(channel, 1, partition=1)
    with pytest.raises(WriteTimeout):
        channel.offer(2, 1, 10, 1, timeout_s=0)
    reader = channel.claim(0)
    put(channel, 3, partition=0)
    assert reader.take(1, 1) == [3]
    with pytest.raises(WriteTimeout):
        channel.offer(2, 1, 10, 1, timeout_s=0)
    taking = InBackground(lambda: reader.take(1, 1))
    hungry(channel)
    channel.offer(2, 1, 10, 1, timeout_s=0)
    assert (spill.stored, channel.stats.spilled, channel.stats.waiting) == ([2], 1, 2)
    put(channel, 4, partition=0)
    assert taking.result() == [4]


def test_read_partition_full_while_another_is_hungry_write_blocks() -> None:
    channel: Channel[int] = Channel("t", 1, partitions=2, stall_s=3600.0)
    channel.claim(1)
    put(channel, 1, partition=1)
    taking = InBackground(lambda: channel.claim(0).take(1, 1))
    hungry(channel)
    with pytest.raises(WriteTimeout):
        channel.offer(2, 1, 10, 1, timeout_s=0)
    put(channel, 3, partition=0)
    assert taking.result() == [3]


@pytest.mark.parametrize("partition", [0, None])
def test_hungry_reader_shut_out_by_bytes_of_others_is_fed_at_once(partition: int | None) -> None:
    channel: Channel[str] = Channel("t", partitions=2, max_bytes=100, stall_s=3600.0)
    channel.offer("waits for partition 1", 1, 500, 1)
    taking = InBackground(lambda: channel.claim(0).take(1, 1))
    hungry(channel)
    channel.offer("food", 1, 10, partition, timeout_s=0)
    assert taking.result() == ["food"]
    with pytest.raises(WriteTimeout):  # the bound holds again
        channel.offer("more", 1, 10, partition, timeout_s=0)


def test_reader_ends_early_gives_the_memory_of_its_lane_back_to_the_others() -> None:
    channel: Channel[str] = Channel("t", partitions=2, max_bytes=100, stall_s=3600.0)
    ending, going_on = channel.claim(0), channel.claim(1)
    channel.offer("fills all there is", 1, 100, 0)
    with pytest.raises(WriteTimeout):
        channel.offer("finds no room", 1, 10, 1, timeout_s=0)
    waiting = InBackground(lambda: channel.offer("waits for room", 1, 10, 1))
    blocked(channel)
    ending.end(Ending("limit", "its limit was reached"))
    waiting.result()
    assert channel._lanes.memory == 10
    channel.offer("finds room", 1, 10, 1, timeout_s=0)
    assert going_on.take(10, 1000) == ["waits for room", "finds room"]
    assert channel._lanes.memory == 0


def test_reader_held_up_for_results_of_another_does_not_deadlock() -> None:
    """Results are fetched in the order of partitions: reader 1 pauses until reader 0 is through."""
    channel: Channel[int] = Channel("t", 1, partitions=2, spill=MemorySpill(), stall_s=0.05)
    late = channel.claim(1)
    writing = InBackground(lambda: put_alternately(channel, 50))
    assert InBackground(lambda: drain(channel.claim(0))).result() == list(range(0, 50, 2))
    assert drain(late) == list(range(1, 50, 2))
    writing.result()


def test_spill_fails_write_raises_and_nothing_is_written() -> None:
    full = OSError("no space left on device")
    channel: Channel[int] = Channel("t", 1, partitions=2, spill=MemorySpill(full), stall_s=0.0)
    put(channel, 1, partition=1)
    taking = InBackground(lambda: channel.claim(0).take(1, 1))
    hungry(channel)
    with pytest.raises(OSError, match="no space left"):
        put(channel, 2, partition=1)
    channel.close()
    assert taking.result() is END
    assert drain(channel.claim(1)) == [1]


def test_offer_async_unread_partition_spills() -> None:
    spill = MemorySpill()
    channel: Channel[int] = Channel("t", 1, partitions=2, spill=spill, stall_s=0.0)

    async def main() -> None:
        for i in range(20):
            await asyncio.wait_for(channel.offer_async(i, 1, 1, i % 2), PATIENCE_S)
        channel.close()

    reading = InBackground(lambda: run_tasks(channel, 1))
    asyncio.run(main())
    assert reading.result() == [list(range(0, 20, 2)), list(range(1, 20, 2))]
