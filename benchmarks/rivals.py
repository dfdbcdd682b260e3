"""What people do today, and the two limits, over the batches that Headrace gets too."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa

from benchmarks.bench import Bench, Rows, sorted_rows, write_parquet
from benchmarks.harness import Contender
from benchmarks.sources import PARTITIONS, Source

HEADRACE = "headrace"
PDS = "Python Data Source"
PDS_TUPLES = "Python Data Source, tuples"
CREATE = "createDataFrame"
DETOUR = "Parquet detour"
PARQUET = "Spark's Parquet read"
DUCKDB = "DuckDB"
DATAFUSION = "DataFusion"
SOCKET = "bare Unix socket"
MEMORY = "Spark, data in JVM memory"
LEAST_ROWS = 1


def data_source(bench: Bench, source: Source, query: str, *, arrow: bool = True) -> Contender:
    """Spark's own Python Data Source. Its view is made before the clock runs, as Headrace's table is."""
    name = PDS if arrow else PDS_TUPLES
    return Contender(name, lambda: bench.sql(query, t=bench.rival_view(source, arrow=arrow)))


def created(bench: Bench, source: Source, query: str) -> Contender:
    """From batches to the answer with createDataFrame, which takes the Arrow table as it is."""

    def run() -> Rows:
        bench.ctx.spark.createDataFrame(all_batches(source)).createOrReplaceTempView("created")
        return bench.sql(query, t="created")

    return Contender(CREATE, run)


def detoured(bench: Bench, source: Source, query: str) -> Contender:
    """From batches to the answer by way of a Parquet file."""

    def run() -> Rows:
        path = bench.directory / "detour.parquet"
        write_parquet(path, source)
        bench.ctx.spark.read.parquet(str(path)).createOrReplaceTempView("detoured")
        return bench.sql(query, t="detoured")

    return Contender(DETOUR, run)


def parquet_read(bench: Bench, source: Source, query: str) -> Contender:
    """Spark's own reader over a Parquet file that is there already, and in the page cache."""

    def run() -> Rows:
        bench.ctx.spark.read.parquet(bench.parquet(source)).createOrReplaceTempView("parquet_file")
        return bench.sql(query, t="parquet_file")

    return Contender(PARQUET, run)


def duckdb(bench: Bench, source: Source, query: str) -> Contender:
    """In this process: nothing has to move. ``strlen`` is what DuckDB calls the bytes of a text."""

    def run() -> Rows:
        bench.duckdb.register("t", all_batches(source))
        return sorted_rows(bench.duckdb.execute(query.format(t="t").replace("octet_length", "strlen")).fetchall())

    return Contender(DUCKDB, run)


def datafusion(bench: Bench, source: Source, query: str) -> Contender:
    """In this process: nothing has to move."""

    def run() -> Rows:
        engine = bench.datafusion
        engine.deregister_table("t")
        engine.register_record_batches("t", [list(source.batches(i)) for i in range(source.partitions)])
        table = pa.Table.from_batches(engine.sql(query.format(t="t")).collect())
        return sorted_rows(list(zip(*(column.to_pylist() for column in table.columns), strict=True)))

    return Contender(DATAFUSION, run)


def memory(bench: Bench, source: Source, query: str) -> Contender:
    """A limit: Spark does the same to rows that are in its own column cache already."""
    return Contender(MEMORY, lambda: bench.sql(query, t=bench.in_memory(source)), limit=True)


def pulled_bytes(bench: Bench, source: Source, columns: Sequence[str]) -> Contender:
    """A limit: the same columns as Arrow IPC from other processes to this one, which only receives them.

    The message is made once and sent again and again, as the batch is. Nothing is decoded or added up.
    """
    message = ipc_message(source, columns)
    counts = [max(LEAST_ROWS, source.rows_of(i) // source.batch_rows) for i in range(PARTITIONS)]

    def run() -> None:
        with ThreadPoolExecutor(PARTITIONS) as pool:
            for peer, count in zip(bench.peers, counts, strict=True):
                peer.prepare_sending(message, count)
            list(pool.map(lambda peer, count: peer.receive(count, len(message)), bench.peers, counts))

    return Contender(SOCKET, run, limit=True)


def pushed_bytes(bench: Bench, source: Source) -> Contender:
    """A limit: the same batches as Arrow IPC from this process to another one, which only receives them."""
    message = ipc_message(source, source.schema.names)
    return Contender(
        SOCKET, lambda: bench.peers[0].send(message, max(LEAST_ROWS, source.rows // source.batch_rows)), limit=True
    )


def ipc_message(source: Source, columns: Sequence[str]) -> memoryview:
    first = next(iter(source.batches(0)))
    return memoryview(first.select(list(columns)).serialize())


def all_batches(source: Source) -> pa.Table:
    """The source's batches as one table, without a copy."""
    return pa.Table.from_batches([batch for i in range(source.partitions) for batch in source.batches(i)])


def headrace_query(bench: Bench, table: str, query: str) -> Contender:
    return Contender(HEADRACE, lambda: bench.sql(query, t=table))


def register(bench: Bench, table: str, provider: Any) -> str:
    bench.ctx.register_table(table, provider, replace=True)
    return table
