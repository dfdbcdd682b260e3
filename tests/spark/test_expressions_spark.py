"""The reference evaluation against Spark itself, over random tables and predicates, in few Spark jobs."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace import Call, Cast, Column, EvaluationError, Expr, Literal
from headrace.expr.evaluation import value_of
from random_predicates import POOLS, one_batch, random_predicate, random_table, spark_sql
from random_values import TEXT_POOL, random_call_predicate

PREDICATES = 150
CALLS = 300
ROWS = 80
FAILURES = {"ARITHMETIC_OVERFLOW", "BINARY_ARITHMETIC_OVERFLOW", "DIVIDE_BY_ZERO", "REMAINDER_BY_ZERO"}
FAILURES |= {"CAST_INVALID_INPUT", "CAST_OVERFLOW", "NUMERIC_VALUE_OUT_OF_RANGE"}
"""Which of several comes first depends on the row that is evaluated first."""


@pytest.mark.daily("1")
@pytest.mark.parametrize("seed", [1, 2])
def test_evaluate_random_predicates_equal_spark(spark: SparkSession, seed: int) -> None:
    rng = Random(seed)
    table = random_table(rng, ROWS)
    predicates = [random_predicate(rng, depth=rng.randint(0, 3)) for _ in range(PREDICATES)]
    columns = [f"{spark_sql(predicate)} AS p{i}" for i, predicate in enumerate(predicates)]
    spark.conf.set("spark.sql.session.timeZone", "UTC")

    answers = spark.createDataFrame(table).selectExpr("id", *columns).toArrow().sort_by("id")

    batch = one_batch(table)
    for i, predicate in enumerate(predicates):
        assert answers[f"p{i}"].to_pylist() == predicate.evaluate(batch).to_pylist(), repr(predicate)


def answered(predicate: Expr, batch: pa.RecordBatch, ansi: bool) -> list[bool | None] | str:
    """The reference evaluation's answers, or Spark's name of the failure."""
    try:
        return predicate.evaluate(batch, ansi=ansi, time_zone="UTC").to_pylist()
    except EvaluationError as error:
        return error.condition


@pytest.fixture
def ansi_mode(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[bool]:
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    spark.conf.set("spark.sql.ansi.enabled", str(request.param).lower())
    spark.conf.set("spark.sql.codegen.wholeStage", "false")  # compiling takes longer than the rows do
    spark.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    yield request.param
    for name in ("ansi.enabled", "codegen.wholeStage", "codegen.factoryMode"):
        spark.conf.unset(f"spark.sql.{name}")


def spark_answers(frame: DataFrame, predicates: list[Expr]) -> list[list[bool | None] | str]:
    """Spark's answers, or its name of the failure: many in one query, halved until it is known which one fails."""
    columns = [f"{spark_sql(predicate)} AS p{i}" for i, predicate in enumerate(predicates)]
    try:
        found = frame.selectExpr("id", *columns).toArrow().sort_by("id")
    except PySparkException as error:
        if len(predicates) == 1:
            return [str(error.getCondition())]
        half = len(predicates) // 2
        return spark_answers(frame, predicates[:half]) + spark_answers(frame, predicates[half:])
    return [found[f"p{i}"].to_pylist() for i in range(len(predicates))]


def compares_with_null(predicate: Expr) -> bool:
    """Spark's optimizer answers null for ``x = NULL`` without looking at x, which then cannot fail."""
    return any(isinstance(node, Literal) and node.value is None for node in predicate.walk())


@pytest.mark.daily
@pytest.mark.timeout(400)
@pytest.mark.parametrize("ansi_mode", [True, False], ids=["ansi", "no ansi"], indirect=True)
def test_evaluate_random_functions_and_casts_equal_spark(spark: SparkSession, ansi_mode: bool) -> None:
    rng = Random(7)
    table = random_table(rng, ROWS, pools={**POOLS, "s": (pa.string(), TEXT_POOL)})
    batch = one_batch(table)
    frame = spark.createDataFrame(table).withColumn("p", F.col("p").cast("timestamp_ntz")).cache()
    expected = {
        predicate: answered(predicate, batch, ansi_mode)
        for predicate in dict.fromkeys(random_call_predicate(rng) for _ in range(CALLS))
    }
    whole = [predicate for predicate, answers in expected.items() if not isinstance(answers, str)]
    failing = [predicate for predicate, answers in expected.items() if isinstance(answers, str)]
    assert len(whole) > CALLS // 2
    assert bool(failing) is ansi_mode

    wrong = [
        (spark_sql(predicate), answers, expected[predicate])
        for some in (whole[start : start + 50] for start in range(0, len(whole), 50))
        for predicate, answers in zip(some, spark_answers(frame, some), strict=True)
        if answers != expected[predicate]
    ]
    for predicate in failing[:15]:
        (answer,) = spark_answers(frame, [predicate])
        failed_too = isinstance(answer, str) and answer in FAILURES
        if not failed_too and not compares_with_null(predicate):
            wrong.append((spark_sql(predicate), answer, expected[predicate]))
    frame.unpersist()
    assert not wrong, "\n".join(map(str, wrong))


DECIMALS = [(1, 0), (5, 2), (9, 9), (18, 0), (20, 10), (38, 0), (38, 18), (38, 38)]


def random_decimals(rng: Random, precision: int, scale: int) -> pa.Array:
    """Both ends, nothing, the least, and some of any length."""
    most = 10**precision - 1
    units = [most, -most, 0, 1, -1, *(rng.randint(-(10**digits), 10**digits) for digits in range(precision))]
    values = [None, *(Decimal(f"{rng.choice('+-')}{abs(unit)}e-{scale}") for unit in units if abs(unit) <= most)]
    return pa.array([rng.choice(values) for _ in range(ROWS)], pa.decimal128(precision, scale))


@pytest.mark.daily
@pytest.mark.parametrize("ansi_mode", [False], ids=["no ansi"], indirect=True)
def test_evaluate_decimals_of_any_two_types_equal_spark(spark: SparkSession, ansi_mode: bool) -> None:
    rng = Random(11)
    columns = {f"d{p}_{s}": random_decimals(rng, p, s) for p, s in DECIMALS}
    frame = spark.createDataFrame(pa.table({"id": range(ROWS), **columns}))
    operands = {Column(name): array for name, array in columns.items()}
    targets = [*(f"decimal({p},{s})" for p, s in DECIMALS), "double", "bigint", "boolean", "string"]
    calls = [Call(op, (a, b)) for op in ("+", "-", "*", "/", "%") for a in operands for b in operands]
    asked: dict[Expr, pa.Array] = {}
    impossible: list[Expr] = []
    for expr in (*calls, *(Cast(a, target) for target in targets for a in operands)):
        try:
            asked[expr] = value_of(expr, operands, ROWS, ansi_mode)
        except EvaluationError as error:
            assert error.condition == "DIVISION_IMPOSSIBLE"
            impossible.append(expr)
    texts = [f"{spark_sql(expr)} AS c{i}" for i, expr in enumerate(asked)]
    answers = frame.selectExpr("id", *texts).toArrow().sort_by("id")
    wrong: list[tuple[Any, ...]] = []
    for (expr, expected), found in zip(asked.items(), answers.columns[1:], strict=True):
        if found.type != expected.type:
            wrong.append((expr, found.type, expected.type))
        values = (operands[arg].to_pylist() for arg in expr.children() if isinstance(arg, Column))
        rows = zip(found.to_pylist(), expected.to_pylist(), *values, strict=True)
        wrong += [(expr, *row) for row in rows if row[0] != row[1]]
    assert not wrong, "\n".join(map(str, wrong[:20]))
    assert len(impossible) > 3
    for expr in impossible[:3]:
        with pytest.raises(PySparkException, match="Division impossible"):
            frame.selectExpr(spark_sql(expr)).toArrow()


TARGETS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal(5,0)", "decimal(10,2)", "decimal(38,18)")


@pytest.mark.daily
@pytest.mark.parametrize("ansi_mode", [True, False], ids=["ansi", "no ansi"], indirect=True)
def test_evaluate_casts_of_text_equal_spark(spark: SparkSession, ansi_mode: bool) -> None:
    targets = (*TARGETS, "date", "boolean")
    texts = [*dict.fromkeys(TEXT_POOL), "1e400", "-1e-400", "0.5", "-0.5", "127", "128", "99999.5", "1" * 38, "1" * 39]
    frame = spark.createDataFrame(pa.table({"id": range(len(texts)), "s": texts}))
    function = "try_cast" if ansi_mode else "cast"  # which reads as ANSI does, and has null for what is unreadable
    found = frame.selectExpr("id", *(f"{function}(s AS {target}) AS c{i}" for i, target in enumerate(targets)))
    answers = found.toArrow().sort_by("id")
    wrong = []
    for i, target in enumerate(targets):
        for text, answer in zip(texts, answers[f"c{i}"].to_pylist(), strict=True):
            try:
                given = {Column("s"): pa.array([text])}
                expected = value_of(Cast(Column("s"), target), given, 1, ansi_mode)[0].as_py()
            except EvaluationError:
                assert ansi_mode
                expected = None
            if repr(answer) != repr(expected):
                wrong.append((target, text, answer, expected))
    assert not wrong, "\n".join(map(str, wrong))
