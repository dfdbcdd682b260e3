"""Offsets of streams: JSON values, compared and kept by their canonical text; driver Python."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from headrace.errors import PlanError
from headrace.negotiate.asking import kind_of
from headrace.stream import Offset


def offset_text(offset: Offset) -> str:
    """The canonical JSON of an offset that is one: keys sorted, and 1.0 is 1."""
    plain = json.loads(json.dumps(offset, allow_nan=False), parse_float=_number)
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _number(text: str) -> float:
    number = float(text)
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def checked_text(offset: Any, where: str, table: str) -> str:
    """The canonical JSON of what user code gave as an offset. Raises PlanError where that is none."""
    problem = _problem(offset)
    if problem is None:
        try:
            return offset_text(offset)
        except (TypeError, ValueError, RecursionError) as error:
            problem = str(error)
    raise PlanError(
        f"{where} returned {kind_of(offset)} as an offset of table {table!r}, expected a JSON value that is not null "
        f"(a number, a string, a list, a dict of strings to these): {problem}"
    )


def offset_of(text: str) -> Offset:
    """The offset with this canonical JSON. A tuple comes back as a list, 1.0 as 1."""
    return json.loads(text)


def goes_back(start: Offset, end: Offset) -> bool:
    """Whether both are numbers, and ``end`` is the smaller one: of other offsets nobody knows which comes first."""
    return _is_number(start) and _is_number(end) and end < start


def ends_until_now(start: str, ask: Callable[[str], str], where: str, most: int) -> list[str]:
    """The ends of the steps from ``start`` to where a stream is now; empty where nothing is new. All as canonical JSON.

    ``ask`` answers how far the stream goes from an offset. A provider may answer with less than all, so each answer is
    asked from again. Where that gives more, either the answer was capped or the stream has grown meanwhile. The same
    question, asked again, tells them apart: a capped answer does not reach what is there by now. A stream that grows
    faster than its capped answers ends after ``most`` steps. Raises PlanError for offsets that go in a circle.
    """
    ends: list[str] = []
    seen = {start}
    begin, end = start, ask(start)
    while end != begin and len(ends) < most:
        if end in seen:
            raise PlanError(f"{where} answered {end} when asked from {begin}, where it was before: offsets only grow")
        seen.add(end)
        ends.append(end)
        more = ask(end)
        if more == end:
            break
        again = ask(begin)
        if again != end and not _is_behind(offset_of(again), offset_of(more)):
            break
        begin, end = end, more
    return ends


def _is_behind(offset: Offset, other: Offset) -> bool:
    """Whether a number in ``offset``, one of some shards for instance, is smaller than that of ``other``."""
    if isinstance(offset, dict) and isinstance(other, dict):
        return any(_is_behind(offset[key], other[key]) for key in offset.keys() & other.keys())
    if isinstance(offset, list) and isinstance(other, list):
        return any(map(_is_behind, offset, other))
    return goes_back(other, offset)


def _is_number(offset: Offset) -> bool:
    return isinstance(offset, (int, float)) and not isinstance(offset, bool)


def _problem(offset: Any) -> str | None:
    """What json.dumps would let pass, and JSON does not have."""
    if offset is None:
        return "it is null"
    for inner in [offset, *_parts(offset)]:
        if isinstance(inner, dict) and not all(isinstance(key, str) for key in inner):
            return "the keys of a dict have to be strings"
    return None


def _parts(value: Any, depth: int = 100) -> list[Any]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [part for one in inner for part in (one, *(_parts(one, depth - 1) if depth else ()))]
