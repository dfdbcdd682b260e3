"""Checks of filters and limits: what comes back is held against ``Expr.evaluate``; runs in the test's process."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from headrace.arrow.rows import counted, shown
from headrace.errors import EvaluationError
from headrace.expr.nodes import Expr
from headrace.negotiate.filters import OfferedFilter
from headrace.negotiate.planned import PlannedScan
from headrace.provider import FilterPushdown
from headrace.testing.generated import generated_filters
from headrace.testing.probe import CheckStopped, Probe
from headrace.testing.report import Promise, Severity
from headrace.testing.rows import difference
from headrace.testing.scans import check_pickling
from headrace.testing.stated import check_stated
from headrace.testing.truth import Truth, check_no_new_rows, note_cut_short


@dataclass(frozen=True)
class _Asked:
    """Filters that were asked about together, and their answers; ``used`` are those that the scan is given."""

    offered: tuple[OfferedFilter, ...]

    @property
    def used(self) -> list[Expr]:
        return [one.requested for one in self.offered if one.requested is not None]

    @property
    def is_exact(self) -> bool:
        """Whether all are: Spark then filters no more, and may offer a limit."""
        return all(one.answer is FilterPushdown.EXACT for one in self.offered)

    def __str__(self) -> str:
        texts = [f"{one.word.upper()} for `{one.expr!r}`" for one in self.offered if one.requested is not None]
        return f"answered {' and '.join(texts)}"


def check_filters(
    probe: Probe, truth: Truth, given: Sequence[Expr], rng: Random, samples: int
) -> list[tuple[Expr, ...]]:
    """Ask about each filter alone and in groups, and scan with those it takes. Returns what is all EXACT."""
    generated = generated_filters(truth.table, rng, samples, whole=truth.complete)
    single = tuple(dict.fromkeys((*given, *generated.single)))
    with contextlib.suppress(CheckStopped):
        probe.negotiate(single)
    all_exact: list[tuple[Expr, ...]] = []
    pickled: set[str] = set()
    unread: set[frozenset[str]] = set()
    for filters in dict.fromkeys([*((expr,) for expr in single), tuple(given), *generated.together]):
        if not filters:
            continue
        with contextlib.suppress(CheckStopped):
            negotiation = probe.negotiate(filters)
            asked = _Asked(negotiation.filters)
            if not asked.used:
                continue
            probe.findings.offer(Promise.FILTERS)
            scan = probe.plan(Promise.FILTERS, negotiation)
            words = {one.word for one in asked.offered}
            if not pickled.issuperset(words):
                pickled.update(words)
                check_pickling(probe, scan, None)
            right = _check_rows(probe, truth, asked, scan)
            if right and asked.is_exact:
                all_exact.append(filters)
                columns = frozenset(name for expr in filters for name in expr.columns())
                if columns not in unread:
                    unread.add(columns)
                    _check_unread(probe, truth, filters, columns)
    _note_limits_of_data(probe, truth, all_exact)
    return all_exact


def _check_rows(probe: Probe, truth: Truth, asked: _Asked, scan: PlannedScan) -> bool:
    """Whether the scan gave the rows it should."""
    reading = probe.read(scan, Promise.FILTERS)
    right = Promise.FILTERS not in check_stated(probe, reading)
    try:
        expected = truth.matching(asked.used)
    except (NotImplementedError, EvaluationError) as error:  # a function of the user's, or rows for which Spark fails
        probe.findings.add(Promise.FILTERS, f"{asked} could not be verified: {error}", Severity.NOTE)
        return False
    if not truth.complete:
        return right
    differs = difference(expected, reading.table)
    if differs.missing:
        count, plural = len(differs.missing), "matches" if len(differs.missing) == 1 else "match"
        rows = shown(expected, differs.missing)
        probe.findings.add(Promise.FILTERS, f"{asked} but dropped {counted(count, 'row')} that {plural}: {rows}")
        right = False
    if right and differs.extra:
        right = check_no_new_rows(probe, truth.table, reading, str(asked), Promise.FILTERS)
    return right


def _check_unread(probe: Probe, truth: Truth, filters: tuple[Expr, ...], columns: frozenset[str]) -> None:
    """Spark does not read a column that only EXACT filters use."""
    negotiation = probe.negotiate(filters, [field for field in probe.table.schema if field.name not in columns])
    asked = _Asked(negotiation.filters)
    scan = probe.plan(Promise.FILTERS, negotiation)
    reading = probe.read(scan, Promise.FILTERS)
    if truth.complete and asked.is_exact:
        with contextlib.suppress(NotImplementedError, EvaluationError):
            expected = truth.in_columns(truth.matching(filters), scan.schema)
            if differs := difference(expected, reading.table):
                unread = ", ".join(sorted(columns))
                message = f"{asked} but not for a scan that does not read {unread}: {differs}"
                probe.findings.add(Promise.FILTERS, message)


def _note_limits_of_data(probe: Probe, truth: Truth, all_exact: Sequence[Sequence[Expr]]) -> None:
    filtered = {name for filters in all_exact for expr in filters for name in expr.columns()}
    unseen = [
        field.name
        for field in probe.table.schema
        if field.nullable and field.name in filtered and truth.count and not truth.table[field.name].null_count
    ]
    if unseen:
        message = f"no nulls in the data of {', '.join(unseen)}: how EXACT filters treat them was not seen"
        probe.findings.add(Promise.FILTERS, message, Severity.NOTE)
    if not truth.complete:
        note_cut_short(probe, Promise.FILTERS, "that filters drop no matching row was not checked")


def check_limits(probe: Probe, truth: Truth, all_exact: Sequence[tuple[Expr, ...]], rng: Random, samples: int) -> None:
    """A limit alone, and with filters that are EXACT: Spark pushes none where it filters itself."""
    probe.findings.offer(Promise.LIMIT)
    count = truth.count
    for limit in sorted({1, count // 2, count - 1, count, count + 1} if truth.complete else {1, count // 2}):
        if limit > 0:
            _check_limit(probe, truth, (), limit)
    with contextlib.suppress(NotImplementedError, EvaluationError):
        matching = {filters: truth.matching(filters).num_rows for filters in all_exact}
        some = [filters for filters in all_exact if 0 < matching[filters] < count]
        for filters in rng.sample(some, min(len(some), samples * len(probe.table.schema))):
            for limit in sorted({1, matching[filters]}):
                _check_limit(probe, truth, filters, limit)
    if not truth.complete:
        note_cut_short(probe, Promise.LIMIT, "that limited scans return rows of the table was not checked")


def _check_limit(probe: Probe, truth: Truth, filters: tuple[Expr, ...], limit: int) -> None:
    with contextlib.suppress(CheckStopped):
        negotiation = probe.negotiate(filters, limit=limit)
        if not _Asked(negotiation.filters).is_exact:
            return  # an answer that is not always the same; Spark would not offer the limit here
        reading = probe.read(probe.plan(Promise.LIMIT, negotiation), Promise.LIMIT)
        check_stated(probe, reading)
        expected = truth.matching(filters)
        found, wanted = reading.table.num_rows, min(limit, expected.num_rows)
        texts = " and ".join(f"`{expr!r}`" for expr in filters)
        what = f"asked for limit={limit}{f' with the EXACT filters {texts}' if filters else ''}"
        if found < wanted:
            there = f"{counted(expected.num_rows, 'row')} {'match' if filters else 'are there'}"
            parts = f" ({', '.join(str(part.num_rows) for part in reading.partitions)} per partition)"
            message = f"{what} where {there}, but the scan returned {counted(found, 'row')}{parts}"
            probe.findings.add(Promise.LIMIT, message)
        if truth.complete:
            check_no_new_rows(probe, truth.table, reading, what, Promise.LIMIT)
