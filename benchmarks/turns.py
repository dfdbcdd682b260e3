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
from benchmarks.harness import Case, Contender, Result, Timing
from benchmarks.rivals import HEADRACE
from benchmarks.work import OFF, switched_off

PARQUET = "Spark's Parquet reader"
CONTENDERS = (HEADRACE, OFF, PARQUET)
TOTAL_BARS = {"tpch": {PARQUET: 1.19, OFF: 1 / 1.1}, "tpcds": {PARQUET: 1.28, OFF: 1 / 1.1}}


def cases(bench: Bench) -> list[Case]:
    return [*_tpch(bench.ctx, bench.settings.tpch_scale), *_tpcds(bench.ctx, bench.settings.tpcds_scale)]


def totals(results: Sequence[Result]) -> list[Result]:
    """The best times of each contender summed over a suite's queries, with the bars, which are for the sums alone."""
    suites = {suite: [one for one in results if one.case.name.startswith(_name(suite, ""))] for suite in TOTAL_BARS}
    return [_total(suite, measured) for suite, measured in suites.items() if len(measured) > 1]


def _total(suite: str, results: Sequence[Result]) -> Result:
    timings = [
        Timing(
            contender,
            (sum(result.timing(contender).best for result in results),),
            (sum(result.timing(contender).best_cpu for result in results),),
        )
        for contender in CONTENDERS
    ]
    return Result(Case(_name(suite, f"all {len(results)} queries"), (), TOTAL_BARS[suite]), tuple(timings))


def _tpch(ctx: hr.SessionContext, scale_factor: float) -> list[Case]:
    directory = tpch_data.generated(scale_factor)
    tpch.register(ctx, directory, (HEADRACE, tpch.PARQUET))
    duck = tpch_data.DuckDB(directory)
    return [
        _case(
            ctx,
            _name("tpch", name),
            tpch_data.for_spark(query, tpch.PREFIXES[HEADRACE]),
            tpch_data.for_spark(query, tpch.PREFIXES[tpch.PARQUET]),
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
            tpcds_data.for_spark(query, tpcds.PREFIXES[tpcds.PARQUET]),
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
