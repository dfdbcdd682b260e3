"""Checks of top-n and offset: the first rows in an order, and the rows after the first ones; pure."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from random import Random

import pyarrow as pa

from headrace.arrow.rows import NAN_KEY, column_keys, counted
from headrace.errors import EvaluationError
from headrace.expr.nodes import Expr
from headrace.negotiate.negotiation import Negotiation
from headrace.plan import SortKey
from headrace.promises.ordering import order_text
from headrace.provider import Pushdown
from headrace.testing.generated import comparable_columns
from headrace.testing.probe import CheckStopped, Probe, Reading
from headrace.testing.report import Promise
from headrace.testing.stated import check_stated
from headrace.testing.truth import Truth, check_no_new_rows, note_cut_short

_Key = tuple[object, ...]


def check_top_n(probe: Probe, truth: Truth, all_exact: Sequence[tuple[Expr, ...]], rng: Random, samples: int) -> None:
    """Orders by one and by two columns, with limits and offsets, alone and below EXACT filters."""
    if not truth.complete:
        if any(_answer(probe, order, 1) is not Pushdown.UNSUPPORTED for order in orders(truth.table, rng, 1)):
            note_cut_short(probe, Promise.TOP_N, "top-n was not checked")
        return
    some = rng.sample(list(all_exact), min(len(all_exact), samples))
    for order in orders(truth.table, rng, samples):
        if _answer(probe, order, 1) is Pushdown.UNSUPPORTED:
            continue
        half = max(1, truth.count // 2)
        for limit, offset in dict.fromkeys([(1, 0), (1, 1), (half, 0), (half, 1), (truth.count + 1, half)]):
            _check(probe, truth, (), order, limit, offset)
        for filters in some:
            _check(probe, truth, filters, order, half, 0)
    for offset in sorted({1, truth.count // 2, truth.count + 1} - {0}):
        _check_offset(probe, truth, offset)


def orders(rows: pa.Table, rng: Random, samples: int) -> Iterator[tuple[SortKey, ...]]:
    """By each of the columns of ``rows`` that have an order, and by two of them."""
    names = [column.name for column, _ in comparable_columns(rows) if not column.path]
    for name in names:
        for descending, nulls_first in rng.sample([(d, n) for d in (False, True) for n in (False, True)], 2):
            yield (SortKey(name, descending, nulls_first),)
    for _ in range(samples if len(names) > 1 else 0):
        yield tuple(SortKey(name, rng.random() < 0.5, rng.random() < 0.5) for name in rng.sample(names, 2))


def _answer(probe: Probe, order: tuple[SortKey, ...], limit: int) -> Pushdown:
    with contextlib.suppress(CheckStopped):
        return _offered(probe, (), order, limit)[1]
    return Pushdown.UNSUPPORTED


def _offered(
    probe: Probe, filters: tuple[Expr, ...], order: tuple[SortKey, ...], limit: int
) -> tuple[Negotiation, Pushdown]:
    negotiation = probe.negotiate(filters)
    if any(one.word not in ("exact", "implied") for one in negotiation.filters):
        return negotiation, Pushdown.UNSUPPORTED  # an answer that is not always the same
    with probe.reported(Promise.TOP_N, "supports_top_n_pushdown"):
        answer = negotiation.offer_top_n(order, limit).answer
    if answer is not Pushdown.UNSUPPORTED:
        probe.findings.offer(Promise.TOP_N)
    return negotiation, answer


def _check(
    probe: Probe, truth: Truth, filters: tuple[Expr, ...], order: tuple[SortKey, ...], limit: int, offset: int
) -> None:
    with contextlib.suppress(CheckStopped, NotImplementedError, EvaluationError):
        matching = truth.matching(filters)
        negotiation, answer = _offered(probe, filters, order, limit)
        if answer is Pushdown.UNSUPPORTED:
            return
        if offset:
            with probe.reported(Promise.TOP_N, "supports_offset_pushdown"):
                if not negotiation.offer_offset(offset):
                    return
        reading = probe.read(probe.plan(Promise.TOP_N, negotiation), Promise.TOP_N)
        if Promise.TOP_N in check_stated(probe, reading):
            return
        texts = " and ".join(f"`{expr!r}`" for expr in filters)
        what = (
            f"answered {answer.name} for the first {limit} by {', '.join(map(order_text, order))}"
            f"{f', offset {offset}' if offset else ''}{f', with the EXACT filters {texts}' if texts else ''}"
        )
        if not check_no_new_rows(probe, matching, reading, what, Promise.TOP_N):
            return
        expected = _ordered_keys(matching, order, matching)[offset:limit]
        if answer is Pushdown.EXACT:
            keys = _keys(reading.table.slice(0, max(0, limit - offset)), order)
        else:
            keys = _ordered_keys(reading.table, order, matching)[:limit]
        _compare(probe, expected, keys, order, what, Promise.TOP_N)


def check_first_rows(
    probe: Probe,
    matching: pa.Table,
    reading: Reading,
    order: tuple[SortKey, ...],
    limit: int,
    what: str,
    promise: Promise,
) -> None:
    """The first rows in an order are among those that a scan gave, which are all of ``matching``."""
    if check_no_new_rows(probe, matching, reading, what, promise):
        expected = _ordered_keys(matching, order, matching)[:limit]
        _compare(probe, expected, _ordered_keys(reading.table, order, matching)[:limit], order, what, promise)


def _compare(
    probe: Probe, expected: list[_Key], keys: list[_Key], order: tuple[SortKey, ...], what: str, promise: Promise
) -> None:
    for row, (right, is_) in enumerate(zip(expected, keys, strict=False)):
        if right != is_:
            message = f"{what} but row {row} has {_named(order, is_)}, expected {_named(order, right)}"
            probe.findings.add(promise, message)
            return
    if len(keys) < len(expected):
        probe.findings.add(promise, f"{what} but returned {counted(len(keys), 'row')}, expected {len(expected):,}")


def _check_offset(probe: Probe, truth: Truth, offset: int) -> None:
    """An offset without an order: which rows are left out is not said, only how many."""
    with contextlib.suppress(CheckStopped):
        negotiation = probe.negotiate()
        with probe.reported(Promise.TOP_N, "supports_offset_pushdown"):
            if not negotiation.offer_offset(offset):
                return
        probe.findings.offer(Promise.TOP_N)
        reading = probe.read(probe.plan(Promise.TOP_N, negotiation), Promise.TOP_N)
        what = f"agreed to leave out the first {'row' if offset == 1 else counted(offset, 'row')}"
        expected = max(0, truth.count - offset)
        no_new_rows = check_no_new_rows(probe, truth.table, reading, what, Promise.TOP_N)
        if no_new_rows and reading.table.num_rows != expected:
            found = counted(reading.table.num_rows, "row")
            probe.findings.add(Promise.TOP_N, f"{what} of {truth.count:,} but returned {found}, expected {expected:,}")


def _keys(rows: pa.Table, order: tuple[SortKey, ...]) -> list[_Key]:
    return list(zip(*(column_keys(rows[key.column]) for key in order), strict=True))


def _ordered_keys(rows: pa.Table, order: tuple[SortKey, ...], among: pa.Table) -> list[_Key]:
    """The order's columns of ``rows`` as Spark sorts them; ``rows`` are some of ``among``."""
    ranks = [_ranks(among[key.column], key) for key in order]
    keys = _keys(rows, order)
    return sorted(keys, key=lambda key: [rank[value] for rank, value in zip(ranks, key, strict=True)])


def _ranks(column: pa.ChunkedArray, key: SortKey) -> dict[object, float]:
    """Numbers in the order of the values, as Spark sorts: NaN is the largest, strings go by their bytes."""
    values = set(column_keys(column)) - {None}
    in_order = sorted(values - {NAN_KEY}) + [NAN_KEY] * (NAN_KEY in values)
    sign = -1 if key.descending else 1
    rank: dict[object, float] = {value: sign * position for position, value in enumerate(in_order)}
    rank[None] = -float("inf") if key.nulls_first else float("inf")
    return rank


def _named(order: tuple[SortKey, ...], key: _Key) -> str:
    return ", ".join(f"{one.column} = {value!r}" for one, value in zip(order, key, strict=True))
