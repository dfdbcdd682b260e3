"""Translates a predicate into quoted SQL of a dialect, through sqlglot, where it means the same; pure.

Three-valued logic is the same in SQL; what differs is how a dialect compares values. ``sql_values`` knows
that for the dialects translated here. Names and values only enter as sqlglot nodes, which quote them.
"""

from __future__ import annotations

import functools
from collections.abc import Collection

import pyarrow as pa
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect

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
from headrace.expr.normal_form import normal_form
from headrace.expr.semantics import Kind, column_type, kind_of, operand_type
from headrace.expr.sql_values import DIALECTS, DuckDbValues, Inexact, PostgresValues, SqlValues

_OPERATORS: dict[str, type[exp.Expression]] = {
    "=": exp.EQ,
    "<": exp.LT,
    "<=": exp.LTE,
    ">": exp.GT,
    ">=": exp.GTE,
    "<=>": exp.NullSafeEQ,
}
_LONGEST_CHAIN = 100  # SQLite refuses trees deeper than 1000


def to_sql(expr: Expr, dialect: str, schema: pa.Schema | None = None, bytewise: Collection[str] = ()) -> str | None:
    """See ``Expr.to_sql``."""
    values = DIALECTS.get(dialect)
    if values is None:
        Dialect.get_or_raise(dialect)  # ValueError for a name sqlglot does not know
        return None
    try:
        return _Translator(values, schema, bytewise).predicate(normal_form(expr)).sql(dialect=dialect)
    except Inexact:
        return None


class _Translator:
    def __init__(self, values: SqlValues, schema: pa.Schema | None, bytewise: Collection[str]) -> None:
        self._values = values
        self._schema = schema
        self._bytewise = bytewise

    def predicate(self, expr: Expr) -> exp.Expression:
        match expr:
            case And():
                return _chain(exp.And, [self.predicate(leg) for leg in legs(expr, And)])
            case Or():
                return _chain(exp.Or, [self.predicate(leg) for leg in legs(expr, Or)])
            case Not(operand=IsNull(operand=operand)):
                return exp.Is(this=self._column(operand), expression=exp.Not(this=exp.null()))
            case Not(operand=operand):
                return exp.Not(this=exp.paren(self.predicate(operand), copy=False))
            case Literal(value=bool() | None as value):
                return self._values.truth(value)
            case Column():
                return self._compare(Comparison("=", expr, Literal(True, pa.bool_())))
            case IsNull(operand=operand):
                return exp.Is(this=self._column(operand), expression=exp.null())
            case Comparison():
                return self._compare(expr)
            case InList():
                return self._in_list(expr)
            case StringMatch():
                return self._string_match(expr)
        raise Inexact

    def _compare(self, expr: Comparison) -> exp.Expression:
        left = expr.left
        if isinstance(expr.right, Literal):
            kind = self._literal_kind(expr.right)
            same = expr.op in ("=", "<=>")
            operands = [self._operand(left, kind, equality=same), self._values.literal(expr.right, kind)]
        else:
            known = self._known_kind(left)
            if known is None or known is not self._known_kind(expr.right):
                raise Inexact  # how the columns compare depends on their types
            operands = [self._operand(left, known), self._operand(expr.right, known)]
        return _OPERATORS[expr.op](this=operands[0], expression=operands[1])

    def _in_list(self, expr: InList) -> exp.Expression:
        literals = [value for value in expr.values if isinstance(value, Literal)]  # all are, by normal form
        kinds = {self._literal_kind(literal) for literal in literals}
        if len(kinds) > 1:
            raise Inexact
        kind = kinds.pop()
        values = [self._values.literal(literal, kind) for literal in literals]
        return exp.In(this=self._operand(expr.operand, kind, equality=True), expressions=values)

    def _string_match(self, expr: StringMatch) -> exp.Expression:
        pattern = expr.pattern
        if not isinstance(pattern, Literal) or self._literal_kind(pattern) is not Kind.STRING:
            raise Inexact
        text = self._values.literal(pattern, Kind.STRING)
        operand = self._operand(expr.operand, Kind.STRING)
        if not pattern.value:
            return exp.EQ(this=operand, expression=operand.copy())  # true, and null for null
        return self._values.string_match(expr.op, operand, text, pattern.value)

    def _literal_kind(self, literal: Literal) -> Kind:
        kind = kind_of(literal.type)
        if kind is None:
            raise Inexact
        return kind

    def _known_kind(self, operand: Expr) -> Kind | None:
        type_ = operand_type(operand, self._schema)
        return None if type_ is None else kind_of(type_)

    def _operand(self, operand: Expr, kind: Kind, *, equality: bool = False) -> exp.Expression:
        """A column, or a widening cast of one (SQL widens by itself), as a form that compares as in Spark.

        ``equality``: only whether it equals a literal is asked. A bytewise column then stands as it is, so that the
        database can look into an index of it.
        """
        if self._schema is not None and self._known_kind(operand) is not kind:
            raise Inexact
        if isinstance(operand, Cast):
            if self._known_kind(operand) is None or self._known_kind(operand.operand) is not kind:
                raise Inexact
            return self._operand(operand.operand, kind)
        column = self._column(operand)
        bytewise = equality and kind is Kind.STRING and isinstance(operand, Column) and operand.name in self._bytewise
        return column if bytewise else self._values.operand(column, kind)

    def _column(self, operand: Expr) -> exp.Expression:
        if not isinstance(operand, Column) or "\0" in "".join((operand.name, *operand.path)):
            raise Inexact
        column: exp.Expression = exp.column(exp.to_identifier(operand.name, quoted=True))
        if not operand.path:
            return self._not_composite(operand, column)
        if not isinstance(self._values, DuckDbValues):
            raise Inexact
        for part in operand.path:
            column = exp.Anonymous(this="struct_extract", expressions=[column, exp.Literal.string(part)])
        return column

    def _not_composite(self, operand: Column, column: exp.Expression) -> exp.Expression:
        """PostgreSQL calls a row of nulls null."""
        type_ = None if self._schema is None else column_type(self._schema, operand)
        if isinstance(self._values, PostgresValues) and type_ is not None and pa.types.is_nested(type_):
            raise Inexact
        return column


def _chain(connective: type[exp.And] | type[exp.Or], parts: list[exp.Expression]) -> exp.Expression:
    if len(parts) > _LONGEST_CHAIN:
        middle = len(parts) // 2
        parts = [_chain(connective, parts[:middle]), _chain(connective, parts[middle:])]
    wrapped = [exp.Paren(this=part) if isinstance(part, exp.Connector) else part for part in parts]
    return functools.reduce(lambda left, right: connective(this=left, expression=right), wrapped)
