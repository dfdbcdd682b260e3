"""Checks of joins that a provider takes over: a join of the table with itself is held against its own rows."""

from __future__ import annotations

import contextlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, get_args

import pyarrow as pa
import pyarrow.compute as pc

from headrace.arrow.rows import column_keys
from headrace.errors import EvaluationError
from headrace.expr.nodes import And, Column, Comparison, Expr
from headrace.negotiate.joins import Columns, OfferedJoin
from headrace.negotiate.negotiation import Negotiation
from headrace.provider import JoiningProvider, JoinType, for_scan
from headrace.tables.wrapping import innermost
from headrace.testing.generated import comparable_columns
from headrace.testing.probe import CheckStopped, Probe, clipped
from headrace.testing.report import Promise, Severity
from headrace.testing.rows import difference
from headrace.testing.scans import check_pickling
from headrace.testing.stated import check_stated
from headrace.testing.truth import Truth, is_true, note_cut_short

_Filters = tuple[Expr, ...]


@dataclass(frozen=True)
class _Trial:
    """One join to be offered: ``keys`` are the columns of both sides that have to be equal, by their own names."""

    how: JoinType
    keys: tuple[str, str]
    columns: tuple[Columns, Columns]
    condition: Expr
    filters: tuple[_Filters, _Filters]


def check_joins(probe: Probe, truth: Truth, all_exact: Sequence[_Filters], rng: Random, samples: int) -> None:
    """Offer joins of the table with itself, on equal columns, plain and with EXACT filters below."""
    if not isinstance(innermost(for_scan(probe.table.provider)), JoiningProvider):
        return
    if not truth.complete:
        note_cut_short(probe, Promise.JOINS, "joins were not checked")
        return
    refused: list[str] = []
    checked, large = 0, 0
    for trial in _trials(truth, all_exact, rng, samples):
        with contextlib.suppress(CheckStopped):
            negotiation, offered = _offered(probe, trial)
            if offered is None or offered.joined is None:
                refused += [] if offered is None else [offered.why_not]
                continue
            probe.findings.offer(Promise.JOINS)
            if _pairs(truth, trial.keys) > probe.max_rows:
                large += 1
            else:
                _check(probe, truth, negotiation, trial, pickled=not checked)
                checked += 1
    if large:
        message = f"{large} joins have more than max_rows={probe.max_rows:,} rows: these were not checked"
        probe.findings.add(Promise.JOINS, message, Severity.NOTE)
    if refused and not checked and not large:
        message = f"no join of the table with itself was taken, so none was checked: {refused[0]}"
        probe.findings.add(Promise.JOINS, message, Severity.NOTE)


def _trials(truth: Truth, all_exact: Sequence[_Filters], rng: Random, samples: int) -> Iterator[_Trial]:
    plain = [(column.name, type_) for column, type_ in comparable_columns(truth.table) if not column.path]
    pairs = [(name, name) for name, _ in plain]
    others = [(one, two) for one, type_ in plain for two, same in plain if one != two and type_ == same]
    pairs += rng.sample(others, min(len(others), samples * len(plain)))
    for keys in pairs:
        for how in get_args(JoinType):
            yield _trial(truth, how, keys, ((), ()), rng, more=None)
            below = (rng.choice(all_exact), rng.choice(((), rng.choice(all_exact)))) if all_exact else ((), ())
            more = rng.choice(others) if others else rng.choice(pairs)
            yield _trial(truth, how, keys, below, rng, more=more)


def _trial(
    truth: Truth,
    how: JoinType,
    keys: tuple[str, str],
    filters: tuple[_Filters, _Filters],
    rng: Random,
    more: tuple[str, str] | None,
) -> _Trial:
    names = truth.table.column_names
    needed = [{key, *(more or ())} for key in keys]
    left = tuple((name, name) for name in names if name in needed[0] or rng.random() < 0.7)
    right = tuple((name, _free(name, names)) for name in names if name in needed[1] or rng.random() < 0.7)
    condition: Expr = Comparison("=", Column(keys[0]), Column(_free(keys[1], names)))
    if more is not None:
        compared = Comparison(rng.choice(("<", ">=", "=")), Column(more[0]), Column(_free(more[1], names)))
        condition = And(condition, compared)
    return _Trial(how, keys, (left, right), condition, filters)


def _free(name: str, names: list[str]) -> str:
    """Another name for the right side's column, as Spark makes one."""
    number = 1
    while f"{name}_{number}" in names:
        number += 1
    return f"{name}_{number}"


def _offered(probe: Probe, trial: _Trial) -> tuple[Negotiation, OfferedJoin | None]:
    """The left scan and what became of the offer; None where a filter below is not EXACT this time."""
    left, right = (probe.negotiate(filters) for filters in trial.filters)
    if any(one.word not in ("exact", "implied") for one in (*left.filters, *right.filters)):
        return left, None
    with probe.reported(Promise.JOINS, "joined"):
        return left, left.offer_join(right, trial.how, trial.columns, trial.condition)


def _pairs(truth: Truth, keys: tuple[str, str]) -> int:
    """How many rows a join on these columns has at most, but for those of an outer join without a partner."""
    left, right = (Counter(column_keys(truth.table[key])) for key in keys)
    return sum(count * right[key] for key, count in left.items() if key is not None)


def _check(probe: Probe, truth: Truth, negotiation: Negotiation, trial: _Trial, *, pickled: bool) -> None:
    scan = probe.plan(Promise.JOINS, negotiation)
    if pickled:
        check_pickling(probe, scan, None)
    reading = probe.read(scan, Promise.JOINS)
    check_stated(probe, reading)
    below = [
        f" with `{expr!r}` {side} of it"
        for side, some in zip(("left", "right"), trial.filters, strict=True)
        for expr in some
    ]
    what = f"took the {trial.how} join with itself on `{trial.condition!r}`{''.join(below)}"
    try:
        expected = joined(truth.matching(trial.filters[0]), truth.matching(trial.filters[1]), trial)
    except (NotImplementedError, EvaluationError) as error:
        probe.findings.add(Promise.JOINS, f"{what} could not be verified: {error}", Severity.NOTE)
        return
    if differs := difference(expected, reading.table):
        probe.findings.add(Promise.JOINS, clipped(f"{what} but {differs}"))


def joined(left: pa.Table, right: pa.Table, trial: _Trial) -> pa.Table:
    """The rows of the join, by ``Expr.evaluate``."""
    partners: dict[Any, list[int]] = defaultdict(list)
    for row, key in enumerate(column_keys(right[trial.keys[1]])):
        partners[key].append(row)
    equal = [
        (row, other)
        for row, key in enumerate(column_keys(left[trial.keys[0]]))
        if key is not None
        for other in partners.get(key, ())
    ]
    pairs = _rows(left, right, [row for row, _ in equal], [other for _, other in equal], trial)
    matching = [equal[i] for i in pc.indices_nonzero(is_true(trial.condition, pairs)).to_pylist()]
    lefts: list[int | None] = [row for row, _ in matching]
    rights: list[int | None] = [other for _, other in matching]
    sides = ((left, lefts), (right, rights)) if trial.how == "left" else ((right, rights), (left, lefts))
    if trial.how != "inner":
        (table, rows), (_, others) = sides
        alone = sorted(set(range(table.num_rows)).difference(rows))
        rows.extend(alone)
        others.extend([None] * len(alone))
    return _rows(left, right, lefts, rights, trial)


def _rows(left: pa.Table, right: pa.Table, lefts: Sequence[Any], rights: Sequence[Any], trial: _Trial) -> pa.Table:
    """These rows of both sides beside each other, in the columns that were asked for; None is a row of nulls."""
    arrays, names = [], []
    for table, rows, columns in ((left, lefts, trial.columns[0]), (right, rights, trial.columns[1])):
        taken = pa.array(rows, pa.int64())
        arrays += [table[old].combine_chunks().take(taken) for old, _ in columns]
        names += [new for _, new in columns]
    return pa.table(arrays, names).combine_chunks()
