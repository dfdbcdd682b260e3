"""The reference evaluation of an Expr over an Arrow batch, with Spark's meaning; pure, runs anywhere.

Each column is first brought to the form Spark sees (its wire type). Then every node becomes an array with a
value per row. What Spark does not evaluate (the right leg of AND where the left is false, the branches of CASE not
taken) is not evaluated here either, so that it cannot fail. What the source stage does with every row (comparisons
with constants, lists, prefixes: ``expr.exact``) takes a kernel or two; for the rest correctness comes before speed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from headrace.arrow.conversion import to_wire
from headrace.arrow.types import wire_type
from headrace.errors import EvaluationError
from headrace.expr import arithmetic, casts, functions
from headrace.expr.lists import ConstantList
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
from headrace.expr.semantics import Kind, cast_target, is_nan, kind_of, spark_view, wire_literal

_RIGHT_FIRST = {"/", "%"}  # Spark looks at the divisor first


def evaluate(expr: Expr, batch: pa.RecordBatch, ansi: bool = True, time_zone: str | None = None) -> pa.BooleanArray:
    """See ``Expr.evaluate``."""
    evaluation = Evaluation(ansi, time_zone)
    rows = Rows({column: _column(column, batch) for column in evaluation.columns(expr)}, batch.num_rows)
    return evaluation.truth(expr, rows)


def value_of(
    expr: Expr, columns: dict[Column, pa.Array], count: int, ansi: bool = True, time_zone: str | None = None
) -> pa.Array:
    """``expr``, a predicate or not, over ``count`` rows of these columns, in wire types. Raises as ``evaluate``."""
    return Evaluation(ansi, time_zone).value(expr, Rows(columns, count))


@dataclass(frozen=True)
class Rows:
    """Rows of a batch: the columns that an expression reads, in wire types."""

    columns: dict[Column, pa.Array]
    count: int

    def where(self, mask: pa.BooleanArray) -> Rows:
        columns = {column: array.filter(mask) for column, array in self.columns.items()}
        return Rows(columns, pc.sum(mask, min_count=0).as_py())


def _column(column: Column, batch: pa.RecordBatch) -> pa.Array:
    if column.name not in batch.schema.names:
        raise KeyError(f"no column {column.name!r} in the batch; it has {batch.schema.names}")
    array = batch.column(column.name)
    for part in column.path:
        if not pa.types.is_struct(array.type) or array.type.get_field_index(part) < 0:
            raise KeyError(f"no field {part!r} for {column!r}; found {array.type}")
        array = pc.struct_field(array, part)
    return to_wire(array, wire_type(array.type, column.name), column.name)


def _scalar(literal: Literal) -> pa.Scalar:
    found = wire_literal(literal)
    if found is None:
        raise NotImplementedError(f"no reference evaluation for {literal!r} of type {literal.type}")
    return found.scalar()


@dataclass(frozen=True)
class _Facts:
    """What there is to know of an expression before it is evaluated."""

    expr: Expr
    columns: frozenset[Column]
    may_fail: bool


class Evaluation:
    """Evaluates expressions over any number of batches. One thread.

    What it finds out about an expression it keeps from one batch to the next, by the node's id: a list of IN may have
    thousands of values, and to walk or to hash them takes long.
    """

    def __init__(self, ansi: bool = True, time_zone: str | None = None) -> None:
        self._ansi = ansi
        self._time_zone = time_zone
        self._lists: dict[int, tuple[InList, ConstantList | None]] = {}
        self._facts: dict[int, _Facts] = {}

    def columns(self, expr: Expr) -> frozenset[Column]:
        """The columns, and fields of columns, that it reads."""
        return self._known(expr).columns

    def _may_fail(self, expr: Expr) -> bool:
        return self._known(expr).may_fail

    def _known(self, expr: Expr) -> _Facts:
        known = self._facts.get(id(expr))
        if known is None or known.expr is not expr:
            nodes = list(expr.walk())
            columns = frozenset(node for node in nodes if isinstance(node, Column))
            known = _Facts(expr, columns, any(isinstance(node, (Call, Cast)) for node in nodes))
            self._facts[id(expr)] = known
        return known

    def truth(self, expr: Expr, rows: Rows) -> pa.BooleanArray:
        result = self.value(expr, rows)
        if pa.types.is_null(result.type):
            return result.cast(pa.bool_())
        if not pa.types.is_boolean(result.type):
            raise TypeError(f"{expr!r} has type {result.type} and is not a predicate")
        return result

    def value(self, expr: Expr, rows: Rows) -> pa.Array:
        match expr:
            case Column():
                return rows.columns[expr]
            case Literal():
                return pa.repeat(_scalar(expr), rows.count)
            case And():
                return self._connected(legs(expr, And), rows, pc.and_kleene, decisive=False)
            case Or():
                return self._connected(legs(expr, Or), rows, pc.or_kleene, decisive=True)
            case Not():
                return pc.invert(self.truth(expr.operand, rows))
            case IsNull():
                return self.value(expr.operand, rows).is_null()
            case Comparison(op="<=>"):
                return _null_safe_equal(self.value(expr.left, rows), self.value(expr.right, rows), expr)
            case Comparison(right=Literal() as constant) if not isinstance(expr.left, Literal):
                return _ordered(expr.op, self.value(expr.left, rows), _scalar(constant), expr)
            case Comparison():
                left, right = self._strictly((expr.left, expr.right), rows)
                return _ordered(expr.op, left, right, expr)
            case InList():
                return self._in_list(expr, rows)
            case StringMatch(pattern=Literal() as constant) if not isinstance(expr.operand, Literal):
                return _constant_match(expr, self.value(expr.operand, rows), _scalar(constant))
            case StringMatch():
                operand, pattern = self._strictly((expr.operand, expr.pattern), rows)
                return _string_match(expr, operand, pattern)
            case Cast():
                return self._cast(expr, rows)
            case Call():
                return self._call(expr, rows)
        raise NotImplementedError(f"no reference evaluation for {type(expr).__name__}")

    def _where(self, mask: pa.BooleanArray, expr: Expr, rows: Rows, *, truth: bool = False) -> pa.Array:
        """``expr`` in the rows of ``mask``, and null in the others, for which it is not evaluated."""
        evaluated = self.truth if truth else self.value
        if not self._may_fail(expr) or pc.all(mask, min_count=0).as_py():
            return evaluated(expr, rows)
        found = evaluated(expr, rows.where(mask))
        place = pc.subtract(pc.cumulative_sum(mask.cast(pa.int64())), 1)
        return found.take(pc.if_else(mask, place, pa.scalar(None, pa.int64())))

    def _strictly(self, operands: Sequence[Expr], rows: Rows) -> list[pa.Array]:
        """Operands of a function that is null when one is: the next is not evaluated where one was null."""
        if not any(map(self._may_fail, operands[1:])):
            return [self.value(operand, rows) for operand in operands]
        found: list[pa.Array] = []
        present = pa.repeat(pa.scalar(True), rows.count)
        for operand in operands:
            found.append(self._where(present, operand, rows))
            present = pc.and_(present, found[-1].is_valid())
        return found

    def _connected(
        self, operands: Sequence[Expr], rows: Rows, connect: Callable[..., pa.Array], decisive: bool
    ) -> pa.Array:
        result = self.truth(operands[0], rows)
        for operand in operands[1:]:
            if self._may_fail(operand):
                undecided = pc.fill_null(pc.not_equal(result, decisive), True)
                result = connect(result, self._where(undecided, operand, rows, truth=True))
            else:
                result = connect(result, self.truth(operand, rows))
        return result

    def _in_list(self, expr: InList, rows: Rows) -> pa.Array:
        if not expr.values:
            return pa.repeat(pa.scalar(False), rows.count)
        operand = self.value(expr.operand, rows)
        constants = self._constants(expr, operand.type)
        if constants is not None:
            return constants.found(operand)
        result = pa.repeat(pa.scalar(False), rows.count)
        for value in expr.values:
            open_ = pc.and_(operand.is_valid(), pc.fill_null(pc.invert(result), True))
            result = pc.or_kleene(result, _ordered("=", operand, self._where(open_, value, rows), expr))
        return result

    def _constants(self, expr: InList, type_: pa.DataType) -> ConstantList | None:
        """The values of the list, if these are constants of the operand's type, and Arrow finds them as Spark does."""
        known = self._lists.get(id(expr))
        if known is None or known[0] is not expr:
            self._lists[id(expr)] = known = (expr, _constants(expr))
        found = known[1]
        return found if found is not None and found.type == type_ else None

    def _cast(self, expr: Cast, rows: Rows) -> pa.Array:
        operand = self.value(expr.operand, rows)
        target = cast_target(expr.spark_type)
        if target is None:
            raise NotImplementedError(f"no reference evaluation for the cast of {operand.type} in {expr!r}")
        with _naming(expr):
            return casts.cast(operand, target, self._ansi, self._time_zone)

    def _call(self, expr: Call, rows: Rows) -> pa.Array:
        name, args = expr.name, expr.args
        if name == "COALESCE":
            return self._coalesce(expr, rows)
        if name == "CASE_WHEN":
            return self._case_when(expr, rows)
        if name == "CONCAT":  # Spark evaluates all its parts
            values = [self.value(arg, rows) for arg in args]
        elif name in _RIGHT_FIRST:
            values = self._strictly(args[::-1], rows)[::-1]
        else:
            values = self._strictly(args, rows)
        with _naming(expr):
            if name in arithmetic.OPERATIONS:
                return arithmetic.call(name, values, self._ansi)
            return functions.call(name, values, self._time_zone)

    def _coalesce(self, expr: Call, rows: Rows) -> pa.Array:
        missing = pa.repeat(pa.scalar(True), rows.count)
        branches: list[tuple[pa.BooleanArray, pa.Array]] = []
        for arg in expr.args:
            found = self._where(missing, arg, rows)
            branches.append((pc.and_(missing, found.is_valid()), found))
            missing = pc.and_(missing, found.is_null())
        return _chosen(expr, branches, rows)

    def _case_when(self, expr: Call, rows: Rows) -> pa.Array:
        """Arguments are condition, value, condition, value... and at the end perhaps the value for ELSE."""
        args = expr.args
        left = pa.repeat(pa.scalar(True), rows.count)
        branches: list[tuple[pa.BooleanArray, pa.Array]] = []
        for condition, value in zip(args[0:-1:2], args[1::2], strict=True):
            taken = pc.and_(left, pc.fill_null(self._where(left, condition, rows, truth=True), False))
            branches.append((taken, self._where(taken, value, rows)))
            left = pc.and_(left, pc.invert(taken))
        if len(args) % 2:
            branches.append((left, self._where(left, args[-1], rows)))
        return _chosen(expr, branches, rows)


@contextlib.contextmanager
def _naming(expr: Expr) -> Iterator[None]:
    """A refusal or a failure says in which part of the predicate it is."""
    try:
        yield
    except NotImplementedError as error:
        raise NotImplementedError(f"{error}, in {expr!r}") from None
    except EvaluationError as error:
        raise EvaluationError(error.condition, f"{error.args[1]}, in {expr!r}") from None


def _chosen(expr: Expr, branches: Sequence[tuple[pa.BooleanArray, pa.Array]], rows: Rows) -> pa.Array:
    """In each row the value of the branch taken, null where none is. Spark gives all branches one type."""
    types = {array.type for _, array in branches if not pa.types.is_null(array.type)}
    if len(types) > 1:
        raise NotImplementedError(f"no reference evaluation for values of {sorted(map(str, types))} in {expr!r}")
    if not types:
        return pa.nulls(rows.count)
    result = pa.nulls(rows.count, types.pop())
    for taken, array in branches:
        if not pa.types.is_null(array.type):
            result = pc.if_else(taken, array, result)
    return result


def _constants(expr: InList) -> ConstantList | None:
    if not all(isinstance(value, Literal) for value in expr.values):
        return None
    literals = [value for value in expr.values if isinstance(value, Literal)]
    types = {literal.type for literal in literals}
    type_ = types.pop()
    if types or kind_of(type_) in (None, Kind.FLOAT) or spark_view(type_) != type_:  # of floats -0.0 would be no 0.0
        return None
    return ConstantList(pa.array([literal.value for literal in literals], type_))


def _null_safe_equal(left: pa.Array, right: pa.Array, expr: Expr) -> pa.Array:
    both_null = pc.and_(left.is_null(), right.is_null())
    return pc.or_(both_null, pc.fill_null(_ordered("=", left, right, expr), False))


def _ordered(op: str, left: pa.Array, right: pa.Array | pa.Scalar, expr: Expr) -> pa.Array:
    """``left op right``, null where a side is null, in the order of their common kind."""
    if pa.types.is_null(left.type) or pa.types.is_null(right.type):
        return pa.nulls(len(left), pa.bool_())
    kinds = {kind_of(left.type), kind_of(right.type)}
    if None in kinds or not (len(kinds) == 1 or kinds == {Kind.INT, Kind.DECIMAL}):
        raise NotImplementedError(f"no reference comparison of {left.type} with {right.type} in {expr!r}")
    if Kind.FLOAT in kinds:
        if left.type != right.type:
            left, right = left.cast(pa.float64()), right.cast(pa.float64())
        return _float_tests[op](left, right)
    if Kind.DECIMAL in kinds and left.type != right.type:
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


_Floats: TypeAlias = pa.Array | pa.Scalar


def _is_number(floats: _Floats) -> bool:
    """Whether it is one constant, and not NaN."""
    return isinstance(floats, pa.Scalar) and not is_nan(floats.as_py())


def _float_equal(left: _Floats, right: _Floats) -> pa.Array:
    if _is_number(left) or _is_number(right):
        return pc.equal(left, right)
    return pc.or_(pc.equal(left, right), pc.and_(pc.is_nan(left), pc.is_nan(right)))


def _float_less(left: _Floats, right: _Floats) -> pa.Array:
    if _is_number(right):
        return pc.less(left, right)
    if _is_number(left):
        return pc.or_(pc.less(left, right), pc.is_nan(right))
    return pc.or_(pc.less(left, right), pc.and_(pc.invert(pc.is_nan(left)), pc.is_nan(right)))


_float_tests: dict[str, Callable[[_Floats, _Floats], pa.Array]] = {
    "=": _float_equal,
    "<": _float_less,
    "<=": lambda left, right: pc.invert(_float_less(right, left)),
    ">": lambda left, right: _float_less(right, left),
    ">=": lambda left, right: pc.invert(_float_less(left, right)),
}


def _scale(type_: pa.DataType) -> int:
    return type_.scale if pa.types.is_decimal(type_) else 0


def _decimal(array: pa.Array | pa.Scalar, scale: int) -> pa.Array | pa.Scalar:
    if pa.types.is_integer(array.type):
        array = array.cast(pa.decimal128(20, 0))
    return array.cast(pa.decimal256(76, scale))


def _constant_match(expr: StringMatch, operand: pa.Array, pattern: pa.Scalar) -> pa.Array:
    if not pattern.is_valid or {kind_of(operand.type), kind_of(pattern.type)} not in ({Kind.STRING}, {Kind.BINARY}):
        return _string_match(expr, operand, pa.repeat(pattern, len(operand)))
    return _pattern_kernels[expr.op](operand, pattern=pattern.as_py())


_pattern_kernels: dict[str, Callable[..., pa.Array]] = {
    "STARTS_WITH": pc.starts_with,
    "ENDS_WITH": pc.ends_with,
    "CONTAINS": pc.match_substring,
}


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
