"""``Expr.to_sql("postgres")`` on a real PostgreSQL whose locale is not C, against the reference evaluation."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from effort import cases
from headrace.expr.nodes import Column, Comparison, Literal, StringMatch
from random_predicates import POOLS, SCHEMA, one_batch, random_predicate, random_table

if TYPE_CHECKING:
    from postgres import Postgres

pytestmark = [pytest.mark.timeout(300), pytest.mark.daily]

TYPES = {
    "i": "integer", "l": "bigint", "f": "real", "d": "double precision", "e": "double precision",
    "n": "numeric(10, 2)", "s": 'text COLLATE "en-x-icu"', "r": "varchar(9)", "y": "bytea", "b": "boolean",
    "t": "date", "p": "timestamp", "z": "timestamptz",
}  # fmt: skip
TABLES = 4


@pytest.fixture(scope="module")
def tables(postgres: Postgres) -> Iterator[tuple[Any, list[pa.Table]]]:
    """A connection, and four tables ``t0`` ... ``t3`` that are in the database and here."""
    found = []
    with psycopg.connect(postgres.uri, autocommit=True) as connection:
        assert connection.execute("SELECT 'a' < 'B'").fetchone() == (True,), "the locale sorts like C"
        assert connection.execute("SHOW server_encoding").fetchone() == ("UTF8",)
        for number in range(TABLES):
            table = random_table(Random(number), 40).select(["id", *POOLS])
            columns = ", ".join(f'"{name}" {TYPES.get(name, "bigint")}' for name in table.column_names)
            connection.execute(f"CREATE TABLE t{number} ({columns})")
            row = ", ".join(["%s"] * table.num_columns)
            values = zip(*(column.to_pylist() for column in table.columns), strict=True)
            connection.cursor().executemany(f"INSERT INTO t{number} VALUES ({row})", list(values))
            found.append(table)
        yield connection, found


@settings(max_examples=cases(300), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32).map(Random))
def test_to_sql_random_predicates_on_postgres_equal_the_reference(
    tables: tuple[Any, list[pa.Table]], rng: Random
) -> None:
    connection, candidates = tables
    number = rng.randrange(TABLES)
    expr = random_predicate(rng, 2, nested=False)
    for schema in (None, SCHEMA):
        sql = expr.to_sql("postgres", schema=schema)
        if sql is not None:
            query = f"SELECT {sql} FROM t{number} ORDER BY id"
            answers = [answer for (answer,) in connection.execute(query.encode()).fetchall()]
            assert answers == expr.evaluate(one_batch(candidates[number])).to_pylist(), (expr, sql)


@pytest.mark.parametrize("conforming", ["on", "off"])
@pytest.mark.parametrize(
    "text", ["'", '"', "\\", "\\\\", "a\\'b\\", "\\'; DROP TABLE h; --", "%", "_", "!", "$1", ":x", "a\nb"]
)
def test_to_sql_hostile_names_and_literals_stay_data(
    tables: tuple[Any, list[pa.Table]], text: str, conforming: str
) -> None:
    """Whatever the session says that a backslash in a string means."""
    connection, _ = tables
    connection.execute(f"SET standard_conforming_strings = {conforming}")
    name = '"' + text.replace('"', '""') + '"'
    connection.execute("DROP TABLE IF EXISTS h")
    connection.execute(f"CREATE TABLE h (id int, {name} text)")
    connection.execute("INSERT INTO h VALUES (1, %s), (2, 'x'), (3, NULL)", [text])
    literal = Literal(text, pa.string())
    for expr in (
        Comparison("=", Column(text), literal),
        *(StringMatch(op, Column(text), literal) for op in ("STARTS_WITH", "ENDS_WITH", "CONTAINS")),
    ):
        sql = expr.to_sql("postgres")
        assert sql is not None
        found = connection.execute(f"SELECT {sql} FROM h ORDER BY id".encode()).fetchall()
        assert [answer for (answer,) in found] == [True, False, None]
