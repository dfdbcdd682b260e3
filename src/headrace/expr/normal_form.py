"""Rewrites a predicate into the few shapes the translators and the pruning know; pure, runs anywhere.

The result is equal to the original in three-valued logic. In it

- NOT stands only directly above a column, an equality (``=``, ``<=>``), IN, IS NULL, a string match or
  something unknown: an order comparison is turned round instead, as Spark's order is total (NaN included);
- a literal stands on the right of a comparison and is not null, nor are an IN list's or a string match's;
- IN holds at least two literals;
- a part without columns is a boolean literal: TRUE, FALSE or NULL;
- chains of AND and OR are balanced, so recursion over them is shallow.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

import pyarrow as pa

from headrace.errors import EvaluationError
from headrace.expr.evaluation import evaluate
from headrace.expr.nodes import (
    And,
    Column,
    Comparison,
    ComparisonOp,
    Expr,
    InList,
    IsNull,
    Literal,
    Not,
    Or,
    StringMatch,
    legs,
)

TRUE = Literal(True, pa.bool_())
FALSE = Literal(False, pa.bool_())
NULL = Literal(None, pa.bool_())

_MIRRORED: dict[ComparisonOp, ComparisonOp] = {
    "=": "=", "<=>": "<=>", "<": ">", "<=": ">=", ">": "<", ">=": "<=",
}  # fmt: skip
_OPPOSITE: dict[ComparisonOp, ComparisonOp] = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def normal_form(expr: Expr) -> Expr:
    """``expr`` in the shape described above."""
    return _normal(expr, negated=False)


def conjunction(filters: Iterable[Expr]) -> Expr:
    """The normal form of all ``filters``, ANDed; TRUE for none."""
    return _connected([leg for filter_ in filters for leg in legs(normal_form(filter_), And)], And)


def _normal(expr: Expr, negated: bool) -> Expr:
    while isinstance(expr, Not):
        expr, negated = expr.operand, not negated
    for connective, dual in ((And, Or), (Or, And)):
        if isinstance(expr, connective):
            parts = [_normal(leg, negated) for leg in legs(expr, connective)]
            return _connected(parts, dual if negated else connective)
    if not any(isinstance(node, Column) for node in expr.walk()):
        return _constant(expr, negated)
    if isinstance(expr, Comparison):
        return _comparison(expr, negated)
    if isinstance(expr, InList):
        return _in_list(expr, negated)
    if isinstance(expr, StringMatch) and _is_null(expr.pattern):
        return NULL
    return Not(expr) if negated else expr


def _constant(expr: Expr, negated: bool) -> Expr:
    try:
        answer, without_ansi = (evaluate(expr, _one_row(), ansi)[0].as_py() for ansi in (True, False))
    except (NotImplementedError, TypeError, EvaluationError):
        return Not(expr) if negated else expr
    if answer is not without_ansi:
        return Not(expr) if negated else expr
    return NULL if answer is None else TRUE if answer is not negated else FALSE


@functools.cache
def _one_row() -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(1)], names=["nothing"])


def _comparison(expr: Comparison, negated: bool) -> Expr:
    op, left, right = expr.op, expr.left, expr.right
    if isinstance(left, Literal):
        op, left, right = _MIRRORED[op], right, left
    if _is_null(right):
        if op != "<=>":
            return NULL
        return Not(IsNull(left)) if negated else IsNull(left)
    if negated and op in _OPPOSITE:
        return Comparison(_OPPOSITE[op], left, right)
    result = Comparison(op, left, right)
    return Not(result) if negated else result


def _in_list(expr: InList, negated: bool) -> Expr:
    if not expr.values:
        return TRUE if negated else FALSE
    if isinstance(expr.operand, Literal) or not all(isinstance(value, Literal) for value in expr.values):
        parts = [_normal(Comparison("=", expr.operand, value), negated) for value in expr.values]
        return _connected(parts, And if negated else Or)
    values = tuple(value for value in dict.fromkeys(expr.values) if not _is_null(value))
    parts = [NULL] if any(map(_is_null, expr.values)) else []
    if values:
        test = InList(expr.operand, values) if len(values) > 1 else Comparison("=", expr.operand, values[0])
        parts.insert(0, Not(test) if negated else test)
    return _connected(parts, And if negated else Or)


def _is_null(expr: Expr) -> bool:
    return isinstance(expr, Literal) and expr.value is None


def _connected(parts: Sequence[Expr], connective: type[And] | type[Or]) -> Expr:
    if len(parts) == 1:  # which may be a long list, of which to compute a hash takes a while
        return parts[0]
    neutral, decisive = (TRUE, FALSE) if connective is And else (FALSE, TRUE)
    kept = [part for part in dict.fromkeys(parts) if part != neutral]
    if decisive in kept:
        return decisive
    return _balanced(kept, connective) if kept else neutral


def _balanced(parts: Sequence[Expr], connective: type[And] | type[Or]) -> Expr:
    level = list(parts)
    while len(level) > 1:
        pairs = zip(level[::2], level[1::2], strict=False)
        odd = level[len(level) // 2 * 2 :]
        level = [functools.reduce(connective, pair) for pair in pairs] + odd
    return level[0]
