"""TPC-H and TPC-DS once more, in turns: another contender begins each round, and Headrace also runs without its stage.

In ``tpch.py`` and ``tpcds.py`` Headrace begins every round, and whoever begins takes longest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import headrace as hr
from benchmarks import tpcds, tpcds_data, tpch, tpch_data
from benchmarks.bench import Bench, Rows
from benchmarks.harness import Case, Contender, Result, total
from benchmarks.rivals import HEADRACE
from benchmarks.tpch import PARQUET
from benchmarks.work import OFF, switched_off

CONTENDERS = (HEADRACE, OFF, PARQUET)
TOTAL_BARS = {"tpch": {PARQUET: 1.19, OFF: 1 / 1.1}, "tpcds": {PARQUET: 1.28, OFF: 1 / 1.1}}


def cases(bench: Bench) -> list[Case]:
    return [*_tpch(bench.ctx, bench.settings.tpch_scale), *_tpcds(bench.ctx, bench.settings.tpcds_scale)]


def totals(results: Sequence[Result]) -> list[Result]:
    """One for each suite of which there is more than one query."""
    suites = {suite: [one for one in results if one.case.name.startswith(_name(suite, ""))] for suite in TOTAL_BARS}
    return [
        total(_name(suite, f"all {len(measured)} queries"), measured, CONTENDERS, TOTAL_BARS[suite])
        for suite, measured in suites.items()
        if len(measured) > 1
    ]


def _tpch(ctx: hr.SessionContext, scale_factor: float) -> list[Case]:
    directory = tpch_data.generated(scale_factor)
    tpch.register(ctx, directory, (HEADRACE, PARQUET))
    duck = tpch_data.DuckDB(directory)
    return [
        _case(
            ctx,
            _name("tpch", name),
            tpch_data.for_spark(query, tpch.PREFIXES[HEADRACE]),
            tpch_data.for_spark(query, tpch.PREFIXES[PARQUET]),
            partial(tpch.Answer, query, duck=duck),
        )
        for name, query in tpch_data.queries().items()
    ]


def _tpcds(ctx: hr.SessionContext, scale_factor: float) -> list[Case]:
    tpcds.register(ctx, tpcds_data.generated(scale_factor))
    return [
        _case(
            ctx,
            _name("tpcds", name),
            tpcds_data.for_spark(query, tpcds.PREFIXES[HEADRACE]),
            tpcds_data.for_spark(query, tpcds.PREFIXES[PARQUET]),
        )
        for name, query in tpcds_data.queries().items()
    ]


def _case(
    ctx: hr.SessionContext, name: str, over_headrace: str, over_parquet: str, answer: Callable[[Rows], Any] = list
) -> Case:
    def run(text: str) -> Any:
        return answer([tuple(row) for row in ctx.sql(text).collect()])

    def without() -> Any:
        with switched_off(ctx):
            return run(over_headrace)

    contenders = [
        Contender(HEADRACE, partial(run, over_headrace)),
        Contender(OFF, without),
        Contender(PARQUET, partial(run, over_parquet)),
    ]
    return Case(name, contenders, warmups=0, most_rounds=len(contenders), turns=True)


def _name(suite: str, query: str) -> str:
    return f"turns: {suite} {query}"
