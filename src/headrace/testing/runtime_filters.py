"""Checks of runtime filters: a plan made again with them has every row that passes, and fits the first plan; pure."""

from __future__ import annotations

import contextlib
from random import Random

from headrace.arrow.rows import counted, shown
from headrace.expr.nodes import Expr
from headrace.negotiate.planned import PlannedScan
from headrace.testing.generated import runtime_filters
from headrace.testing.probe import CheckStopped, Probe
from headrace.testing.report import Promise
from headrace.testing.rows import difference
from headrace.testing.scans import check_pickling
from headrace.testing.stated import check_stated
from headrace.testing.truth import Truth, check_no_new_rows, note_cut_short


def check_runtime_filters(probe: Probe, truth: Truth, plain: PlannedScan, rng: Random, samples: int) -> None:
    """Filters as joins send them, made of the table's own values, one and two at a time."""
    columns = plain.runtime_filter_columns
    if not columns:
        return
    probe.findings.offer(Promise.RUNTIME_FILTERS)
    if not truth.complete:
        note_cut_short(probe, Promise.RUNTIME_FILTERS, "runtime filters were not checked")
        return
    single = [expr for expr in runtime_filters(truth.table, rng, samples) if expr.columns() <= set(columns)]
    pairs = [tuple(rng.sample(single, 2)) for _ in range(samples)] if len(single) > 1 else []
    for number, filters in enumerate(dict.fromkeys([*((expr,) for expr in single), *pairs])):
        with contextlib.suppress(CheckStopped):
            _check(probe, truth, filters, pickled=number == 0)


def _check(probe: Probe, truth: Truth, filters: tuple[Expr, ...], *, pickled: bool) -> None:
    negotiation = probe.negotiate()
    scan = probe.plan(Promise.RUNTIME_FILTERS, negotiation)
    with probe.reported(Promise.RUNTIME_FILTERS, "scan"):
        scan = negotiation.narrow(scan, filters)
    if pickled:
        check_pickling(probe, scan, None)
    reading = probe.read(scan, Promise.RUNTIME_FILTERS)
    check_stated(probe, reading)
    what = f"planned again for {' and '.join(f'`{expr!r}`' for expr in filters)}"
    differs = difference(truth.matching(filters), reading.table)
    if differs.missing:
        count, verb = counted(len(differs.missing), "row"), "passes" if len(differs.missing) == 1 else "pass"
        message = f"{what} but dropped {count} that {verb}: {shown(differs.expected, differs.missing)}"
        probe.findings.add(Promise.RUNTIME_FILTERS, message)
    else:
        check_no_new_rows(probe, truth.table, reading, what, Promise.RUNTIME_FILTERS)
