"""Random queries over a table whose provider does nothing, and whether Headrace's stage answers as Spark does.

A seed makes the rows, the query and the session's settings; for the tests.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import headrace as hr
from parquet_queries import literal
from session_settings import session_settings
from stage_tables import POOLS, Road, of_provider, random_rows

SETTINGS: dict[str, list[str]] = {
    "spark.sql.ansi.enabled": ["true", "false"],
    "spark.sql.adaptive.enabled": ["true", "false"],
    "spark.sql.session.timeZone": ["UTC", "America/Sao_Paulo", "Pacific/Apia"],
    "spark.sql.shuffle.partitions": ["1", "3"],
    "spark.sql.autoBroadcastJoinThreshold": ["10485760", "10485760", "-1"],
    "spark.sql.optimizer.dynamicPartitionPruning.reuseBroadcastOnly": ["true", "false"],
    "spark.sql.parquet.filterPushdown": ["false"],  # Spark's own loses NaN
}
_SUMMED = "tkigmofxe"
"""Columns whose sums do not depend on the order of the rows: none where one order overflows and another does not."""
_COMPUTED_KEYS = ["g % 3", "m % 7", "upper(h)", "year(d)", "i IS NULL", "cast(k AS int)", "length(s)", "g > 1", "st.x"]
_COMPUTED_KEYS += ["cast(t AS bigint) + 1", "CASE WHEN g > 1 THEN h ELSE 'z' END", "x > 0", "coalesce(h, 'none')"]
_COMPUTED_KEYS += ["date_trunc('YEAR', p)"]
_TESTS = ["g % 2 = 1", "m % 5 <> 0", "cast(i AS bigint) + 1 > 0", "x > e", "f < x", "i < m", "upper(h) = 'A'", "s > h"]
_TESTS += ["length(s) > 1", "st.x = 1", "st IS NOT NULL", "size(a) > 0", "year(d) > 1900", "isnan(x)", "x * 2 > 1", "b"]
_TESTS += ["cast(g AS double) < x", "n > 0", "w < n", "d < date'2000-01-01'", "coalesce(g, 0) = 0", "p > z"]
_COMPARISONS = ["=", "<>", "<", "<=", ">", ">=", "<=>"]


@dataclass(frozen=True)
class Query:
    """``text`` has ``{t}`` and ``{u}`` for the tables. ``of``: without its LIMIT, where any rows of these will do."""

    text: str
    ordered: bool = False
    of: str | None = None


class Queries:
    def __init__(self, rng: Random, *, ansi: bool) -> None:
        self._rng = rng
        self._ansi = ansi

    def query(self) -> Query:
        shapes = [self._plain, self._aggregates, self._groups, self._top, self._distinct, self._limit, self._join]
        shapes += [self._nested]
        shape = self._rng.choices(shapes, [4, 5, 8, 4, 2, 2, 4, 3])[0]
        return shape()

    def _plain(self) -> Query:
        shown = ", ".join(f"{name} AS c{i}" for i, name in enumerate(self._some(1, 4, "st", "a")))
        return Query(f"SELECT id, {shown} FROM {{t}}{self._where(0.95)}")

    def _limit(self) -> Query:
        shown = ", ".join(f"{name} AS c{i}" for i, name in enumerate(self._some(1, 3)))
        rows = f"SELECT id, {shown} FROM {{t}}{self._where(0.7, raising=False)}"
        return Query(f"{rows} LIMIT {self._rng.choice([0, 1, 5, 40, 1000])}", of=rows)

    def _top(self) -> Query:
        keys = self._some(1, 2)
        nulls = ["", " NULLS FIRST", " NULLS LAST"]
        order = [f"{key}{self._rng.choice(['', ' DESC'])}{self._rng.choice(nulls)}" for key in keys]
        tied = self._rng.random() < 0.3
        shown = [f"{name} AS c{i}" for i, name in enumerate(keys if tied else ["id", *self._some(1, 3)])]
        cut = f"LIMIT {self._rng.choice([0, 1, 3, 10, 500])}{self._rng.choice(['', '', ' OFFSET 2', ' OFFSET 30'])}"
        by = ", ".join(order if tied else [*order, "id"])
        where = self._where(0.6, raising=False)
        return Query(f"SELECT {', '.join(shown)} FROM {{t}}{where} ORDER BY {by} {cut}", True)

    def _distinct(self) -> Query:
        shown = ", ".join(f"{name} AS c{i}" for i, name in enumerate(self._some(1, 3)))
        return Query(f"SELECT DISTINCT {shown} FROM {{t}}{self._where(0.5)}")

    def _aggregates(self) -> Query:
        return Query(f"SELECT {self._functions()} FROM {{t}}{self._where(0.6)}")

    def _groups(self) -> Query:
        keys = [self._key() for _ in range(self._rng.choice([1, 1, 2, 3]))]
        shown = ", ".join(f"{key} AS k{i}" for i, key in enumerate(keys))
        by = ", ".join(keys)
        draw = self._rng.random()
        by = f"ROLLUP ({by})" if draw < 0.08 else f"CUBE ({by})" if draw < 0.12 else by
        having = self._rng.choice(["", "", " HAVING count(*) > 1", " HAVING max(m) > 0 OR min(id) < 20"])
        return Query(f"SELECT {shown}, {self._functions()} FROM {{t}}{self._where(0.5)} GROUP BY {by}{having}")

    def _join(self) -> Query:
        key = self._rng.choice(["g", "h", "m", "d", "n"])
        on = f"a.{key} {self._rng.choice(['=', '=', '=', '<=>'])} b.{key}"
        right = self._rng.choice(["{u}", "{u}", "{u}", "{t}"])
        kind = self._rng.choice(["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"])
        few = self._where(0.7, "gh") if right == "{u}" else " WHERE id % 5 = 0"
        right = f"(SELECT * FROM {right}{few})"
        left = f"(SELECT * FROM {{t}}{self._where(0.5)})"
        both = f"FROM {left} a {kind} {right} b ON {on}"
        draw = self._rng.random()
        if draw < 0.4 and "SEMI" not in kind and "ANTI" not in kind:
            return Query(f"SELECT a.id AS c0, b.id AS c1 {both}")
        if draw < 0.7:
            return Query(
                f"SELECT a.{key} AS k0, count(*) AS f0, sum(a.m) AS f1_m, max(a.s) AS f2 {both} GROUP BY a.{key}"
            )
        small = f"(SELECT {key} FROM {{u}}{self._where(0.7, 'gh')})"
        test = self._rng.choice([f"{key} IN {small}", f"id > (SELECT max(id) FROM {{u}}{self._where(0.5, 'gh')})"])
        return Query(f"SELECT id, {key} AS c0 FROM {{t}} WHERE {test}{self._and(0.5)}")

    def _nested(self) -> Query:
        inner = f"SELECT * FROM {{t}}{self._where(0.6)}"
        keys = self._some(1, 1)
        return self._rng.choice(
            [
                Query(f"SELECT count(*) AS f0 FROM ({inner} LIMIT {self._rng.choice([0, 3, 50])})"),
                Query(
                    f"SELECT k, f, row_number() OVER (PARTITION BY k % 2 ORDER BY k) AS r FROM "
                    f"(SELECT g AS k, count(*) AS f FROM {{t}}{self._where(0.5)} GROUP BY g)"
                ),
                Query(f"SELECT id, rank() OVER (PARTITION BY g ORDER BY {keys[0]}, id) AS r FROM ({inner})"),
                Query(
                    f"SELECT max(top) AS c0, min(many) AS c1 FROM (SELECT {keys[0]}, count(*) AS many, max(id) AS top "
                    f"FROM {{t}}{self._where(0.5)} GROUP BY {keys[0]})"
                ),
                Query(
                    f"SELECT g AS k0, sum(m) AS f0_m FROM (SELECT g, m FROM {{t}}{self._where(0.5)} "
                    f"UNION ALL SELECT g, m FROM {{u}}) GROUP BY g"
                ),
                Query(
                    f"SELECT a.k AS k0, a.c AS c0, b.c AS c1 FROM "
                    f"(SELECT g AS k, count(*) AS c FROM {{t}}{self._where(0.5)} GROUP BY g) a "
                    "JOIN (SELECT g AS k, max(s) AS c FROM {t} GROUP BY g) b ON a.k = b.k"
                ),
            ]
        )

    def _key(self) -> str:
        if self._rng.random() < 0.65:
            return self._rng.choice([*"gghhb", *POOLS])
        return self._rng.choice(_COMPUTED_KEYS)

    def _functions(self) -> str:
        found = []
        for number in range(self._rng.randint(1, 4)):
            name = self._rng.choice(list(POOLS))
            choices = ["count(*)", "count({})", "min({})", "max({})", "min({})", "max({})"]
            if name in _SUMMED or (name == "l" and not self._ansi):
                choices += ["sum({})"] * 4
            if name in _SUMMED or name in "ln":
                choices += ["avg({})"] * 2
            if name in "tkgm":
                choices += ["sum({} + 1)", "sum(cast({} AS bigint) * 3)", "max({} % 5)", "sum(DISTINCT {})", "min(-{})"]
            if name in "xe":
                choices += ["sum({} * 2)", "max({} + 1)", "sum({} - 0.5D)"]
            choices += ["count(DISTINCT {})"]
            text = self._rng.choice(choices).format(name)
            if self._rng.random() < 0.07:
                text += " FILTER (WHERE g > 1)"
            found.append(f"{text} AS f{number}_{name}")
        if self._rng.random() < 0.1:
            found.append(self._rng.choice(["count(st) AS fs", "count(a) AS fs", "max(st.x) AS fs", "sum(st.x) AS fs"]))
        return ", ".join(found)

    def _some(self, least: int, most: int, *others: str) -> list[str]:
        return self._rng.sample([*POOLS, *others], self._rng.randint(least, most))

    def _where(self, share: float, columns: str = "".join(POOLS), *, raising: bool = True) -> str:
        if self._rng.random() >= share:
            return ""
        tests = [self._condition(columns, 1) for _ in range(self._rng.choice([1, 1, 2, 3]))]
        if raising and self._rng.random() < 0.06:  # last: nobody promises to do the others first
            tests.append(self._rng.choice(["10 / (m - 1) > 1", "cast(h AS int) = 1", "i + 1 > 0", "t * t > 5"]))
        return " WHERE " + " AND ".join(tests)

    def _and(self, share: float) -> str:
        return self._where(share, raising=False).replace(" WHERE ", " AND ", 1)

    def _condition(self, columns: str, depth: int) -> str:
        if depth and self._rng.random() < 0.25:
            legs = [self._condition(columns, depth - 1) for _ in range(2)]
            joined = f" {self._rng.choice(['AND', 'OR', 'OR'])} ".join(legs)
            return f"NOT ({joined})" if self._rng.random() < 0.25 else f"({joined})"
        name = self._rng.choice(columns)
        _, type_, pool = POOLS[name]
        draw = self._rng.random()

        def value() -> str:
            return literal(self._rng.choice(pool), type_)

        if draw < 0.12:
            return f"{name} IS {self._rng.choice(['', 'NOT '])}NULL"
        if draw < 0.25:
            values = [value() for _ in range(self._rng.choice([1, 2, 4, 13]))]
            values += ["NULL"] if self._rng.random() < 0.1 else []
            return f"{name} {self._rng.choice(['', '', 'NOT '])}IN ({', '.join(values)})"
        if draw < 0.35:
            return f"{name} {self._rng.choice(['', 'NOT '])}BETWEEN {value()} AND {value()}"
        if draw < 0.42 and name in "sh":
            pattern = self._rng.choice(["a%", "%b", "%é%", "a_b", "%", ""])
            return f"{name} {self._rng.choice(['', 'NOT '])}LIKE '{pattern}'"
        if draw < 0.5 and columns != "gh":
            return self._rng.choice(_TESTS)
        return f"{name} {self._rng.choice(_COMPARISONS)} {value()}"


QUERIES_A_BLOCK = 10


def compare(ctx: hr.SessionContext, directory: Path, seeds: range, road: Road = of_provider) -> Counter[str]:
    """One query a seed, ten of them on the same rows. Raises AssertionError with what differed, and its seed."""
    counts: Counter[str] = Counter()
    block, data = -1, pa.table({})
    for seed in seeds:
        if seed // QUERIES_A_BLOCK != block:
            block = seed // QUERIES_A_BLOCK
            data = _registered(ctx, directory, block, road)
        rng = Random(seed)
        settings = {name: rng.choice(values) for name, values in SETTINGS.items()}
        query = Queries(rng, ansi=settings["spark.sql.ansi.enabled"] == "true").query()
        with session_settings(ctx.spark, settings):
            wrong = _difference(ctx, query, data, counts)
            said = ctx.explain(query.text.format(t="worked_t", u="worked_u")) if wrong or seed % 3 == 0 else ""
        counts["worked"] += "HEADRACE" in said
        assert wrong is None, f"seed {seed}: {query.text}\n{settings}\n{wrong}\n{said}"
    return counts


def _registered(ctx: hr.SessionContext, directory: Path, block: int, road: Road) -> pa.Table:
    rng = Random(-1 - block)
    data = random_rows(rng, rng.choice([0, 1, 30, 200, 200]))
    few = random_rows(rng, 12)
    for name, rows, size in (("t", data, None), ("u", few, hr.Statistics(12, 4000))):
        file = str(directory / f"{block}-{name}.parquet")
        pq.write_table(rows, file)
        ctx.spark.read.parquet(file).createOrReplaceTempView(f"plain_{name}")
        ctx.register_table(f"worked_{name}", road(file, rng, size), replace=True)
    return data


def _difference(ctx: hr.SessionContext, query: Query, data: pa.Table, counts: Counter[str]) -> str | None:
    found, wanted = (_answer(ctx, query.text.format(t=f"{kind}_t", u=f"{kind}_u")) for kind in ("worked", "plain"))
    if isinstance(found, str) or isinstance(wanted, str):
        counts["failed"] += 1
        if isinstance(found, str) and isinstance(wanted, str) and _condition_of(found) == _condition_of(wanted):
            return None
        return f"here:  {str(found)[:1500]}\nSpark: {str(wanted)[:1500]}"
    if found.schema.types != wanted.schema.types:
        return f"{found.schema} is not {wanted.schema}"
    counts["equal"] += 1
    rows, expected = _values(found), _values(wanted)
    if query.of is not None:
        every = _answer(ctx, query.of.format(t="plain_t", u="plain_u"))
        assert isinstance(every, pa.Table)
        left = Counter(map(repr, _values(every)))
        left.subtract(map(repr, rows))
        if len(rows) != len(expected) or min(left.values(), default=0) < 0:
            return f"{len(rows)} rows, not {len(expected)}, or rows that are none: {rows[:5]}"
        return None
    if len(rows) != len(expected):
        return f"{len(rows)} rows, not {len(expected)}: {rows[:20]}, not {expected[:20]}"
    if not query.ordered:
        rows, expected = sorted(rows, key=_sort_key), sorted(expected, key=_sort_key)
    for one, other in zip(rows, expected, strict=True):
        for name, value, right in zip(found.column_names, one, other, strict=True):
            if not _alike(value, right, _magnitude(data, name)):
                return f"{name} is {value!r}, not {right!r}, in {one!r} and {other!r}"
    return None


def _answer(ctx: hr.SessionContext, query: str) -> pa.Table | str:
    try:
        return ctx.collect(query)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _condition_of(error: str) -> str:
    """Spark's name of what went wrong: ``[ARITHMETIC_OVERFLOW]``."""
    return error.partition("[")[2].partition("]")[0]


def _values(table: pa.Table) -> list[tuple[Any, ...]]:
    """Dates as integers: Python has none of some. -0.0 is 0.0, as groups and extremes make either of the two."""
    columns = []
    for column in table.columns:
        array = column.combine_chunks()
        if pa.types.is_date32(array.type):
            array = array.view(pa.int32())
        elif pa.types.is_timestamp(array.type):
            array = array.view(pa.int64())
        values = array.to_pylist()
        columns.append([0.0 if isinstance(value, float) and value == 0 else value for value in values])
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


def _sort_key(row: tuple[Any, ...]) -> tuple[str, ...]:
    """Exact values first, so that rounding does not change the order."""
    exact = ["" if isinstance(value, float) else repr(value) for value in row]
    return (*exact, *(f"{value:.9g}" for value in row if isinstance(value, float)))


def _magnitude(data: pa.Table, result: str) -> float:
    """Of what was added up for a result such as ``f0_x``; 0 where nothing was."""
    kind, _, column = result.partition("_")
    if not kind.startswith("f") or column not in data.column_names or not pa.types.is_primitive(data[column].type):
        return 0.0
    numbers = [abs(float(value)) for value in data[column].to_pylist() if isinstance(value, (int, float))]
    return math.fsum(value for value in numbers if math.isfinite(value)) * 3 + 1


def _alike(value: Any, wanted: Any, magnitude: float) -> bool:
    if not isinstance(value, float) or not isinstance(wanted, float) or repr(value) == repr(wanted):
        return repr(value) == repr(wanted)
    return magnitude > 0 and math.isclose(value, wanted, rel_tol=1e-9, abs_tol=magnitude * 1e-12)
