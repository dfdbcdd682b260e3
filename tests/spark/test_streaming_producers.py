"""A producer that fails or goes away: the query fails with that cause, and never takes part for the whole."""

from __future__ import annotations

import gc

import pytest

import headrace as hr
from pushing import LIVE, ROWS, InBackground, reading, rows

pytestmark = pytest.mark.core

# Failed by the producer


def test_fail_fails_the_query_with_class_and_message(ctx: hr.SessionContext) -> None:
    sink = ctx.register_streaming_table("t", ROWS)
    query = InBackground(lambda: ctx.collect(LIVE))
    sink.write(rows(0))
    reading(sink)
    sink.fail(KeyError("shard 3"))
    error = query.error()
    assert isinstance(error, hr.ProviderError)
    assert (error.exception_type, error.table, error.partition) == ("KeyError", "t", 0)
    assert "shard 3" in error.message
    assert isinstance(error.__cause__, KeyError)


def test_fail_before_the_query_fails_a_native_call_in_its_text(ctx: hr.SessionContext) -> None:
    ctx.register_streaming_table("t", ROWS).fail(TimeoutError("no answer in 5 s"))
    with pytest.raises(Exception, match=r"TimeoutError: no answer in 5 s"):
        ctx.table("t").count()


def test_block_that_raises_fails_the_query_with_the_traceback(ctx: hr.SessionContext) -> None:
    sink = ctx.register_streaming_table("t", ROWS)
    query = InBackground(lambda: ctx.collect(LIVE))

    def produce() -> None:
        with sink:
            sink.write(rows(0))
            raise ZeroDivisionError("in the producer")

    with pytest.raises(ZeroDivisionError):
        produce()
    error = query.error()
    assert isinstance(error, hr.ProviderError)
    assert error.exception_type == "ZeroDivisionError"
    assert "in produce" in error.traceback


def test_failed_partition_fails_the_whole_query(ctx: hr.SessionContext) -> None:
    sink = ctx.register_streaming_table("t", ROWS, partitions=2)
    query = InBackground(lambda: ctx.collect(LIVE))
    sink.partition(0).write(rows(0))
    reading(sink)
    sink.partition(0).close()
    sink.partition(1).fail(OSError("disk on fire"))
    assert "disk on fire" in str(query.error())


# A producer that goes away


def test_sink_garbage_collected_fails_the_query(ctx: hr.SessionContext) -> None:
    sink = ctx.register_streaming_table("t", ROWS)
    query = InBackground(lambda: ctx.collect(LIVE))
    sink.write(rows(0))
    reading(sink)
    del sink
    gc.collect()
    error = query.error()
    assert isinstance(error, hr.ProducerLostError)
    assert "'t' went away before close()" in str(error)


def test_table_deregistered_fails_the_query(ctx: hr.SessionContext) -> None:
    sink = ctx.register_streaming_table("t", ROWS)
    query = InBackground(lambda: ctx.collect(LIVE))
    sink.write(rows(0))
    reading(sink)
    assert ctx.deregister_table("t")
    assert isinstance(query.error(), hr.DeregisteredError)
    with pytest.raises(hr.DeregisteredError, match="'t' was deregistered"):
        sink.write(rows(1))


def test_table_replaced_fails_the_query_of_the_old_one(ctx: hr.SessionContext) -> None:
    sink = ctx.register_streaming_table("t", ROWS)
    query = InBackground(lambda: ctx.collect(LIVE))
    sink.write(rows(0))
    reading(sink)
    ctx.register_table("t", hr.MemTable(rows(5)), replace=True)
    error = query.error()
    assert isinstance(error, hr.DeregisteredError)
    assert "replaced" in str(error)
    assert ctx.collect("SELECT a FROM t")["a"].to_pylist() == [5]


def test_closed_sink_of_a_deregistered_table_still_gives_everything(ctx: hr.SessionContext) -> None:
    """The producer was done: there is nothing that could be missing."""
    sink = ctx.register_streaming_table("t", ROWS, capacity=100)
    for i in range(50):
        sink.write(rows(i))
    sink.close()
    with ctx.execute_stream(LIVE) as stream:
        first = next(stream)
        ctx.deregister_table("t")
        assert first.num_rows + sum(batch.num_rows for batch in stream) == 50


@pytest.mark.parametrize("native", [True, False], ids=["native", "stream"])
def test_context_closed_fails_the_query(ctx: hr.SessionContext, native: bool) -> None:
    context = hr.SessionContext(ctx.spark)
    sink = context.register_streaming_table("t", ROWS)
    frame = context.sql(LIVE)
    query = InBackground(frame.collect if native else lambda: context.collect(frame))
    sink.write(rows(0))
    reading(sink)
    context.close()
    error = query.error()
    assert isinstance(error, hr.HeadraceError) != native
    assert "context" in str(error)
    assert "closed" in str(error)
    with pytest.raises(hr.ProducerLostError):
        sink.write(rows(1))
