"""Streaming reads: a StreamProvider against Spark's own stream reader, a batch scan, and the file source's latency."""

from __future__ import annotations

import dataclasses
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema

import headrace as hr
from benchmarks.bench import Bench
from benchmarks.data import SCHEMA, SPARK_SCHEMA, base_batch
from benchmarks.harness import Case, Contender, Figure, Probe
from benchmarks.rivals import HEADRACE
from benchmarks.sources import Source, SourcePlan, options_of

ROWS = 5_000_000
PDS = "DataSourceStreamReader"
BATCH = "Headrace, batch scan"
SECONDS = 60.0


class SourceStream(hr.StreamProvider):
    """A source's rows, counted: the same whole batches as the rival's. Read in a batch they are all of them."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def schema(self) -> pa.Schema:
        return self.source.schema

    def initial_offset(self) -> hr.Offset:
        return 0

    def latest_offset(self, start: hr.Offset, limit: hr.ReadLimit) -> hr.Offset:
        return self.source.rows

    def scan_between(self, start: hr.Offset, end: hr.Offset, request: hr.ScanRequest) -> hr.ExecutionPlan:
        return SourcePlan(dataclasses.replace(self.source, rows=end - start), hr.Placement.EXECUTORS)

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        return SourcePlan(self.source, hr.Placement.EXECUTORS)


class RivalStreamReader(DataSourceStreamReader):
    def __init__(self, source: Source) -> None:
        self.source = source

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"rows": 0}

    def latestOffset(self) -> dict[str, int]:  # type: ignore[override]  # noqa: N802 - as before 4.3, for all
        return {"rows": self.source.rows}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [InputPartition(i) for i in range(self.source.partitions)] if start != end else []

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return self.source.batches(partition.value)


class RivalStream(DataSource):
    """Spark's own way: the same Arrow batches from a Python Data Source."""

    @classmethod
    def name(cls) -> str:
        return "rival_stream"

    def schema(self) -> Any:
        return from_arrow_schema(Source.from_options(self.options).schema)

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
        return RivalStreamReader(Source.from_options(self.options))


def cases(bench: Bench) -> list[Case | Probe]:
    few, many = Source(bench.settings.at_most(ROWS)), Source(bench.rows)
    for source in (few, many):
        bench.ctx.register_table(f"stream_{source.rows}", SourceStream(source), replace=True)
    bench.ctx.spark.dataSource.register(RivalStream)
    found: list[Case | Probe] = [
        Case(
            f"stream: {name}, noop sink",
            [
                Contender(HEADRACE, partial(own, bench, few, columns)),
                Contender(PDS, partial(rival, bench, few, columns)),
            ],
            {PDS: bar},
            cpu_bars={PDS: 0.25},
            rows=few.rows,
            prepare=bench.forget_memory,
        )
        for name, columns, bar in (("four columns", ["*"], 5.0), ("one of four columns", ["id"], 6.0))
    ]
    # To start a streaming query takes Spark some 0.3 s of CPU, which counts among few rows and not among many.
    found += [
        Case(
            f"stream: four columns against a batch scan, {name}noop sink",
            [
                Contender(HEADRACE, partial(own, bench, source, ["*"])),
                Contender(BATCH, partial(scanned, bench, source)),
            ],
            cpu_bars={BATCH: 1.5},
            rows=source.rows,
        )
        for name, source in (("5 M rows, ", few), ("", many))
    ]
    found.append(Probe("stream: latency", lambda: latencies(bench, 20 if bench.settings.full else 10)))
    return found


def own(bench: Bench, source: Source, columns: list[str]) -> int:
    return drained(bench.ctx.stream(f"stream_{source.rows}"), columns)


def rival(bench: Bench, source: Source, columns: list[str]) -> int:
    frame = bench.ctx.spark.readStream.format("rival_stream").options(**options_of(source)).load()
    return drained(frame, columns)


def drained(frame: DataFrame, columns: list[str]) -> int:
    """Reads all there is; returns how many rows that were, as Spark counts them."""
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as checkpoint:
        writer = frame.select(*columns).writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return sum(progress["numInputRows"] for progress in query.recentProgress)


def scanned(bench: Bench, source: Source) -> int:
    bench.ctx.table(f"stream_{source.rows}").write.format("noop").mode("overwrite").save()
    return source.rows


class Arrivals:
    """A sink that tells when a row is there."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.rows = 0

    def __call__(self, frame: DataFrame, _batch: int) -> None:
        seen = len(frame.collect())
        with self.changed:
            self.rows += seen
            self.changed.notify_all()

    def seconds_after(self, cause: Callable[[], None]) -> float:
        """From before ``cause`` until the row that it brings is here."""
        expected, before = self.rows + 1, time.perf_counter()
        cause()
        with self.changed:
            assert self.changed.wait_for(lambda: self.rows >= expected, SECONDS), "the row did not come"
        return time.perf_counter() - before


class Growing(SourceStream):
    """Rows that come one by one, from this process."""

    def __init__(self) -> None:
        super().__init__(Source(0, batch_rows=1, partitions=1))

    def grow(self) -> None:
        self.source = dataclasses.replace(self.source, rows=self.source.rows + 1)
        self.advanced()

    def scan_between(self, start: hr.Offset, end: hr.Offset, request: hr.ScanRequest) -> hr.ExecutionPlan:
        return SourcePlan(dataclasses.replace(self.source, rows=end - start), hr.Placement.DRIVER)


def latencies(bench: Bench, writes: int) -> list[Figure]:
    """One row at a time to foreachBatch: from a provider, and as a file to Spark's own source of files; in turn."""
    growing = Growing()
    bench.ctx.register_table("growing", growing, replace=True)
    through, files = [], []
    for _ in range(2):
        through += _waits(bench.ctx.stream("growing"), lambda directory, number: growing.grow(), writes)
        files += _waits_for_files(bench, writes)
    bench.ctx.deregister_table("growing")
    median, by_files = statistics.median(through), statistics.median(files)
    return [
        Figure("stream: a row to foreachBatch, median", median * 1e3, "ms"),
        Figure("stream: the same through Spark's file source", by_files * 1e3, "ms"),
        Figure("stream: a row to foreachBatch against the file source", median / by_files, "x", 1.3),
    ]


def _waits_for_files(bench: Bench, writes: int) -> list[float]:
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as directory:
        frame = bench.ctx.spark.readStream.schema(SPARK_SCHEMA).parquet(directory)
        row = pa.Table.from_batches([base_batch(1)], SCHEMA)

        def write(scratch: Path, number: int) -> None:
            pq.write_table(row, scratch / f"{number}.parquet")
            (scratch / f"{number}.parquet").rename(Path(directory) / f"{number}.parquet")

        return _waits(frame, write, writes)


def _waits(frame: DataFrame, cause: Callable[[Path, int], None], writes: int) -> list[float]:
    """The first ones warm up."""
    arrivals, warm = Arrivals(), max(2, writes // 4)
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as directory:
        writer = frame.writeStream.foreachBatch(arrivals).option("checkpointLocation", f"{directory}/checkpoint")
        query = writer.start()
        try:
            seconds = [
                arrivals.seconds_after(lambda number=number: cause(Path(directory), number))  # type: ignore[misc]
                for number in range(warm + writes)
            ]
        finally:
            query.stop()
    return seconds[warm:]
