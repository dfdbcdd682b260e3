"""The inbox: order, bounds, partitions that are sent again, and how a result ends; without Spark."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

import headrace.results.inbox as inbox_module
from headrace.errors import HeadraceError, ScanEndedError, StreamError, TransportError
from headrace.results.inbox import ResultInbox
from inboxes import SCHEMA, batch, sender, values
from producing import wait_until
from pushing import InBackground

KIB = 1024


def send(inbox: ResultInbox, partition: int, *numbers: int, size: int = 10) -> None:
    """A whole partition, of batches that count as ``size`` bytes."""
    receiver = sender(inbox, partition)
    for number in numbers:
        inbox.put(receiver, batch(number), size)
    inbox.end(receiver)
    inbox.left(receiver, "")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """64 KiB in all, 16 KiB of the partition whose turn it is, stalled after a tenth of a second."""
    monkeypatch.setattr(inbox_module, "_MAX_WAITING_BYTES", 64 * KIB)
    monkeypatch.setattr(inbox_module, "_MAX_CURRENT_BYTES", 16 * KIB)
    monkeypatch.setattr(inbox_module, "_STALLED_SECONDS", 0.1)


# Order and ends


def test_take_hands_out_partitions_in_order_however_they_arrive(inbox: ResultInbox) -> None:
    inbox.announce(3)
    for partition in (2, 0, 1):
        send(inbox, partition, 10 * partition, 10 * partition + 1)
    inbox.finish()
    assert values(inbox) == [0, 1, 10, 11, 20, 21]
    assert inbox.progress() == (3, 3)


# A LIMIT


@pytest.mark.parametrize(("first", "end"), [(0, 0), (0, 1), (0, 3), (2, 3), (1, 5), (0, 100), (4, 100), (7, 9)])
def test_kept_rows_are_handed_out_and_no_others(inbox: ResultInbox, first: int, end: int) -> None:
    inbox.keep_rows(first, end)
    for count, partition in ((1, 0), (3, 1), (3, 2)):
        inbox.announce(count)
        receiver = sender(inbox, partition)
        numbers = pa.array(range(2 * partition, 2 * partition + 2), pa.int64())
        inbox.put(receiver, pa.record_batch([numbers], schema=SCHEMA), 16)
        inbox.end(receiver)
    inbox.finish()
    assert values(inbox) == list(range(6))[first:end]
    assert inbox.waiting_bytes == 0


def test_partition_beyond_the_kept_rows_is_dropped_and_does_not_wait(small: None, inbox: ResultInbox) -> None:
    inbox.keep_rows(0, 1)
    inbox.announce(2)
    send(inbox, 0, 1)
    late = sender(inbox, 1)
    inbox.put(late, batch(2), 60 * KIB)
    assert inbox.take(timeout_s=60) == batch(1)
    for _ in range(3):
        inbox.put(late, batch(3), 60 * KIB)
    assert inbox.waiting_bytes == 0


def test_partition_that_was_not_needed_neither_counts_nor_waits_after_the_end(small: None, inbox: ResultInbox) -> None:
    inbox.keep_rows(0, 1)
    inbox.announce(3)
    needed, late = sender(inbox, 0), sender(inbox, 2)
    inbox.put(late, batch(5), 60 * KIB)
    waiting = InBackground(lambda: inbox.put(late, batch(6), 60 * KIB))
    inbox.put(needed, batch(1), 10)
    inbox.end(needed)
    inbox.announce(1)
    inbox.finish()
    assert isinstance(waiting.error(), StreamError)
    assert values(inbox) == [1]


def test_task_run_again_after_all_kept_rows_were_handed_out_is_let(inbox: ResultInbox) -> None:
    inbox.keep_rows(0, 1)
    inbox.announce(1)
    first = sender(inbox, 0)
    inbox.put(first, batch(1), 10)
    assert inbox.take(timeout_s=60) == batch(1)
    inbox.left(first, "lost")
    send(inbox, 0, 1)
    inbox.finish()
    assert values(inbox) == []


# Before the end


def test_take_gets_a_batch_before_its_partition_is_whole(inbox: ResultInbox) -> None:
    taking = InBackground(inbox.take)
    receiver = sender(inbox, 0)
    inbox.put(receiver, batch(1), 10)
    assert taking.result() is not None
    assert inbox.progress() == (0, None)


def test_empty_result_ends_at_once(inbox: ResultInbox) -> None:
    inbox.announce(0)
    inbox.finish()
    assert inbox.take() is None


def test_take_without_anything_times_out(inbox: ResultInbox) -> None:
    with pytest.raises(TimeoutError):
        inbox.take(timeout_s=0.01)


def test_finish_with_a_partition_missing_is_an_error(inbox: ResultInbox) -> None:
    inbox.announce(2)
    send(inbox, 0, 1)
    inbox.finish()
    with pytest.raises(TransportError, match="never arrived"):
        values(inbox)


def test_fail_raises_the_first_error_each_time(inbox: ResultInbox) -> None:
    inbox.fail(HeadraceError("first"))
    inbox.fail(HeadraceError("second"))
    for _ in range(2):
        with pytest.raises(HeadraceError, match="first"):
            inbox.take()


def test_close_wakes_those_who_take_and_put(small: None, inbox: ResultInbox) -> None:
    taking = InBackground(inbox.take)
    receiver = sender(inbox, 1)
    inbox.put(receiver, batch(1), 64 * KIB)
    sender(inbox, 0)
    putting = InBackground(lambda: inbox.put(receiver, batch(2), 16 * KIB))
    inbox.close()
    assert isinstance(taking.error(), ScanEndedError)
    assert isinstance(putting.error(), StreamError)
    assert inbox.waiting_bytes == 0


# Bounds


def test_put_blocks_when_its_partition_has_enough_waiting(small: None, inbox: ResultInbox) -> None:
    receiver = sender(inbox, 0)
    putting = InBackground(lambda: [inbox.put(receiver, batch(i), 4 * KIB) for i in range(8)])
    wait_until(lambda: inbox.waiting_bytes == 16 * KIB)
    for i in range(8):
        taken = inbox.take(timeout_s=60)
        assert taken is not None
        assert taken["a"].to_pylist() == [i]
        assert inbox.waiting_bytes <= 16 * KIB
    putting.result()


def test_put_of_many_whole_partitions_blocks_when_all_have_enough_waiting(small: None, inbox: ResultInbox) -> None:
    """Each is below its own bound; together they would fill the memory while the first is being sent."""
    inbox.announce(21)
    first = sender(inbox, 0)
    sending = InBackground(lambda: [send(inbox, i, i, size=8 * KIB) for i in range(1, 21)])
    wait_until(lambda: inbox.waiting_bytes == 64 * KIB)
    inbox.put(first, batch(0), 16 * KIB)  # whose turn it is does not wait for those whose turn it is not
    inbox.end(first)
    inbox.left(first, "")
    taken = [inbox.take(timeout_s=60) for _ in range(21)]
    assert [each["a"][0].as_py() for each in taken if each is not None] == list(range(21))
    sending.result()


def test_put_of_a_batch_larger_than_the_bounds_passes_alone(small: None, inbox: ResultInbox) -> None:
    inbox.announce(2)
    send(inbox, 1, 1, size=1000 * KIB)
    send(inbox, 0, 0, size=1000 * KIB)
    inbox.finish()
    assert values(inbox) == [0, 1]


@pytest.mark.parametrize("started", [False, True], ids=["not started", "failed"])
def test_put_goes_to_disk_while_nobody_sends_the_current_partition(
    small: None, inbox: ResultInbox, started: bool
) -> None:
    """Its task may be waiting for the slot of one that is blocked here."""
    inbox.announce(2)
    if started:
        receiver = sender(inbox, 0)
        inbox.put(receiver, batch(-1), KIB)
        inbox.left(receiver, "it broke")
    sending = InBackground(lambda: send(inbox, 1, *range(100, 200), size=4 * KIB))
    sending.result(60)
    assert inbox.waiting_bytes <= 64 * KIB
    send(inbox, 0, 0, 1)
    inbox.finish()
    assert values(inbox) == [0, 1, *range(100, 200)]


def test_put_waits_while_the_current_partition_is_being_sent(small: None, inbox: ResultInbox) -> None:
    sender(inbox, 0)
    sending = InBackground(lambda: send(inbox, 1, *range(20), size=4 * KIB))
    sending.join(0.5)
    assert sending.is_alive()
    assert inbox.waiting_bytes == 64 * KIB


def test_put_that_cannot_spill_fails_the_result_with_the_reason(
    small: None, inbox: ResultInbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: pa.RecordBatch) -> Callable[[], pa.RecordBatch]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(inbox._spill, "store", full)
    sending = InBackground(lambda: send(inbox, 1, *range(20), size=4 * KIB))
    with pytest.raises(StreamError, match="No space left on device"):
        inbox.take(timeout_s=60)
    assert isinstance(sending.error(), StreamError)


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), pa.ArrowInvalid("Input/output error")])
def test_batch_that_cannot_be_read_back_fails_the_result_for_good(
    small: None, inbox: ResultInbox, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def unreadable() -> pa.RecordBatch:
        raise error

    monkeypatch.setattr(inbox._spill, "store", lambda _: unreadable)
    inbox.announce(2)
    InBackground(lambda: send(inbox, 1, *range(20), size=4 * KIB)).result(60)
    send(inbox, 0, 0)
    inbox.finish()
    handed_out = []
    with pytest.raises(StreamError, match=r"cannot be read back: .*Input/output error"):
        while (taken := inbox.take(timeout_s=60)) is not None:
            handed_out += taken["a"].to_pylist()
    assert len(handed_out) < 21
    with pytest.raises(StreamError, match="cannot be read back"):
        inbox.take(timeout_s=60)


def test_unbounded_inbox_takes_everything_and_hands_out_whole_partitions() -> None:
    inbox = ResultInbox(SCHEMA, bounded=False)
    inbox.announce(1)
    receiver = sender(inbox, 0)
    for i in range(100):
        inbox.put(receiver, batch(i), 1 << 20)
    with pytest.raises(TimeoutError):
        inbox.take(timeout_s=0.01)
    inbox.left(receiver, "it broke")
    send(inbox, 0, *range(5))  # run again: nothing of the first run was handed out
    inbox.finish()
    assert values(inbox) == [0, 1, 2, 3, 4]


# Tasks that run again


def test_partition_sent_again_before_any_of_it_was_handed_out_replaces_it(inbox: ResultInbox) -> None:
    inbox.announce(1)
    first = sender(inbox, 0)
    inbox.put(first, batch(1), 10)
    inbox.left(first, "")
    send(inbox, 0, 7, 8)
    inbox.finish()
    assert values(inbox) == [7, 8]


def test_half_sent_partition_is_not_handed_out_once_its_sender_has_left(inbox: ResultInbox) -> None:
    """Its rows would come again with the second run, which then has to be refused."""
    inbox.announce(1)
    first = sender(inbox, 0)
    inbox.put(first, batch(1), 10)
    inbox.left(first, "its executor was lost")
    assert inbox.waiting_bytes == 0
    with pytest.raises(TimeoutError):
        inbox.take(timeout_s=0.01)
    send(inbox, 0, 1, 2)
    inbox.finish()
    assert values(inbox) == [1, 2]


def test_partition_sent_again_after_part_was_handed_out_fails_the_result(inbox: ResultInbox) -> None:
    first = sender(inbox, 0)
    inbox.put(first, batch(1), 10)
    inbox.take()
    inbox.left(first, "the disk broke")
    for attempt in (0, 1):
        with pytest.raises(StreamError, match=rf"(?s)computed again \(attempt {attempt}\).*the disk broke"):
            sender(inbox, 0, attempt)
    with pytest.raises(StreamError, match="computed again"):
        inbox.take()


def test_second_copy_of_a_task_is_refused_while_the_first_is_handed_out(inbox: ResultInbox) -> None:
    inbox.announce(1)
    first = sender(inbox, 0)
    inbox.put(first, batch(1), 10)
    inbox.take()
    with pytest.raises(StreamError, match="being sent by another attempt"):
        sender(inbox, 0, 1)
    inbox.put(first, batch(2), 10)
    inbox.end(first)
    inbox.finish()
    assert values(inbox) == [2]


def test_earlier_attempt_cannot_put_or_end_once_it_was_replaced(inbox: ResultInbox) -> None:
    """Attempts of two stages may have the same number."""
    inbox.announce(1)
    first, second = sender(inbox, 0), sender(inbox, 0)
    for act in (lambda: inbox.put(first, batch(1), 10), lambda: inbox.end(first)):
        with pytest.raises(StreamError, match="not wanted"):
            act()
    inbox.left(first, "")
    inbox.put(second, batch(2), 10)
    inbox.end(second)
    inbox.finish()
    assert values(inbox) == [2]


def test_second_run_of_a_whole_partition_is_ignored(inbox: ResultInbox) -> None:
    inbox.announce(2)
    send(inbox, 0, 1)
    assert inbox.take() is not None
    send(inbox, 0, 1)
    send(inbox, 1, 2)
    inbox.finish()
    assert values(inbox) == [2]
