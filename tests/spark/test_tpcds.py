"""TPC-DS's queries over DatasetTable give the answers of Spark over the same Parquet files."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from benchmarks.harness import same
from benchmarks.tpcds import PARQUET, answer, register
from benchmarks.tpcds_data import for_spark, generated, queries, tables
from pyspark.sql import SparkSession

import headrace as hr
from effort import share

SCALE_FACTOR = 0.01
EVERY_DAY = ("q07", "q36", "q97")
"""A star join, a union with a window, a full outer join; with ``--soak`` all 99."""


def chosen() -> list[str]:
    everything = list(queries())
    return everything if len(share(everything)) == len(everything) else list(EVERY_DAY)


@pytest.fixture(scope="module")
def tpcds(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[hr.SessionContext]:
    """A context with the tables of both kinds."""
    with hr.SessionContext(spark) as context:
        register(context, generated(SCALE_FACTOR, tmp_path_factory.mktemp("tpcds")))
        yield context


@pytest.mark.daily
@pytest.mark.parametrize("name", chosen())
def test_tpcds_query_gives_the_answer_of_spark(tpcds: hr.SessionContext, name: str) -> None:
    query = queries()[name]
    rows, right = answer(tpcds, query, "headrace"), answer(tpcds, query, PARQUET)
    assert same(rows, right), f"{rows[:5]} … ({len(rows)} rows) is not {right[:5]} … ({len(right)} rows)"
    assert rows or name not in EVERY_DAY


def test_tpcds_queries_are_all_there_and_leave_no_choice_of_rows() -> None:
    assert list(queries()) == [f"q{number:02}" for number in range(1, 100)]
    assert len(tables()) == 24
    assert "ORDER BY i_item_id NULLS LAST, 1 NULLS LAST, 2 NULLS LAST" in for_spark(queries()["q07"], "x_")
    assert "FROM x_store_sales AS store_sales" in for_spark(queries()["q07"], "x_")
