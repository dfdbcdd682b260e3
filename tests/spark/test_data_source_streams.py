"""PySpark's stream readers as streams of Headrace's, and Headrace's streams as stream readers of PySpark's."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import headrace as hr
import stream_sources as sources
from growing import Batches, Counter, read_available, running
from headrace.stream import why_no_stream
from producing import wait_until
from stream_sources import grow
from versions import has

pytestmark = pytest.mark.core
KINDS = [sources.NumbersSource, sources.SimpleSource]
if has("limits of stream readers"):
    KINDS.append(sources.LimitedSource)


@pytest.fixture
def file(tmp_path: Path) -> str:
    grow(tmp_path / "head", 7)
    return str(tmp_path / "head")


@pytest.mark.parametrize("source", KINDS)
def test_stream_reader_of_each_kind_is_read_and_goes_on_after_a_restart(
    ctx: hr.SessionContext, tmp_path: Path, file: str, source: Any
) -> None:
    ctx.register_table("numbers", hr.from_data_source(source, {"file": file}))
    batches = Batches()
    with running(ctx.stream("numbers"), tmp_path / "checkpoint", batches):
        batches.wait_for_rows(7)
        grow(file, 9)
        batches.wait_for_rows(9)
    assert batches.column("n") == list(range(9))
    assert {row["text"] for row in batches.rows} == {f"number {n}" for n in range(9)}
    grow(file, 12)
    ctx.register_table("numbers", hr.from_data_source(source, {"file": file}), replace=True)
    later = Batches()
    with running(ctx.stream("numbers"), tmp_path / "checkpoint", later):
        later.wait(lambda: 11 in [n for table in later.tables.values() for n in table["n"].to_pylist()])
    assert set(batches.column("n") + later.column("n")) == set(range(12))


def test_available_now_reads_all_of_a_simple_reader(ctx: hr.SessionContext, tmp_path: Path, file: str) -> None:
    ctx.register_table("numbers", hr.from_data_source(sources.SimpleSource, {"file": file}))
    batches = read_available(ctx.stream("numbers"), tmp_path / "checkpoint")
    assert [len(table) for table in batches.tables.values()] == [2, 2, 2, 1]


def test_batch_that_was_not_committed_is_read_again_by_a_simple_reader_made_anew(
    ctx: hr.SessionContext, tmp_path: Path, file: str
) -> None:
    ctx.register_table("numbers", hr.from_data_source(sources.SimpleSource, {"file": file}))

    def fail(frame: Any, batch: int) -> None:
        raise RuntimeError("the sink is full")

    with running(ctx.stream("numbers"), tmp_path / "checkpoint", fail) as query, pytest.raises(Exception, match="full"):
        query.awaitTermination(60)
    ctx.register_table("numbers", hr.from_data_source(sources.SimpleSource, {"file": file}), replace=True)
    batches = Batches()
    with running(ctx.stream("numbers"), tmp_path / "checkpoint", batches):
        batches.wait_for_rows(7)
    assert batches.column("n") == list(range(7))


def test_commits_reach_the_reader(ctx: hr.SessionContext, tmp_path: Path, file: str) -> None:
    ctx.register_table("numbers", hr.from_data_source(sources.NumbersSource, {"file": file}))
    batches = Batches()
    with running(ctx.stream("numbers"), tmp_path / "checkpoint", batches):
        batches.wait_for_rows(7)
        grow(file, 8)
        batches.wait_for_rows(8)
        wait_until(Path(f"{file}.commits").exists)
    assert Path(f"{file}.commits").read_text().splitlines()[0] == "7"


def test_reader_is_stopped_when_its_table_is_gone(spark: SparkSession, file: str) -> None:
    table = hr.from_data_source(sources.NumbersSource, {"file": file})
    table.schema()
    assert isinstance(table, hr.StreamProvider)
    assert table.initial_offset() == {"n": 0}
    assert not Path(f"{file}.stopped").exists()
    del table
    gc.collect()
    assert Path(f"{file}.stopped").exists()


def test_limits_reach_a_reader_that_takes_them(ctx: hr.SessionContext, tmp_path: Path, file: str) -> None:
    ctx.register_table("numbers", hr.from_data_source(KINDS[-1], {"file": file}))
    batches = Batches()
    with running(ctx.stream("numbers", maxRowsPerTrigger=3), tmp_path / "checkpoint", batches):
        batches.wait_for_rows(7)
    sizes = [3, 3, 1] if has("limits of stream readers") else [2, 2, 2, 1]  # a simple reader has its own
    assert [len(table) for table in batches.tables.values()] == sizes


def test_filters_that_only_the_batch_reader_takes_hold_in_the_stream_too(
    ctx: hr.SessionContext, tmp_path: Path, file: str
) -> None:
    ctx.register_table("numbers", hr.from_data_source(sources.BothSource, {"file": file}))
    assert ctx.sql("SELECT n FROM numbers WHERE n > 4").toArrow()["n"].to_pylist() == [5, 6]
    frame = ctx.stream("numbers").where("n > 4").select("text")
    assert read_available(frame, tmp_path / "checkpoint").column("text") == ["number 5", "number 6"]


def test_data_source_without_a_batch_reader_says_how_it_is_read(ctx: hr.SessionContext, file: str) -> None:
    ctx.register_table("numbers", hr.from_data_source(sources.NumbersSource, {"file": file}))
    with pytest.raises(hr.PlanError, match=r"read it with ctx\.stream"):
        ctx.collect("SELECT * FROM numbers")
    batch_only = hr.from_data_source(_BatchOnly, {"file": file})
    assert why_no_stream(batch_only) == "the data source batchonly has neither streamReader nor simpleStreamReader"


class _BatchOnly(sources.BothSource):
    streamReader = sources.DataSource.streamReader  # noqa: N815

    @classmethod
    def name(cls) -> str:
        return "batchonly"


# A StreamProvider where no jar may be added


def loaded(spark: SparkSession, provider: hr.StreamProvider, name: str, **options: Any) -> Any:
    spark.dataSource.register(hr.as_data_source(provider, name))
    return spark.readStream.format(name).options(**options).load()


class FileCounter(hr.StreamProvider):
    """Numbers up to what a file says: the copy in Spark's process sees it grow."""

    def __init__(self, file: str) -> None:
        self.file = file

    def schema(self) -> str:
        return sources.SCHEMA

    def initial_offset(self) -> hr.Offset:
        return 0

    def latest_offset(self, start: hr.Offset, limit: hr.ReadLimit) -> hr.Offset:
        ends = [sources.head_of(self.file)]
        ends += [] if limit.until is None else [limit.until]
        ends += [] if limit.max_rows is None else [start + limit.max_rows]
        return min(ends)

    def scan_between(self, start: hr.Offset, end: hr.Offset, request: hr.ScanRequest) -> hr.ExecutionPlan:
        rows = {"n": list(range(start, end)), "text": [f"number {n}" for n in range(start, end)]}
        return hr.MemTable(rows, partitions=2).scan(request)

    def commit(self, end: hr.Offset) -> None:
        with open(f"{self.file}.commits", "a") as commits:
            commits.write(f"{end}\n")


def test_provider_as_a_data_source_streams_and_goes_on_after_a_restart(
    spark: SparkSession, tmp_path: Path, file: str
) -> None:
    frame = loaded(spark, FileCounter(file), "growing_numbers")
    batches = Batches()
    with running(frame, tmp_path / "checkpoint", batches):
        batches.wait_for_rows(7)
        grow(file, 9)
        batches.wait_for_rows(9)
    assert batches.column("n") == list(range(9))
    grow(file, 12)
    later = Batches()
    with running(loaded(spark, FileCounter(file), "growing_numbers"), tmp_path / "checkpoint", later):
        later.wait(lambda: 11 in [n for table in later.tables.values() for n in table["n"].to_pylist()])
    assert set(batches.column("n") + later.column("n")) == set(range(12))
    assert len(later.rows) <= 5  # the last micro-batch may come again


def test_provider_as_a_data_source_reads_some_columns(spark: SparkSession, tmp_path: Path, file: str) -> None:
    frame = loaded(spark, FileCounter(file), "numbers_to_sum").where("n > 2").select(sf.col("n") * 2)
    assert read_available(frame, tmp_path / "checkpoint").column("(n * 2)") == [6, 8, 10, 12]


def test_provider_as_a_data_source_keeps_limits_and_ends_with_what_is_available(
    spark: SparkSession, tmp_path: Path, file: str
) -> None:
    frame = loaded(spark, FileCounter(file), "limited_numbers", maxRowsPerTrigger=3)
    batches = read_available(frame, tmp_path / "checkpoint")
    sizes = [3, 3, 1] if has("limits of stream readers") else [7]
    assert [len(table) for table in batches.tables.values()] == sizes
    wrong = loaded(spark, FileCounter(file), "wrongly_limited", maxrowspertrigger="many")
    with pytest.raises(Exception, match="maxRowsPerTrigger is a positive number, not 'many'"):
        read_available(wrong, tmp_path / "other")


def test_provider_that_caps_its_steps_is_read_to_its_end_as_a_data_source(
    spark: SparkSession, tmp_path: Path, file: str
) -> None:
    class Capped(FileCounter):
        def latest_offset(self, start: hr.Offset, limit: hr.ReadLimit) -> hr.Offset:
            return min(start + 3, super().latest_offset(start, limit))

    batches = read_available(loaded(spark, Capped(file), "capped_numbers"), tmp_path / "checkpoint")
    sizes = [3, 3, 1] if has("limits of stream readers") else [7]
    assert [len(table) for table in batches.tables.values()] == sizes
    grow(file, 14)
    later = read_available(loaded(spark, Capped(file), "capped_numbers"), tmp_path / "checkpoint")
    assert later.column("n")[-7:] == list(range(7, 14))


def test_provider_that_is_no_stream_says_so_as_a_data_source(spark: SparkSession, tmp_path: Path) -> None:
    frame = loaded(spark, hr.MemTable({"a": [1]}), "standing_still")  # type: ignore[arg-type]
    with pytest.raises(Exception, match="standing_still cannot be read as a stream: MemTable is no StreamProvider"):
        read_available(frame, tmp_path / "checkpoint")


def test_counter_of_another_process_is_read_as_it_was_when_it_was_pickled(spark: SparkSession, tmp_path: Path) -> None:
    counter = Counter(4, placement=hr.Placement.DRIVER)
    frame = loaded(spark, counter, "copied_counter")
    counter.grow(3)
    assert read_available(frame, tmp_path / "checkpoint").column("n") == [0, 1, 2, 3]
