"""How SQLite, DuckDB and PostgreSQL write and compare values, where that equals Spark's way; pure.

Taken for granted: SQLite and PostgreSQL databases encoded in UTF-8 (the default of both), and in PostgreSQL
no blank padded ``char(n)`` column, whose comparisons ignore trailing blanks.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from decimal import Decimal
from typing import Any

from sqlglot import exp

from headrace.expr.nodes import Literal
from headrace.expr.semantics import Kind, literal_value


class Inexact(Exception):
    """The dialect has nothing of the same meaning."""


class SqlValues(ABC):
    """One dialect's values. Every method raises Inexact for what the dialect sees otherwise than Spark."""

    @abstractmethod
    def operand(self, column: exp.Expression, kind: Kind) -> exp.Expression:
        """A column of ``kind`` in a form that compares as in Spark."""

    @abstractmethod
    def literal(self, literal: Literal, kind: Kind) -> exp.Expression:
        """A non-null constant of ``kind``."""

    @abstractmethod
    def string_match(self, op: str, operand: exp.Expression, text: exp.Expression, pattern: str) -> exp.Expression:
        """A prefix, suffix or substring test by bytes; ``text`` is the non-empty ``pattern`` as a literal."""

    def truth(self, value: bool | None) -> exp.Expression:
        """TRUE, FALSE or NULL as a condition."""
        if value is None:
            return exp.cast(exp.null(), "BOOLEAN")
        return exp.EQ(this=exp.Literal.number(1), expression=exp.Literal.number(1 if value else 0))


def _text(value: str) -> exp.Expression:
    if "\0" in value:
        raise Inexact  # ends an SQL text in SQLite, and is no character in PostgreSQL
    return exp.Literal.string(value)


def _value(literal: Literal) -> Any:
    value = literal_value(literal)
    if value is None:
        raise Inexact
    return value


class SqliteValues(SqlValues):
    """SQLite has no boolean, decimal, date or timestamp values, and no NaN."""

    def operand(self, column: exp.Expression, kind: Kind) -> exp.Expression:
        if kind is Kind.STRING:
            return exp.Collate(this=column, expression=exp.to_identifier("BINARY"))
        if kind is Kind.FLOAT:
            return exp.cast(column, "DOUBLE")  # a column may hold integers that no double equals
        return column

    def literal(self, literal: Literal, kind: Kind) -> exp.Expression:
        value = _value(literal)
        if kind is Kind.INT:
            return exp.Literal.number(value)
        if kind is Kind.FLOAT and not math.isnan(value):
            return _sqlite_double(value)
        if kind is Kind.STRING:
            return _text(value)
        if kind is Kind.BINARY:
            return exp.HexString(this=value.hex().upper())
        raise Inexact

    def truth(self, value: bool | None) -> exp.Expression:
        return exp.null() if value is None else super().truth(value)

    def string_match(self, op: str, operand: exp.Expression, text: exp.Expression, pattern: str) -> exp.Expression:
        column = operand.this  # without the collation: LIKE ignores case, these functions do not
        if op == "CONTAINS":
            found = exp.Anonymous(this="instr", expressions=[column, text])
            return exp.GT(this=found, expression=exp.Literal.number(0))
        haystack, needle = exp.cast(column, "BLOB"), exp.cast(text, "BLOB")  # as text, substr ends at a NUL
        length = exp.Anonymous(this="length", expressions=[needle])
        span = [exp.Literal.number(1), length] if op == "STARTS_WITH" else [exp.Neg(this=length)]
        part = exp.Anonymous(this="substr", expressions=[haystack, *span])
        same = exp.EQ(this=part, expression=needle.copy())
        size = exp.Anonymous(this="length", expressions=[haystack.copy()])
        long_enough = exp.GTE(this=size, expression=length.copy())  # substr of an empty blob is null
        return exp.And(this=long_enough, expression=same)


def _sqlite_double(value: float) -> exp.Expression:
    """A double that SQLite reads as exactly this one; its reading of long decimals may be off by a bit."""
    if math.isinf(value):
        return exp.Literal.number("9e999") if value > 0 else exp.Neg(this=exp.Literal.number("9e999"))
    exact = Decimal(value)
    if value == 0 or (len(exact.as_tuple().digits) <= 15 and 1e-10 < abs(value) < 1e15):
        number: exp.Expression = exp.Literal.number(f"{abs(exact):f}" if exact % 1 else f"{abs(exact):.1f}")
        return exp.Neg(this=number) if value < 0 else number
    numerator, denominator = value.as_integer_ratio()
    exponent = 1 - denominator.bit_length()
    while numerator % 2 == 0:
        numerator, exponent = numerator // 2, exponent + 1
    result: exp.Expression = exp.cast(exp.Literal.number(numerator), "DOUBLE")
    scale = exp.Mul if exponent > 0 else exp.Div
    for start in range(0, abs(exponent), 62):  # powers of two: every step is exact
        power = exp.Literal.number(2 ** min(62, abs(exponent) - start))
        result = scale(this=result, expression=exp.cast(power, "DOUBLE"))
    return exp.paren(result, copy=False)


class _TypedValues(SqlValues):
    """What DuckDB and PostgreSQL have in common; both order NaN above all numbers and equal to itself."""

    _collation: str

    def operand(self, column: exp.Expression, kind: Kind) -> exp.Expression:
        if kind is Kind.DURATION:
            raise Inexact
        if kind is not Kind.STRING:
            return column
        # as text: what arrives as a string may be an enum or a uuid, with an order of its own
        binary = exp.to_identifier(self._collation, quoted=True)
        return exp.Collate(this=exp.cast(column, "TEXT"), expression=binary)

    def literal(self, literal: Literal, kind: Kind) -> exp.Expression:
        value = _value(literal)
        match kind:
            case Kind.BOOL:
                return exp.Boolean(this=value)
            case Kind.INT:
                return exp.Literal.number(value)
            case Kind.FLOAT:
                return _typed(_float_text(value), "FLOAT" if literal.type.bit_width == 32 else "DOUBLE")
            case Kind.DECIMAL:
                return _typed(f"{value:f}", f"DECIMAL({literal.type.precision}, {literal.type.scale})")
            case Kind.STRING:
                return self._string(value)
            case Kind.BINARY:
                return self._binary(value)
            case Kind.DATE:
                return _typed(value.isoformat(), "DATE")
            case Kind.TIMESTAMP:
                return _typed(value.isoformat(sep=" "), "TIMESTAMP")
            case Kind.TIMESTAMP_TZ:
                return _typed(value.isoformat(sep=" "), "TIMESTAMPTZ")
        raise Inexact

    def _string(self, value: str) -> exp.Expression:
        return _text(value)

    @abstractmethod
    def _binary(self, value: bytes) -> exp.Expression: ...


def _typed(text: str, type_: str) -> exp.Expression:
    return exp.cast(exp.Literal.string(text), type_)


def _float_text(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


class DuckDbValues(_TypedValues):
    """DuckDB: a column may be declared with a collation, which even ``contains`` obeys."""

    _collation = "binary"

    def _binary(self, value: bytes) -> exp.Expression:
        return exp.Anonymous(this="unhex", expressions=[exp.Literal.string(value.hex())])

    def string_match(self, op: str, operand: exp.Expression, text: exp.Expression, pattern: str) -> exp.Expression:
        function = {"STARTS_WITH": "starts_with", "ENDS_WITH": "ends_with", "CONTAINS": "contains"}[op]
        return exp.Anonymous(this=function, expressions=[operand, text])


class PostgresValues(_TypedValues):
    """PostgreSQL: strings are ordered by the database's locale unless told otherwise.

    What a backslash in a literal means is a setting of the session (standard_conforming_strings): none is written.
    """

    _collation = "C"

    def _string(self, value: str) -> exp.Expression:
        first, *rest = (_text(part) for part in value.split("\\"))
        for part in rest:
            backslash = exp.Anonymous(this="chr", expressions=[exp.Literal.number(92)])
            first = exp.DPipe(this=exp.DPipe(this=first, expression=backslash, safe=True), expression=part, safe=True)
        return exp.paren(first, copy=False) if rest else first

    def _binary(self, value: bytes) -> exp.Expression:
        arguments = [exp.Literal.string(value.hex()), exp.Literal.string("hex")]
        return exp.Anonymous(this="decode", expressions=arguments)

    def string_match(self, op: str, operand: exp.Expression, text: exp.Expression, pattern: str) -> exp.Expression:
        escaped = "".join("!" + char if char in "!%_" else char for char in pattern)
        before, after = {"STARTS_WITH": ("", "%"), "ENDS_WITH": ("%", ""), "CONTAINS": ("%", "%")}[op]
        like = exp.Like(this=operand, expression=self._string(before + escaped + after))
        return exp.Escape(this=like, expression=exp.Literal.string("!"))


DIALECTS: dict[str, SqlValues] = {
    "sqlite": SqliteValues(),
    "duckdb": DuckDbValues(),
    "postgres": PostgresValues(),
}
