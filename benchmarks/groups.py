"""The groups of cases, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks import (
    adbc,
    columns,
    connect,
    data_source,
    deeper,
    growth,
    latency,
    parquet,
    planning,
    pull,
    push,
    results,
    shapes,
    startup,
    stream,
    tpcds,
    tpch,
    turns,
    work,
    write,
    writers,
)
from benchmarks.bench import Bench
from benchmarks.harness import Case, Figure, Probe, Result

After = Callable[[list[Result]], tuple[list[Result], list[Figure]]]


@dataclass(frozen=True)
class Group:
    """``after`` sums up the group's results. A costly group is built only if its own name is asked for, or nothing is.

    ``full_only``: a quick run leaves it out. ``warm``: whether to warm up by the clock, or only once each.
    """

    name: str
    build: Callable[[Bench], Sequence[Case | Probe]]
    after: After = lambda measured: ([], [])
    costly: bool = False
    full_only: bool = False
    warm: bool = True
    quick_rounds: int | None = None

    def is_wanted(self, only: str, *, full: bool) -> bool:
        named = bool(only) and (self.name in only or only in self.name)
        if self.full_only and not (full and not only) and not named:
            return False
        return not only or named or not self.costly


def _tpch(bench: Bench) -> list[Case]:
    return tpch.cases(bench.ctx, bench.settings.tpch_scale)


def _tpch_totals(measured: list[Result]) -> tuple[list[Result], list[Figure]]:
    return ([tpch.totals(measured)] if len(measured) > 1 else []), []


def _tpcds(bench: Bench) -> list[Case]:
    return tpcds.cases(bench.ctx, bench.settings.tpcds_scale)


def _tpcds_totals(measured: list[Result]) -> tuple[list[Result], list[Figure]]:
    return ([tpcds.totals(measured)] if len(measured) > 1 else []), []


GROUPS = (
    Group("planning", planning.cases),
    Group("pull", pull.cases),
    Group("shapes", shapes.cases),
    Group("columns", columns.cases),
    Group("parquet", parquet.cases),
    Group("deeper", deeper.cases),
    Group("work", work.cases),
    Group("push", push.cases),
    Group("latency", latency.cases),
    Group("results", results.cases),
    Group("write", write.cases),
    Group("data_source", data_source.cases),
    Group("stream", stream.cases),
    Group("growth", growth.cases, lambda measured: ([], growth.figures(measured))),
    Group("tpch", _tpch, _tpch_totals, costly=True, warm=False, quick_rounds=1),
    Group("tpcds", _tpcds, _tpcds_totals, costly=True, full_only=True, warm=False, quick_rounds=1),
    Group("turns", turns.cases, lambda measured: (turns.totals(measured), []), costly=True, full_only=True, warm=False),
    Group("adbc", adbc.cases, costly=True, full_only=True),
    Group("writers", writers.cases, costly=True, full_only=True),
    Group("connect", connect.cases, costly=True, full_only=True),
    Group("startup", startup.cases),
)
