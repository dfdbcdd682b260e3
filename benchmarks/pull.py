"""Pull: the same Arrow batches through Headrace, in both placements, and through everything else."""

from __future__ import annotations

from dataclasses import dataclass

import headrace as hr
from benchmarks import rivals
from benchmarks.bench import Bench
from benchmarks.harness import Case
from benchmarks.rivals import MEMORY, PDS, headrace_query, register
from benchmarks.sources import Source, SourceTable

MOST_DETOUR_ROWS = 5_000_000  # createDataFrame has them all in memory, several times
MOST_TUPLES = 500_000


@dataclass(frozen=True)
class Query:
    """A query, the columns it needs, and its bars."""

    name: str
    text: str
    columns: tuple[str, ...]
    bar: float | None = None
    cpu_bar: float | None = None


FOUR = "SELECT sum(id), sum(v), sum(k), sum(octet_length(s)) FROM {t}"
QUERIES = (
    Query("count(*)", "SELECT count(*) FROM {t}", (), 12.0),
    Query("one column", "SELECT sum(id) FROM {t}", ("id",), 10.0, 1.35),
    Query("four columns", FOUR, ("id", "v", "k", "s"), 6.0, 1.35),
    Query("four columns, max(s)", "SELECT sum(id), sum(v), sum(k), max(s) FROM {t}", ("id", "v", "k", "s")),
    Query(
        "full-row filter",
        "SELECT count(*) FROM {t} WHERE v > 0.5 AND s <> 'name3' AND k >= 0 AND id >= 0",
        ("id", "v", "k", "s"),
        6.0,
    ),
    Query("group by string", "SELECT s, count(*), sum(v) FROM {t} GROUP BY s", ("s", "v"), 3.5),
)


def cases(bench: Bench) -> list[Case]:
    """Executors, the driver's process (in a quick run the sums alone), then what takes too long for all rows."""
    source = Source(bench.rows)
    executors = register(bench, "pull_executors", SourceTable(source))
    driver = register(bench, "pull_driver", SourceTable(source, hr.Placement.DRIVER))
    return [
        *(_executors_case(bench, source, executors, query) for query in QUERIES),
        *(_driver_case(bench, source, driver, query) for query in QUERIES if query.cpu_bar or bench.settings.full),
        _answer_case(bench),
        _tuples_case(bench),
    ]


def _executors_case(bench: Bench, source: Source, table: str, query: Query) -> Case:
    """Everybody in a full run; in a quick one only for the sums, which compare best."""
    contenders = [headrace_query(bench, table, query.text), rivals.data_source(bench, source, query.text)]
    if bench.settings.full or query.cpu_bar:
        contenders += [
            rivals.parquet_read(bench, source, query.text),
            rivals.duckdb(bench, source, query.text),
            rivals.datafusion(bench, source, query.text),
            rivals.memory(bench, source, query.text),
        ]
        if query.columns:
            contenders.append(rivals.pulled_bytes(bench, source, query.columns))
    return Case(
        f"pull: {query.name}",
        contenders,
        {PDS: query.bar} if query.bar else {},
        cpu_bars={MEMORY: query.cpu_bar} if query.cpu_bar else {},
        rows=source.rows,
        prepare=lambda: (bench.in_memory(source), bench.parquet(source)),
    )


def _driver_case(bench: Bench, source: Source, table: str, query: Query) -> Case:
    return Case(
        f"pull, DRIVER: {query.name}",
        [headrace_query(bench, table, query.text), rivals.data_source(bench, source, query.text)],
        {PDS: query.bar} if query.bar else {},
        rows=source.rows,
        prepare=bench.forget_memory,
    )


def _answer_case(bench: Bench) -> Case:
    """The rivals that copy everything before the query starts."""
    source = Source(bench.settings.at_most(MOST_DETOUR_ROWS))
    table = register(bench, "pull_answer", SourceTable(source))
    return Case(
        "pull: from batches to the answer",
        [
            headrace_query(bench, table, FOUR),
            rivals.data_source(bench, source, FOUR),
            rivals.created(bench, source, FOUR),
            rivals.detoured(bench, source, FOUR),
        ],
        rows=source.rows,
    )


def _tuples_case(bench: Bench) -> Case:
    """The batches have as many rows as the tuples that the rival repeats, so that both have the same values."""
    source = Source(bench.settings.at_most(MOST_TUPLES), batch_rows=10_000)
    table = register(bench, "pull_tuples", SourceTable(source))
    return Case(
        "pull: against tuples",
        [headrace_query(bench, table, FOUR), rivals.data_source(bench, source, FOUR, arrow=False)],
        rows=source.rows,
    )
