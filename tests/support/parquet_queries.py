"""Random SQL over the columns of ``random_parquet``: filters, aggregates, first rows, joins; for the tests."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import Any

from random_parquet import DOUBLES, INSTANTS, INTS, LONG_TEXT, POOLS, TEXTS

COMPARISONS = ["=", "<", "<=", ">", ">=", "<>", "<=>"]
PATTERNS = [
    "a%",
    "prefix that many%",
    LONG_TEXT + "a%",
    "日本%",
    "é%",
    "%b",
    "%a%",
    "a_%",
    "%",
    "\U0010ffff%",
    "a\\\\%",
]
FIELDS: dict[str, list[Any]] = {"st.a": INTS, "st.s": TEXTS, "st.at": INSTANTS, "st.q.x": DOUBLES}
VALUES: dict[str, list[Any]] = {name: pool for name, (_, pool) in POOLS.items()}
OPERANDS = {**VALUES, **FIELDS}
TYPES = {"t": "tinyint", "i": "int", "l": "bigint", "f": "float", "x": "double", "st.a": "int", "st.q.x": "double"}
TYPES |= {"dec": "decimal(18,2)", "big": "decimal(38,10)"}


@dataclass(frozen=True)
class Query:
    """``text`` has ``{t}`` where the table's name goes; ``ordered``: its rows come in one order only.

    ``signed_zeros``: 0.0 and -0.0 are told apart. Of equal values an extreme may be either.
    """

    text: str
    ordered: bool = False
    signed_zeros: bool = False


def literal(value: Any, type_: str | None = None) -> str:
    """A value as Spark SQL has it."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        name = (
            "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity" if math.isinf(value) else repr(value)
        )
        return f"cast('{name}' AS {type_ or 'double'})"
    if isinstance(value, (int, Decimal)):
        return f"cast('{value}' AS {type_ or 'bigint'})"
    if isinstance(value, dt.datetime):
        zone = "" if value.tzinfo is None else "+00:00"
        kind = "timestamp_ntz" if value.tzinfo is None else "timestamp"
        return f"{kind}'{value.year:04}-{value:%m-%d %H:%M:%S.%f}{zone}'"
    if isinstance(value, dt.date):
        return f"date'{value.year:04}-{value:%m-%d}'"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _literal(rng: Random, column: str) -> str:
    return literal(rng.choice(OPERANDS[column]), TYPES.get(column))


def predicate(rng: Random, columns: Sequence[str], depth: int = 2) -> str:
    draw = rng.random()
    if depth and draw < 0.35:
        legs = [predicate(rng, columns, depth - 1) for _ in range(rng.randint(2, 3))]
        joined = f" {rng.choice(['AND', 'AND', 'OR'])} ".join(legs)
        return f"NOT ({joined})" if rng.random() < 0.2 else f"({joined})"
    column = rng.choice(columns)
    draw = rng.random()
    if draw < 0.12:
        return f"{column} IS {rng.choice(['', 'NOT '])}NULL"
    if draw < 0.27:
        values = [_literal(rng, column) for _ in range(rng.choice([1, 2, 3, 9, 12]))]
        values += ["NULL"] if rng.random() < 0.1 else []
        return f"{column} {rng.choice(['', '', 'NOT '])}IN ({', '.join(values)})"
    if draw < 0.4:
        low, high = _literal(rng, column), _literal(rng, column)
        return f"{column} {rng.choice(['', '', 'NOT '])}BETWEEN {low} AND {high}"
    if draw < 0.5 and column in ("s", "st.s"):
        return f"{column} {rng.choice(['', 'NOT '])}LIKE '{rng.choice(PATTERNS)}'"
    if draw < 0.56 and column in ("i", "t", "st.a"):
        sum_ = f"cast({column} AS bigint) {rng.choice(['+', '-', '*', '%'])} 7"
        return f"{sum_} {rng.choice(COMPARISONS)} {rng.choice(INTS)}"
    if draw < 0.56 and column in ("d", "at", "n"):
        return f"year({column}) {rng.choice(COMPARISONS)} {rng.choice([1, 1582, 1970, 2020, 9999])}"
    if draw < 0.56 and column == "s":
        return f"length({column}) {rng.choice(COMPARISONS)} {rng.choice([0, 1, 3, 64, 85])}"
    if draw < 0.6 and column in ("i", "l", "x"):
        return f"{column} {rng.choice(COMPARISONS)} {rng.choice(['i', 'l', 'x', 'st.a', 'st.q.x'])}"
    if draw < 0.64:
        return f"{column} <=> NULL"
    sides = [column, _literal(rng, column)]
    if rng.random() < 0.2:
        sides.reverse()
    return f"{sides[0]} {rng.choice(COMPARISONS)} {sides[1]}"


def random_query(rng: Random, present: Sequence[str]) -> Query:
    """A query over the columns that the table has."""
    plain = [name for name in VALUES if name in present]
    columns = plain + (list(FIELDS) if "st" in present else [])
    if "i" not in present or "l" not in present or "x" not in present or "st" not in present:
        columns = [name for name in columns if name not in ("i", "l", "x")]
    where = f" WHERE {predicate(rng, columns)}" if rng.random() < 0.85 else ""
    kind = rng.random()
    if kind < 0.35:
        every = [*present, *(FIELDS if "st" in present else ())]
        chosen = rng.sample(every, rng.randint(1, min(5, len(every))))
        shown = ", ".join(f"{name} AS c{i}" for i, name in enumerate(chosen))
        return Query(f"SELECT id, {shown} FROM {{t}}{where}", signed_zeros=True)
    functions = ", ".join(_function(rng, columns) for _ in range(rng.randint(1, 4)))
    if kind < 0.6:
        return Query(f"SELECT {functions} FROM {{t}}{where}")
    if kind < 0.72:
        key = rng.choice(columns)
        return Query(f"SELECT {key} AS k, {functions} FROM {{t}}{where} GROUP BY {key}")
    if kind < 0.85:
        key, order = rng.choice(columns), rng.choice(["ASC", "DESC", "ASC NULLS LAST", "DESC NULLS FIRST"])
        return Query(
            f"SELECT id, {key} AS c FROM {{t}}{where} ORDER BY {key} {order}, id LIMIT {rng.randint(0, 20)}", True
        )
    key = rng.choice(columns)
    values = [_literal(rng, key) for _ in range(rng.choice([1, 3, 10]))]
    small = (
        "SELECT * FROM VALUES " + ", ".join(f"({value}, {i % 2})" for i, value in enumerate(values)) + " AS v(k, tag)"
    )
    join = rng.choice(["JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN", "RIGHT JOIN"])
    shown = "{t}.id" if "LEFT" in join else "{t}.id, few.k"
    return Query(f"SELECT {shown} FROM {{t}} {join} ({small}) AS few ON {{t}}.{key} = few.k AND few.tag = 0{where}")


def _function(rng: Random, columns: Sequence[str]) -> str:
    column = rng.choice(columns)
    kind = rng.choice(["count(*)", "count", "min", "max", "sum", "count(DISTINCT"])
    if kind == "count(*)":
        return kind
    if kind == "sum":
        return f"sum(cast({column} AS decimal(38,2)))" if column in ("i", "t", "st.a") else f"count({column})"
    return f"{kind} {column})" if kind.endswith("DISTINCT") else f"{kind}({column})"
