"""Random expressions with functions, arithmetic and casts of the kinds Spark pushes; for the tests.

They are typed as Spark types them: each function gets operands of the types that its analyzer would have cast to.
"""

from __future__ import annotations

from random import Random

import pyarrow as pa

from headrace.expr.nodes import And, Call, Cast, Column, Comparison, Expr, InList, IsNull, Literal, Not, Or
from random_predicates import ORDER, POOLS, random_literal

INT, LONG, DOUBLE, FLOAT, STRING, DATE = "i", "l", "d", "f", "s", "t"
COLUMNS = {INT: "i", LONG: "l", DOUBLE: "de", FLOAT: "f", STRING: "sr", DATE: "t", "n": "n", "b": "b", "p": "p"}
OPERATIONS = ["+", "-", "*", "%"]
FIELDS = ["YEAR", "MONTH", "DAY", "QUARTER", "DAY_OF_WEEK", "DAY_OF_YEAR", "WEEK", "YEAR_OF_WEEK"]
CASTS = {
    INT: [(LONG, "int"), (DOUBLE, "int"), (STRING, "int"), ("b", "int"), (FLOAT, "int"), ("n", "int")],
    LONG: [(INT, "bigint"), (DOUBLE, "bigint"), (STRING, "bigint"), ("n", "bigint")],
    DOUBLE: [(INT, "double"), (LONG, "double"), (FLOAT, "double"), ("n", "double"), (STRING, "double")],
    FLOAT: [(INT, "float"), (LONG, "float"), (DOUBLE, "float"), (STRING, "float")],
    STRING: [(INT, "string"), (LONG, "string"), ("b", "string"), (DATE, "string"), ("p", "string"), ("n", "string")],
    DATE: [("p", "date"), (STRING, "date")],
    "n": [(INT, "decimal(10,2)"), (LONG, "decimal(10,2)"), (STRING, "decimal(10,2)")],
    "b": [(INT, "boolean"), (LONG, "boolean"), (DOUBLE, "boolean"), (STRING, "boolean")],
}


def random_call_predicate(rng: Random, depth: int = 2) -> Expr:
    """A predicate over function calls, casts and arithmetic; it may fail in some rows with ANSI on."""
    draw = rng.random()
    if depth and draw < 0.15:
        legs = [random_call_predicate(rng, depth - 1) for _ in range(2)]
        return rng.choice([And(*legs), Or(*legs), Not(legs[0])])
    if draw < 0.2:
        return IsNull(value(rng, rng.choice([INT, DOUBLE, STRING]), depth))
    if draw < 0.25:
        return value(rng, "b", depth)
    if draw < 0.35:
        left, right = (value(rng, "n", depth) for _ in range(2))
        operation = rng.choice([*OPERATIONS, "/"])
        return Comparison(rng.choice(ORDER), Call(operation, (left, right)), random_literal(rng, "n"))
    kind = rng.choice([INT, INT, LONG, DOUBLE, FLOAT, STRING, STRING, DATE])
    if draw < 0.45:
        return InList(value(rng, kind, depth), tuple(random_literal(rng, kind) for _ in range(3)))
    other = random_literal(rng, kind) if rng.random() < 0.5 else value(rng, kind, depth - 1)
    return Comparison(rng.choice(ORDER), value(rng, kind, depth), other)


def value(rng: Random, kind: str, depth: int) -> Expr:
    """An expression of the type of pool ``kind``."""
    if depth <= 0 or rng.random() < 0.15:
        return Column(rng.choice(COLUMNS[kind])) if rng.random() < 0.8 else random_literal(rng, kind)
    draw = rng.random()
    if draw < 0.12:
        return Call("COALESCE", tuple(value(rng, kind, depth - 1) for _ in range(2)))
    if draw < 0.24:
        branches = [value(rng, kind, depth - 1) for _ in range(rng.choice([1, 2, 3]))]
        conditions = [random_call_predicate(rng, depth - 1) for _ in branches[: max(1, len(branches) - 1)]]
        args = [part for pair in zip(conditions, branches, strict=False) for part in pair]
        return Call("CASE_WHEN", (*args, *branches[len(conditions) :]))
    if draw < 0.5 and kind in CASTS:
        source, target = rng.choice(CASTS[kind])
        return Cast(value(rng, source, depth - 1), target)
    return _function(rng, kind, depth - 1)


def _function(rng: Random, kind: str, depth: int) -> Expr:
    if kind == STRING:
        return _text(rng, depth)
    if kind == INT and rng.random() < 0.4:
        if rng.random() < 0.5:
            return Call(rng.choice(["CHAR_LENGTH", "OCTET_LENGTH", "BIT_LENGTH"]), (value(rng, STRING, depth),))
        if rng.random() < 0.3:
            return Call(rng.choice(["EXTRACT_HOUR", "EXTRACT_MINUTE"]), (Column("p"),))
        return Call(f"EXTRACT_{rng.choice(FIELDS)}", (value(rng, DATE, depth),))
    if kind in (INT, LONG, DOUBLE, FLOAT):
        if rng.random() < 0.25:
            return Call(rng.choice(["-", "ABS"]), (value(rng, kind, depth),))
        operations = [*OPERATIONS, "/"] if kind in (DOUBLE,) else OPERATIONS
        return Call(rng.choice(operations), (value(rng, kind, depth), value(rng, kind, depth)))
    if kind == "n":
        return Call(rng.choice(["-", "ABS"]), (value(rng, kind, depth),))
    return Column(rng.choice(COLUMNS[kind]))


def _text(rng: Random, depth: int) -> Expr:
    text = value(rng, STRING, depth)
    name = rng.choice(["UPPER", "LOWER", "TRIM", "LTRIM", "RTRIM", "TRIM of", "SUBSTRING", "CONCAT"])
    if name == "TRIM of":
        return Call(
            rng.choice(["TRIM", "LTRIM", "RTRIM"]), (text, Literal(rng.choice(["a", "ab", " ", ""]), pa.string()))
        )
    if name == "SUBSTRING":
        numbers = [Literal(rng.randint(-4, 4), pa.int32()) for _ in range(rng.choice([1, 2]))]
        return Call(name, (text, *numbers))
    return Call(name, (text, value(rng, STRING, depth)) if name == "CONCAT" else (text,))


NUMBERS_AS_TEXT = [
    "1",
    " 2 ",
    "-3",
    "+4",
    "1.5",
    ".5",
    "5.",
    "1e2",
    "NaN",
    "inf",
    "-Infinity",
    "1d",
    "x",
    "true",
    " NO ",
    "T",
]
NUMBERS_AS_TEXT += [
    "2147483648",
    "-9223372036854775808",
    "99999999.995",
    "2024-2-9",
    "2024-02-30",
    "2024",
    "1999-12-31T01:02",
]
TEXT_POOL = [*POOLS["s"][1], *NUMBERS_AS_TEXT, " a ", "  ", "ß", "ΑΣ", "İ", "ŉ", "ǆ", "aXbX", "\t1\n"]
