"""Random queries over a table of ``random_databases``, and whether two tables answer them alike; for the tests."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

import headrace as hr
from random_databases import Odd, Pool, arrow_table, random_rows
from random_predicates import POOLS, random_predicate, spark_sql
from session_settings import session_settings

MakeTable: TypeAlias = Callable[[dict[str, list[Any]], Random], hr.AdbcTable]

SETTINGS: dict[str, list[str]] = {
    "spark.sql.ansi.enabled": ["true", "false"],
    "spark.sql.session.timeZone": ["UTC", "America/Sao_Paulo", "Asia/Kolkata", "Pacific/Apia"],
    "spark.sql.adaptive.enabled": ["true", "false"],
    "spark.sql.optimizer.datasourceV2JoinPushdown": ["true", "false"],
    "spark.sql.shuffle.partitions": ["1", "3"],
    "spark.sql.parquet.filterPushdown": ["false"],  # Spark's own loses rows there: those of ``x <=> NaN``
}
_OPERATORS = ["=", "<>", "<", "<=", ">", ">=", "<=>"]
_NAMES = {pa.date32(): "DATE", pa.timestamp("us"): "TIMESTAMP_NTZ", pa.timestamp("us", tz="UTC"): "TIMESTAMP"}
_SUMMED = "ikfden"
_ROWS = 60


def random_settings(rng: Random) -> dict[str, str]:
    return {name: rng.choice(values) for name, values in SETTINGS.items()}


class Queries:
    """Queries with ``{t}`` for the table's name. ``pools`` are its columns."""

    def __init__(self, rng: Random, pools: dict[str, Pool]) -> None:
        self._rng = rng
        self._pools = pools
        self._shared = "".join(name for name in pools if name in POOLS)

    def query(self) -> tuple[str, bool]:
        """The text, and whether the order of its rows matters."""
        shapes = [self._rows, self._aggregates, self._groups, self._top, self._distinct, self._join]
        shape = self._rng.choices(shapes, [6, 3, 3, 3, 2, 2])[0]
        return shape(), shape == self._top

    def _rows(self) -> str:
        return f"SELECT {', '.join(self._some(1, 5))} FROM {{t}}{self._where(0.95)}"

    def _aggregates(self) -> str:
        return f"SELECT {self._functions()} FROM {{t}}{self._where(0.5)}"

    def _groups(self) -> str:
        keys = ", ".join(self._some(1, 2))
        return f"SELECT {keys}, {self._functions()} FROM {{t}}{self._where(0.5)} GROUP BY {keys}"

    def _distinct(self) -> str:
        return f"SELECT DISTINCT {', '.join(self._some(1, 3))} FROM {{t}}{self._where(0.5)}"

    def _top(self) -> str:
        nulls = ["", " NULLS FIRST", " NULLS LAST"]
        keys = [f"{name}{self._rng.choice(['', ' DESC'])}{self._rng.choice(nulls)}" for name in self._some(1, 2)]
        cut = f"LIMIT {self._rng.choice([1, 3, 10, 100])}{self._rng.choice(['', ' OFFSET 2', ' OFFSET 30'])}"
        columns = ", ".join(["id", *self._some(1, 3)])
        return f"SELECT {columns} FROM {{t}}{self._where(0.5)} ORDER BY {', '.join(keys)}, id {cut}"

    def _join(self) -> str:
        key = self._rng.choice(list(self._pools))
        how = self._rng.choice(["JOIN", "LEFT JOIN"])
        left, right = (f"(SELECT id, {key} FROM {{t}}{self._where(0.9)})" for _ in range(2))
        return f"SELECT a.id AS x, b.id AS y FROM {left} a {how} {right} b ON a.{key} = b.{key}"

    def _some(self, least: int, most: int) -> list[str]:
        return self._rng.sample(list(self._pools), self._rng.randint(least, most))

    def _functions(self) -> str:
        found = ["count(*) AS f0"]
        for number in range(self._rng.randint(1, 3)):
            name = self._rng.choice(list(self._pools))
            choices = ["count({})", "count(DISTINCT {})", "min({})", "max({})"]
            choices += ["sum({})", "avg({})"] * 2 if name in _SUMMED else []
            choices += ["sum(DISTINCT {})"] if name in "ik" else []
            found.append(f"{self._rng.choice(choices).format(name)} AS f{number + 1}_{name}")
        return ", ".join(found)

    def _where(self, share: float) -> str:
        if self._rng.random() >= share:
            return ""
        return " WHERE " + " AND ".join(self._condition() for _ in range(self._rng.choice([1, 1, 2, 3])))

    def _condition(self) -> str:
        if self._rng.random() < 0.5:
            return spark_sql(random_predicate(self._rng, 2, self._shared, nested=False))
        name = self._rng.choice(list(self._pools))
        draw = self._rng.random()
        if draw < 0.2:
            values = ", ".join(self._literal(name) for _ in range(self._rng.choice([1, 3, 20])))
            return f"({name} {self._rng.choice(['IN', 'NOT IN'])} ({values}))"
        if draw < 0.35:
            return f"({name} BETWEEN {self._literal(name)} AND {self._literal(name)})"
        if draw < 0.45:
            return f"({name} IS {self._rng.choice(['', 'NOT '])}NULL)"
        if draw < 0.6 and self._pools[name].type == pa.string():
            pattern = self._rng.choice(["a%", "%b", "%é%", "A%", "a_b", "%\\\\%%", "", "%"])
            return f"({name} {self._rng.choice(['LIKE', 'NOT LIKE'])} '{pattern}')"
        return f"({name} {self._rng.choice(_OPERATORS)} {self._literal(name)})"

    def _literal(self, name: str) -> str:
        pool = self._pools[name]
        value = self._rng.choice([value for value in pool.values if not isinstance(value, Odd)])
        return _literal(value, pool.type)


def _literal(value: Any, type_: pa.DataType) -> str:
    if isinstance(value, str):
        return f"CAST(X'{value.encode().hex()}' AS STRING)"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Decimal):
        return f"CAST('{value:f}' AS DECIMAL({type_.precision}, {type_.scale}))"
    if isinstance(value, float):
        return f"CAST('{value}' AS {'FLOAT' if type_ == pa.float32() else 'DOUBLE'})"
    if isinstance(value, dt.date):
        return f"CAST('{value}{'+00:00' if isinstance(value, dt.datetime) and type_.tz else ''}' AS {_NAMES[type_]})"
    return f"CAST('{value}' AS BIGINT)"


def compare_part(
    ctx: hr.SessionContext, directory: Path, seeds: range, pools: dict[str, Pool], make: MakeTable
) -> None:
    """One query a seed, ten of them on the same rows. Raises AssertionError with the seed of the first that differs.

    ``make(columns, rng)`` puts the rows into a database and gives the table.
    """
    block, plain = -1, pa.table({})
    pushed: list[str] = []
    for seed in seeds:
        if seed // 10 != block:
            block = seed // 10
            rng = Random(-block)
            columns = random_rows(rng, pools, _ROWS)
            plain = arrow_table(columns, pools)
            file = str(directory / f"{block}.parquet")
            pq.write_table(plain, file)
            ctx.spark.read.parquet(file).createOrReplaceTempView("plain")
            ctx.register_table("random_rows", make(columns, rng), replace=True)
        rng = Random(seed)
        query, ordered = Queries(rng, pools).query()
        settings = random_settings(rng)
        with session_settings(ctx.spark, settings):
            wrong = compare(ctx, ("random_rows", "plain"), query, ordered, magnitudes_of(plain))
            if wrong is not None or seed % 10 == 0:
                pushed.append(ctx.explain(query.format(t="random_rows")))
        assert wrong is None, f"seed {seed}: {query}\n{settings}\n{wrong}\n{pushed[-1]}"
    assert [text for text in pushed if "EXACT" in text or "COMPLETE" in text], "nothing was pushed"


def compare(ctx: hr.SessionContext, tables: Sequence[str], query: str, ordered: bool, magnitudes: Any) -> str | None:
    """None where both tables, the database's and Spark's, give the same; else what differs."""
    found, expected = (_answer(lambda name=name: ctx.collect(query.format(t=name))) for name in tables)
    if isinstance(expected, str):
        return None if isinstance(found, str) or "OVERFLOW" in expected else f"Spark fails, this not: {expected[:500]}"
    if isinstance(found, str):
        return f"fails, Spark does not: {found[:2000]}"
    if found.schema.types != expected.schema.types:
        return f"{found.schema} is not {expected.schema}"
    rows = [_rows(table, query) for table in (found, expected)]
    if not ordered:
        rows = [sorted(one, key=_sort_key) for one in rows]
    if len(rows[0]) != len(rows[1]):
        return f"{len(rows[0])} rows, not {len(rows[1])}"
    for one, other in zip(*rows, strict=True):
        for name, value, wanted in zip(found.column_names, one, other, strict=True):
            if not _alike(value, wanted, magnitudes.get(name.rpartition("_")[2], 0.0)):
                return f"{name} is {value!r}, not {wanted!r}, in {one!r} and {other!r}"
    return None


def _answer(collect: Callable[[], pa.Table]) -> pa.Table | str:
    try:
        return collect()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _rows(table: pa.Table, query: str) -> list[tuple[Any, ...]]:
    """Dates as integers: Python has none of some. -0.0 is 0.0 where groups or extremes make one of the two."""
    columns = []
    for column in table.combine_chunks().columns:
        array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        if pa.types.is_date32(array.type):
            array = array.view(pa.int32())
        elif pa.types.is_timestamp(array.type):
            array = array.view(pa.int64())
        values = array.to_pylist()
        if pa.types.is_floating(array.type) and ("(" in query.partition(" FROM ")[0] or "DISTINCT" in query):
            values = [0.0 if value == 0 else value for value in values]
        columns.append(values)
    return list(zip(*columns, strict=True))


def _sort_key(row: tuple[Any, ...]) -> tuple[str, ...]:
    """Exact values first, so that rounding does not change the order."""
    exact = ["" if isinstance(value, float) else repr(value) for value in row]
    return (*exact, *(f"{value:.9g}" for value in row if isinstance(value, float)))


def _alike(value: Any, wanted: Any, magnitude: float) -> bool:
    """``magnitude``: of what was added up, if anything was; additions in another order round otherwise."""
    if not isinstance(value, float) or not isinstance(wanted, float):
        return bool(value == wanted)
    if repr(value) == repr(wanted):
        return True
    if not magnitude:
        return False
    if math.isinf(magnitude) and not math.isnan(value) and not math.isnan(wanted):
        return True  # whether it overflows depends on the order
    return math.isclose(value, wanted, rel_tol=1e-9, abs_tol=magnitude * 1e-12)


def magnitudes_of(table: pa.Table) -> dict[str, float]:
    """The sum of the absolute finite values of each column of numbers."""
    return {
        name: math.fsum(abs(float(x)) / 2**20 for x in table[name].to_pylist() if x is not None and math.isfinite(x))
        * 2**20
        for name in table.column_names
        if name in _SUMMED
    }
