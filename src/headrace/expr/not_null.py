"""Which columns a predicate keeps from being null; pure, runs anywhere."""

from __future__ import annotations

from headrace.expr.nodes import And, Call, Cast, Column, Comparison, Expr, InList, IsNull, Literal, Not, Or, StringMatch

_STRICT_FUNCTIONS = {"+", "-", "*", "/", "%", "ABS", "UPPER", "LOWER", "CHAR_LENGTH", "OCTET_LENGTH", "BIT_LENGTH"}
_STRICT_FUNCTIONS |= {"TRIM", "LTRIM", "RTRIM", "SUBSTRING", "CONCAT"}
"""Functions of Spark's that are null when an argument is."""


def not_null_columns(expr: Expr) -> frozenset[Column]:
    """Columns that cannot be null in any row for which ``expr`` is true."""
    if isinstance(expr, And):
        return not_null_columns(expr.left) | not_null_columns(expr.right)
    if isinstance(expr, Or):
        return not_null_columns(expr.left) & not_null_columns(expr.right)
    if isinstance(expr, Comparison):
        if expr.op == "<=>":
            sides = (expr.left, expr.right)
            other = any(isinstance(side, Literal) and side.value is not None for side in sides)
            return _strict_columns(expr.left) | _strict_columns(expr.right) if other else frozenset()
        return _strict_columns(expr.left) | _strict_columns(expr.right)
    if isinstance(expr, InList):
        return _strict_columns(expr.operand)
    if isinstance(expr, StringMatch):
        return _strict_columns(expr.operand) | _strict_columns(expr.pattern)
    if isinstance(expr, Not):
        inner = expr.operand
        if isinstance(inner, IsNull):
            return _strict_columns(inner.operand)
        if isinstance(inner, (InList, StringMatch)) or (isinstance(inner, Comparison) and inner.op != "<=>"):
            return not_null_columns(inner)
    return frozenset()


def _strict_columns(expr: Expr) -> frozenset[Column]:
    """Columns whose null makes ``expr`` null; only forms that are certain."""
    if isinstance(expr, Column):  # a null struct has null fields
        return frozenset(Column(expr.name, expr.path[:depth]) for depth in range(len(expr.path) + 1))
    if isinstance(expr, Cast) or (isinstance(expr, Call) and _is_strict(expr.name)):
        return frozenset(column for child in expr.children() for column in _strict_columns(child))
    return frozenset()


def _is_strict(function: str) -> bool:
    return function in _STRICT_FUNCTIONS or function.startswith("EXTRACT_")
