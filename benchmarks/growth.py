"""Growth: ten times the rows, or ten times the partitions, must cost ten times as much and not more."""

from __future__ import annotations

from benchmarks import rivals
from benchmarks.bench import Bench
from benchmarks.harness import Case, Contender, Figure, Result
from benchmarks.pull import FOUR
from benchmarks.rivals import headrace_query, register
from benchmarks.sources import OneRowEach, Source, SourceTable

ROWS = (1_000_000, 10_000_000, 100_000_000)
PARTITIONS = (1, 10, 100, 1000)
PARTITION_ROWS = 1000
TINY_PARTITIONS = 1000
RANGE = "Spark's range"
MOST_OF_RANGE = 1.6  # times the time of Spark's range, which produces its rows where they are added up
BY_ROWS = "rows"
BY_PARTITIONS = "partitions"
MOST_GROWTH = 1.2
ONE_SUM = "SELECT sum(id) FROM {t}"
MOST_RIVAL_PARTITIONS = {False: 10, True: 100}  # in full; a thousand take the rival a minute


def cases(bench: Bench) -> list[Case]:
    """Batches are made while they are read; nothing is ever stored."""
    settings = bench.settings
    sizes = [rows for rows in ROWS if rows <= settings.most_growth_rows] or [settings.most_growth_rows]
    counts = [count for count in PARTITIONS if count <= settings.most_partitions]
    return [
        *(_point(bench, BY_ROWS, Source(rows)) for rows in sizes),
        *(_point(bench, BY_PARTITIONS, Source(n * PARTITION_ROWS, partitions=n)) for n in counts),
        _tiny_partitions(bench, min(TINY_PARTITIONS, settings.most_partitions)),
    ]


def _tiny_partitions(bench: Bench, count: int) -> Case:
    """What a partition costs that has next to nothing to do: one task, one request to a worker, one row."""
    table = register(bench, "tiny_partitions", OneRowEach(count))
    own = Contender(RANGE, lambda: bench.sql(ONE_SUM, t=f"range(0, {count}, 1, {count})"))
    return Case(
        f"growth: {count:,} partitions of one row",
        [headrace_query(bench, table, ONE_SUM), own],
        rows=count,
        bars={RANGE: 1 / MOST_OF_RANGE},
        warmups=3,
    )


def _point(bench: Bench, curve: str, source: Source) -> Case:
    x = source.rows if curve == BY_ROWS else source.partitions
    table = register(bench, f"growth_{source.label}", SourceTable(source))
    contenders = [headrace_query(bench, table, FOUR)]
    if source.partitions <= MOST_RIVAL_PARTITIONS[bench.settings.full]:
        contenders.append(rivals.data_source(bench, source, FOUR))
    return Case(
        f"growth: {x:,} {curve}",
        contenders,
        rows=source.rows,
        most_rounds=3,
        prepare=bench.forget_memory,
        curve=curve,
        x=x,
    )


def figures(results: list[Result]) -> list[Figure]:
    """How the last step of each curve grew: 1 is linear. Less is a fixed cost that more work makes up for."""
    found = []
    for curve in (BY_ROWS, BY_PARTITIONS):
        points = sorted((r.case.x or 0.0, r.timings[0].best) for r in results if r.case.curve == curve)
        if len(points) >= 2:
            (x, seconds), (more_x, more_seconds) = points[-2:]
            growth = (more_seconds / seconds) / (more_x / x)
            name = f"growth: seconds per {curve.removesuffix('s')}, {more_x:,.0f} against {x:,.0f}"
            found.append(Figure(name, growth, "x", MOST_GROWTH))
    return found
