"""How a TableSink ends, closed, failed or forgotten, and which query claims the one scan."""

from __future__ import annotations

import gc
import subprocess
import sys
from typing import Any

import pytest

from headrace.errors import ProducerLostError, ScanEndedError, SinkClosedError, StreamConsumedError
from headrace.execute.stopping import Ending
from headrace.push.channel import END, Channel
from headrace.push.packing import Packing
from headrace.push.sink import TableSink
from headrace.push.table import PushTable
from pushing import InBackground
from sinks import SCHEMA, batch, new_sink, received, xs

# Ends


def test_with_block_succeeds_closes() -> None:
    sink, channel = new_sink()
    with sink:
        sink.write(batch(1))
    assert sink.stats.state == "closed"
    assert xs(received(channel)) == [[1]]
    with pytest.raises(SinkClosedError, match="'t' was closed"):
        sink.write(batch(2))


def test_with_block_raises_fails_the_stream_and_propagates() -> None:
    sink, channel = new_sink()

    def produce() -> None:
        with sink:
            sink.write(batch(1))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        produce()
    reader = channel.claim(0)
    taken = reader.take(10, 1000)
    assert isinstance(taken, list)
    assert xs(taken) == [[1]]
    with pytest.raises(ZeroDivisionError):
        reader.take(10, 1000)


def test_with_block_closes_then_raises_propagates() -> None:
    sink, _ = new_sink()

    def produce() -> None:
        with sink:
            sink.close()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        produce()
    assert sink.stats.state == "closed"


def test_fail_not_an_exception_raises_type_error() -> None:
    sink, _ = new_sink()
    with pytest.raises(TypeError, match="the exception that is the cause, not str"):
        sink.fail("broken")  # type: ignore[arg-type]


def test_sink_collected_without_close_fails_the_reader() -> None:
    sink, channel = new_sink()
    sink.write(batch(1))
    del sink
    reader = channel.claim(0)
    assert len(reader.take(10, 1000)) == 1  # type: ignore[arg-type]
    with pytest.raises(ProducerLostError, match="went away before close"):
        reader.take(10, 1000)


def test_sink_collected_after_close_ends_cleanly() -> None:
    sink, channel = new_sink()
    with sink:
        pass
    del sink
    assert channel.claim(0).take(1, 1) is END


def test_partition_outlives_the_sink_keeps_the_stream_open() -> None:
    sink, channel = new_sink(partitions=2)
    part = sink.partition(1).partition(0)
    del sink
    gc.collect()
    part.write(batch(1))
    assert channel.stats.state == "open"
    part.close()
    del part
    gc.collect()
    assert xs(received(channel, 0)) == [[1]]
    with pytest.raises(ProducerLostError):  # nobody closed partition 1
        channel.claim(1).take(1, 1)


def test_partition_temporaries_collected_do_not_end_the_stream() -> None:
    sink, channel = new_sink(partitions=2)
    for i in range(4):
        sink.partition(i % 2).write(batch(i))
    sink.close()
    assert [xs(received(channel, i)) for i in (0, 1)] == [[[0], [2]], [[1], [3]]]


def test_partition_as_context_manager_closes_that_partition_alone() -> None:
    sink, channel = new_sink(partitions=2)
    with sink.partition(0) as part:
        part.write(batch(1))
    assert sink.stats.state == "open"
    assert xs(received(channel, 0)) == [[1]]
    with sink.partition(1):
        pass
    assert sink.stats.state == "closed"


def test_exit_with_an_open_sink_and_a_waiting_reader_does_not_hang() -> None:
    script = """
import threading, pyarrow as pa
from headrace.push.channel import Channel
from headrace.push.packing import Packing
from headrace.push.sink import TableSink
channel = Channel("t")
sink = TableSink(channel, Packing(pa.schema([("x", pa.int64())]), channel.capacity))
threading.Thread(target=lambda: channel.claim(0).take(1, 1), daemon=True).start()
print("done")
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True, text=True, timeout=60, env={"PYTHONPATH": ":".join(sys.path)},
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


# Who claims the one scan


def push_table(partitions: int = 2) -> tuple[PushTable, TableSink]:
    channel: Channel[Any] = Channel("t", partitions=partitions)
    packing = Packing(SCHEMA, channel.capacity)
    return PushTable("t", channel, packing), TableSink(channel, packing)


def test_claim_of_a_query_that_is_over_takes_nothing() -> None:
    table, sink = push_table()
    table.query_ended(7, "[SPARK_JOB_CANCELLED] Job 1 cancelled", planned=False)
    with pytest.raises(ScanEndedError, match="the query was cancelled"):
        table.claim(0, 7)
    assert sink.stats.state == "open"
    assert table.claim(0, 8) is not None


def test_query_planned_and_cancelled_before_it_claimed_ends_the_scan() -> None:
    table, sink = push_table()
    table.query_ended(7, "[SPARK_JOB_CANCELLED] Job 1 cancelled", planned=True)
    assert sink.stats.state == "ended"
    with pytest.raises(StreamConsumedError, match="another query"):
        table.claim(0, 8)


def test_query_planned_that_ends_does_not_end_the_scan_of_another() -> None:
    table, sink = push_table()
    table.claim(0, 7)
    table.query_ended(8, "StreamConsumedError: ...", planned=True)
    assert sink.stats.state == "open"


def test_claim_again_after_the_producers_failure_gets_it_again() -> None:
    table, sink = push_table()
    sink.fail(LookupError("no such shard"))
    for _ in range(4):
        with pytest.raises(LookupError, match="no such shard"):
            next(table.claim(0, 7))


def test_claim_again_after_the_reader_stopped_early_is_refused_with_why() -> None:
    table, sink = push_table()
    table.claim(0, 7).interrupt(Ending("lost", "the task was killed"))
    sink.fail(LookupError("later"))
    with pytest.raises(StreamConsumedError, match="the task was killed"):
        table.claim(0, 7)


# Which ending it was


def refusal(sink: TableSink) -> ScanEndedError:
    with pytest.raises(ScanEndedError) as refused:
        sink.write(batch(1))
    return refused.value


@pytest.mark.parametrize(
    ("error", "reason", "expected"),
    [
        ("", "", "limit"),
        ("[SPARK_JOB_CANCELLED] Job 1 cancelled", "", "cancelled"),
        ("", "the query's iterator was dropped", "cancelled"),
        ("[DIVIDE_BY_ZERO] Division by zero", "", "failed"),
        ("Job 5 cancelled because SparkContext was shut down", "", "lost"),
    ],
)
def test_query_ended_tells_producers_which_ending_it_was(error: str, reason: str, expected: str) -> None:
    table, sink = push_table()
    table.claim(0, 7)
    table.query_ended(7, error, reason)
    assert refusal(sink).reason == expected


def test_spark_gone_tells_producers_that_the_scan_is_lost() -> None:
    table, sink = push_table()
    table.reader_lost("Spark's driver JVM is gone")
    assert refusal(sink).reason == "lost"


def test_reader_killed_and_query_that_ends_soon_after_has_the_ending_of_the_query() -> None:
    table, sink = push_table(partitions=1)
    stream = table.claim(0, 7)
    stopping = InBackground(lambda: stream.interrupt(Ending("lost", "its task was killed")))
    table.query_ended(7, "[DIVIDE_BY_ZERO] Division by zero")
    stopping.result()
    assert refusal(sink).reason == "failed"


def test_reader_killed_and_query_that_goes_on_is_lost() -> None:
    table, sink = push_table(partitions=1)
    table.claim(0, 7).interrupt(Ending("lost", "its task was killed"))
    assert refusal(sink).reason == "lost"
