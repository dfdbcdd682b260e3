"""The reference evaluation of an Expr over an Arrow batch, with Spark's meaning; pure, runs anywhere.

Each column is first brought to the form Spark sees (its wire type). Then every node becomes an array with a
value per row. Correctness comes before speed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from headrace.arrow.conversion import to_wire
from headrace.arrow.types import wire_type
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
    legs,
)
from headrace.expr.semantics import Kind, cast_target, kind_of, widens


def evaluate(expr: Expr, batch: pa.RecordBatch) -> pa.BooleanArray:
    """See ``Expr.evaluate``."""
    return _truth(expr, batch)


def _truth(expr: Expr, batch: pa.RecordBatch) -> pa.BooleanArray:
    result = _value(expr, batch)
    if pa.types.is_null(result.type):
        return result.cast(pa.bool_())
    if not pa.types.is_boolean(result.type):
        raise TypeError(f"{expr!r} has type {result.type} and is not a predicate")
    return result


def _value(expr: Expr, batch: pa.RecordBatch) -> pa.Array:
    match expr:
        case Column():
            return _column(expr, batch)
        case Literal():
            return pa.repeat(expr.scalar(), batch.num_rows)
        case And():
            return functools.reduce(pc.and_kleene, (_truth(leg, batch) for leg in legs(expr, And)))
        case Or():
            return functools.reduce(pc.or_kleene, (_truth(leg, batch) for leg in legs(expr, Or)))
        case Not():
            return pc.invert(_truth(expr.operand, batch))
        case IsNull():
            return _value(expr.operand, batch).is_null()
        case Comparison():
            return _compared(expr, _value(expr.left, batch), _value(expr.right, batch))
        case InList():
            return _in_list(expr, batch)
        case StringMatch():
            return _string_match(expr, _value(expr.operand, batch), _value(expr.pattern, batch))
        case Cast():
            return _cast(expr, _value(expr.operand, batch))
        case Call():
            raise NotImplementedError(f"no reference evaluation for Spark's function {expr.name} in {expr!r}")
    raise NotImplementedError(f"no reference evaluation for {type(expr).__name__}")


def _column(column: Column, batch: pa.RecordBatch) -> pa.Array:
    if column.name not in batch.schema.names:
        raise KeyError(f"no column {column.name!r} in the batch; it has {batch.schema.names}")
    array = batch.column(column.name)
    for part in column.path:
        if not pa.types.is_struct(array.type) or array.type.get_field_index(part) < 0:
            raise KeyError(f"no field {part!r} for {column!r}; found {array.type}")
        array = pc.struct_field(array, part)
    return to_wire(array, wire_type(array.type, column.name), column.name)


def _in_list(expr: InList, batch: pa.RecordBatch) -> pa.Array:
    if not expr.values:
        return pa.repeat(pa.scalar(False), batch.num_rows)
    operand = _value(expr.operand, batch)
    tests = (_compared(expr, operand, _value(value, batch)) for value in expr.values)
    return functools.reduce(pc.or_kleene, tests)


def _compared(expr: Comparison | InList, left: pa.Array, right: pa.Array) -> pa.Array:
    op = expr.op if isinstance(expr, Comparison) else "="
    if op == "<=>":
        both_null = pc.and_(left.is_null(), right.is_null())
        return pc.or_(both_null, pc.fill_null(_ordered("=", left, right, expr), False))
    return _ordered(op, left, right, expr)


def _ordered(op: str, left: pa.Array, right: pa.Array, expr: Expr) -> pa.Array:
    """``left op right``, null where a side is null, in the order of their common kind."""
    if pa.types.is_null(left.type) or pa.types.is_null(right.type):
        return pa.nulls(len(left), pa.bool_())
    kinds = {kind_of(left.type), kind_of(right.type)}
    if None in kinds or not (len(kinds) == 1 or kinds == {Kind.INT, Kind.DECIMAL}):
        raise NotImplementedError(f"no reference comparison of {left.type} with {right.type} in {expr!r}")
    if Kind.FLOAT in kinds:
        return _float_tests[op](left.cast(pa.float64()), right.cast(pa.float64()))
    if Kind.DECIMAL in kinds:
        scale = max(_scale(left.type), _scale(right.type))
        left, right = _decimal(left, scale), _decimal(right, scale)
    return _tests[op](left, right)


_tests: dict[str, Callable[[pa.Array, pa.Array], pa.Array]] = {
    "=": pc.equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def _float_equal(left: pa.Array, right: pa.Array) -> pa.Array:
    return pc.or_(pc.equal(left, right), pc.and_(pc.is_nan(left), pc.is_nan(right)))


def _float_less(left: pa.Array, right: pa.Array) -> pa.Array:
    return pc.or_(pc.less(left, right), pc.and_(pc.invert(pc.is_nan(left)), pc.is_nan(right)))


_float_tests: dict[str, Callable[[pa.Array, pa.Array], pa.Array]] = {
    "=": _float_equal,
    "<": _float_less,
    "<=": lambda left, right: pc.invert(_float_less(right, left)),
    ">": lambda left, right: _float_less(right, left),
    ">=": lambda left, right: pc.invert(_float_less(left, right)),
}


def _scale(type_: pa.DataType) -> int:
    return type_.scale if pa.types.is_decimal(type_) else 0


def _decimal(array: pa.Array, scale: int) -> pa.Array:
    if pa.types.is_integer(array.type):
        array = array.cast(pa.decimal128(20, 0))
    return array.cast(pa.decimal256(76, scale))


def _string_match(expr: StringMatch, operand: pa.Array, pattern: pa.Array) -> pa.Array:
    if pa.types.is_null(operand.type) or pa.types.is_null(pattern.type):
        return pa.nulls(len(operand), pa.bool_())
    if {kind_of(operand.type), kind_of(pattern.type)} not in ({Kind.STRING}, {Kind.BINARY}):
        raise NotImplementedError(f"no reference {expr.op} of {operand.type} and {pattern.type} in {expr!r}")
    test = _matchers[expr.op]
    pairs = zip(_as_bytes(operand), _as_bytes(pattern), strict=True)
    return pa.array([None if s is None or p is None else test(s, p) for s, p in pairs], pa.bool_())


_matchers: dict[str, Callable[[bytes, bytes], bool]] = {
    "STARTS_WITH": bytes.startswith,
    "ENDS_WITH": bytes.endswith,
    "CONTAINS": lambda operand, pattern: pattern in operand,
}


def _as_bytes(array: pa.Array) -> list[bytes | None]:
    values: list[bytes | None] = array.cast(pa.large_binary()).to_pylist()
    return values


def _cast(expr: Cast, operand: pa.Array) -> pa.Array:
    target = cast_target(expr.spark_type)
    if target is None or not widens(operand.type, target):
        raise NotImplementedError(f"no reference evaluation for the cast of {operand.type} in {expr!r}")
    return operand.cast(target)
