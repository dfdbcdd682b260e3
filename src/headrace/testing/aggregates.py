"""Checks of aggregations that a provider takes over: the results are held against the table's own rows."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from random import Random
from typing import get_args

import pyarrow as pa

from headrace.arrow.rows import counted
from headrace.errors import EvaluationError
from headrace.expr.nodes import Expr
from headrace.negotiate.aggregates import OfferedFunction
from headrace.negotiate.planned import PlannedScan
from headrace.plan import AggregateName, Aggregation
from headrace.provider import AggregatePushdown
from headrace.testing.aggregated import Groups, Undecided, aggregated, groups_of, merged, same_value
from headrace.testing.generated import comparable_columns
from headrace.testing.probe import CheckStopped, Probe, Reading, clipped
from headrace.testing.report import Promise, Severity
from headrace.testing.scans import check_pickling
from headrace.testing.truth import Truth, note_cut_short

_COUNT_ALL = OfferedFunction("count", None)
_Offer = tuple[tuple[Expr, ...], tuple[OfferedFunction, ...]]


def check_aggregates(
    probe: Probe, truth: Truth, all_exact: Sequence[tuple[Expr, ...]], rng: Random, samples: int
) -> None:
    """Offer aggregations, alone and below EXACT filters: Spark offers none where it filters itself."""
    taken = [offer for offer in offers(truth.table, rng, samples) if _is_taken(probe, *offer)]
    if not taken:
        return
    probe.findings.offer(Promise.AGGREGATES)
    if not truth.complete:
        note_cut_short(probe, Promise.AGGREGATES, "aggregates were not checked")
        return
    pickled = False
    for number, (group_by, functions) in enumerate(taken):
        filters: list[tuple[Expr, ...]] = [()] if number else [(), *_some(truth, all_exact, rng, samples)]
        if number and all_exact and rng.random() < 0.5:
            filters.append(rng.choice(all_exact))
        for conjuncts in dict.fromkeys(filters):
            with contextlib.suppress(CheckStopped):
                scan = _planned(probe, conjuncts, group_by, functions)
                if scan is None:
                    continue
                if not pickled:
                    check_pickling(probe, scan, None)
                    pickled = True
                assert scan.aggregation is not None
                texts = " and ".join(f"`{expr!r}`" for expr in conjuncts)
                below = f" with the EXACT filters {texts}" if texts else ""
                what = f"answered {scan.aggregation.answer.name} for {scan.aggregation.aggregation!r}{below}"
                check_groups(probe, truth, conjuncts, scan, what, Promise.AGGREGATES)


def offers(rows: pa.Table, rng: Random, samples: int) -> Iterator[_Offer]:
    """Aggregations of the columns of ``rows``, with groups and without."""
    columns = [column for column, _ in comparable_columns(rows)]
    every = [
        OfferedFunction(name, column, distinct)
        for column in columns
        for name in get_args(AggregateName)
        for distinct in (False, True)
        if not (distinct and name in ("min", "max"))
    ]
    yield (), (_COUNT_ALL,)
    for function in every:
        yield (), (function,)
    for _ in range(samples * len(columns)):
        group_by = tuple(rng.sample(columns, rng.randint(0, min(2, len(columns)))))
        functions = (_COUNT_ALL, *rng.sample(every, min(len(every), rng.randint(0, 3))))
        yield group_by, functions
        if group_by:
            yield group_by, ()  # SELECT DISTINCT
            yield group_by, (rng.choice(every),)


def _some(truth: Truth, all_exact: Sequence[tuple[Expr, ...]], rng: Random, samples: int) -> list[tuple[Expr, ...]]:
    """A few EXACT filters, and where there is one, filters that no row passes: then each function has nothing."""
    found = rng.sample(list(all_exact), min(len(all_exact), samples))
    with contextlib.suppress(NotImplementedError, EvaluationError):
        found += [filters for filters in all_exact if not truth.matching(filters).num_rows][:1]
    return found


def _is_taken(probe: Probe, group_by: tuple[Expr, ...], functions: tuple[OfferedFunction, ...]) -> bool:
    with contextlib.suppress(CheckStopped):
        negotiation = probe.negotiate()
        with probe.reported(Promise.AGGREGATES, "supports_aggregate_pushdown"):
            return negotiation.ask_aggregation(group_by, functions).answer is not AggregatePushdown.UNSUPPORTED
    return False


def _planned(
    probe: Probe, filters: tuple[Expr, ...], group_by: tuple[Expr, ...], functions: tuple[OfferedFunction, ...]
) -> PlannedScan | None:
    """The scan; None where a filter is not EXACT this time, or the aggregation is refused below it."""
    negotiation = probe.negotiate(filters)
    if any(one.word not in ("exact", "implied") for one in negotiation.filters):
        return None
    with probe.reported(Promise.AGGREGATES, "supports_aggregate_pushdown"):
        answered = negotiation.offer_aggregation(group_by, functions)
    if answered.answer is AggregatePushdown.UNSUPPORTED:
        return None
    return probe.plan(Promise.AGGREGATES, negotiation)


def check_groups(
    probe: Probe, truth: Truth, filters: tuple[Expr, ...], scan: PlannedScan, what: str, promise: Promise
) -> None:
    """The groups that an aggregated scan gives, held against those of the rows that match. Raises CheckStopped."""
    assert scan.aggregation is not None
    aggregation, answer = scan.aggregation.aggregation, scan.aggregation.answer
    assert aggregation is not None
    reading = probe.read(scan, promise)
    try:
        expected = aggregated(truth.matching(filters), aggregation)
    except (Undecided, NotImplementedError, EvaluationError) as error:
        if not isinstance(error, Undecided):
            probe.findings.add(promise, f"{what} could not be verified: {error}", Severity.NOTE)
        return
    found = _found(probe, reading, aggregation, what, promise, complete=answer is AggregatePushdown.COMPLETE)
    if found is None:
        return
    for key in [*expected, *(key for key in found if key not in expected)]:
        wrong = _wrong(key, expected, found, aggregation)
        if wrong:
            probe.findings.add(promise, clipped(f"{what} but {wrong}"))
            return


def _found(
    probe: Probe, reading: Reading, aggregation: Aggregation, what: str, promise: Promise, *, complete: bool
) -> Groups | None:
    parts = [groups_of(part, aggregation) for part in reading.partitions]
    if not complete:
        return merged([{key: values} for part in parts for key, values in part], aggregation)
    rows = [row for part in parts for row in part]
    if not aggregation.group_by and len(rows) != 1:
        message = (
            f"{what} but returned {counted(len(rows), 'row')}; without groups it is exactly one, even over no rows"
        )
        probe.findings.add(promise, message)
        return None
    twice = [key for i, (key, _) in enumerate(rows) if key in [other for other, _ in rows[:i]]]
    if twice:
        message = f"{what} but returned the group {_text(twice[0])} more than once, and Spark does not merge them"
        probe.findings.add(promise, message)
        return None
    return dict(rows)


def _wrong(key: tuple[object, ...], expected: Groups, found: Groups, aggregation: Aggregation) -> str:
    """What is wrong about one group; empty where nothing is."""
    functions = aggregation.functions
    group = f" for the group {_text(key)}" if aggregation.group_by else ""
    if key not in found:
        return f"left out the group {_text(key)}"
    if key not in expected:
        return f"returned the group {_text(key)}, which no row is of"
    for function, right, is_ in zip(functions, expected[key], found[key], strict=True):
        if not same_value(function, right, is_):
            return f"returned {function!r} = {is_!r}{group}, expected {right!r}"
    return ""


def _text(key: tuple[object, ...]) -> str:
    return f"({', '.join(map(repr, key))})"
