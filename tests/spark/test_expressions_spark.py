"""The reference evaluation against Spark itself, over random tables and predicates, in few Spark jobs."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from random_predicates import one_batch, random_predicate, random_table, spark_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PREDICATES = 150
ROWS = 80


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
