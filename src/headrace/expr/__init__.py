"""Expressions: the tree in which Spark's filters reach a provider, and what it means; runs anywhere, needs no Spark.

``hr.expr.And``, ``hr.expr.Column`` and so on are the nodes; the same names are importable from ``headrace`` itself.
"""

from headrace.expr.nodes import (
    And,
    Call,
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
)

__all__ = [
    "And",
    "Call",
    "Cast",
    "Column",
    "Comparison",
    "Expr",
    "InList",
    "IsNull",
    "Literal",
    "Not",
    "Or",
    "StringMatch",
]
