"""Translates a predicate into a pyarrow expression with Spark's meaning; pure, runs anywhere.

The translation is equal to Spark's in all three truth values, row by row. It also stays right when pyarrow
prunes Parquet row groups by statistics, which leave NaN out. A bare ``~(x < 5)`` drops a row group of 1.0,
2.0 and NaN, and ``is_nan(x)`` one of 1.0, 1.0 and NaN, where pyarrow puts 1.0 for x. So every test that NaN
passes names NaN, in a form that pyarrow cannot settle beforehand: see ``_nan``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.arrow.types import is_view
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
)
from headrace.expr.normal_form import normal_form
from headrace.expr.semantics import Kind, column_type, is_nan, kind_of, operand_type, spark_view, wire_literal

_ENOUGH_FOR_A_SET = 8
_PLAIN_KINDS = (Kind.INT, Kind.STRING, Kind.BINARY, Kind.DATE)  # whose literals pyarrow compares as they are
_WITH_UNITS = (Kind.TIMESTAMP, Kind.TIMESTAMP_TZ, Kind.DURATION)
_NS_RANGE = range(-(2**63) // 1000 + 1, 2**63 // 1000)  # microseconds

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class _Inexact(Exception):
    """Some part has no pyarrow expression of the same meaning."""


def to_pyarrow(expr: Expr, schema: pa.Schema | None = None) -> pc.Expression | None:
    """See ``Expr.to_pyarrow``."""
    try:
        return _Translator(schema).predicate(normal_form(expr))
    except _Inexact:
        return None


class _Translator:
    def __init__(self, schema: pa.Schema | None) -> None:
        self._schema = schema

    def predicate(self, expr: Expr) -> pc.Expression:
        match expr:
            case And():
                return self.predicate(expr.left) & self.predicate(expr.right)
            case Or():
                return self.predicate(expr.left) | self.predicate(expr.right)
            case Literal(value=bool() | None as value):
                return pc.scalar(pa.scalar(value, pa.bool_()))
            case Column():
                return self._boolean(expr)
            case Not(operand=Column() as column):
                return ~self._boolean(column)
            case IsNull(operand=operand):
                return self._operand(operand, None).is_null()
            case Not(operand=IsNull(operand=operand)):
                return self._operand(operand, None).is_valid()
            case Comparison(op=op):
                return self._comparison(expr, op)
            case Not(operand=Comparison(op=op) as inner):
                return self._comparison(inner, "!<=>" if op == "<=>" else "!=")
            case InList():
                return self._in_list(expr, negated=False)
            case Not(operand=InList() as inner):
                return self._in_list(inner, negated=True)
            case StringMatch():
                return self._string_match(expr)
            case Not(operand=StringMatch() as inner):
                return ~self._string_match(inner)
        raise _Inexact

    def _boolean(self, column: Column) -> pc.Expression:
        if self._schema is not None and self._wire(column) != pa.bool_():
            raise _Inexact
        return self._operand(column, Kind.BOOL)

    def _comparison(self, expr: Comparison, op: str) -> pc.Expression:
        if isinstance(expr.right, Literal):
            x, value = self._operand_and_scalar(expr.left, expr.right)
            if op == "<=>":
                return x.is_valid() & _test("=", x, value)
            return x.is_null() | _test("!=", x, value) if op == "!<=>" else _test(op, x, value)
        if self._schema is None:
            raise _Inexact  # whether NaN is possible is not known
        left_type, right_type = self._wire(expr.left), self._wire(expr.right)
        kind = None if left_type is None else kind_of(left_type)
        if kind is None or right_type is None or kind_of(right_type) is not kind:
            raise _Inexact
        if kind is Kind.DECIMAL and left_type != right_type:
            raise _Inexact  # pyarrow fails where the common type needs more than 38 digits
        left, right = self._operand(expr.left, kind), self._operand(expr.right, kind)
        if kind in _WITH_UNITS:
            common = self._common_unit(expr.left, expr.right, left_type)
            left, right = left.cast(common), right.cast(common)
        test = _float_columns_test if kind is Kind.FLOAT else _plain_test
        if op == "<=>":
            present = left.is_valid() & right.is_valid()
            return (left.is_null() & right.is_null()) | (present & test("=", left, right))
        if op == "!<=>":
            one_null = (left.is_null() & right.is_valid()) | (left.is_valid() & right.is_null())
            return one_null | (left.is_valid() & right.is_valid() & test("!=", left, right))
        return test(op, left, right)

    def _in_list(self, expr: InList, negated: bool) -> pc.Expression:
        if len(expr.values) >= _ENOUGH_FOR_A_SET and (many := _plain_values(expr.values)) is not None:
            x, _ = self._operand_and_scalar(expr.operand, expr.values[0])
            return _is_in(x, many, negated)
        pairs = [self._operand_and_scalar(expr.operand, value) for value in expr.values]
        x, first = pairs[0]
        scalars = [scalar for _, scalar in pairs]
        if len({scalar.type for scalar in scalars}) > 1:
            raise _Inexact
        if len(scalars) < _ENOUGH_FOR_A_SET or pa.types.is_floating(first.type):
            tests = (_test("!=" if negated else "=", x, scalar) for scalar in scalars)
            return _combined(operator.and_ if negated else operator.or_, tests)
        return _is_in(x, pa.array([scalar.as_py() for scalar in scalars], first.type), negated)

    def _string_match(self, expr: StringMatch) -> pc.Expression:
        if not isinstance(expr.pattern, Literal):
            raise _Inexact
        kind = kind_of(expr.pattern.type)
        if kind not in (Kind.STRING, Kind.BINARY):
            raise _Inexact
        x, pattern = self._operand_and_scalar(expr.operand, expr.pattern)
        function = {
            "STARTS_WITH": pc.starts_with,
            "ENDS_WITH": pc.ends_with,
            "CONTAINS": pc.match_substring,
        }[expr.op]
        return function(x, pattern=pattern.as_py())

    def _operand_and_scalar(self, operand: Expr, literal: Expr) -> tuple[pc.Expression, pa.Scalar]:
        assert isinstance(literal, Literal)  # by normal form
        found = wire_literal(literal)
        kind = None if found is None else kind_of(found.type)
        if found is None or kind is None:
            raise _Inexact
        scalar = found.scalar()
        x = self._operand(operand, kind)
        if kind in _WITH_UNITS and not self._holds(operand, scalar):
            raise _Inexact
        if self._schema is not None and kind is Kind.TIMESTAMP_TZ and isinstance(operand, Column):
            type_ = column_type(self._schema, operand)
            if type_ is not None and pa.types.is_timestamp(type_):  # pyarrow compares other units within one zone only
                scalar = scalar.cast(pa.timestamp("us", tz=type_.tz))
        if self._schema is not None and kind is Kind.DECIMAL:
            type_ = self._wire(operand)
            if type_ != scalar.type:
                try:
                    scalar = scalar.cast(type_)
                except pa.ArrowInvalid:
                    raise _Inexact from None  # not a value of the column's scale
        return x, scalar

    def _holds(self, operand: Expr, scalar: pa.Scalar) -> bool:
        """Whether pyarrow can compare the column with a moment or duration: it fails if nanoseconds cannot hold it."""
        if self._schema is not None and not self._counts_nanoseconds(operand):
            return True
        return scalar.value in _NS_RANGE

    def _common_unit(self, left: Expr, right: Expr, wire: pa.DataType) -> pa.DataType:
        """A type to which both sides, timestamps or durations, can be cast: pyarrow has no comparison of two zones.

        Not one of nanoseconds for other units, nor the other way round: a value may not fit, and pyarrow would fail.
        """
        nanoseconds = {self._counts_nanoseconds(side) for side in (left, right)}
        if len(nanoseconds) > 1:
            raise _Inexact
        if nanoseconds == {False}:
            return wire
        return pa.duration("ns") if pa.types.is_duration(wire) else pa.timestamp("ns", wire.tz)

    def _counts_nanoseconds(self, operand: Expr) -> bool:
        if self._schema is None or not isinstance(operand, Column):
            return False  # a cast is in Spark's own unit
        type_ = column_type(self._schema, operand)
        if type_ is None or not (pa.types.is_timestamp(type_) or pa.types.is_duration(type_)):
            return False
        return bool(type_.unit == "ns")

    def _operand(self, expr: Expr, kind: Kind | None) -> pc.Expression:
        """The column, or a lossless cast of one; with a schema, in a form that pyarrow compares."""
        if isinstance(expr, Column):
            found = pc.field(expr.name, *expr.path) if expr.path else pc.field(expr.name)
            if self._schema is None or kind is None:
                return found
            wire = self._wire(expr)
            if wire is None or kind_of(wire) is not kind:
                raise _Inexact
            type_ = column_type(self._schema, expr)
            return found if _compares(type_) else found.cast(wire)
        if isinstance(expr, Cast):
            target = self._wire(expr)
            source = self._wire(expr.operand)
            if target is None or source is None or (kind is not None and kind_of(target) is not kind):
                raise _Inexact
            return self._operand(expr.operand, kind_of(source)).cast(target)
        raise _Inexact

    def _wire(self, expr: Expr) -> pa.DataType | None:
        """The type in which Spark sees an operand; None if not known, or pyarrow cannot cast to it."""
        column = expr.operand if isinstance(expr, Cast) else expr
        if self._schema is not None and isinstance(column, Column):
            type_ = column_type(self._schema, column)
            if type_ is None or not _readable(type_):
                return None
        return operand_type(expr, self._schema)


def _readable(type_: pa.DataType) -> bool:
    """Whether pyarrow can cast this type, within an expression, to the one in which Spark sees it."""
    is_ = pa.types
    if is_.is_dictionary(type_):
        return _readable(type_.value_type) and not is_view(type_.value_type)
    if is_.is_decimal(type_) and type_.scale < 0:
        return False
    return not (is_.is_run_end_encoded(type_) or isinstance(type_, pa.BaseExtensionType))


def _compares(type_: pa.DataType) -> bool:
    """Whether pyarrow's functions take this type as it is."""
    is_ = pa.types
    return not (
        is_.is_dictionary(type_)
        or is_.is_string_view(type_)
        or is_.is_binary_view(type_)
        or is_.is_fixed_size_binary(type_)
        or is_.is_float16(type_)
        or is_.is_uint64(type_)
        or (is_.is_decimal(type_) and type_.bit_width < 128)
    )


def _plain_values(literals: Sequence[Expr]) -> pa.Array | None:
    """The values of all ``literals`` where these have one type and need nothing done; a list may be long."""
    assert isinstance(literals[0], Literal)  # by normal form
    type_ = literals[0].type
    if kind_of(type_) not in _PLAIN_KINDS or type_ != spark_view(type_):
        return None
    if not all(isinstance(one, Literal) and (one.type is type_ or one.type == type_) for one in literals):
        return None
    return pa.array([one.value for one in literals if isinstance(one, Literal)], type_)


def _is_in(x: pc.Expression, values: pa.Array, negated: bool) -> pc.Expression:
    found = x.isin(values)
    if negated:  # isin is false for null; this makes it null and changes nothing else
        return ~found & (x == x)
    # So does this, in a form that pyarrow settles beforehand where no value is null, to skip a row group.
    return found | (x.is_null() & pc.scalar(pa.scalar(None, pa.bool_())))


def _combined(connect: Callable[[Any, Any], Any], tests: Iterable[pc.Expression]) -> pc.Expression:
    """All ``tests`` connected, as a tree that stays shallow however many there are."""
    level = list(tests)
    while len(level) > 1:
        pairs = [connect(*level[i : i + 2]) for i in range(0, len(level) - 1, 2)]
        level = pairs + level[len(pairs) * 2 :]
    return level[0]


def _test(op: str, x: pc.Expression, value: pa.Scalar) -> pc.Expression:
    return (_float_test if pa.types.is_floating(value.type) else _plain_test)(op, x, value)


def _plain_test(op: str, left: pc.Expression, right: Any) -> pc.Expression:
    return _COMPARE[op](left, right)


def _nan(x: pc.Expression) -> pc.Expression:
    """Whether x is NaN, null for null. The second leg is always false, which pyarrow cannot foresee."""
    impure = pc.Expression._call("random", [], pc.RandomOptions(initializer=0))  # in [0, 1)
    return pc.is_nan(x) | (impure < -1.0)


def _float_test(op: str, x: pc.Expression, value: pa.Scalar) -> pc.Expression:
    if is_nan(value.as_py()):
        number = ~pc.is_nan(x)
        always, never = _nan(x) | number, _nan(x) & number  # null for null
        return {"=": _nan(x), ">=": _nan(x), "!=": number, "<": number, "<=": always, ">": never}[op]
    plain = _plain_test(op, x, value)
    return plain | _nan(x) if op in ("!=", ">", ">=") else plain


def _float_columns_test(op: str, left: pc.Expression, right: pc.Expression) -> pc.Expression:
    if op in (">", ">="):
        return _float_columns_test({">": "<", ">=": "<="}[op], right, left)
    plain = _plain_test(op, left, right)
    both = _nan(left) & _nan(right)
    left_number, right_number = ~pc.is_nan(left), ~pc.is_nan(right)
    if op == "=":
        return plain | both
    if op == "!=":
        one_nan = (_nan(left) & right_number) | (left_number & _nan(right))
        return (plain & (left_number | right_number)) | one_nan
    less = plain | (left_number & _nan(right))
    return less | both if op == "<=" else less
