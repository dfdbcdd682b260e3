"""Who ends a channel first, the producer or the reader, and what the other is told."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import pytest

from channels import blocked, hungry, put
from headrace.errors import DeregisteredError, ProducerLostError, ScanEndedError, SinkClosedError
from headrace.execute.stopping import Ending
from headrace.push.channel import END, Channel
from pushing import InBackground

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
    "end": lambda channel: channel._readers[0].end(Ending("limit", "LIMIT reached")),
    "end_scan": lambda channel: channel.end_scan(Ending("limit", "LIMIT reached")),
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
    taking = InBackground(lambda: reader.take(1, 1))
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
    writing = InBackground(lambda: channel.offer(2, 1, 1))
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
    writing = InBackground(lambda: channel.offer(2, 1, 1))
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
    taking = InBackground(lambda: reader.take(1, 1))
    hungry(channel)
    READER_ENDS[how](channel)
    with pytest.raises(ScanEndedError, match="LIMIT reached"):
        taking.result()


def test_end_after_clean_end_is_no_op() -> None:
    channel: Channel[int] = Channel("t")
    channel.close()
    with channel.claim(0) as reader:
        assert reader.take(1, 1) is END
    channel.end_scan(Ending("limit", "too late"))
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
    taking = InBackground(lambda: reader.take(1, 1))
    hungry(channel)
    with channel._lock:  # as when the garbage collector runs inside
        channel.abandon_soon(ProducerLostError("gone"))
    with pytest.raises(ProducerLostError, match="gone"):
        taking.result()
