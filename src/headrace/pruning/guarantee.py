"""Guarantee: what is certain of one column in every row that passes a filter, and how two combine; pure."""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from headrace.expr.semantics import is_nan


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of a range. Never null, never NaN."""

    value: Any
    inclusive: bool


@dataclass(frozen=True, slots=True, repr=False)
class Guarantee:
    """What must hold for a column in any row that passes; each field narrows it further.

    ``values``: it is one of these; ``None`` among them stands for null. Empty: no row can pass at all, skip
    everything (``is_empty``). None: not known to be from a finite set.

    The rest speaks of the column's non-null values: ``not_in``, it is none of these; ``lower`` and ``upper``,
    its range; ``prefix``, the text or bytes it starts with. Where ``values`` is known they follow from it.

    ``not_null``: it is not null. Otherwise null is allowed beside what the other fields allow.

    Values are plain Python (int, float, Decimal, str, bytes, bool, date, timedelta, datetime: naive for
    TIMESTAMP_NTZ, in UTC for TIMESTAMP). Comparison is Spark's: NaN equals NaN and is greater than every
    number, so NaN passes any ``lower`` and no ``upper``; ``allows`` applies these rules.
    """

    values: frozenset[Any] | None = None
    not_in: frozenset[Any] = frozenset()
    lower: Bound | None = None
    upper: Bound | None = None
    prefix: str | bytes | None = None
    not_null: bool = False

    @property
    def is_empty(self) -> bool:
        """No row passes: the filters contradict each other."""
        return self.values is not None and not self.values

    def allows(self, value: Any) -> bool:
        """Whether a row with this value (None for null) could pass, as far as this guarantee knows."""
        if value is None:
            return not self.not_null if self.values is None else None in self.values
        if is_nan(value):
            return (
                self.upper is None
                and not _has(self.not_in, value)
                and (self.values is None or _has(self.values, value))
            )
        if self.values is not None:
            return value in self.values
        if self.not_in and value in self.not_in:
            return False
        low, high = self.lower, self.upper
        if low and (value < low.value or (value == low.value and not low.inclusive)):
            return False
        if high and (value > high.value or (value == high.value and not high.inclusive)):
            return False
        return self.prefix is None or bool(value[: len(self.prefix)] == self.prefix)

    def __repr__(self) -> str:
        if self.is_empty:
            return "Guarantee(nothing passes)"
        parts = []
        if self.values is not None:
            parts.append(f"in {{{', '.join(sorted(map(repr, self.values)))}}}")
        else:
            parts += [f"{'>=' if self.lower.inclusive else '>'} {self.lower.value!r}"] if self.lower else []
            parts += [f"{'<=' if self.upper.inclusive else '<'} {self.upper.value!r}"] if self.upper else []
            parts += [f"starts with {self.prefix!r}"] if self.prefix is not None else []
            parts += [f"not in {{{', '.join(sorted(map(repr, self.not_in)))}}}"] if self.not_in else []
        parts += ["not null"] if self.not_null else ["or null"] if parts and self.values is None else []
        return f"Guarantee({', '.join(parts) or 'anything'})"


ANYTHING = Guarantee()
NOTHING = Guarantee(values=frozenset(), not_null=True)
NOT_NULL = Guarantee(not_null=True)


def one_of(values: Iterable[Any]) -> Guarantee:
    """The guarantee that a column is one of ``values``, None among them standing for null."""
    found = frozenset(values)
    if not found:
        return NOTHING
    present = [value for value in found if value is not None]
    numbers = [value for value in present if not is_nan(value)]
    strings = [value for value in present if isinstance(value, (str, bytes))]
    return Guarantee(
        values=found,
        lower=Bound(min(numbers), True) if numbers else None,
        upper=Bound(max(numbers), True) if numbers and len(numbers) == len(present) else None,
        prefix=_common_prefix(strings),
        not_null=None not in found,
    )


def starts_with(prefix: str | bytes) -> Guarantee:
    """The guarantee that a column starts with ``prefix``, with the range that follows from it."""
    if not prefix:
        return NOT_NULL
    after = after_prefix(prefix)
    upper = None if after is None else Bound(after, False)
    return Guarantee(lower=Bound(prefix, True), upper=upper, prefix=prefix, not_null=True)


def after_prefix(prefix: str | bytes) -> str | bytes | None:
    """The least value greater than everything that starts with ``prefix``; None if there is none."""
    if isinstance(prefix, bytes):
        head = prefix.rstrip(b"\xff")
        return head[:-1] + bytes([head[-1] + 1]) if head else None
    text = prefix.rstrip("\U0010ffff")
    if not text:
        return None
    following = ord(text[-1]) + 1
    return text[:-1] + chr(0xE000 if following == 0xD800 else following)  # surrogates are no characters


def both(a: Guarantee, b: Guarantee) -> Guarantee:
    """What holds where ``a`` and ``b`` hold."""
    null_allowed = a.allows(None) and b.allows(None)
    finite = a.values if a.values is not None else b.values
    if finite is not None:
        return one_of(value for value in finite if a.allows(value) and b.allows(value))
    lower = _tighter(a.lower, b.lower, 1)
    upper = _tighter(a.upper, b.upper, -1)
    prefixes = sorted((p for p in (a.prefix, b.prefix) if p is not None), key=len)
    if prefixes and prefixes[-1][: len(prefixes[0])] != prefixes[0]:
        return one_of([None] if null_allowed else [])
    merged = Guarantee(
        not_in=a.not_in | b.not_in,
        lower=lower,
        upper=upper,
        prefix=prefixes[-1] if prefixes else None,
        not_null=not null_allowed,
    )
    few = _few_values(merged)
    return merged if few is None else one_of([*few, None] if null_allowed else few)


def either(a: Guarantee, b: Guarantee) -> Guarantee:
    """What holds where ``a`` or ``b`` holds: it may allow more, never less."""
    null_allowed = a.allows(None) or b.allows(None)
    if a.values is not None and b.values is not None:
        return one_of(a.values | b.values)
    for this, other in ((a, b), (b, a)):
        if this.values is not None and this.values <= {None}:
            return other if not null_allowed else _with_null(other)
    prefixes = [p for p in (a.prefix, b.prefix) if p is not None]
    excluded = {v for v in a.not_in if not b.allows(v)} | {v for v in b.not_in if not a.allows(v)}
    return Guarantee(
        not_in=frozenset(excluded),
        lower=_looser(a.lower, b.lower, 1),
        upper=_looser(a.upper, b.upper, -1),
        prefix=_common_prefix(prefixes) if len(prefixes) == 2 else None,
        not_null=not null_allowed,
    )


def _with_null(guarantee: Guarantee) -> Guarantee:
    g = guarantee
    return Guarantee(g.values, g.not_in, g.lower, g.upper, g.prefix, not_null=False)


def _few_values(g: Guarantee) -> list[Any] | None:
    """The non-null values a range leaves, if it leaves none, one, or fewer than it excludes; else None."""
    if g.lower is None or g.upper is None:
        return None
    low, high = g.lower.value, g.upper.value
    if low > high:
        return []
    if low == high:
        return [low] if g.lower.inclusive and g.upper.inclusive and g.allows(low) else []
    step: Any
    if type(low) is int and type(high) is int:
        step = 1
    elif type(low) is datetime.date and type(high) is datetime.date:
        step = datetime.timedelta(days=1)
    else:
        return None
    count = (high - low) // step + 1
    if count > len(g.not_in) + 3:
        return None
    left = list(itertools.islice((value for value in (low + i * step for i in range(count)) if g.allows(value)), 2))
    return left if len(left) < 2 else None


def _tighter(a: Bound | None, b: Bound | None, sign: int) -> Bound | None:
    """The bound that excludes more; ``sign`` is 1 for lower bounds, -1 for upper ones."""
    if a is None or b is None:
        return a or b
    if a.value == b.value:
        return a if not a.inclusive else b
    return a if (a.value > b.value) == (sign > 0) else b


def _looser(a: Bound | None, b: Bound | None, sign: int) -> Bound | None:
    if a is None or b is None:
        return None
    if a.value == b.value:
        return a if a.inclusive else b
    return a if (a.value < b.value) == (sign > 0) else b


def _common_prefix(strings: list[Any]) -> Any:
    """The longest prefix all have, or None when it is empty."""
    if not strings:
        return None
    first, last = min(strings), max(strings)
    same = (i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b)
    return first[: next(same, min(len(first), len(last)))] or None


def _has(values: frozenset[Any], nan: float) -> bool:
    return math.nan in values or any(map(is_nan, values))
