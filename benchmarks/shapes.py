"""Pull with other shapes: wide and nested tables, batch sizes, a slow source under LIMIT, an exact filter."""

from __future__ import annotations

from benchmarks import rivals
from benchmarks.bench import Bench
from benchmarks.harness import Case
from benchmarks.rivals import PDS, headrace_query, register
from benchmarks.sources import Source, SourceTable
from headrace.arrow.rows import counted

FOUR = "SELECT sum(id), sum(v), sum(k), sum(octet_length(s)) FROM {t}"
WIDE = "SELECT sum(c10), sum(c71) FROM {t}"
NESTED = (
    "SELECT sum(id), sum(point.x), sum(octet_length(point.name)), sum(size(tags)), sum(element_at(counts, 'out')) "
    "FROM {t}"
)
LIMIT = "SELECT id FROM {t} LIMIT 10"
RARE = "SELECT count(*), sum(v), sum(octet_length(s)) FROM {t} WHERE k = 7"
SLOW_BATCH_SECONDS = 0.05
BATCH_SIZES = {1: 200_000, 100: 2_000_000, 8_192: None, 65_536: None, 1_000_000: None}
"""Rows in a batch, and how many rows there are at most: what costs something for each batch takes its time."""


def cases(bench: Bench) -> list[Case]:
    return [_wide(bench), _nested(bench), *_batch_sizes(bench), *_limits(bench), _exact(bench)]


def _wide(bench: Bench) -> Case:
    source = Source(max(bench.rows // 10, 1), shape="wide")
    table = register(bench, "pull_wide", SourceTable(source))
    return Case(
        "pull: 2 of 100 columns",
        [headrace_query(bench, table, WIDE), rivals.data_source(bench, source, WIDE)],
        {PDS: 30.0},
        rows=source.rows,
        prepare=bench.forget_memory,
    )


def _nested(bench: Bench) -> Case:
    source = Source(max(bench.rows // 10, 1), shape="nested")
    table = register(bench, "pull_nested", SourceTable(source))
    return Case(
        "pull: struct, list and map",
        [headrace_query(bench, table, NESTED), rivals.data_source(bench, source, NESTED)],
        rows=source.rows,
    )


def _batch_sizes(bench: Bench) -> list[Case]:
    found = []
    for size, most in BATCH_SIZES.items():
        most = most if most is None or bench.settings.full else most // 4
        source = Source(bench.settings.at_most(most or bench.rows), batch_rows=size)
        table = register(bench, f"pull_batches_{size}", SourceTable(source))
        found.append(
            Case(
                f"pull: batches of {counted(size, 'row')}",
                [headrace_query(bench, table, FOUR), rivals.data_source(bench, source, FOUR)],
                rows=source.rows,
                most_rounds=3,
            )
        )
    return found


def _limits(bench: Bench) -> list[Case]:
    """A paged API: each reply takes its time. The provider honours no limit itself.

    Several sizes of page, each with the bar: how prompt the rival is depends on it very much. Ten rows can be any ten;
    in both they are the first ones.
    """
    found = []
    for page_rows in (20, 1000, 10_000):
        source = Source(
            2 * bench.settings.pages * page_rows, batch_rows=page_rows, seconds_per_batch=SLOW_BATCH_SECONDS
        )
        table = register(bench, f"pull_slow_{page_rows}", SourceTable(source))
        found.append(
            Case(
                f"pull: LIMIT 10, slow pages of {page_rows:,} rows",
                [headrace_query(bench, table, LIMIT), rivals.data_source(bench, source, LIMIT)],
                {PDS: 10.0},
                most_rounds=2,
            )
        )
    return found


def _exact(bench: Bench) -> Case:
    """One row in a thousand passes. The provider compares each row, Spark does so for the rival."""
    source = Source(bench.rows)
    table = register(bench, "pull_exact", SourceTable(source, exact=True))
    return Case(
        "pull: EXACT filter keeps 0.1 %",
        [headrace_query(bench, table, RARE), rivals.data_source(bench, source, RARE)],
        rows=source.rows,
    )
