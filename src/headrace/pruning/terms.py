"""Turns filters into what they say of each column, for the pruning; pure, runs anywhere."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from headrace.expr.nodes import (
    And,
    Cast,
    Column,
    Comparison,
    Expr,
    InList,
    IsNull,
    Literal,
    Not,
    Or,
    StringMatch,
    legs,
)
from headrace.expr.normal_form import TRUE, conjunction
from headrace.expr.semantics import (
    Kind,
    cast_target,
    is_nan,
    kind_of,
    literal_value,
    operand_type,
    plain_values,
    widens,
)
from headrace.pruning.guarantee import (
    NOT_NULL,
    NOTHING,
    Bound,
    Guarantee,
    after_prefix,
    both,
    either,
    one_of,
    starts_with,
)


@dataclass(frozen=True)
class Term:
    """A conjunction: what holds per column, and groups of terms of which one each must hold."""

    columns: Mapping[Column, Guarantee] = field(default_factory=dict)
    alternatives: tuple[tuple[Term, ...], ...] = ()

    @property
    def impossible(self) -> bool:
        return any(g.is_empty for g in self.columns.values()) or not all(self.alternatives)


IMPOSSIBLE = Term(alternatives=((),))


class Compiler:
    """Turns filters into a term. A column has one kind throughout; tests of another kind say nothing."""

    def __init__(self, filters: tuple[Expr, ...], schema: pa.Schema | None) -> None:
        self._schema = schema
        self._kinds: dict[Column, Kind] = {}
        self.compiled = self._term(conjunction(filters))

    def _term(self, expr: Expr) -> Term:
        if isinstance(expr, And):
            return _all(self._term(leg) for leg in legs(expr, And))
        if isinstance(expr, Or):
            return _any(self._term(leg) for leg in legs(expr, Or))
        negated = isinstance(expr, Not)
        inner = expr.operand if isinstance(expr, Not) else expr
        match inner:
            case Literal(value=bool() | None as value):
                return Term() if value is not None and value is not negated else IMPOSSIBLE
            case Column():
                is_boolean = self._is_comparable(inner, TRUE)
                return self._about(inner, one_of([not negated]) if is_boolean else NOT_NULL)
            case IsNull(operand=operand) if negated:
                return self._about(operand, NOT_NULL)
            case IsNull(operand=Column() as column):
                return self._about(column, one_of([None]))
            case Comparison(op=op, left=left, right=Literal() as literal):
                return self._comparison("!" + op if negated else op, left, literal)
            case Comparison(op=op, left=left, right=right) if op != "<=>":
                return _all([self._about(left, NOT_NULL), self._about(right, NOT_NULL)])
            case InList(operand=operand):
                return self._in_list(operand, inner.values, negated)
            case StringMatch():
                return self._string_match(inner, negated)
        return Term()

    def _about(self, operand: Expr, guarantee: Guarantee) -> Term:
        """``guarantee`` of the column ``operand`` is, or only that it is not null under a cast."""
        if isinstance(operand, Cast):
            return self._about(operand.operand, NOT_NULL) if guarantee.not_null else Term()
        if not isinstance(operand, Column):
            return Term()
        columns = {operand: guarantee}
        if guarantee.not_null:
            path = (operand.name, *operand.path)
            columns |= {Column(path[0], path[1:depth]): NOT_NULL for depth in range(1, len(path))}
        return Term(columns)

    def _comparison(self, op: str, operand: Expr, literal: Literal) -> Term:
        null_passes = op == "!<=>"
        op = {"<=>": "=", "!<=>": "!="}.get(op, op)
        column, test = self._test(op, operand, literal)
        if column is None:
            return Term() if null_passes else self._about(operand, NOT_NULL)
        if null_passes:
            test = either(test, one_of([None]))
        return self._about(column, test)

    def _in_list(self, operand: Expr, values: tuple[Expr, ...], negated: bool) -> Term:
        many = plain_values(values)
        if many is not None and isinstance(operand, Column) and self._is_comparable(operand, values[0]):
            return self._about(operand, Guarantee(not_in=frozenset(many), not_null=True) if negated else one_of(many))
        found: Column | None = None
        tests: list[Guarantee] = []
        for literal in values:
            assert isinstance(literal, Literal)  # by normal form
            found, test = self._test("!=" if negated else "=", operand, literal)
            if found is None:
                return self._about(operand, NOT_NULL)
            tests.append(test)
        assert found is not None
        if negated:
            return self._about(found, functools.reduce(both, tests))
        return self._about(found, one_of(value for test in tests for value in test.values or ()))

    def _string_match(self, expr: StringMatch, negated: bool) -> Term:
        known_not_null = _all([self._about(expr.operand, NOT_NULL), self._about(expr.pattern, NOT_NULL)])
        column, pattern = expr.operand, expr.pattern
        if not isinstance(column, Column) or not isinstance(pattern, Literal) or expr.op != "STARTS_WITH":
            return known_not_null
        prefix = literal_value(pattern)
        if not self._is_comparable(column, pattern) or not isinstance(prefix, (str, bytes)):
            return known_not_null
        if not negated:
            return self._about(column, starts_with(prefix))
        if not prefix:
            return IMPOSSIBLE
        before = self._about(column, Guarantee(upper=Bound(prefix, False), not_null=True))
        following = after_prefix(prefix)
        if following is None:
            return before
        return _any([before, self._about(column, Guarantee(lower=Bound(following, True), not_null=True))])

    def _test(self, op: str, operand: Expr, literal: Literal) -> tuple[Column | None, Guarantee]:
        """The column a comparison with a literal is about, and what it must be; no column if not known."""
        value = literal_value(literal)
        if isinstance(operand, Column) and value is not None and self._is_comparable(operand, literal):
            return operand, _compared(op, value)
        if isinstance(operand, Cast) and isinstance(operand.operand, Column) and value is not None:
            column, target = operand.operand, cast_target(operand.spark_type)
            source = operand_type(column, self._schema)
            if source is not None and target is not None and widens(source, target):
                kinds = kind_of(source), kind_of(target)
                if kind_of(literal.type) is kinds[1] and self._has_kind(column, kinds[0]):
                    if kinds[0] is kinds[1]:
                        return column, _compared(op, value)
                    if kinds[0] is Kind.INT:
                        return column, _compared_with_integers(op, value)
        return None, NOTHING

    def _is_comparable(self, column: Column, literal: Expr) -> bool:
        kind = kind_of(literal.type) if isinstance(literal, Literal) else None
        source = operand_type(column, self._schema)
        if self._schema is not None and (source is None or kind_of(source) is not kind):
            return False
        return self._has_kind(column, kind)

    def _has_kind(self, column: Column, kind: Kind | None) -> bool:
        return kind is not None and self._kinds.setdefault(column, kind) is kind


def _all(terms: Iterable[Term]) -> Term:
    columns: dict[Column, Guarantee] = {}
    alternatives: tuple[tuple[Term, ...], ...] = ()
    for term in terms:
        if term.impossible:
            return IMPOSSIBLE
        for column, guarantee in term.columns.items():
            columns[column] = both(columns[column], guarantee) if column in columns else guarantee
        alternatives += term.alternatives
    return Term(columns, alternatives)


def _any(terms: Iterable[Term]) -> Term:
    possible = tuple(term for term in terms if not term.impossible)
    if not possible:
        return IMPOSSIBLE
    first, *others = possible
    if not others:
        return first
    columns = dict(first.columns)
    for term in others:
        columns = {
            column: either(guarantee, term.columns[column])
            for column, guarantee in columns.items()
            if column in term.columns
        }
    return Term(columns, (possible,))


def _compared(op: str, value: Any) -> Guarantee:
    """What a non-null column must be for ``column op value``."""
    if isinstance(value, bool):
        tests = {"=": value.__eq__, "!=": value.__ne__, "<": value.__gt__, "<=": value.__ge__}
        tests |= {">": value.__lt__, ">=": value.__le__}
        return one_of(candidate for candidate in (False, True) if tests[op](candidate))
    if is_nan(value):
        if op in ("=", ">="):
            return one_of([math.nan])
        if op in ("!=", "<"):
            return Guarantee(not_in=frozenset([math.nan]), not_null=True)
        return NOT_NULL if op == "<=" else NOTHING
    if op == "=":
        return one_of([value])
    if op == "!=":
        return Guarantee(not_in=frozenset([value]), not_null=True)
    bound = Bound(value, op in ("<=", ">="))
    if op[0] == "<":
        return Guarantee(upper=bound, not_null=True)
    return Guarantee(lower=bound, not_null=True)


def _compared_with_integers(op: str, value: Any) -> Guarantee:
    """What an integer column must be for ``column op value``, the value a float or a Decimal."""
    if is_nan(value) or value in (math.inf, -math.inf):
        below = is_nan(value) or value > 0  # every integer is below the value
        passes = op == "!=" or (op != "=" and (op[0] == "<") == below)
        return NOT_NULL if passes else NOTHING
    if value == math.floor(value):
        return _compared(op, math.floor(value))
    if op in ("=", "!="):
        return NOTHING if op == "=" else NOT_NULL
    return _compared("<=", math.floor(value)) if op[0] == "<" else _compared(">=", math.ceil(value))
