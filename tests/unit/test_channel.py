"""The bounded channel: taking, bounds, claiming, asyncio, leaving."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
from typing import Any

import pytest

from channels import PATIENCE_S, blocked, drain, hungry, put
from headrace.errors import ScanEndedError, SinkClosedError, StreamConsumedError, WriteTimeout
from headrace.execute.stopping import Ending
from headrace.push.channel import Channel
from pushing import InBackground

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
    taking = InBackground(lambda: channel.claim(0).take(100, 1000))
    hungry(channel)
    put(channel, 1)
    assert taking.result() == [1]


# The bound


def test_offer_capacity_waiting_blocks_until_one_is_taken() -> None:
    channel: Channel[int] = Channel("t", 2)
    put(channel, 1, 2)
    writing = InBackground(lambda: put(channel, 3))
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
        writers.append(InBackground(lambda i=i: put(channel, i)))  # type: ignore[misc]
        blocked(channel, i)
    reader = channel.claim(0)
    assert [reader.take(1, 1000) for _ in range(5)] == [[0], [1], [2], [3], [4]]
    for writer in writers:
        writer.result()


def test_offer_bytes_over_the_bound_blocks_until_taken() -> None:
    channel: Channel[str] = Channel("t", 100, max_bytes=100)
    channel.offer("larger than the bound, but nothing waits", 1, 500)
    writing = InBackground(lambda: channel.offer("b", 1, 1))
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


# Claiming


def test_claim_second_time_raises_for_ever() -> None:
    channel: Channel[int] = Channel("x", partitions=2)
    channel.claim(0).end(Ending("cancelled", "cancelled"))
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
    channel.end_scan(Ending("cancelled", "query cancelled"))
    with pytest.raises(ScanEndedError, match="query cancelled"):
        channel.claim(1)


# asyncio


def test_offer_async_full_lets_the_loop_run_until_there_is_room() -> None:
    channel: Channel[int] = Channel("t", 1)

    async def main() -> list[Any]:
        await channel.offer_async(1, 1, 1)
        writing = [asyncio.create_task(channel.offer_async(i, 1, 1)) for i in (2, 3)]
        while channel._lanes.blocked < 2:
            await asyncio.sleep(0)
        threads = threading.active_count()
        reading = InBackground(lambda: drain(channel.claim(0)))
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
        InBackground(lambda: channel.end_scan(Ending("limit", "LIMIT"))).result()
        with pytest.raises(ScanEndedError, match="LIMIT"):
            await asyncio.wait_for(writing, PATIENCE_S)

    asyncio.run(main())


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
