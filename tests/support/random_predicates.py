"""Random tables and predicates with every awkward value, and the predicates as Spark SQL; for the tests."""

from __future__ import annotations

import datetime as dt
import math
import struct
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

from headrace.expr.nodes import (
    And,
    Call,
    Cast,
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
    StringMatchOp,
)

FLOAT_TENTH = struct.unpack("f", struct.pack("f", 0.1))[0]
INTS = [-(2**31), -1, 0, 1, 2, 5, 2**31 - 1]
SPECIAL = [math.nan, math.inf, -math.inf, -0.0, 0.0]
DOUBLES = [*SPECIAL, 1.5, -1.5, 0.1, 1e300, 5e-324, 1 / 3, 1e22, 123456789.125]
TEXTS = ["", "a", "ab", "abc", "b", "A", "é", "e\u0301", "日本", "😀", "\ufffd"]
TEXTS += ["a%", "a_b", "it's", "a\\b", "!", "a\n"]
EPOCH = dt.datetime(1970, 1, 1)
TIMES = [EPOCH - dt.timedelta(microseconds=1), EPOCH, dt.datetime(2024, 2, 29, 1, 2, 3, 4)]
Pools = dict[str, tuple[pa.DataType, list[Any]]]
POOLS: Pools = {
    "i": (pa.int32(), INTS),
    "l": (pa.int64(), [*INTS, 2**53 + 1, -(2**63), 2**63 - 1]),
    "f": (pa.float32(), [*SPECIAL, 1.5, -1.5, FLOAT_TENTH]),
    "d": (pa.float64(), DOUBLES),
    "e": (pa.float64(), DOUBLES),
    "n": (pa.decimal128(10, 2), [Decimal(x) for x in ("-1.50", "0.00", "0.10", "1.50", "99999999.99")]),
    "s": (pa.string(), TEXTS),
    "r": (pa.string(), TEXTS),
    "y": (pa.binary(), [b"", b"\x00", b"a", b"ab", b"\x7f", b"\x80", b"\xff", b"\xff\xff"]),
    "b": (pa.bool_(), [False, True]),
    "t": (pa.date32(), [dt.date(*x) for x in ((1969, 12, 31), (1970, 1, 1), (2024, 2, 29), (9999, 12, 31))]),
    "p": (pa.timestamp("us"), TIMES),
    "z": (pa.timestamp("us", tz="UTC"), [time.replace(tzinfo=dt.UTC) for time in TIMES]),
}
STRUCT = pa.struct([("x", pa.int32()), ("s", pa.string())])
SCHEMA = pa.schema([("id", pa.int64()), *((name, pool[0]) for name, pool in POOLS.items()), ("st", STRUCT)])
SAME_TYPE = [("i", "i"), ("f", "f"), ("d", "e"), ("s", "r"), ("l", "l"), ("b", "b"), ("p", "p")]
CASTS = [("i", "bigint", "l"), ("f", "double", "d"), ("i", "double", "d"), ("n", "decimal(12,4)", None)]
ORDER: list[ComparisonOp] = ["=", "<", "<=", ">", ">=", "<=>"]


MATCHES: list[StringMatchOp] = ["STARTS_WITH", "ENDS_WITH", "CONTAINS"]


def random_table(rng: Random, rows: int, schema: pa.Schema = SCHEMA, pools: Pools = POOLS) -> pa.Table:
    """Rows of values from the pools, a quarter of them null; ``id`` numbers the rows."""

    def pick(name: str) -> Any:
        return None if rng.random() < 0.25 else rng.choice(pools[name][1])

    columns = []
    for field in schema:
        if field.name == "id":
            values: list[Any] = list(range(rows))
        elif field.name == "st":
            values = [None if rng.random() < 0.25 else {"x": pick("i"), "s": pick("s")} for _ in range(rows)]
        else:
            values = [pick(field.name) for _ in range(rows)]
        columns.append(pa.array(values, field.type))
    return pa.table(columns, schema=schema)


def one_batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema)


def random_predicate(rng: Random, depth: int = 3, columns: str = "".join(POOLS), nested: bool = True) -> Expr:
    """A predicate over the columns named by the letters of ``columns`` (and ``st``, if ``nested``)."""
    if depth and rng.random() < 0.6:
        shape = rng.choice([And, Or, Not])
        if shape is Not:
            return Not(random_predicate(rng, depth - 1, columns, nested))
        legs = [random_predicate(rng, depth - 1, columns, nested) for _ in range(2)]
        return And(*legs) if shape is And else Or(*legs)
    return random_leaf(rng, columns, nested)


def random_leaf(rng: Random, columns: str, nested: bool) -> Expr:
    name = rng.choice([*columns, *(["st.x", "st.s"] if nested else [])])
    pool = name[-1] if name != "st.x" else "i"
    column = Column("st", (name[-1],)) if "." in name else Column(name)
    draw = rng.random()
    if draw < 0.1:
        return IsNull(column)
    if draw < 0.2 and name == "b":
        return column
    if draw < 0.35:
        few = rng.randint(1, 3) if rng.random() < 0.7 else 13
        return InList(column, tuple(random_literal(rng, pool) for _ in range(few)))
    if draw < 0.6 and pool in "sy":
        other = pool == "s" and "r" in columns and rng.random() < 0.1
        return StringMatch(rng.choice(MATCHES), column, Column("r") if other else random_literal(rng, pool))
    if draw < 0.7:
        pairs = [pair for pair in SAME_TYPE if pair[0] in columns and pair[1] in columns]
        if pairs:
            left, right = rng.choice(pairs)
            return Comparison(rng.choice(ORDER), Column(left), Column(right))
    if draw < 0.8:
        source, target, of = rng.choice(CASTS)
        if source in columns:
            literal = random_literal(rng, of) if of else Literal(Decimal("1.5000"), pa.decimal128(12, 4))
            return Comparison(rng.choice(ORDER), Cast(Column(source), target), literal)
    if draw < 0.82:
        return Comparison(rng.choice(ORDER), random_literal(rng, pool), random_literal(rng, pool))
    literal = random_literal(rng, pool)
    sides = (column, literal) if rng.random() < 0.8 else (literal, column)
    return Comparison(rng.choice(ORDER), *sides)


def random_literal(rng: Random, pool: str) -> Literal:
    type_, values = POOLS[pool]
    return Literal(None if rng.random() < 0.07 else rng.choice(values), type_)


_SPARK_NAMES = {
    pa.int32(): "INT", pa.int64(): "BIGINT", pa.float32(): "FLOAT", pa.float64(): "DOUBLE",
    pa.bool_(): "BOOLEAN", pa.decimal128(10, 2): "DECIMAL(10,2)", pa.decimal128(12, 4): "DECIMAL(12,4)",
    pa.string(): "STRING", pa.binary(): "BINARY", pa.date32(): "DATE", pa.timestamp("us"): "TIMESTAMP_NTZ",
    pa.timestamp("us", tz="UTC"): "TIMESTAMP",
}  # fmt: skip


def spark_sql(expr: Expr) -> str:
    """The predicate as text for Spark SQL."""
    match expr:
        case Column(name=name, path=path):
            return ".".join(f"`{part}`" for part in (name, *path))
        case Literal(value=value, type=type_):
            name = _SPARK_NAMES[type_]
            if isinstance(value, str):
                return f"CAST(X'{value.encode().hex()}' AS STRING)"
            if isinstance(value, bytes):
                return f"X'{value.hex()}'"
            return "CAST(NULL AS " + name + ")" if value is None else f"CAST('{value}' AS {name})"
        case Comparison(op=op, left=left, right=right):
            return f"({spark_sql(left)} {op} {spark_sql(right)})"
        case InList(operand=operand, values=values):
            return f"({spark_sql(operand)} IN ({', '.join(map(spark_sql, values))}))"
        case IsNull(operand=operand):
            return f"({spark_sql(operand)} IS NULL)"
        case StringMatch(op=op, operand=operand, pattern=pattern):
            return f"{op.replace('_', '').lower()}({spark_sql(operand)}, {spark_sql(pattern)})"
        case And(left=left, right=right):
            return f"({spark_sql(left)} AND {spark_sql(right)})"
        case Or(left=left, right=right):
            return f"({spark_sql(left)} OR {spark_sql(right)})"
        case Not(operand=operand):
            return f"(NOT {spark_sql(operand)})"
        case Cast(operand=operand, spark_type=spark_type):
            return f"CAST({spark_sql(operand)} AS {spark_type})"
        case Call(name=name, args=args):
            return call_sql(name, [spark_sql(arg) for arg in args])
    raise AssertionError(f"no Spark SQL for {expr!r}")


_TRIMS = {"TRIM": "BOTH", "LTRIM": "LEADING", "RTRIM": "TRAILING"}


def call_sql(name: str, args: list[str]) -> str:
    """A function call as it stands in SQL, from the name that Spark gives it when it pushes it."""
    if name in ("+", "-", "*", "/", "%"):
        return f"({args[0]} {name} {args[1]})" if len(args) == 2 else f"(- {args[0]})"
    if name == "CASE_WHEN":
        pairs = zip(args[0:-1:2], args[1::2], strict=True)
        tail = f" ELSE {args[-1]}" if len(args) % 2 else ""
        return "CASE" + "".join(f" WHEN {condition} THEN {value}" for condition, value in pairs) + tail + " END"
    if name in _TRIMS and len(args) == 2:
        return f"TRIM({_TRIMS[name]} {args[1]} FROM {args[0]})"
    if name == "EXTRACT_DAY_OF_WEEK":  # ISO's, as pushed
        return f"(weekday({args[0]}) + 1)"
    if name.startswith("EXTRACT_"):
        field = name.removeprefix("EXTRACT_")
        return f"EXTRACT({ {'DAY_OF_YEAR': 'DOY', 'YEAR_OF_WEEK': 'YEAROFWEEK'}.get(field, field) } FROM {args[0]})"
    return f"{name}({', '.join(args)})"
