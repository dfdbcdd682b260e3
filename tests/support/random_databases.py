"""Rows of awkward values in a database and, as Spark should see them, in a Parquet file; for the tests."""

from __future__ import annotations

import datetime as dt
import math
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import Any

import psycopg
import pyarrow as pa

from random_predicates import DOUBLES, POOLS, TEXTS

_EPOCH_DAY, _EPOCH = dt.date(1970, 1, 1), dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)


@dataclass(frozen=True)
class Odd:
    """A value that Python has no object for: PostgreSQL's text of it, and the integer that Arrow has; None for null."""

    text: str
    number: int | None = None


@dataclass(frozen=True)
class Pool:
    """A column: how PostgreSQL declares it, how Spark sees it, and the values that it may have."""

    declared: str
    type: pa.DataType
    values: Sequence[Any]


INFINITE = [Odd("infinity"), Odd("-infinity")]
LONG_TEXTS = [
    "a" * 3000,
    "a" * 2999 + "b",
    "é" * 1500,
    "z\U0010ffff",
    "ß",
    "ss",
    "I",
    "i",
    "\u0131",
    " a",
    "a ",
    "a  b",
]
DATES = [dt.date(1, 1, 1), dt.date(1582, 10, 4), dt.date(1582, 10, 15), dt.date(1900, 2, 28), dt.date(9999, 12, 31)]
DATES += [dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2024, 2, 29)]
FAR_DATES = [Odd("0044-03-15 BC", -735_160), Odd("12345-01-01", 3_789_391), *INFINITE]
TIMES = [dt.datetime.combine(day, dt.time(23, 59, 59, 999_999)) for day in DATES]
TIMES += [_EPOCH - _MICROSECOND, _EPOCH, dt.datetime(2024, 3, 31, 1, 30), dt.datetime(2024, 10, 27, 1, 30)]
FAR_TIMES = [
    Odd("0044-03-15 00:00:00+00 BC", -63_517_824_000_000_000),
    Odd("294247-01-10 04:00:54.775806+00", 2**63 - 2),
    Odd("294276-12-31 00:00:00+00"),
    *INFINITE,
]
LARGE = [1e308, -1e308, 1.7e308, 1e281, -1e281]
SMALL = [x for x in DOUBLES if not math.isfinite(x) or abs(x) < 1e12]
WIDE = [Decimal("-" + "9" * 26), Decimal("0.1234567891"), Decimal("12345678901234567890123456.0000000001"), Decimal(0)]
FREE = ["0.10", "-5", "123456789012345678901234567890.123456789", "NaN", "0"]

POSTGRES: dict[str, Pool] = {
    "i": Pool("integer", pa.int32(), POOLS["i"][1]),
    "k": Pool("smallint", pa.int16(), [-(2**15), -1, 0, 1, 2, 2**15 - 1]),
    "l": Pool("bigint", pa.int64(), POOLS["l"][1]),
    "f": Pool("real", pa.float32(), POOLS["f"][1]),
    "d": Pool("double precision", pa.float64(), [*DOUBLES, *LARGE]),
    "e": Pool("double precision", pa.float64(), SMALL),
    "n": Pool("numeric(10, 2)", pa.decimal128(10, 2), [*POOLS["n"][1], Odd("NaN")]),
    "m": Pool("numeric(38, 10)", pa.decimal128(38, 10), WIDE),
    "q": Pool("numeric", pa.string(), FREE),
    "s": Pool('text COLLATE "en-x-icu"', pa.string(), [*TEXTS, *LONG_TEXTS]),
    "r": Pool("varchar(4000)", pa.string(), [*TEXTS, *LONG_TEXTS]),
    "c": Pool("char(6)", pa.string(), ["", "a", "A", "é", "ab", "a b"]),
    "y": Pool("bytea", pa.binary(), POOLS["y"][1]),
    "b": Pool("boolean", pa.bool_(), [False, True]),
    "t": Pool("date", pa.date32(), [*DATES, *FAR_DATES]),
    "p": Pool("timestamp", pa.timestamp("us"), [*TIMES, *FAR_TIMES]),
    "z": Pool("timestamptz", pa.timestamp("us", tz="UTC"), [*TIMES, *FAR_TIMES]),
}
_SQLITE_DOUBLES = [x + 0.0 for x in (*DOUBLES, *LARGE) if not math.isnan(x)]  # it keeps neither a NaN nor a -0.0
SQLITE: dict[str, Pool] = {
    "i": Pool("INTEGER", pa.int64(), POOLS["i"][1]),
    "l": Pool("BIGINT", pa.int64(), POOLS["l"][1]),
    "d": Pool("REAL", pa.float64(), _SQLITE_DOUBLES),
    "e": Pool("DOUBLE", pa.float64(), [x for x in _SQLITE_DOUBLES if math.isinf(x) or abs(x) < 1e12]),
    "s": Pool("TEXT COLLATE NOCASE", pa.string(), [*TEXTS, *LONG_TEXTS]),
    "r": Pool("VARCHAR(10)", pa.string(), [*TEXTS, *LONG_TEXTS]),
    "c": Pool("TEXT COLLATE RTRIM", pa.string(), ["", "a", "a ", "A", " "]),
    "y": Pool("BLOB", pa.binary(), POOLS["y"][1]),
}


def random_rows(rng: Random, pools: dict[str, Pool], rows: int) -> dict[str, list[Any]]:
    """Values by column, a fifth of them null; some columns have few different ones, so that groups are large."""
    found: dict[str, list[Any]] = {"id": list(range(rows))}
    for name, pool in pools.items():
        few = rng.sample(list(pool.values), min(len(pool.values), rng.choice([2, 4, 100])))
        found[name] = [None if rng.random() < 0.2 else rng.choice(few) for _ in range(rows)]
    return found


def arrow_table(columns: dict[str, list[Any]], pools: dict[str, Pool]) -> pa.Table:
    """As Spark should see the rows."""
    arrays = [pa.array(columns["id"], pa.int64())]
    for name, pool in pools.items():
        integer = {pa.date32(): pa.int32()}.get(pool.type, pa.int64() if pa.types.is_timestamp(pool.type) else None)
        if integer is None:
            values = [None if isinstance(value, Odd) else value for value in columns[name]]
            arrays.append(pa.array(values, pool.type))
        else:
            arrays.append(pa.array(map(_number, columns[name]), integer).view(pool.type))
    return pa.table(arrays, names=["id", *pools])


def _number(value: Any) -> int | None:
    if value is None or isinstance(value, Odd):
        return None if value is None else value.number
    return (value - _EPOCH) // _MICROSECOND if isinstance(value, dt.datetime) else (value - _EPOCH_DAY).days


def fill_postgres(connection: psycopg.Connection[Any], name: str, columns: dict[str, list[Any]]) -> None:
    declared = ", ".join(["id bigint", *(f"{column} {pool.declared}" for column, pool in POSTGRES.items())])
    connection.execute(f"DROP TABLE IF EXISTS {name}".encode())
    connection.execute(f"CREATE TABLE {name} ({declared})".encode())
    slots = ["%s", *(f"CAST(%s AS {pool.declared.partition(' COLLATE')[0]})" for pool in POSTGRES.values())]
    rows = [[_postgres_value(value) for value in row] for row in zip(*columns.values(), strict=True)]
    connection.cursor().executemany(f"INSERT INTO {name} VALUES ({', '.join(slots)})".encode(), rows)


def _postgres_value(value: Any) -> Any:
    if isinstance(value, Odd):
        return value.text
    return value.isoformat() + "+00" if isinstance(value, dt.datetime) else value


def fill_sqlite(path: str, name: str, columns: dict[str, list[Any]]) -> None:
    declared = ", ".join(["id INTEGER", *(f"{column} {pool.declared}" for column, pool in SQLITE.items())])
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"CREATE TABLE {name} ({declared})")
        slots = ", ".join("?" * len(columns))
        database.executemany(f"INSERT INTO {name} VALUES ({slots})", list(zip(*columns.values(), strict=True)))
        database.commit()
