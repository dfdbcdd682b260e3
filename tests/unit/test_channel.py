"""The bounded channel: bounds, who ends first, partitions and deadlocks, asyncio."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from headrace.errors import (
    DeregisteredError,
    ProducerLostError,
    ScanEndedError,
    SinkClosedError,
    StreamConsumedError,
    WriteTimeout,
)
from headrace.push.channel import END, Channel, Reader

PATIENCE_S = 60.0


class Background:
    """A function in a thread of its own, whose result or exception is awaited with a limit."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._error: BaseException | None = None
        self._result: Any = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._result = self._function()
        except BaseException as error:
            self._error = error

    def result(self, patience_s: float = PATIENCE_S) -> Any:
        self._thread.join(patience_s)
        assert not self._thread.is_alive(), "hangs"
        if self._error is not None:
            raise self._error
        return self._result


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


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come"
        time.sleep(0.001)


def blocked(channel: Channel[Any], count: int = 1) -> None:
    until(lambda: channel._lanes.blocked == count)


def hungry(channel: Channel[Any], count: int = 1) -> None:
    until(lambda: channel._lanes.hungry == count)


def drain(reader: Reader[Any]) -> list[Any]:
    items: list[Any] = []
    while (taken := reader.take(1 << 30, 1 << 40)) is not END:
        assert isinstance(taken, list)
        items += taken
    return items


def put(channel: Channel[Any], *items: Any, partition: int | None = None) -> None:
    for item in items:
        channel.offer(item, 1, 10, partition, timeout_s=PATIENCE_S)


def put_alternately(channel: Channel[Any], count: int) -> None:
    for i in range(count):
        put(channel, i, partition=i % 2)
    channel.close()


# Taking


def test_take_several_waiting_returns_all_at_once() -> None:
    channel: Channel[int] = Channel("t")
    put(channel, 1, 2, 3)
    assert channel.claim(0).take(100, 1000) == [1, 2, 3]


@pytest.mark.parametrize(("max_rows", "max_bytes"), [(2, 1000), (100, 25)])
def test_take_limits_given_returns_no_more_than_they_allow(max_rows: int, max_bytes: int) -> None:
    channel: Channel[int] = Channel("t")
    put(channel, 1, 2, 3)
    assert channel.claim(0).take(max_rows, max_bytes) == [1, 2]


def test_take_first_item_over_the_limits_returns_it_alone() -> None:
    channel: Channel[str] = Channel("t")
    channel.offer("big", 1000, 1000)
    put(channel, "small")
    assert channel.claim(0).take(10, 10) == ["big"]


def test_take_nothing_comes_returns_empty_after_timeout() -> None:
    assert Channel[int]("t").claim(0).take(1, 1, timeout_s=0.01) == []


def test_take_item_comes_later_returns_it_without_waiting_for_more() -> None:
    channel: Channel[int] = Channel("t")
    taking = Background(lambda: channel.claim(0).take(100, 1000))
    hungry(channel)
    put(channel, 1)
    assert taking.result() == [1]


# The bound


def test_offer_capacity_waiting_blocks_until_one_is_taken() -> None:
    channel: Channel[int] = Channel("t", 2)
    put(channel, 1, 2)
    writing = Background(lambda: put(channel, 3))
    blocked(channel)
    reader = channel.claim(0)
    assert reader.take(1, 1000) == [1]
    writing.result()
    assert reader.take(100, 1000) == [2, 3]


def test_offer_several_blocked_are_let_in_first_come_first_served() -> None:
    channel: Channel[int] = Channel("t", 1)
    put(channel, 0)
    writers = []
    for i in range(1, 5):
        writers.append(Background(lambda i=i: put(channel, i)))  # type: ignore[misc]
        blocked(channel, i)
    reader = channel.claim(0)
    assert [reader.take(1, 1000) for _ in range(5)] == [[0], [1], [2], [3], [4]]
    for writer in writers:
        writer.result()


def test_offer_bytes_over_the_bound_blocks_until_taken() -> None:
    channel: Channel[str] = Channel("t", 100, max_bytes=100)
    channel.offer("larger than the bound, but nothing waits", 1, 500)
    writing = Background(lambda: channel.offer("b", 1, 1))
    blocked(channel)
    reader = channel.claim(0)
    assert len(reader.take(100, 1000)) == 1  # type: ignore[arg-type]
    writing.result()
    assert reader.take(100, 1000) == ["b"]


@pytest.mark.parametrize("timeout_s", [0.0, 0.02])
def test_offer_full_for_the_timeout_raises_and_writes_nothing(timeout_s: float) -> None:
    channel: Channel[int] = Channel("t", 1)
    put(channel, 1)
    with pytest.raises(WriteTimeout, match="the streaming table 't' stayed full"):
        channel.offer(2, 1, 1, timeout_s=timeout_s)
    channel.close()
    assert drain(channel.claim(0)) == [1]


def test_offer_no_rows_is_counted_and_not_queued() -> None:
    channel: Channel[int] = Channel("t", 1)
    for _ in range(5):
        channel.offer(0, 0, 0)
    stats = channel.stats
    assert (stats.batches_written, stats.batches_delivered, stats.waiting) == (5, 5, 0)
    channel.close()
    with pytest.raises(SinkClosedError):
        channel.offer(0, 0, 0)


def test_stats_items_written_and_taken_adds_up() -> None:
    channel: Channel[int] = Channel("t", 3)
    for item in range(3):
        channel.offer(item, 5, 7)
    with pytest.raises(WriteTimeout):
        channel.offer(3, 5, 7, timeout_s=0.02)
    channel.claim(0).take(10, 1000)
    stats = channel.stats
    assert (stats.rows_written, stats.batches_written, stats.bytes_written) == (15, 3, 21)
    assert (stats.rows_delivered, stats.batches_delivered, stats.bytes_delivered) == (10, 2, 14)
    assert (stats.waiting, stats.capacity, stats.spilled, stats.state) == (1, 3, 0, "open")
    assert stats.blocked_s >= 0.02


@pytest.mark.parametrize("sizes", [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_channel_size_below_one_is_refused(sizes: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Channel("t", sizes[0], partitions=sizes[1], max_bytes=sizes[2])


# Who ends first

BOOM = ValueError("boom")
GONE = DeregisteredError("the table was deregistered")
PRODUCER_ENDS: dict[str, tuple[Callable[[Channel[Any]], None], type[Exception], type[Exception] | None]] = {
    # how the producer ends: what writes raise then, what the reader gets behind the last item (None: END)
    "close": (lambda channel: channel.close(), SinkClosedError, None),
    "fail": (lambda channel: channel.fail(BOOM), SinkClosedError, ValueError),
    "abandon": (lambda channel: channel.abandon(GONE), DeregisteredError, DeregisteredError),
    "lost": (
        lambda channel: channel.abandon_soon(ProducerLostError("x")),
        ProducerLostError,
        ProducerLostError,
    ),
}
READER_ENDS: dict[str, Callable[[Channel[Any]], None]] = {
    "end": lambda channel: channel._readers[0].end("LIMIT reached"),
    "end_scan": lambda channel: channel.end_scan("LIMIT reached"),
}


@pytest.mark.parametrize("how", PRODUCER_ENDS)
def test_producer_ends_before_reading_reader_gets_items_then_the_end(how: str) -> None:
    ends, refusal, outcome = PRODUCER_ENDS[how]
    channel: Channel[int] = Channel("t")
    put(channel, 1, 2)
    ends(channel)
    with pytest.raises(refusal):
        put(channel, 3)
    reader = channel.claim(0)
    assert reader.take(100, 1000) == [1, 2]
    for _ in range(2):  # the end stays the end
        if outcome is None:
            assert reader.take(1, 1) is END
        else:
            with pytest.raises(outcome):
                reader.take(1, 1)
    reader.finish()
    assert channel.stats.state == ("finished" if outcome is None else "failed")


@pytest.mark.parametrize("how", PRODUCER_ENDS)
def test_producer_ends_while_reader_waits_reader_is_released(how: str) -> None:
    ends, _, outcome = PRODUCER_ENDS[how]
    channel: Channel[int] = Channel("t")
    reader = channel.claim(0)
    taking = Background(lambda: reader.take(1, 1))
    hungry(channel)
    ends(channel)
    if outcome is None:
        assert taking.result() is END
    else:
        with pytest.raises(outcome):
            taking.result()


@pytest.mark.parametrize("how", PRODUCER_ENDS)
def test_producer_ends_while_write_is_blocked_write_is_refused(how: str) -> None:
    ends, refusal, _ = PRODUCER_ENDS[how]
    channel: Channel[int] = Channel("t", 1)
    put(channel, 1)
    writing = Background(lambda: channel.offer(2, 1, 1))
    blocked(channel)
    ends(channel)
    with pytest.raises(refusal):
        writing.result()


@pytest.mark.parametrize("how", READER_ENDS)
@pytest.mark.parametrize("producer", PRODUCER_ENDS)
def test_reader_ends_first_then_producer_both_orders_are_well_defined(how: str, producer: str) -> None:
    ends, refusal, _ = PRODUCER_ENDS[producer]
    channel: Channel[int] = Channel("t", 1)
    reader = channel.claim(0)
    put(channel, 1)
    writing = Background(lambda: channel.offer(2, 1, 1))
    blocked(channel)
    READER_ENDS[how](channel)
    with pytest.raises(ScanEndedError, match="LIMIT reached"):
        writing.result()
    with pytest.raises(ScanEndedError, match="LIMIT reached"):
        put(channel, 3)
    with pytest.raises(ScanEndedError, match="LIMIT reached"):
        reader.take(1, 1)
    ends(channel)  # never raises; the producer's own end then outranks the reader's
    with pytest.raises(refusal):
        put(channel, 4)
    assert (channel.stats.state, channel.stats.waiting) == ("ended", 0)


@pytest.mark.parametrize("how", READER_ENDS)
@pytest.mark.parametrize("producer", PRODUCER_ENDS)
def test_reader_ends_early_after_producer_state_is_ended(how: str, producer: str) -> None:
    ends, refusal, _ = PRODUCER_ENDS[producer]
    channel: Channel[int] = Channel("t")
    channel.claim(0)
    put(channel, 1)
    ends(channel)
    READER_ENDS[how](channel)
    with pytest.raises(refusal):
        put(channel, 2)
    assert channel.stats.state == "ended"


@pytest.mark.parametrize("how", READER_ENDS)
def test_reader_ended_while_it_waits_is_released(how: str) -> None:
    channel: Channel[int] = Channel("t")
    reader = channel.claim(0)
    taking = Background(lambda: reader.take(1, 1))
    hungry(channel)
    READER_ENDS[how](channel)
    with pytest.raises(ScanEndedError, match="LIMIT reached"):
        taking.result()


def test_end_after_clean_end_is_no_op() -> None:
    channel: Channel[int] = Channel("t")
    channel.close()
    with channel.claim(0) as reader:
        assert reader.take(1, 1) is END
    channel.end_scan("too late")
    assert channel.stats.state == "finished"


def test_reader_left_before_the_end_ends_early() -> None:
    channel: Channel[int] = Channel("t")
    with channel.claim(0):
        pass
    with pytest.raises(ScanEndedError, match="stopped before the end"):
        put(channel, 1)


def test_close_and_fail_repeated_first_end_counts() -> None:
    channel: Channel[int] = Channel("t")
    channel.fail(BOOM)
    channel.fail(KeyError("second"))
    channel.close()
    channel.abandon(GONE)
    with pytest.raises(ValueError, match="boom"):
        channel.claim(0).take(1, 1)


def test_fail_after_close_raises_and_the_end_stays_clean() -> None:
    channel: Channel[int] = Channel("t")
    channel.close()
    channel.close()
    channel.abandon(GONE)
    with pytest.raises(SinkClosedError, match="closed before it failed with ValueError: boom"):
        channel.fail(BOOM)
    assert channel.claim(0).take(1, 1) is END


def test_fail_cause_raised_before_keeps_its_own_traceback() -> None:
    def read_from_shard() -> None:
        raise OSError("shard 7 is down")

    channel: Channel[int] = Channel("t", partitions=2)
    try:
        read_from_shard()
    except OSError as error:
        channel.fail(error)
    for partition in range(2):
        with pytest.raises(OSError, match="shard 7") as raised:
            channel.claim(partition).take(1, 1)
        names = [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)]
        assert names.count("read_from_shard") == 1
        assert names.count("take") == 1


def test_fail_with_keyboard_interrupt_reader_gets_producer_lost() -> None:
    channel: Channel[int] = Channel("t")
    channel.fail(KeyboardInterrupt())
    with pytest.raises(ProducerLostError, match="stopped by KeyboardInterrupt") as raised:
        channel.claim(0).take(1, 1)
    assert isinstance(raised.value.__cause__, KeyboardInterrupt)


def test_abandon_soon_lock_is_held_reader_learns_at_its_next_tick() -> None:
    channel: Channel[int] = Channel("t")
    reader = channel.claim(0)
    taking = Background(lambda: reader.take(1, 1))
    hungry(channel)
    with channel._lock:  # as when the garbage collector runs inside
        channel.abandon_soon(ProducerLostError("gone"))
    with pytest.raises(ProducerLostError, match="gone"):
        taking.result()


# Claiming


def test_claim_second_time_raises_for_ever() -> None:
    channel: Channel[int] = Channel("x", partitions=2)
    channel.claim(0).end("cancelled")
    channel.claim(1)
    for partition in (0, 1, 0):
        with pytest.raises(
            StreamConsumedError,
            match="the streaming table 'x' can be scanned once, and that scan was taken; "
            "use a TableProvider to scan again",
        ):
            channel.claim(partition)


def test_claim_after_scan_ended_raises_with_the_reason() -> None:
    channel: Channel[int] = Channel("t", partitions=2)
    channel.end_scan("query cancelled")
    with pytest.raises(ScanEndedError, match="query cancelled"):
        channel.claim(1)


# Partitions


def test_partition_write_reaches_that_partition_alone() -> None:
    channel: Channel[str] = Channel("t", partitions=2)
    put(channel, "a", partition=0)
    put(channel, "b", partition=1)
    channel.close()
    assert [drain(channel.claim(i)) for i in (1, 0)] == [["b"], ["a"]]


def test_shared_write_feeds_whichever_reads() -> None:
    channel: Channel[str] = Channel("t", partitions=3)
    taking = Background(lambda: channel.claim(2).take(1, 1))
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
    channel.claim(0).end("LIMIT")
    with pytest.raises(ScanEndedError, match="LIMIT"):
        put(channel, "a", partition=0)
    put(channel, "b", partition=1)
    put(channel, "c")
    other = channel.claim(1)
    assert sorted(other.take(9, 99)) == ["b", "c"]  # type: ignore[arg-type]
    other.end("LIMIT too")
    with pytest.raises(ScanEndedError, match="LIMIT"):
        put(channel, "d")


def test_shared_write_readers_ended_early_and_cleanly_is_refused() -> None:
    channel: Channel[str] = Channel("t", partitions=2)
    channel.claim(0).end("LIMIT")
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

    threads = [Background(slot) for _ in range(slots)]
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

    writing = Background(write)
    results = run_tasks(channel, slots)
    writing.result()
    for partition, items in enumerate(results):
        assert items == [(target, i) for i, target in enumerate(targets) if target == partition]
    assert spill.stored
    assert spill.closed
    assert most_in_memory <= min(max_bytes, 6 * 4 * 10) + slots * 10


def test_more_partitions_than_slots_no_spill_given_keeps_items_in_memory() -> None:
    channel: Channel[int] = Channel("t", 1, partitions=2, stall_s=0.0)
    writing = Background(lambda: put_alternately(channel, 50))
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
    taking = Background(lambda: reader.take(1, 1))
    hungry(channel)
    channel.offer(2, 1, 10, 1, timeout_s=0)
    assert (spill.stored, channel.stats.spilled, channel.stats.waiting) == ([2], 1, 2)
    put(channel, 4, partition=0)
    assert taking.result() == [4]


def test_read_partition_full_while_another_is_hungry_write_blocks() -> None:
    channel: Channel[int] = Channel("t", 1, partitions=2, stall_s=3600.0)
    channel.claim(1)
    put(channel, 1, partition=1)
    taking = Background(lambda: channel.claim(0).take(1, 1))
    hungry(channel)
    with pytest.raises(WriteTimeout):
        channel.offer(2, 1, 10, 1, timeout_s=0)
    put(channel, 3, partition=0)
    assert taking.result() == [3]


@pytest.mark.parametrize("partition", [0, None])
def test_hungry_reader_shut_out_by_bytes_of_others_is_fed_at_once(partition: int | None) -> None:
    channel: Channel[str] = Channel("t", partitions=2, max_bytes=100, stall_s=3600.0)
    channel.offer("waits for partition 1", 1, 500, 1)
    taking = Background(lambda: channel.claim(0).take(1, 1))
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
    waiting = Background(lambda: channel.offer("waits for room", 1, 10, 1))
    blocked(channel)
    ending.end("its limit was reached")
    waiting.result()
    assert channel._lanes.memory == 10
    channel.offer("finds room", 1, 10, 1, timeout_s=0)
    assert going_on.take(10, 1000) == ["waits for room", "finds room"]
    assert channel._lanes.memory == 0


def test_reader_held_up_for_results_of_another_does_not_deadlock() -> None:
    """Results are fetched in the order of partitions: reader 1 pauses until reader 0 is through."""
    channel: Channel[int] = Channel("t", 1, partitions=2, spill=MemorySpill(), stall_s=0.05)
    late = channel.claim(1)
    writing = Background(lambda: put_alternately(channel, 50))
    assert Background(lambda: drain(channel.claim(0))).result() == list(range(0, 50, 2))
    assert drain(late) == list(range(1, 50, 2))
    writing.result()


def test_spill_fails_write_raises_and_nothing_is_written() -> None:
    full = OSError("no space left on device")
    channel: Channel[int] = Channel("t", 1, partitions=2, spill=MemorySpill(full), stall_s=0.0)
    put(channel, 1, partition=1)
    taking = Background(lambda: channel.claim(0).take(1, 1))
    hungry(channel)
    with pytest.raises(OSError, match="no space left"):
        put(channel, 2, partition=1)
    channel.close()
    assert taking.result() is END
    assert drain(channel.claim(1)) == [1]


# asyncio


def test_offer_async_full_lets_the_loop_run_until_there_is_room() -> None:
    channel: Channel[int] = Channel("t", 1)

    async def main() -> list[Any]:
        await channel.offer_async(1, 1, 1)
        writing = [asyncio.create_task(channel.offer_async(i, 1, 1)) for i in (2, 3)]
        while channel._lanes.blocked < 2:
            await asyncio.sleep(0)
        threads = threading.active_count()
        reading = Background(lambda: drain(channel.claim(0)))
        await asyncio.wait_for(asyncio.gather(*writing), PATIENCE_S)
        assert threads == threading.active_count() - 1 or threads == threading.active_count()
        channel.close()
        return list(reading.result())

    assert asyncio.run(main()) == [1, 2, 3]


def test_offer_async_cancelled_while_blocked_writes_nothing() -> None:
    channel: Channel[int] = Channel("t", 1)

    async def main() -> None:
        await channel.offer_async(1, 1, 1)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(channel.offer_async(2, 1, 1), 0.02)

    asyncio.run(main())
    channel.close()
    assert (drain(channel.claim(0)), channel._lanes.blocked) == ([1], 0)


def test_offer_async_scan_ends_while_blocked_raises() -> None:
    channel: Channel[int] = Channel("t", 1)

    async def main() -> None:
        await channel.offer_async(1, 1, 1)
        writing = asyncio.create_task(channel.offer_async(2, 1, 1))
        while not channel._lanes.blocked:
            await asyncio.sleep(0)
        Background(lambda: channel.end_scan("LIMIT")).result()
        with pytest.raises(ScanEndedError, match="LIMIT"):
            await asyncio.wait_for(writing, PATIENCE_S)

    asyncio.run(main())


def test_offer_async_unread_partition_spills() -> None:
    spill = MemorySpill()
    channel: Channel[int] = Channel("t", 1, partitions=2, spill=spill, stall_s=0.0)

    async def main() -> None:
        for i in range(20):
            await asyncio.wait_for(channel.offer_async(i, 1, 1, i % 2), PATIENCE_S)
        channel.close()

    reading = Background(lambda: run_tasks(channel, 1))
    asyncio.run(main())
    assert reading.result() == [list(range(0, 20, 2)), list(range(1, 20, 2))]


# Leaving


def test_exit_with_a_write_blocked_and_nobody_reading_does_not_hang() -> None:
    script = """
import threading
import headrace.push.channel as c
c._EXIT_GRACE_S = 0.2
channel = c.Channel("t", 1)
def write():
    try:
        for i in range(3): channel.offer(i, 1, 1)
    except c.ScanEndedError as error:
        print(error)
threading.Thread(target=write).start()
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True, text=True, timeout=60, env={"PYTHONPATH": ":".join(sys.path)},
    )  # fmt: skip
    assert "exiting and nobody reads the streaming table 't'" in done.stdout, done.stderr


def test_channel_dropped_is_collected() -> None:
    gc.collect()
    put(Channel[int]("t"), 1)
    gc.collect()
    assert not [each for each in gc.get_objects() if isinstance(each, Channel) and each.stats.waiting == 1]
