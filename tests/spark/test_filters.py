"""What Spark's WHERE becomes on its way to a provider, and what each answer does to plan and rows."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import headrace as hr
from headrace import And, Call, Cast, Column, Comparison, InList, IsNull, Literal, Not, Or, StringMatch
from headrace.expr.not_null import not_null_columns
from recording import Recorder, exact, executed_nodes, inexact, plan_text, table_of
from versions import has

pytestmark = [pytest.mark.core, pytest.mark.usefixtures("provider_alone")]

SCHEMA = pa.schema(
    {
        "b": pa.bool_(),
        "i8": pa.int8(),
        "i16": pa.int16(),
        "i32": pa.int32(),
        "i64": pa.int64(),
        "f32": pa.float32(),
        "f64": pa.float64(),
        "d": pa.date32(),
        "ts": pa.timestamp("us", "UTC"),
        "ntz": pa.timestamp("us"),
        "dec": pa.decimal128(10, 2),
        "big": pa.decimal128(38, 4),
        "s": pa.string(),
        "bin": pa.binary(),
        "du": pa.duration("us"),
        "st": pa.struct([("a", pa.int64()), ("n", pa.struct([("x", pa.string())]))]),
        "arr": pa.list_(pa.int32()),
        "odd name.`q`": pa.int64(),
    }
)


def compare(op: Any, name: str, value: Any, type_: pa.DataType | None = None) -> Comparison:
    return Comparison(op, Column(name), Literal(value, type_ or SCHEMA.field(name).type))


def not_null(name: str, *path: str) -> hr.Expr:
    return Not(IsNull(Column(name, path)))


I64, S, D = Column("i64"), Column("s"), Column("d")
LONG, STRING = pa.int64(), pa.string()
OFFERED: dict[str, tuple[hr.Expr, ...]] = {
    "b": (not_null("b"), compare("=", "b", True)),
    "NOT b": (not_null("b"), Not(compare("=", "b", True))),
    "i8 = 1": (not_null("i8"), compare("=", "i8", 1)),
    "i16 >= 2": (not_null("i16"), compare(">=", "i16", 2)),
    "i32 < 7": (not_null("i32"), compare("<", "i32", 7)),
    "1 < i64": (not_null("i64"), compare(">", "i64", 1)),
    "i64 != 5": (not_null("i64"), Not(compare("=", "i64", 5))),
    "i64 <=> 5": (compare("<=>", "i64", 5),),
    "f32 > 1.5": (not_null("f32"), compare(">", "f32", 1.5)),
    "f64 = double('NaN')": (not_null("f64"), compare("=", "f64", float("nan"))),
    "f64 < double('inf')": (not_null("f64"), compare("<", "f64", float("inf"))),
    "d = DATE '2024-02-29'": (not_null("d"), compare("=", "d", dt.date(2024, 2, 29))),
    "ts >= TIMESTAMP '2024-01-01 00:00:00.5Z'": (
        not_null("ts"),
        compare(">=", "ts", dt.datetime(2024, 1, 1, 0, 0, 0, 500_000, dt.UTC)),
    ),
    "ntz < TIMESTAMP_NTZ '1900-01-01 00:00:00.000001'": (
        not_null("ntz"),
        compare("<", "ntz", dt.datetime(1900, 1, 1, 0, 0, 0, 1)),
    ),
    "dec = 1.5": (not_null("dec"), compare("=", "dec", Decimal("1.50"))),
    "big <= -12345678901234567890.5": (not_null("big"), compare("<=", "big", Decimal("-12345678901234567890.5000"))),
    "s = 'it\\'s'": (not_null("s"), compare("=", "s", "it's")),
    "s = 'it''s'": (not_null("s"), compare("=", "s", "it's" if has("doubled quotes") else "its")),
    "bin = X'00FF'": (not_null("bin"), compare("=", "bin", b"\x00\xff")),
    "s LIKE 'a%'": (not_null("s"), StringMatch("STARTS_WITH", S, Literal("a", STRING))),
    "s LIKE '%a'": (not_null("s"), StringMatch("ENDS_WITH", S, Literal("a", STRING))),
    "s LIKE '%a%'": (not_null("s"), StringMatch("CONTAINS", S, Literal("a", STRING))),
    "s NOT LIKE 'a%'": (not_null("s"), Not(StringMatch("STARTS_WITH", S, Literal("a", STRING)))),
    "s IN ('a', 'b', NULL)": (InList(S, (Literal("a", STRING), Literal("b", STRING), Literal(None, STRING))),),
    "i64 NOT IN (1, 2)": (Not(InList(I64, (Literal(1, LONG), Literal(2, LONG)))),),
    "i64 IS NULL": (IsNull(I64),),
    "i64 IS NOT NULL": (not_null("i64"),),
    "i64 = 1 OR s = 'x'": (Or(compare("=", "i64", 1), compare("=", "s", "x")),),
    "NOT (i64 = 1 OR s = 'x')": (
        not_null("i64"),
        not_null("s"),
        Not(compare("=", "i64", 1)),
        Not(compare("=", "s", "x")),
    ),
    "i64 BETWEEN 1 AND 5": (not_null("i64"), compare(">=", "i64", 1), compare("<=", "i64", 5)),
    "(i64 = 1 AND i32 = 2) OR (i64 = 3 AND i32 = 4)": (
        Or(
            And(compare("=", "i64", 1), compare("=", "i32", 2)),
            And(compare("=", "i64", 3), compare("=", "i32", 4)),
        ),
    ),
    "st.a = 1": (not_null("st", "a"), Comparison("=", Column("st", ("a",)), Literal(1, LONG))),
    "st.n.x = 'q'": (not_null("st", "n", "x"), Comparison("=", Column("st", ("n", "x")), Literal("q", STRING))),
    "st IS NOT NULL": (not_null("st"),),
    "i64 = i32": (not_null("i64"), not_null("i32"), Comparison("=", I64, Cast(Column("i32"), "bigint"))),
    "i64 + 1 = 5": (not_null("i64"), Comparison("=", Call("+", (I64, Literal(1, LONG))), Literal(5, LONG))),
    "upper(s) = 'X'": (not_null("s"), Comparison("=", Call("UPPER", (S,)), Literal("X", STRING))),
    "year(d) = 2024": (not_null("d"), Comparison("=", Call("EXTRACT_YEAR", (D,)), Literal(2024, pa.int32()))),
    "coalesce(i64, 0) = 1": (Comparison("=", Call("COALESCE", (I64, Literal(0, LONG))), Literal(1, LONG)),),
    "`odd name.``q``` = 3": (not_null("odd name.`q`"), compare("=", "odd name.`q`", 3)),
    # What Headrace has no form for is not offered; the IS NOT NULL that Spark infers is.
    "s RLIKE 'a'": (not_null("s"),),
    "du > INTERVAL '1' DAY": (not_null("du"),),
    "d > DATE '+10000-01-01'": (not_null("d"),),
    "ts < TIMESTAMP '+12345-01-01 00:00:00Z'": (not_null("ts"),),
}
TEXTS = {
    "i64 BETWEEN 1 AND 5": ["i64 IS NOT NULL", "i64 >= 1", "i64 <= 5"],
    "i64 != 5": ["i64 IS NOT NULL", "i64 != 5"],
    "s IN ('a', 'b', NULL)": ["s IN ('a', 'b', NULL)"],
    "(i64 = 1 AND i32 = 2) OR (i64 = 3 AND i32 = 4)": ["((i64 = 1) AND (i32 = 2)) OR ((i64 = 3) AND (i32 = 4))"],
    "ts >= TIMESTAMP '2024-01-01 00:00:00.5Z'": [
        "ts IS NOT NULL",
        "ts >= TIMESTAMP '2024-01-01 00:00:00.500000+00:00'",
    ],
    "dec = 1.5": ["dec IS NOT NULL", "dec = 1.50"],
    "bin = X'00FF'": ["bin IS NOT NULL", "bin = X'00FF'"],
    "st.n.x = 'q'": ["st.n.x IS NOT NULL", "st.n.x = 'q'"],
    "`odd name.``q``` = 3": ["`odd name.``q``` IS NOT NULL", "`odd name.``q``` = 3"],
    "year(d) = 2024": ["d IS NOT NULL", "EXTRACT(YEAR FROM d) = 2024"],
}


def planned(frame: DataFrame) -> DataFrame:
    """Have Spark plan the query; nothing runs."""
    frame._jdf.queryExecution().executedPlan()
    return frame


@pytest.fixture(scope="module")
def shared(spark: SparkSession) -> Iterator[hr.SessionContext]:
    """One context for the tests that only plan."""
    with hr.SessionContext(spark) as context:
        yield context


@pytest.mark.daily(every=4)
@pytest.mark.parametrize("condition", OFFERED)
def test_filter_offered_is_the_expression_of_the_condition(shared: hr.SessionContext, condition: str) -> None:
    provider = Recorder(SCHEMA, [[]], answer=inexact)
    shared.register_table("offered", provider, replace=True)
    planned(shared.sql(f"SELECT i64 FROM offered WHERE {condition}"))
    assert provider.conjuncts() == OFFERED[condition]
    assert provider.request().filters == OFFERED[condition]
    if condition in TEXTS:
        assert list(map(repr, provider.conjuncts())) == TEXTS[condition]


@pytest.mark.daily
def test_filter_deep_chain_of_ors_is_left_to_spark(ctx: hr.SessionContext) -> None:
    provider = table_of(pa.table({"i": range(300), "j": range(300)}), answer=exact)
    ctx.register_table("t", provider)
    legs: list[SparkColumn] = [(F.col("i") == i) & (F.col("j") == i) for i in range(150)]
    assert ctx.table("t").where(reduce(lambda a, b: a | b, legs)).count() == 150
    assert provider.asked("filters") == []


@pytest.mark.parametrize(
    "condition",
    [
        "s = CAST(X'ff' AS STRING)",
        "s != CAST(X'ff' AS STRING)",
        "s >= CAST(X'ff' AS STRING)",
        "s IN ('a', CAST(X'ff' AS STRING))",
        "startswith(s, CAST(X'ff' AS STRING))",
        "s = CAST(X'EDA080' AS STRING) OR s = 'a'",
    ],
)
def test_filter_text_that_is_no_utf8_is_left_to_spark(ctx: hr.SessionContext, condition: str) -> None:
    rows = pa.table({"s": ["\ufffd", "\ufffd\ufffd\ufffd", "a", "\U0010ffff", None]})
    ctx.register_table("t", hr.MemTable(rows))
    recorder = table_of(rows, answer=inexact)
    ctx.register_table("recorded", recorder)
    expected = ctx.spark.createDataFrame(rows).where(condition).toArrow()
    assert ctx.collect(f"SELECT * FROM t WHERE {condition}").equals(expected)
    assert ctx.collect(f"SELECT * FROM recorded WHERE {condition}").equals(expected)
    offered = [expr for filters in recorder.asked("filters") for expr in filters]
    assert offered in ([], [not_null("s")])


def test_filter_text_that_is_the_replacement_character_is_offered(shared: hr.SessionContext) -> None:
    provider = Recorder(SCHEMA, [[]], answer=inexact)
    shared.register_table("offered", provider, replace=True)
    planned(shared.sql("SELECT i64 FROM offered WHERE s = CAST(X'EFBFBD' AS STRING)"))
    assert provider.conjuncts() == (not_null("s"), compare("=", "s", "\ufffd"))


DATA = pa.table(
    {
        "i": pa.array([1, 2, None, 4, 5, 6, 7, None], pa.int64()),
        "s": pa.array(["a", None, "ab", "b", "", "aa", "c", None]),
        "x": pa.array(range(8)),
    }
)
MASKS: dict[str, Callable[[pa.RecordBatch], pa.Array]] = {
    "i > 2": lambda b: pc.greater(b["i"], 2),
    "i IS NOT NULL": lambda b: pc.is_valid(b["i"]),
    "s IS NOT NULL": lambda b: pc.is_valid(b["s"]),
    "STARTS_WITH(s, 'a')": lambda b: pc.starts_with(b["s"], "a"),
    "i IN (1, 4, 7)": lambda b: pc.is_in(b["i"], pa.array([1, 4, 7])),
    "(i = 1) OR (s = 'c')": lambda b: pc.or_kleene(pc.equal(b["i"], 1), pc.equal(b["s"], "c")),
    "i IS NULL": lambda b: pc.is_null(b["i"]),
}


def kept(batch: pa.RecordBatch, request: hr.ScanRequest) -> pa.RecordBatch:
    for expr in request.filters:
        batch = batch.filter(MASKS[repr(expr)](batch))
    return batch


def understood(answer: hr.FilterPushdown) -> Callable[[hr.Expr], hr.FilterPushdown]:
    return lambda expr: answer if repr(expr) in MASKS else hr.FilterPushdown.UNSUPPORTED


FAR = [dt.datetime(1, 1, 1), dt.datetime(2024, 1, 1), dt.datetime(9999, 12, 31), None]
NEAR = [dt.datetime(1700, 1, 1), dt.datetime(2024, 1, 1), None, dt.datetime(2262, 1, 1)]
INSTANTS = pa.table(
    {
        "ns": pa.array(NEAR, pa.timestamp("ns")),
        "us": pa.array(FAR, pa.timestamp("us")),
        "ms": pa.array(FAR, pa.timestamp("ms")),
        "nz": pa.array(NEAR, pa.timestamp("ns", "UTC")),
        "uz": pa.array(FAR, pa.timestamp("us", "UTC")),
        "d": pa.array([None if at is None else at.date() for at in FAR], pa.date32()),
        "st": pa.array([{"n": at} for at in NEAR], pa.struct([("n", pa.timestamp("ns"))])),
        "dn": pa.array([dt.timedelta(1)] * 4, pa.duration("ns")),
        "du": pa.array([dt.timedelta(days) for days in (-(10**8), 1, 10**8, 2)], pa.duration("us")),
    }
)
OTHER_RANGE = ["ns = us", "us = ns", "ns != us", "NOT ns >= us", "ns <=> us", "ns < ms", "nz > uz", "ns < d"]
OTHER_RANGE += ["st.n < us", "dn < du", "ns < TIMESTAMP_NTZ '9999-01-01'", "nz > TIMESTAMP '0001-01-01 00:00:00Z'"]
OTHER_RANGE += ["ns IN (TIMESTAMP_NTZ '9999-01-01', TIMESTAMP_NTZ '2024-01-01')", "ns = us OR us IS NULL"]
OTHER_RANGE += ["ns > TIMESTAMP_NTZ '2262-04-11 23:47:16.854776'", "ns > TIMESTAMP_NTZ '1677-09-21 00:12:43.145224'"]


@pytest.mark.daily("parquet")
@pytest.mark.parametrize("kind", ["memory", "parquet"])
def test_filter_nanoseconds_against_what_they_cannot_hold_answers_as_spark(
    ctx: hr.SessionContext, tmp_path: Path, kind: str
) -> None:
    pq.write_table(INSTANTS, tmp_path / "instants.parquet")
    ctx.register_table("t", hr.MemTable(INSTANTS) if kind == "memory" else hr.DatasetTable(ds.dataset(tmp_path)))
    ctx.register_table("plain", table_of(INSTANTS))
    for condition in OTHER_RANGE:
        found, expected = (ctx.collect(f"SELECT ns, us FROM {name} WHERE {condition}") for name in ("t", "plain"))
        assert found.equals(expected), condition


CONDITIONS = ["i > 2", "s LIKE 'a%'", "i IN (1, 4, 7)", "i = 1 OR s = 'c'", "i IS NULL", "i > 2 AND s LIKE 'a%'"]


@pytest.mark.parametrize("answer", list(hr.FilterPushdown))
def test_filter_any_honest_answer_gives_the_rows_spark_finds(ctx: hr.SessionContext, answer: hr.FilterPushdown) -> None:
    skipped = kept if answer is not hr.FilterPushdown.UNSUPPORTED else None
    ctx.register_table("t", table_of(DATA, 2, answer=understood(answer), keep=skipped))
    ctx.spark.createDataFrame(DATA).createOrReplaceTempView("plain")
    for condition in CONDITIONS:
        frame = ctx.sql(f"SELECT x, i, s FROM t WHERE {condition}")
        expected = ctx.spark.sql(f"SELECT x, i, s FROM plain WHERE {condition}")
        assert Counter(frame.collect()) == Counter(expected.collect()), condition
        assert ("FilterExec" in executed_nodes(frame)) == (answer is not hr.FilterPushdown.EXACT), condition
        word = f": {answer.name}"
        assert word in plan_text(frame), condition
    ctx.spark.catalog.dropTempView("plain")


def test_filter_exact_only_drops_its_column_from_the_projection(ctx: hr.SessionContext) -> None:
    provider = table_of(DATA, answer=exact, keep=kept)
    ctx.register_table("t", provider)
    frame = planned(ctx.sql("SELECT x FROM t WHERE i > 2"))
    assert provider.request().projection == ("x",)
    assert list(map(repr, provider.request().filters)) == ["i IS NOT NULL", "i > 2"]
    assert "FilterExec" not in executed_nodes(frame)
    assert sorted(row.x for row in frame.collect()) == [3, 4, 5, 6]


def test_filter_inexact_keeps_its_column_in_the_projection(ctx: hr.SessionContext) -> None:
    provider = table_of(DATA, answer=inexact, keep=kept)
    ctx.register_table("t", provider)
    planned(ctx.sql("SELECT x FROM t WHERE i > 2"))
    assert set(provider.request().projection) == {"x", "i"}


def test_filter_mixed_answers_pass_on_the_used_ones_only(ctx: hr.SessionContext) -> None:
    answers = {"i > 2": hr.FilterPushdown.EXACT, "STARTS_WITH(s, 'a')": hr.FilterPushdown.INEXACT}
    provider = table_of(DATA, answer=lambda expr: answers.get(repr(expr), hr.FilterPushdown.UNSUPPORTED), keep=kept)
    ctx.register_table("t", provider)
    frame = ctx.sql("SELECT x FROM t WHERE i > 2 AND s LIKE 'a%' AND x + 1 < 7")
    assert [row.x for row in frame.collect()] == [5]
    assert list(map(repr, provider.request().filters)) == ["i > 2", "STARTS_WITH(s, 'a')"]
    text = plan_text(frame)
    for expected in (
        "i > 2: EXACT",
        "i IS NOT NULL: IMPLIED",
        "STARTS_WITH(s, 'a'): INEXACT",
        "s IS NOT NULL: UNSUPPORTED",
        "x + 1 < 7: UNSUPPORTED",
    ):
        assert expected in text


@pytest.mark.parametrize(
    ("condition", "inferred"),
    [
        ("i > 2", not_null("i")),
        ("s LIKE 'a%'", not_null("s")),
        ("i != 3", not_null("i")),
        ("st.a = 1", not_null("st", "a")),
        ("i + 1 > 2", not_null("i")),
        ("upper(s) = 'A'", not_null("s")),
        ("CAST(i AS string) = '1'", not_null("i")),
    ],
)
def test_filter_inferred_not_null_unsupported_costs_no_limit(
    ctx: hr.SessionContext, condition: str, inferred: hr.Expr
) -> None:
    def only_the_condition(expr: hr.Expr) -> hr.FilterPushdown:
        return hr.FilterPushdown.UNSUPPORTED if expr == inferred else hr.FilterPushdown.EXACT

    schema = DATA.schema.append(pa.field("st", pa.struct([("a", pa.int64())])))
    provider = Recorder(schema, [[]], answer=only_the_condition)
    ctx.register_table("t", provider)
    frame = planned(ctx.sql(f"SELECT x FROM t WHERE {condition} LIMIT 3"))
    assert provider.request().limit == 3
    assert "FilterExec" not in executed_nodes(frame)
    assert inferred in provider.conjuncts()
    assert inferred not in provider.request().filters


def test_filter_not_null_of_another_column_is_not_implied(ctx: hr.SessionContext) -> None:
    provider = table_of(
        DATA,
        answer=lambda e: hr.FilterPushdown.EXACT if repr(e) == "i > 2" else hr.FilterPushdown.UNSUPPORTED,
        keep=kept,
    )
    ctx.register_table("t", provider)
    frame = ctx.sql("SELECT x FROM t WHERE i > 2 AND s IS NOT NULL")
    assert sorted(row.x for row in frame.collect()) == [3, 4, 5, 6]
    assert "FilterExec" in executed_nodes(frame)


@pytest.mark.parametrize(
    ("expr", "columns"),
    [
        (compare("<=>", "i64", None), set()),
        (compare("<=>", "i64", 1), {I64}),
        (Or(compare("=", "i64", 1), compare("=", "s", "x")), set()),
        (Or(compare("=", "i64", 1), compare(">", "i64", 5)), {I64}),
        (And(compare("=", "i64", 1), compare("=", "s", "x")), {I64, S}),
        (Not(And(compare("=", "i64", 1), compare("=", "s", "x"))), set()),
        (IsNull(I64), set()),
        (Not(InList(I64, (Literal(1, LONG),))), {I64}),
        (Comparison("=", Call("COALESCE", (I64, Literal(0, LONG))), Literal(1, LONG)), set()),
        (Comparison("=", Call("mystery", (I64,)), Literal(1, LONG)), set()),
        (Comparison("=", Column("st", ("a",)), Literal(1, LONG)), {Column("st"), Column("st", ("a",))}),
    ],
    ids=lambda value: repr(sorted(value, key=repr) if isinstance(value, set) else value),
)
def test_not_null_columns_only_what_is_certain(expr: hr.Expr, columns: set[Column]) -> None:
    assert not_null_columns(expr) == columns
