"""Expr: the small immutable tree in which Spark's filters reach a provider; runs anywhere, needs no Spark.

The tree is faithful to what Spark sends: ``!=`` is ``Not(Comparison("="))``, ``IS NOT NULL`` is
``Not(IsNull(...))``, ``BETWEEN`` is two conjuncts. ``repr`` is readable SQL-like text. A function that
Headrace does not know is a ``Call`` with Spark's name and is never given a meaning of our own.
"""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from typing import Literal as OneOf

import pyarrow as pa

from headrace.arguments import check_fields
from headrace.optional import required

if TYPE_CHECKING:
    import pyarrow.compute as pc

ComparisonOp = OneOf["=", "<", "<=", ">", ">=", "<=>"]
StringMatchOp = OneOf["STARTS_WITH", "ENDS_WITH", "CONTAINS"]

_SHOWN_VALUES = 20
_OPERATORS = {"+", "-", "*", "/", "%", "&", "|", "^", "~"}


class Expr:
    """A node of the tree. Nodes are immutable, hashable, picklable and compare by value."""

    __slots__ = ()

    def children(self) -> tuple[Expr, ...]:
        """The direct sub-expressions, in order."""
        return ()

    def walk(self) -> Iterator[Expr]:
        """This node and everything below it, parents first."""
        pending: list[Expr] = [self]
        while pending:
            node = pending.pop()
            yield node
            pending.extend(reversed(node.children()))

    def __post_init__(self) -> None:
        check_fields(self)

    def columns(self) -> frozenset[str]:
        """Top-level names of all columns the expression reads."""
        return frozenset(node.name for node in self.walk() if isinstance(node, Column))

    def to_pyarrow(self, *, schema: pa.Schema | None = None) -> pc.Expression | None:
        """This predicate as a pyarrow expression that keeps just the rows Spark keeps; None where none does.

        Without ``schema`` (the table's own Arrow schema) a column is taken to have the type of the literal it
        is compared with, which is what Spark sends. Give the schema to translate casts and comparisons of two
        columns too, and to allow for string views, dictionaries and float16, on which a bare pyarrow
        comparison fails.
        """
        from headrace.expr import to_pyarrow

        return to_pyarrow.to_pyarrow(self, schema)

    def to_sql(self, dialect: str, *, schema: pa.Schema | None = None, bytewise: Collection[str] = ()) -> str | None:
        """This predicate as quoted SQL for a WHERE clause of ``dialect``; None where its meaning differs.

        ``sqlite``, ``duckdb`` and ``postgres`` are translated; for sqlglot's other dialects the answer is
        None, and a name it does not know raises ValueError. ``schema``, the table's Arrow schema, allows
        casts and comparisons of two columns. Needs sqlglot (``pip install headrace[sql]``).

        ``bytewise`` names text columns of which the database calls only equal bytes equal, as PostgreSQL does with
        ``text`` and ``varchar`` unless their collation is nondeterministic. Equality and IN then name the column as
        it is, and an index of it can be used; other columns are compared as text with a binary collation.
        """
        required("sqlglot", "Expr.to_sql")
        from headrace.expr import to_sql

        return to_sql.to_sql(self, dialect, schema, bytewise)

    def evaluate(self, batch: pa.RecordBatch, *, ansi: bool = True, time_zone: str | None = None) -> pa.BooleanArray:
        """Spark's answer for each row of ``batch``: true, false or null.

        ``ansi``: the session's ``spark.sql.ansi.enabled``, on by default in Spark 4. It decides what overflow,
        division by zero and casts of unfit values are: EvaluationError with ANSI on, null or a wrapped value with
        ANSI off. ``time_zone``: the session's, for what depends on it, such as the hour or the date of a TIMESTAMP.

        Known are arithmetic, ``abs``, ``upper``, ``lower``, ``length``, ``substring``, ``trim``, ``concat``,
        ``coalesce``, CASE WHEN, the fields of dates and times, and most casts. Raises NotImplementedError that names
        the part whose Spark meaning is not built in, KeyError for a column that is not there, TypeError when the
        expression is not a predicate.
        """
        from headrace.expr import evaluation

        return evaluation.evaluate(self, batch, ansi, time_zone)


@dataclass(frozen=True, slots=True, repr=False)
class Column(Expr):
    """A column, or with ``path`` a field nested in it: ``Column("a", ("b",))`` is ``a.b``."""

    name: str
    path: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return ".".join(_quoted(part) for part in (self.name, *self.path))


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Literal(Expr):
    """A constant as an ordinary Python value (date, datetime, Decimal, bytes...) and its Arrow type.

    Literals of one type are equal when Spark calls their values equal: NaN equals NaN, -0.0 equals 0.0.
    """

    value: Any
    type: pa.DataType = None  # so that a missing one is named, with what it could be

    def __post_init__(self) -> None:
        if not isinstance(self.type, pa.DataType):
            raise TypeError(f"Literal: type must be a pyarrow.DataType: hr.Literal({self.value!r}, pa.int64()), say")

    def scalar(self) -> pa.Scalar:
        """The constant as an Arrow scalar. Raises ``pa.ArrowInvalid`` if the value does not fit its type."""
        return pa.scalar(self.value, type=self.type)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Literal):
            return NotImplemented
        return bool(self.type == other.type) and _value_key(self.value) == _value_key(other.value)

    def __hash__(self) -> int:
        return hash(_value_key(self.value))  # not the type: pyarrow hashes its text, and a list may have many literals

    def __repr__(self) -> str:
        return _literal_text(self.value)


@dataclass(frozen=True, slots=True, repr=False)
class Comparison(Expr):
    """``left op right``; null when a side is null, except ``<=>`` which is never null."""

    op: ComparisonOp
    left: Expr
    right: Expr

    def children(self) -> tuple[Expr, ...]:
        return (self.left, self.right)

    def __repr__(self) -> str:
        return f"{_operand(self.left)} {self.op} {_operand(self.right)}"


@dataclass(frozen=True, slots=True, repr=False)
class InList(Expr):
    """``operand IN (values)``; the values are literals and may include a null."""

    operand: Expr
    values: tuple[Expr, ...]

    def children(self) -> tuple[Expr, ...]:
        return (self.operand, *self.values)

    def __repr__(self) -> str:
        return f"{_operand(self.operand)} IN ({_listed(self.values)})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Constants of one type without an object for each: a join may tell thousands, and each task unpickles them."""
        type_ = self.values[0].type if self.values and isinstance(self.values[0], Literal) else None
        values = [value.value for value in self.values if isinstance(value, Literal) and value.type == type_]
        if len(values) < len(self.values):
            return InList, (self.operand, self.values)
        return _in_constants, (self.operand, type_, values)


def _in_constants(operand: Expr, type_: pa.DataType, values: list[Any]) -> InList:
    return InList(operand, tuple(Literal(value, type_) for value in values))


@dataclass(frozen=True, slots=True, repr=False)
class IsNull(Expr):
    """``operand IS NULL``; never null itself."""

    operand: Expr

    def children(self) -> tuple[Expr, ...]:
        return (self.operand,)

    def __repr__(self) -> str:
        return f"{_operand(self.operand)} IS NULL"


@dataclass(frozen=True, slots=True, repr=False)
class StringMatch(Expr):
    """Byte-wise prefix, suffix or substring test: what ``LIKE 'a%'``, ``'%a'`` and ``'%a%'`` become."""

    op: StringMatchOp
    operand: Expr
    pattern: Expr

    def children(self) -> tuple[Expr, ...]:
        return (self.operand, self.pattern)

    def __repr__(self) -> str:
        return f"{self.op}({self.operand!r}, {self.pattern!r})"


@dataclass(frozen=True, slots=True, repr=False)
class And(Expr):
    """Three-valued AND of two expressions."""

    left: Expr
    right: Expr

    def children(self) -> tuple[Expr, ...]:
        return (self.left, self.right)

    def __repr__(self) -> str:
        return " AND ".join(map(_operand, legs(self, And)))


@dataclass(frozen=True, slots=True, repr=False)
class Or(Expr):
    """Three-valued OR of two expressions."""

    left: Expr
    right: Expr

    def children(self) -> tuple[Expr, ...]:
        return (self.left, self.right)

    def __repr__(self) -> str:
        return " OR ".join(map(_operand, legs(self, Or)))


@dataclass(frozen=True, slots=True, repr=False)
class Not(Expr):
    """Three-valued NOT."""

    operand: Expr

    def children(self) -> tuple[Expr, ...]:
        return (self.operand,)

    def __repr__(self) -> str:
        inner = self.operand
        if isinstance(inner, IsNull):
            return f"{_operand(inner.operand)} IS NOT NULL"
        if isinstance(inner, Comparison) and inner.op == "=":
            return f"{_operand(inner.left)} != {_operand(inner.right)}"
        if isinstance(inner, InList):
            return f"{_operand(inner.operand)} NOT IN ({_listed(inner.values)})"
        return f"NOT {_operand(inner)}"


@dataclass(frozen=True, slots=True, repr=False)
class Cast(Expr):
    """``CAST(operand AS type)``; ``spark_type`` is Spark's own name for the target."""

    operand: Expr
    spark_type: str

    def children(self) -> tuple[Expr, ...]:
        return (self.operand,)

    def __repr__(self) -> str:
        return f"CAST({self.operand!r} AS {self.spark_type})"


@dataclass(frozen=True, slots=True, repr=False)
class Call(Expr):
    """Any other function Spark pushed, by Spark's name: ``Call("UPPER", (Column("s"),))``."""

    name: str
    args: tuple[Expr, ...]

    def children(self) -> tuple[Expr, ...]:
        return self.args

    def __repr__(self) -> str:
        if self.name in _OPERATORS and len(self.args) in (1, 2):
            *left, right = map(_term, self.args)
            return f"{left[0]} {self.name} {right}" if left else f"{self.name}{right}"
        if self.name == "CASE_WHEN":
            cases = zip(self.args[::2], self.args[1::2], strict=False)
            texts = [f"WHEN {condition!r} THEN {value!r}" for condition, value in cases]
            otherwise = [f"ELSE {self.args[-1]!r}"] * (len(self.args) % 2)
            return " ".join(["CASE", *texts, *otherwise, "END"])
        if self.name.startswith("EXTRACT_") and len(self.args) == 1:
            return f"EXTRACT({self.name.removeprefix('EXTRACT_')} FROM {self.args[0]!r})"
        return f"{self.name}({', '.join(map(repr, self.args))})"


def legs(expr: Expr, connective: type[And] | type[Or]) -> list[Expr]:
    """The operands of a whole chain of ANDs, or of ORs, however nested, in order; else ``[expr]``."""
    found: list[Expr] = []
    pending = [expr]
    while pending:
        node = pending.pop()
        if isinstance(node, connective):
            pending += (node.right, node.left)
        else:
            found.append(node)
    return found


def _value_key(value: Any) -> Any:
    """Something hashable that is equal for values Spark calls equal."""
    if isinstance(value, float) and math.isnan(value):
        return "NaN", float
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, dict):
        return dict, frozenset((_value_key(key), _value_key(item)) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(map(_value_key, value))
    return value


def _quoted(name: str) -> str:
    return name if name.isidentifier() else "`" + name.replace("`", "``") + "`"


def _operand(expr: Expr) -> str:
    text = repr(expr)
    compound = isinstance(expr, (And, Or, Not, Comparison, InList, IsNull))
    return f"({text})" if compound else text


def _term(expr: Expr) -> str:
    """An operand of arithmetic."""
    return f"({expr!r})" if isinstance(expr, Call) and expr.name in _OPERATORS else _operand(expr)


def _listed(values: tuple[Expr, ...]) -> str:
    """The values, of a long list the first: a join may learn ten thousand, and nobody would read them."""
    left_out = [f"and {len(values) - _SHOWN_VALUES:,} more"] if len(values) > _SHOWN_VALUES else []
    return ", ".join([*map(repr, values[:_SHOWN_VALUES]), *left_out])


def _literal_text(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, (bytes, bytearray)):
        return f"X'{bytes(value).hex().upper()}'"
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, datetime.timedelta):
        return f"INTERVAL '{value}'"
    if isinstance(value, datetime.datetime):
        return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    if isinstance(value, datetime.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, decimal.Decimal):
        return str(value)
    return repr(value)
