"""Checks of Headrace's own stage over a provider's rows: random filters, groups, orders and keys; no Spark needed.

A provider can spoil it: by rows that differ with the columns it is asked for, or by batches that it changes after it
has given them away. The stage keeps rows for a while, and Spark's own reader does not.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from random import Random

import pyarrow as pa

from headrace.arrow.rows import counted, shown
from headrace.errors import EvaluationError
from headrace.expr.nodes import Expr
from headrace.negotiate.aggregates import OfferedFunction
from headrace.negotiate.negotiation import Negotiation
from headrace.negotiate.partitioning import ScanSettings
from headrace.plan import SortKey
from headrace.promises.ordering import order_text
from headrace.testing.aggregates import check_groups, offers
from headrace.testing.generated import generated_filters, runtime_filters
from headrace.testing.probe import CheckStopped, Probe, clipped
from headrace.testing.report import Promise
from headrace.testing.rows import difference
from headrace.testing.top_n import check_first_rows, orders
from headrace.testing.truth import Truth, note_cut_short

_QUERIES = 40


def check_work_at_source(probe: Probe, truth: Truth, rng: Random, samples: int) -> None:
    """Queries with one kind of work each, below filters that Headrace or the provider does exactly."""
    if not truth.complete:
        note_cut_short(probe, Promise.WORK_AT_SOURCE, "what Headrace makes of the rows was not checked")
        return
    found = generated_filters(truth.table, rng, samples)
    conjuncts: list[tuple[Expr, ...]] = [(), *((one,) for one in found.single), *found.together]
    groups, firsts = list(offers(truth.table, rng, samples)), list(orders(truth.table, rng, samples))
    keys = runtime_filters(truth.table, rng, samples)
    for number in range(_QUERIES * samples):
        if probe.findings.is_broken(Promise.WORK_AT_SOURCE):
            return
        filters = rng.choice(conjuncts) if rng.random() < 0.8 else ()
        with contextlib.suppress(CheckStopped, NotImplementedError, EvaluationError):
            negotiation = _negotiated(probe, filters, rng)
            if negotiation is None:
                continue
            query = _Query(probe, truth, negotiation, filters)
            if number % 4 == 0:
                query.check_rows(rng, rng.sample(keys, min(len(keys), rng.choice([0, 1, 2]))))
            elif number % 4 == 1 and firsts:
                query.check_first(rng.choice(firsts), rng.choice([1, 2, max(1, truth.count // 2)]))
            else:
                query.check_groups(*rng.choice(groups))


def _negotiated(probe: Probe, filters: tuple[Expr, ...], rng: Random) -> Negotiation | None:
    """None where Spark would still filter: it offers nothing else then."""
    negotiation = probe.negotiate(filters, settings=ScanSettings(work_at_source=True, ansi=rng.random() < 0.5))
    exact = all(one.word in ("exact", "implied") for one in negotiation.filters)
    return negotiation if exact else None


class _Query:
    """One query whose filters nobody has to do any more."""

    def __init__(self, probe: Probe, truth: Truth, negotiation: Negotiation, filters: tuple[Expr, ...]) -> None:
        self._probe = probe
        self._truth = truth
        self._negotiation = negotiation
        self._filters = filters
        self._matching = truth.matching(filters)

    def check_rows(self, rng: Random, learnt: Sequence[Expr]) -> None:
        """Some columns of the rows that pass; of keys that a join has learnt, those that pass must be there."""
        fields = list(self._probe.table.schema)
        columns = pa.schema(rng.sample(fields, rng.randint(min(1, len(fields)), len(fields))))
        self._negotiation.offer_columns(columns)
        scan = self._probe.plan(Promise.WORK_AT_SOURCE, self._negotiation)
        known = frozenset(scan.runtime_filter_columns)
        learnt = [expr for expr in learnt if expr.columns() <= known]
        if learnt:
            with self._probe.reported(Promise.WORK_AT_SOURCE, "scan"):
                scan = self._negotiation.narrow(scan, learnt)
        reading = self._probe.read(scan, Promise.WORK_AT_SOURCE)
        every = self._truth.in_columns(self._matching, scan.schema)
        passing = self._truth.in_columns(self._truth.matching((*self._filters, *learnt)), scan.schema)
        missing = difference(passing, reading.table).missing
        extra = difference(every, reading.table).extra
        names = ", ".join(columns.names)
        if missing:
            text = f"lost {counted(len(missing), 'row')}: {shown(passing, missing)}"
            self._report(f"the columns {names}{_texts(learnt, ' and the keys')}", text)
        elif extra:
            text = f"has {counted(len(extra), 'row')} too many: {shown(reading.table, extra)}"
            self._report(f"the columns {names}{_texts(learnt, ' and the keys')}", text)

    def check_first(self, order: tuple[SortKey, ...], limit: int) -> None:
        answered = self._negotiation.offer_top_n(order, limit)
        if not answered.here:
            return
        scan = self._probe.plan(Promise.WORK_AT_SOURCE, self._negotiation)
        reading = self._probe.read(scan, Promise.WORK_AT_SOURCE)
        what = self._what(f"the first {limit} by {', '.join(map(order_text, order))}")
        check_first_rows(self._probe, self._matching, reading, order, limit, what, Promise.WORK_AT_SOURCE)

    def check_groups(self, group_by: tuple[Expr, ...], functions: tuple[OfferedFunction, ...]) -> None:
        answered = self._negotiation.offer_aggregation(group_by, functions)
        if not answered.here:
            return
        scan = self._probe.plan(Promise.WORK_AT_SOURCE, self._negotiation)
        what = self._what(f"{answered.aggregation!r}")
        check_groups(self._probe, self._truth, self._filters, scan, what, Promise.WORK_AT_SOURCE)

    def _what(self, query: str) -> str:
        return f"Headrace computed {query}{_texts(self._filters, ' where')} of the rows"

    def _report(self, query: str, text: str) -> None:
        self._probe.findings.add(Promise.WORK_AT_SOURCE, clipped(f"{self._what(query)} but {text}"))


def _texts(filters: Sequence[Expr], before: str) -> str:
    return f"{before} {' and '.join(f'`{expr!r}`' for expr in filters)}" if filters else ""
