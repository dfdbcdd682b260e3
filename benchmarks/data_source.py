"""One existing DataSource, unchanged: through ``from_data_source`` and through Spark's own path."""

from __future__ import annotations

from dataclasses import replace

import headrace as hr
from benchmarks import rivals
from benchmarks.bench import Bench
from benchmarks.harness import Case
from benchmarks.pull import FOUR
from benchmarks.rivals import headrace_query, register
from benchmarks.sources import Rival, Source, options_of

MOST_TUPLES = 2_000_000  # a Python object for each value
SPARK = "spark.read.format"
ONE = "SELECT sum(id) FROM {t}"


def cases(bench: Bench) -> list[Case]:
    found = []
    kinds = {"tuples": (bench.settings.at_most(MOST_TUPLES), 1.0), "arrow": (bench.rows, 3.0)}
    for kind, (rows, bar) in kinds.items():
        arrow = kind == "arrow"
        source = Source(rows)
        table = register(bench, f"source_{kind}", hr.from_data_source(Rival, options_of(source, arrow=arrow)))
        for name, query in (("four columns", FOUR), ("one column", ONE)):
            found.append(
                Case(
                    f"data_source: {kind}, {name}",
                    [
                        headrace_query(bench, table, query),
                        replace(rivals.data_source(bench, source, query, arrow=arrow), name=SPARK),
                    ],
                    {SPARK: bar},
                    rows=rows,
                    prepare=bench.forget_memory,
                )
            )
    return found
