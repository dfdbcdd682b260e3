"""The reference evaluation against Spark itself, over random tables and predicates, in few Spark jobs."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace import EvaluationError, Expr, Literal
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
