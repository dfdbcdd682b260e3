"""Translations to pyarrow and SQL, against the reference evaluation."""

from __future__ import annotations

import datetime as dt
import math
import pickle
import sqlite3
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from effort import cases
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
)
from headrace.provider import FilterPushdown, pushdown_exact_where_possible
from random_predicates import POOLS, SCHEMA, one_batch, random_predicate, random_table

duckdb = pytest.importorskip("duckdb")

A = Column("a")
RANDOM = given(st.integers(0, 2**32).map(Random))


def lit(value: Any, type_: pa.DataType | None = None) -> Literal:
    return Literal(value, type_ or pa.scalar(value).type)


def cmp(op: Any, value: Any) -> Comparison:
    return Comparison(op, A, lit(value))


def answers(expression: pc.Expression, table: pa.Table) -> list[bool | None]:
    found: list[bool | None] = ds.dataset(table).to_table(columns={"r": expression})["r"].to_pylist()
    return found


# --- pyarrow ---------------------------------------------------------------------------------------------


@settings(max_examples=cases(300), deadline=None)
@RANDOM
def test_to_pyarrow_random_predicates_equal_the_reference(rng: Random) -> None:
    table = random_table(Random(rng.randint(0, 50)), 30)
    expr = random_predicate(rng)
    expected = expr.evaluate(one_batch(table)).to_pylist()
    for schema in (None, SCHEMA):
        expression = expr.to_pyarrow(schema=schema)
        if expression is not None:
            assert answers(expression, table) == expected, (expr, expression)
            assert answers(~expression, table) == [None if x is None else not x for x in expected]


@settings(max_examples=cases(80), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@RANDOM
def test_to_pyarrow_filters_pruned_parquet_exactly(tmp_path: Path, rng: Random) -> None:
    table = random_table(Random(rng.randint(0, 10**6)), 24)
    path = tmp_path / "t.parquet"
    pq.write_table(table.sort_by("d"), path, row_group_size=4)
    columns = "dfei" if rng.random() < 0.5 else "".join(POOLS)
    expr = random_predicate(rng, 2, columns, nested=False)
    expression = expr.to_pyarrow(schema=SCHEMA)
    assert expression is not None or any(isinstance(node, StringMatch) for node in expr.walk())
    if expression is not None:
        kept = ds.dataset(path).to_table(filter=expression, columns=["id"])["id"].to_pylist()
        batch = one_batch(table)
        assert sorted(kept) == batch.filter(expr.evaluate(batch))["id"].to_pylist(), (expr, expression)


def test_to_pyarrow_keeps_nan_that_parquet_statistics_hide(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": [1.0, math.nan], "b": [1.0, math.nan]}), path)
    nan, five = lit(math.nan), lit(5.0)
    for expr in (
        Comparison(">", A, five),
        Not(Comparison("<", A, five)),
        Not(cmp("=", 1.0)),
        Comparison("=", A, nan),
        InList(A, (nan, five)),
        Not(InList(A, (lit(1.0), five))),
        Comparison("<=>", A, nan),
        And(Comparison("=", A, Column("b")), cmp(">", 1.0)),
    ):
        expression = expr.to_pyarrow(schema=pa.schema([("a", pa.float64()), ("b", pa.float64())]))
        kept = ds.dataset(path).to_table(filter=pickle.loads(pickle.dumps(expression)))["a"].to_pylist()
        assert list(map(math.isnan, kept)) == [True], (expr, expression)


PHYSICAL = {
    "i": [pa.int32(), pa.dictionary(pa.int8(), pa.int32())],
    "f": [pa.float32()],
    "n": [pa.decimal128(10, 2), pa.decimal256(10, 2), pa.dictionary(pa.int8(), pa.decimal128(10, 2))],
    "s": [pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())],
    "r": [pa.string(), pa.string_view()],
    "y": [pa.large_binary(), pa.binary_view()],
    "p": [pa.timestamp("ns"), pa.timestamp("us")],
    "z": [pa.timestamp("ns", tz="UTC"), pa.timestamp("us", tz="Europe/Paris")],
    "t": [pa.date64(), pa.date32()],
}


@settings(max_examples=cases(200), deadline=None)
@RANDOM
def test_to_pyarrow_with_schema_allows_for_every_physical_type(rng: Random) -> None:
    table = random_table(Random(rng.randint(0, 50)), 20)
    for name, types in PHYSICAL.items():
        index = table.schema.get_field_index(name)
        type_, column = rng.choice(types), table[name]
        column = column.dictionary_encode() if pa.types.is_dictionary(type_) else column.cast(type_)
        table = table.set_column(index, name, column)
    expr = random_predicate(rng, 2)
    expression = expr.to_pyarrow(schema=table.schema)
    if expression is not None:
        assert answers(expression, table) == expr.evaluate(one_batch(table)).to_pylist(), (expr, expression)


@pytest.mark.parametrize(
    ("column", "expr"),
    [
        (pa.array([1.5, math.nan, None], pa.float16()), Comparison(">", A, lit(2.0, pa.float32()))),
        (pa.array([2**64 - 1, 1], pa.uint64()), Comparison(">", A, lit(Decimal(5), pa.decimal128(20, 0)))),
        (pa.array([255, 0, None], pa.uint8()), Comparison(">", A, lit(-5, pa.int16()))),
        (pa.array([b"ab", b"cd", None], pa.binary(2)), StringMatch("STARTS_WITH", A, lit(b"a"))),
        (pa.array([5, None], pa.duration("us")), Comparison(">", A, lit(dt.timedelta(0), pa.duration("us")))),
        (pa.nulls(2), IsNull(A)),
        (pa.array([{"b": 1}, None]), IsNull(A)),
    ],
)
def test_to_pyarrow_with_schema_of_special_types(column: pa.Array, expr: Expr) -> None:
    table = pa.table({"a": column})
    expression = expr.to_pyarrow(schema=table.schema)
    assert expression is not None
    assert answers(expression, table) == expr.evaluate(one_batch(table)).to_pylist()


@pytest.mark.parametrize(
    "expr",
    [
        Comparison("=", Call("UPPER", (A,)), lit("X")),
        Not(Comparison("=", Call("UPPER", (A,)), lit("X"))),
        And(cmp("=", 1), Comparison("=", Call("ABS", (A,)), lit(1))),
        Call("ANYTHING", (A,)),
        Comparison("=", A, Column("b")),
        Comparison("=", Cast(A, "bigint"), lit(1)),
        Comparison("=", A, lit([1], pa.list_(pa.int64()))),
        StringMatch("CONTAINS", A, Column("b")),
        IsNull(Call("UPPER", (A,))),
        Comparison("<", A, lit(dt.datetime(9999, 12, 31), pa.timestamp("us"))),
    ],
)
def test_to_pyarrow_without_schema_is_none_where_it_cannot_be_exact(expr: Expr) -> None:
    assert expr.to_pyarrow() is None
    assert pushdown_exact_where_possible([expr, cmp("=", 1)]) == [
        FilterPushdown.UNSUPPORTED,
        FilterPushdown.EXACT,
    ]


@pytest.mark.parametrize(
    ("type_", "expr"),
    [
        (pa.string(), Comparison("=", Cast(A, "bigint"), lit(1))),
        (pa.int64(), Comparison("=", Cast(A, "double"), lit(1.0))),
        (pa.string(), Comparison("=", Cast(A, "string collate UTF8_LCASE"), lit("x"))),
        (pa.int64(), cmp("=", "x")),
        (pa.decimal128(5, 2), Comparison("=", A, lit(Decimal("1.005"), pa.decimal128(5, 3)))),
        (pa.timestamp("ns"), Comparison("<", A, lit(dt.datetime(9999, 12, 31), pa.timestamp("us")))),
        (pa.timestamp("us", tz="UTC"), Comparison("<", A, lit(dt.datetime(2024, 1, 1), pa.timestamp("us")))),
        (pa.int64(), A),
        (pa.int64(), cmp("=", True)),
    ],
)
def test_to_pyarrow_with_schema_is_none_where_types_do_not_fit(type_: pa.DataType, expr: Expr) -> None:
    assert expr.to_pyarrow(schema=pa.schema([("a", type_)])) is None


def test_to_pyarrow_with_schema_allows_far_timestamps_in_microseconds() -> None:
    expr = Comparison("<", A, lit(dt.datetime(9999, 12, 31), pa.timestamp("us")))
    schema = pa.schema([("a", pa.timestamp("us"))])
    assert expr.to_pyarrow(schema=schema) is not None
    assert pushdown_exact_where_possible([expr], schema=schema) == [FilterPushdown.EXACT]


def test_to_pyarrow_simple_comparison_stays_simple() -> None:
    assert str(cmp(">", 5).to_pyarrow()) == "(a > 5)"
    assert str(Not(cmp("=", "x")).to_pyarrow()) == '(a != "x")'


# --- SQL -------------------------------------------------------------------------------------------------


def sql_answers(connection: Any, predicate: str) -> list[bool | None]:
    rows = connection.execute(f"SELECT {predicate} FROM t ORDER BY id").fetchall()
    return [None if value is None else bool(value) for (value,) in rows]


def sqlite_of(table: pa.Table) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    connection.execute(
        "CREATE TABLE t (id INTEGER, i INT, l BIGINT, d DOUBLE, e NUMERIC, s TEXT COLLATE NOCASE, "
        "r VARCHAR(9), y BLOB, f FLOAT)"
    )
    names = ["id", "i", "l", "d", "e", "s", "r", "y", "f"]
    rows = zip(*(table[name].to_pylist() for name in names), strict=True)
    connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
    return connection


@settings(max_examples=cases(250), deadline=None)
@RANDOM
def test_to_sql_random_predicates_on_sqlite_equal_the_reference(rng: Random) -> None:
    table = random_table(Random(rng.randint(0, 50)), 30)
    for name in "def":  # SQLite stores NaN as null
        values = [None if x is None or math.isnan(x) else x for x in table[name].to_pylist()]
        index = table.schema.get_field_index(name)
        table = table.set_column(index, SCHEMA.field(name), pa.array(values, SCHEMA.field(name).type))
    expr = random_predicate(rng, 2, "ildesry", nested=False)
    for schema in (None, SCHEMA):
        sql = expr.to_sql("sqlite", schema=schema)
        if sql is not None:
            expected = expr.evaluate(one_batch(table)).to_pylist()
            assert sql_answers(sqlite_of(table), sql) == expected, (expr, sql)


@settings(max_examples=cases(250), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@RANDOM
def test_to_sql_random_predicates_on_duckdb_equal_the_reference(duck_tables: Any, rng: Random) -> None:
    table, connection = duck_tables[rng.randint(0, 3)]
    expr = random_predicate(rng, 2)
    for schema in (None, SCHEMA):
        sql = expr.to_sql("duckdb", schema=schema)
        if sql is not None:
            assert sql_answers(connection, sql) == expr.evaluate(one_batch(table)).to_pylist(), (expr, sql)


@pytest.fixture(scope="module")
def duck_tables() -> list[tuple[pa.Table, Any]]:
    found = []
    for seed in range(4):
        table = random_table(Random(seed), 40)
        connection = duckdb.connect()
        connection.register("arrow", table)
        connection.execute("CREATE TABLE t AS SELECT * REPLACE (s COLLATE NOCASE AS s) FROM arrow")
        connection.execute("ALTER TABLE t ALTER s TYPE VARCHAR COLLATE NOCASE")
        found.append((table, connection))
    return found


DROP = "; DROP TABLE t; --"
HOSTILE = ["'", '"', "\\", f"'{DROP}", f"\\'{DROP}", f'"{DROP}', "%", "$1", ":x", "?", "/* */", "a\nb"]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("dialect", ["sqlite", "duckdb"])
def test_to_sql_hostile_names_and_literals_stay_data(dialect: str, text: str) -> None:
    connection: Any = sqlite3.connect(":memory:") if dialect == "sqlite" else duckdb.connect()
    quoted = '"' + text.replace('"', '""') + '"'
    connection.execute(f"CREATE TABLE t (id INTEGER, {quoted} TEXT)")
    connection.execute("INSERT INTO t VALUES (1, ?), (2, 'x'), (3, NULL)", [text])
    column = Column(text)
    for expr in (
        Comparison("=", column, lit(text)),
        StringMatch("STARTS_WITH", column, lit(text)),
        StringMatch("ENDS_WITH", column, lit(text)),
        StringMatch("CONTAINS", column, lit(text)),
    ):
        sql = expr.to_sql(dialect)
        assert sql is not None
        assert sql_answers(connection, sql) == [True, False, None]


@pytest.mark.parametrize(
    ("expr", "dialect", "sql"),
    [
        (cmp("=", 1), "sqlite", '"a" = 1'),
        (Not(IsNull(A)), "postgres", '"a" IS NOT NULL'),
        (cmp("<", "é"), "postgres", 'CAST("a" AS TEXT) COLLATE "C" < \'é\''),
        (cmp("<", "é"), "duckdb", 'CAST("a" AS TEXT) COLLATE "binary" < \'é\''),
        (cmp("<", "é"), "sqlite", "\"a\" COLLATE BINARY < 'é'"),
        (
            StringMatch("CONTAINS", A, lit("50%_!")),
            "postgres",
            "CAST(\"a\" AS TEXT) COLLATE \"C\" LIKE '%50!%!_!!%' ESCAPE '!'",
        ),
        (cmp("=", math.nan), "postgres", "\"a\" = CAST('NaN' AS DOUBLE PRECISION)"),
        (cmp(">", -math.inf), "postgres", "\"a\" > CAST('-Infinity' AS DOUBLE PRECISION)"),
        (
            Comparison("=", A, lit(Decimal("1.50"), pa.decimal128(10, 2))),
            "postgres",
            "\"a\" = CAST('1.50' AS DECIMAL(10, 2))",
        ),
        (cmp("=", b"\x00\xff"), "postgres", "\"a\" = DECODE('00ff', 'hex')"),
        (cmp("=", dt.date(2024, 2, 29)), "postgres", "\"a\" = CAST('2024-02-29' AS DATE)"),
        (
            Comparison("=", A, lit(dt.datetime(2024, 2, 29, 1), pa.timestamp("us"))),
            "postgres",
            "\"a\" = CAST('2024-02-29 01:00:00' AS TIMESTAMP)",
        ),
        (
            Comparison("=", A, lit(dt.datetime(2024, 2, 29, 1, tzinfo=dt.UTC), pa.timestamp("us", tz="UTC"))),
            "postgres",
            "\"a\" = CAST('2024-02-29 01:00:00+00:00' AS TIMESTAMPTZ)",
        ),
        (cmp("=", True), "postgres", '"a" = TRUE'),
        (Not(InList(A, (lit(1), lit(2)))), "postgres", 'NOT ("a" IN (1, 2))'),
        (InList(A, (lit(1), lit(None, pa.int64()))), "postgres", '"a" = 1 OR CAST(NULL AS BOOLEAN)'),
        (And(Or(cmp("=", 1), IsNull(A)), cmp("<", 3)), "sqlite", '("a" = 1 OR "a" IS NULL) AND "a" < 3'),
        (Comparison("<=>", A, lit(1)), "sqlite", '"a" IS 1'),
        (Comparison("<=>", A, lit(1)), "postgres", '"a" IS NOT DISTINCT FROM 1'),
        (cmp("<", 1.5), "sqlite", 'CAST("a" AS REAL) < 1.5'),
        (IsNull(Column("a", ("b",))), "duckdb", "STRUCT_EXTRACT(\"a\", 'b') IS NULL"),
    ],
)
def test_to_sql_text(expr: Expr, dialect: str, sql: str) -> None:
    assert expr.to_sql(dialect) == sql


@pytest.mark.parametrize(
    ("expr", "dialects"),
    [
        (cmp("=", math.nan), ["sqlite"]),
        (cmp("=", True), ["sqlite"]),
        (cmp("=", dt.date(2024, 1, 1)), ["sqlite"]),
        (Comparison("=", A, lit(Decimal("1.5"), pa.decimal128(10, 2))), ["sqlite"]),
        (Comparison("=", A, lit(dt.datetime(2024, 1, 1), pa.timestamp("us"))), ["sqlite"]),
        (IsNull(Column("a", ("b",))), ["sqlite", "postgres"]),
        (cmp("=", "a\0b"), ["sqlite", "duckdb", "postgres"]),
        (Comparison("=", Column("a\0"), lit(1)), ["sqlite", "duckdb", "postgres"]),
        (StringMatch("CONTAINS", A, lit(b"x")), ["sqlite", "duckdb", "postgres"]),
        (Comparison("=", Call("UPPER", (A,)), lit("X")), ["sqlite", "duckdb", "postgres"]),
        (Or(cmp("=", 1), Call("X", (A,))), ["sqlite", "duckdb", "postgres"]),
        (Comparison("=", A, Column("b")), ["sqlite", "duckdb", "postgres"]),
        (Comparison("=", Cast(A, "bigint"), lit(1)), ["sqlite", "duckdb", "postgres"]),
        (cmp("=", 1), ["mysql", "bigquery", "snowflake"]),
    ],
)
def test_to_sql_is_none_where_the_meaning_differs(expr: Expr, dialects: list[str]) -> None:
    for dialect in dialects:
        assert expr.to_sql(dialect) is None


def test_to_sql_bytewise_column_stands_as_it_is_for_equality_only() -> None:
    b = Column("b")
    for expr, sql in (
        (cmp("=", "x"), "\"a\" = 'x'"),
        (Not(cmp("=", "x")), "NOT (\"a\" = 'x')"),
        (cmp("<=>", "x"), "\"a\" IS NOT DISTINCT FROM 'x'"),
        (InList(A, (lit("x"), lit("y"))), "\"a\" IN ('x', 'y')"),
        (cmp("<", "x"), 'CAST("a" AS TEXT) COLLATE "C" < \'x\''),
        (Comparison("=", b, lit("x")), 'CAST("b" AS TEXT) COLLATE "C" = \'x\''),
    ):
        assert expr.to_sql("postgres", bytewise={"a"}) == sql


def test_to_sql_unknown_dialect_raises() -> None:
    with pytest.raises(ValueError, match="sqlit"):
        cmp("=", 1).to_sql("sqlit")


def test_to_sql_long_chains_run_on_sqlite() -> None:
    chain: Expr = cmp("=", 0)
    for i in range(1, 3000):
        chain = Or(chain, And(cmp("=", i), cmp(">", i - 1)))
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (id INTEGER, a INTEGER)")
    connection.execute("INSERT INTO t VALUES (1, 2999), (2, 3000), (3, NULL)")
    sql = chain.to_sql("sqlite")
    assert sql is not None
    assert sql_answers(connection, sql) == [True, False, None]


@settings(max_examples=cases(200), deadline=None)
@given(st.floats(allow_nan=False))
def test_to_sql_sqlite_reads_every_double_exactly(value: float) -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (id INTEGER, a REAL)")
    connection.execute("INSERT INTO t VALUES (1, ?)", [value])
    sql = cmp("=", value).to_sql("sqlite")
    assert sql is not None
    assert sql_answers(connection, sql) == [True]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_to_pyarrow_timestamp_of_any_zone_and_unit_compares(unit: str, zone: str) -> None:
    instants = [dt.datetime(2020, 1, 1), dt.datetime(2021, 1, 1), None]
    table = pa.table({"x": pa.array(instants, pa.timestamp(unit, zone))})
    june = Literal(dt.datetime(2020, 6, 1, tzinfo=dt.UTC), pa.timestamp("us", "UTC"))
    expression = Comparison(">", Column("x"), june).to_pyarrow(schema=table.schema)
    assert ds.dataset(table).to_table(filter=expression).num_rows == 1
