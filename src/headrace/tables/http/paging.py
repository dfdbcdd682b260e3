"""How a service pages and filters: what of a scan becomes query parameters; driver and executor Python."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from headrace.arguments import check_fields
from headrace.expr.nodes import Column, Comparison, Expr, InList, Literal
from headrace.provider import Pushdown


@dataclass(frozen=True)
class ByPage:
    """Pages have numbers: ``?page=3&per_page=100``. A page with fewer rows is the last one."""

    parameter: str = "page"
    size_parameter: str = "per_page"
    rows: int = 100
    first: int = 1

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def names(self) -> set[str]:
        return {self.parameter, self.size_parameter}

    def parameters(self, index: int, rows: int) -> dict[str, str]:
        return {self.parameter: str(self.first + index), self.size_parameter: str(rows)}


@dataclass(frozen=True)
class ByOffset:
    """Pages start at a row: ``?offset=200&limit=100``. A page with fewer rows is the last one."""

    parameter: str = "offset"
    size_parameter: str = "limit"
    rows: int = 100

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def names(self) -> set[str]:
        return {self.parameter, self.size_parameter}

    def parameters(self, index: int, rows: int) -> dict[str, str]:
        return {self.parameter: str(index * rows), self.size_parameter: str(rows)}


@dataclass(frozen=True)
class ByCursor:
    """Each answer tells where the next page is: ``?cursor=abc``. ``next`` finds that in the answer: a key of it, or a
    function of it; a page without one is the last. Such pages can only be fetched one after the other."""

    next: str | Callable[[Any], str | None] = "next"
    parameter: str = "cursor"
    size_parameter: str | None = None
    rows: int = 100

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def names(self) -> set[str]:
        return {self.parameter} if self.size_parameter is None else {self.parameter, self.size_parameter}

    def parameters(self, cursor: str | None, rows: int) -> dict[str, str]:
        size = {} if self.size_parameter is None else {self.size_parameter: str(rows)}
        return size if cursor is None else {self.parameter: cursor, **size}

    def after(self, answer: Any) -> str | None:
        found = self.next(answer) if callable(self.next) else answer.get(self.next)
        return None if found in (None, "") else str(found)


_OPERATORS = ("=", "<", "<=", ">", ">=", "IN")
Paging = ByPage | ByOffset | ByCursor


@dataclass(frozen=True)
class ApiFilter:
    """A query parameter that filters: ``parameter=value`` gives the rows for which ``column op value`` holds.

    ``op`` is one of ``= < <= > >= IN``; the values of an IN are joined by commas. ``exact=False``: rows that do not
    match may come too, none that matches is missing, and Spark filters again. ``text`` makes the parameter's text of a
    value; by default dates and timestamps are ISO, booleans are ``true`` and ``false``.

    Left to Spark is what a service may take for something else: an empty text (many take that for no filter at all), a
    NaN, and within an IN a text with a comma.
    """

    parameter: str
    column: str
    op: str = "="
    exact: bool = True
    text: Callable[[Any], str] | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if self.op not in _OPERATORS:
            raise ValueError(f"ApiFilter: op must be one of {', '.join(_OPERATORS)}, not {self.op!r}")

    def value(self, expr: Expr) -> str | None:
        """The parameter's value for a filter; None where this parameter does not mean it."""
        match expr:
            case Comparison(op, Column(name, ()), Literal(value)) if (op, name) == (self.op, self.column):
                values = [value]
            case InList(Column(name, ()), options) if self.op == "IN" and name == self.column:
                values = [option.value if isinstance(option, Literal) else None for option in options]
            case _:
                return None
        if any(value is None or value != value for value in values):
            return None
        texts = [(self.text or _text)(value) for value in values]
        if "" in texts or (self.op == "IN" and any("," in text for text in texts)):
            return None
        return ",".join(texts)


def check_names(url: str, parameters: Iterable[str], paging: Paging, filters: Sequence[ApiFilter]) -> None:
    """Raises ValueError where two of them give the same query parameter: one would override the other, silently."""
    givers = [
        ("the query of the url", {name for name, _ in parse_qsl(urlsplit(url).query, keep_blank_values=True)}),
        ("parameters=", set(parameters)),
        ("paging=", paging.names),
        ("filters=", {one.parameter for one in filters}),
    ]
    for index, (giver, names) in enumerate(givers):
        for other, others in givers[index + 1 :]:
            if both := sorted(names & others):
                raise ValueError(
                    f"{giver} and {other} both give the query parameter {both[0]!r}: name it in one of them"
                )


def answers(declared: Sequence[ApiFilter], filters: Sequence[Expr]) -> list[tuple[Pushdown, str, str]]:
    """For each filter the answer, the parameter and its value. A parameter is used once; Spark does what is left."""
    used: set[str] = set()
    found = []
    for expr in filters:
        answer = Pushdown.UNSUPPORTED, "", ""
        for one in declared:
            value = one.value(expr)
            if value is not None and one.parameter not in used:
                used.add(one.parameter)
                answer = Pushdown.EXACT if one.exact else Pushdown.INEXACT, one.parameter, value
                break
        found.append(answer)
    return found


def range_parameters(declared: Sequence[ApiFilter], between: Sequence[Expr]) -> dict[str, str]:
    """Query parameters that leave out no row of a range: ``between`` is ``column > start`` and ``column <= end``.

    A service that knows ``>=`` only is asked for that. All others are to be left out where the rows arrive.
    """
    found: dict[str, str] = {}
    for expr in between:
        assert isinstance(expr, Comparison)
        for op in (expr.op, ">=") if expr.op == ">" else (expr.op,):
            asked = Comparison(op, expr.left, expr.right)
            value = next(((one.parameter, text) for one in declared if (text := one.value(asked)) is not None), None)
            if value is not None:
                found[value[0]] = value[1]
                break
    return found


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat() if isinstance(value, datetime.date) else str(value)
