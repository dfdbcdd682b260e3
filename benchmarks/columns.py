"""Columns as they are: dictionaries against the same rows as plain text, a polars frame against a cast of its views."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import polars as pl
import pyarrow as pa

import headrace as hr
from benchmarks.bench import Bench
from benchmarks.harness import Case, Contender
from benchmarks.rivals import headrace_query, register
from benchmarks.sources import PARTITIONS, Source, SourceTable
from headrace.arrow.conversion import to_wire
from headrace.arrow.damage import DamageCheck
from headrace.arrow.types import wire_schema

PLAIN = "the same as plain text"
CAST = "the views cast in Python"
MOST_FRAME_ROWS = 10_000_000  # it is in memory, all of it
BATCH_ROWS = 64 * 1024
DICTIONARY_QUERIES = {
    "group by, sum of a number": "SELECT s, count(*), sum(v) FROM {t} GROUP BY s",  # the first, which missed the bar
    "group by": "SELECT s, count(*) FROM {t} GROUP BY s",
    "full-row filter": (
        "SELECT count(*) FROM {t} WHERE v > 0.5 AND s <> 'category 0003 of the shop' AND k >= 0 AND id >= 0"
    ),
}
FRAME_QUERY = "SELECT sum(n), sum(octet_length(s)) FROM {t}"
TEXTS = {
    "names of 8 bytes": pl.concat_str(pl.lit("name"), pl.col("n").mod(1000).cast(pl.String).str.zfill(4)),
    "text of 24 bytes": pl.concat_str(pl.lit("entry "), pl.col("n").cast(pl.String).str.zfill(8), pl.lit(" of a log.")),
}


def cases(bench: Bench) -> list[Case]:
    return [*(_dictionary_case(bench, *query) for query in DICTIONARY_QUERIES.items()), *map(_frame(bench), TEXTS)]


def _dictionary_case(bench: Bench, name: str, query: str) -> Case:
    table, plain = (
        register(bench, f"columns_{shape}", SourceTable(Source(bench.rows, shape=shape)))
        for shape in ("dictionary", "decoded")
    )
    return Case(
        f"columns: {name}, dictionary of 1,000 values",
        [headrace_query(bench, table, query), Contender(PLAIN, lambda: bench.sql(query, t=plain))],
        {PLAIN: 1.3},
        rows=bench.rows,
        prepare=bench.forget_memory,
    )


def _frame(bench: Bench) -> Callable[[str], Case]:
    rows = bench.settings.at_most(MOST_FRAME_ROWS)

    @functools.cache
    def frame(text: str) -> pl.DataFrame:
        return pl.select(n=pl.int_range(rows)).with_columns(s=TEXTS[text])

    def case(text: str) -> Case:
        table, converted = f"frame_{len(text)}", f"frame_cast_{len(text)}"

        def prepare() -> None:
            bench.forget_memory()
            bench.ctx.register_table(table, hr.MemTable(frame(text), PARTITIONS), replace=True)
            bench.ctx.register_table(converted, CastTable(pa.table(frame(text))), replace=True)

        def finish() -> None:
            bench.ctx.deregister_table(table)
            bench.ctx.deregister_table(converted)
            frame.cache_clear()

        return Case(
            f"columns: polars frame, {text}",
            [
                headrace_query(bench, table, FRAME_QUERY),
                Contender(CAST, lambda: bench.sql(FRAME_QUERY, t=converted)),
            ],
            {CAST: 1.2},
            rows=rows,
            prepare=prepare,
            finish=finish,
        )

    return case


class CastTable(hr.TableProvider):
    """What MemTable did before it left views alone: each batch is checked in full, then cast."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def schema(self) -> pa.Schema:
        return wire_schema(self.table.schema)

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        return CastPlan(self.table.select(request.projection), request)


class CastPlan(hr.ExecutionPlan):
    placement = hr.Placement.DRIVER

    def __init__(self, table: pa.Table, request: hr.ScanRequest) -> None:
        self.table = table
        self.schema = request.schema
        self.partitioning = hr.UnknownPartitioning(PARTITIONS)

    def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
        rows = self.table.num_rows
        start, stop = rows * partition // PARTITIONS, rows * (partition + 1) // PARTITIONS
        buffers = DamageCheck(self.table.schema, read=self.table.schema.names)
        for batch in self.table.slice(start, stop - start).to_batches(BATCH_ROWS):
            assert buffers.damage(batch) is None
            columns = [to_wire(batch.column(i), field.type, field.name) for i, field in enumerate(self.schema)]
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)
