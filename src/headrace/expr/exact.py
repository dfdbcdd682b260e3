"""Which expressions Arrow computes with exactly Spark's result, in a few kernels and never failing; pure, anywhere.

Batches neither short-circuit nor stop at the row of a LIMIT, so an expression that could fail for some value is none of
them: Spark might never have come to that row.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

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
from headrace.expr.semantics import Kind, cast_target, column_type, kind_of, spark_view, widens, wire_literal

_BITS = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32, pa.int64(): 64}
_FLOATS = (pa.float32(), pa.float64())
_TEXT = (Kind.STRING, Kind.BINARY)


class NotExact(Exception):
    """Why an expression is not computed, in a few words."""


@dataclass(frozen=True)
class Computed:
    """The wire type of an expression's values; of integers the range that they cannot leave."""

    type: pa.DataType
    low: int = 0
    high: int = 0

    @property
    def kind(self) -> Kind | None:
        return kind_of(self.type)


def exact_type(expr: Expr, schema: pa.Schema, ansi: bool) -> pa.DataType:
    """The wire type of ``expr`` over rows of ``schema``. Raises NotExact where Arrow does not compute it exactly."""
    return _Typing(schema, ansi).of(expr).type


class _Typing:
    def __init__(self, schema: pa.Schema, ansi: bool) -> None:
        self._schema = schema
        self._ansi = ansi

    def of(self, expr: Expr) -> Computed:
        match expr:
            case Column():
                return self._column(expr)
            case Literal():
                return _literal(expr)
            case And() | Or():
                self._predicate(expr.left)
                return self._predicate(expr.right)
            case Not():
                return self._predicate(expr.operand)
            case IsNull(operand=Column(path=())):  # of any type
                return _BOOLEAN
            case IsNull():
                self.of(expr.operand)
                return _BOOLEAN
            case Comparison():
                return self._comparable(expr, self.of(expr.left), self.of(expr.right))
            case InList():
                return self._in_list(expr)
            case StringMatch(pattern=Literal()):
                operand, pattern = self.of(expr.operand), self.of(expr.pattern)
                if operand.kind in _TEXT and operand.kind is pattern.kind:
                    return _BOOLEAN
            case Cast():
                return self._cast(expr)
            case Call():
                return self._call(expr)
        raise NotExact(f"Arrow does not compute {expr!r}")

    def _predicate(self, expr: Expr) -> Computed:
        found = self.of(expr)
        if found.kind is not Kind.BOOL:
            raise NotExact(f"{expr!r} is no predicate")
        return found

    def _column(self, column: Column) -> Computed:
        if column.path:
            raise NotExact(f"{column!r} is nested")
        type_ = column_type(self._schema, column)
        wire = None if type_ is None else spark_view(type_)
        if wire is None or kind_of(wire) is None:
            raise NotExact(f"Arrow does not compare values of {column!r}")
        return _whole(wire)

    def _comparable(self, expr: Expr, left: Computed, right: Computed) -> Computed:
        if left.kind is None or left.kind is not right.kind:
            raise NotExact(f"Arrow does not compare {left.type} with {right.type}")
        if left.kind is Kind.DECIMAL and left.type != right.type:
            raise NotExact(f"Arrow does not compare {left.type} with {right.type}")
        return _BOOLEAN

    def _in_list(self, expr: InList) -> Computed:
        operand = self.of(expr.operand)
        for type_ in {value.type for value in expr.values if isinstance(value, Literal) and value.value is not None}:
            self._comparable(expr, operand, _whole(spark_view(type_) or type_))
        if not all(isinstance(value, Literal) for value in expr.values):
            raise NotExact(f"{expr!r} holds more than constants")
        return _BOOLEAN

    def _cast(self, expr: Cast) -> Computed:
        operand, target = self.of(expr.operand), cast_target(expr.spark_type)
        if target is None or not widens(operand.type, target) or pa.types.is_timestamp(target):
            raise NotExact(f"{expr!r} may change values, or fail")
        if pa.types.is_integer(target):
            return Computed(target, operand.low, operand.high)
        return _whole(target)

    def _call(self, expr: Call) -> Computed:
        args = [self.of(arg) for arg in expr.args]
        if len(args) == 2 and args[0].type == args[1].type:
            left, right = args
            if expr.name in ("+", "-", "*") and left.type in _FLOATS:
                return left
            if expr.name in ("+", "-", "*") and left.type in _BITS:
                return self._integers(expr, left, right)
            if expr.name == "%" and left.type in _BITS and right.low == right.high != 0:  # a constant, and not zero
                return Computed(left.type, max(left.low, -abs(right.low)), min(left.high, abs(right.low)))
        raise NotExact(f"{expr!r} may fail, or is faster in Spark")

    def _integers(self, expr: Call, left: Computed, right: Computed) -> Computed:
        if expr.name == "+":
            ends = [left.low + right.low, left.high + right.high]
        elif expr.name == "-":
            ends = [left.low - right.high, left.high - right.low]
        else:
            ends = [a * b for a in (left.low, left.high) for b in (right.low, right.high)]
        whole = _whole(left.type)
        if whole.low <= min(ends) and max(ends) <= whole.high:
            return Computed(left.type, min(ends), max(ends))
        if self._ansi:
            raise NotExact(f"{expr!r} may overflow")
        return whole


_BOOLEAN = Computed(pa.bool_())


def _whole(type_: pa.DataType) -> Computed:
    bits = _BITS.get(type_)
    return Computed(type_) if bits is None else Computed(type_, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _literal(literal: Literal) -> Computed:
    wire = wire_literal(literal)
    if wire is None or kind_of(wire.type) is None:
        raise NotExact(f"{literal!r} is a constant of {literal.type}")
    if wire.type in _BITS and wire.value is not None:
        return Computed(wire.type, wire.value, wire.value)
    return _whole(wire.type)
