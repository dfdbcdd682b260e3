"""What a newcomer meets on the first day: results in other shapes, reprs, cells run again, errors that teach."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import traceback
from collections.abc import Iterator
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import headrace as hr
import headrace.push.table
from producing import FunctionTable, numbers, wait_until

SCHEMA = pa.schema([("a", pa.int64())])


def never_ends(partition: int) -> Iterator[pa.RecordBatch]:
    yield numbers(1, 7)
    threading.Event().wait(600)


# Results in other shapes


@pytest.mark.parametrize("rows", [0, 10])
def test_read_all_gives_a_table_with_the_schema(ctx: hr.SessionContext, rows: int) -> None:
    table = ctx.execute_stream(f"SELECT id, cast(id AS string) AS s FROM range({rows})").read_all()
    assert isinstance(table, pa.Table)
    assert table.schema.names == ["id", "s"]
    assert table["id"].to_pylist() == list(range(rows))


def test_read_all_after_some_batches_gives_the_rest(ctx: hr.SessionContext) -> None:
    stream = ctx.execute_stream(ctx.spark.range(0, 20_000, numPartitions=2))
    first = next(stream)
    assert first.num_rows + stream.read_all().num_rows == 20_000
    assert stream.read_all().num_rows == 0


@pytest.mark.parametrize("rows", [0, 3])
def test_to_pandas_and_to_polars_give_frames(ctx: hr.SessionContext, rows: int) -> None:
    query = f"SELECT id, cast(id AS string) AS s FROM range({rows})"
    pandas_frame = ctx.execute_stream(query).to_pandas()
    assert isinstance(pandas_frame, pd.DataFrame)
    assert pandas_frame["s"].to_list() == [str(i) for i in range(rows)]
    polars_frame = ctx.execute_stream(query).to_polars()
    assert isinstance(polars_frame, pl.DataFrame)
    assert polars_frame.to_dict(as_series=False) == {"id": list(range(rows)), "s": [str(i) for i in range(rows)]}


def test_to_pandas_options_are_pyarrows(ctx: hr.SessionContext) -> None:
    frame = ctx.execute_stream("SELECT id FROM range(3)").to_pandas(types_mapper=pd.ArrowDtype)
    assert str(frame["id"].dtype) == "int64[pyarrow]"


def test_to_polars_without_polars_says_what_to_install(ctx: hr.SessionContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with (
        ctx.execute_stream("SELECT 1 AS a") as stream,
        pytest.raises(ImportError, match=r"to_polars\(\) needs polars, which is not installed: pip install polars"),
    ):
        stream.to_polars()


# async for


def test_async_for_gives_every_batch_while_the_loop_goes_on(ctx: hr.SessionContext) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.001)

    async def read() -> list[int]:
        ticking = asyncio.create_task(tick())
        found: list[int] = []
        async with ctx.execute_stream(ctx.spark.range(0, 10_000, numPartitions=4)) as stream:
            async for batch in stream:
                found += batch["id"].to_pylist()
        ticking.cancel()
        return found

    assert asyncio.run(read()) == list(range(10_000))
    assert ticks > 1


def test_async_for_of_a_failing_query_raises_its_error(ctx: hr.SessionContext) -> None:
    def broken(partition: int) -> Iterator[pa.RecordBatch]:
        raise LookupError("page 2 is gone")
        yield

    ctx.register_table("t", FunctionTable(broken))

    async def read() -> None:
        async for _ in ctx.execute_stream("SELECT a FROM t"):
            pass

    with pytest.raises(hr.ProviderError, match="page 2 is gone"):
        asyncio.run(read())


def test_async_read_that_is_cancelled_loses_no_batch(ctx: hr.SessionContext) -> None:
    sink = ctx.register_streaming_table("s", SCHEMA)

    async def read() -> list[int]:
        found: list[int] = []
        async with ctx.execute_stream("SELECT a FROM s") as stream:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(stream), 0.2)
            sink.write(numbers(1, 7))
            sink.close()
            async for batch in stream:
                found += batch["a"].to_pylist()
        return found

    assert asyncio.run(read()) == [7]


def test_async_with_left_early_cancels_the_query(ctx: hr.SessionContext) -> None:
    ctx.register_table("t", FunctionTable(never_ends))

    async def read_one() -> int:
        async with ctx.execute_stream("SELECT a FROM t") as stream:
            batch = await anext(stream)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(stream), 0.2)
            return int(batch["a"][0].as_py())

    assert asyncio.run(read_one()) == 7
    wait_until(lambda: not ctx.spark.sparkContext.statusTracker().getActiveJobsIds())


# What objects look like


def test_version_is_that_of_the_package() -> None:
    from importlib.metadata import version

    assert hr.__version__ == version("headrace")


def test_context_repr_shows_spark_and_tables(ctx: hr.SessionContext) -> None:
    ctx.register_table("colours", hr.MemTable(pa.table({"id": [1], "<name>": ["red"]})))
    assert f"Spark {ctx.spark.version}" in repr(ctx)
    assert "colours" in repr(ctx)
    shown = ctx._repr_html_()
    assert "<td" in shown
    assert "MemTable" in shown
    assert "&lt;name&gt;" in shown


def test_result_repr_shows_columns_rows_and_state(ctx: hr.SessionContext) -> None:
    stream = ctx.execute_stream("SELECT id, id AS b FROM range(3)")
    assert repr(stream).startswith("<ResultStream of id, b: ")
    assert "<b>ResultStream of id, b</b>" in stream._repr_html_()
    stream.read_all()
    assert "read to its end" in repr(stream)
    assert "3 rows in" in repr(stream)
    ctx.register_table("t", FunctionTable(never_ends))
    running = ctx.execute_stream("SELECT a FROM t")
    next(running)
    assert "running" in repr(running)
    running.close()
    assert ": closed before its end, " in repr(running)


def test_explain_repr_is_the_text_itself(ctx: hr.SessionContext) -> None:
    ctx.register_table("colours", hr.MemTable(pa.table({"id": [1]})))
    text = ctx.explain("SELECT id FROM colours")
    assert repr(text) == str(text)
    assert text._repr_html_().startswith("<pre>scan 1: colours (MemTable")


def test_explain_of_no_partitions_says_that_there_are_no_rows(ctx: hr.SessionContext) -> None:
    ctx.register_table("t", FunctionTable(never_ends, partitions=0))
    assert "partitions    0  [the scan gives no rows]" in ctx.explain("SELECT a FROM t")
    assert ctx.collect("SELECT a FROM t").num_rows == 0


# Cells that are run again


def test_streaming_table_registered_again_with_replace_ends_the_old_sink(ctx: hr.SessionContext) -> None:
    old = ctx.register_streaming_table("s", SCHEMA)
    with pytest.raises(hr.TableExistsError, match="pass replace=True"):
        ctx.register_streaming_table("s", SCHEMA)
    new = ctx.register_streaming_table("s", SCHEMA, replace=True)
    with pytest.raises(hr.DeregisteredError, match="'s' was replaced by another table"):
        old.write(numbers(1, 1))
    new.write(numbers(1, 2))
    new.close()
    assert ctx.collect("SELECT a FROM s").to_pylist() == [{"a": 2}]


def test_streaming_cell_run_twice_gives_the_same_answer(ctx: hr.SessionContext) -> None:
    for _ in range(2):
        with ctx.register_streaming_table("s", SCHEMA, replace=True) as sink:
            sink.write(numbers(3, 0))
        assert ctx.collect("SELECT sum(a) AS total FROM s").to_pylist() == [{"total": 3}]


# Errors that teach


def test_register_table_of_a_frame_of_spark_says_that_it_is_a_table_already(ctx: hr.SessionContext) -> None:
    with pytest.raises(hr.RegistrationError, match=r"df\.createOrReplaceTempView\(name\)"):
        ctx.register_table("t", ctx.spark.range(3))
    assert not ctx.table_exists("t")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"capacity": 0}, ValueError, "^capacity must be at least 1, not 0$"),
        ({"capacity": 1.5}, TypeError, r"^capacity must be a whole number, not 1\.5$"),
        ({"partitions": None}, TypeError, "^partitions must be a whole number, not None$"),
        ({"partitions": -1}, ValueError, "^partitions must be at least 1, not -1$"),
    ],
)
def test_streaming_table_of_an_impossible_size_is_refused(
    ctx: hr.SessionContext, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        ctx.register_streaming_table("cap", SCHEMA, **options)
    assert not ctx.table_exists("cap")


def test_query_that_is_neither_text_nor_a_frame_is_refused(ctx: hr.SessionContext) -> None:
    for ask in (ctx.collect, ctx.execute_stream, ctx.explain):
        with pytest.raises(TypeError, match="a query is SQL text or a Spark DataFrame, not NoneType"):
            ask(None)  # type: ignore[operator]


def test_collect_before_anything_was_written_warns_with_the_table(
    ctx: hr.SessionContext, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(headrace.push.table, "HINT_S", 0.05)
    sink = ctx.register_streaming_table("lonely", SCHEMA)

    def write_when_warned() -> None:
        wait_until(lambda: bool(caplog.messages))
        sink.close()

    writer = threading.Thread(target=write_when_warned)
    writer.start()
    assert ctx.collect("SELECT a FROM lonely").num_rows == 0
    writer.join()
    (message,) = caplog.messages
    assert "waiting for the streaming table 'lonely'" in message
    assert "nothing has been written to it" in message


@pytest.mark.parametrize("how", ["plan", "provider", "transport"])
def test_error_shown_to_the_user_has_no_py4j_in_its_traceback(ctx: hr.SessionContext, how: str) -> None:
    def broken(partition: int) -> Iterator[pa.RecordBatch]:
        if how == "transport":
            os._exit(3)
        raise LookupError("page 2 is gone")
        yield

    table = FunctionTable(broken)
    if how == "plan":
        table.supports_filters_pushdown = lambda filters: None  # type: ignore[method-assign]
    ctx.register_table("t", table)
    with pytest.raises(hr.HeadraceError) as caught:
        ctx.collect("SELECT a FROM t WHERE a > 1")
    shown = "".join(traceback.format_exception(caught.value))
    assert "Py4J" not in shown
    assert "\tat org.apache.spark" not in shown
    assert len(shown.splitlines()) < 80, shown
