"""TPC-H's 22 queries over Headrace's tables give DuckDB's answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.tpch import MEMORY, PREFIXES, register
from benchmarks.tpch_data import DuckDB, for_spark, generated, is_answer, queries
from pyspark.sql import SparkSession

import headrace as hr

SCALE_FACTOR = 0.02  # the smallest at which each query finds something
QUERIES = queries()


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generated(SCALE_FACTOR, tmp_path_factory.mktemp("tpch"))


@pytest.fixture(scope="module")
def duck(directory: Path) -> DuckDB:
    return DuckDB(directory)


@pytest.fixture(scope="module")
def tpch(spark: SparkSession, directory: Path) -> Iterator[hr.SessionContext]:
    """A context with the tables of both kinds."""
    with hr.SessionContext(spark) as context:
        register(context, directory, ("headrace", MEMORY))
        yield context


@pytest.mark.daily
@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("table", ["headrace", MEMORY], ids=["dataset", "memory"])
def test_tpch_query_gives_the_answer_of_duckdb(tpch: hr.SessionContext, duck: DuckDB, table: str, name: str) -> None:
    query = QUERIES[name]
    rows = [tuple(row) for row in tpch.sql(for_spark(query, PREFIXES[table])).collect()]
    right = duck.answer(query)
    assert is_answer(query, rows, right), f"{rows[:5]} … ({len(rows)} rows) is not {right[:5]} … ({len(right)} rows)"


def test_tpch_answers_are_not_empty(duck: DuckDB) -> None:
    answers = {name: duck.answer(query) for name, query in QUERIES.items()}
    assert [name for name, rows in answers.items() if not rows or None in rows[0]] == []


def test_tpch_answer_that_differs_is_told_apart(duck: DuckDB) -> None:
    query = QUERIES["q01"]
    first, *others = right = duck.answer(query)
    assert is_answer(query, right, right)
    assert not is_answer(query, others, right)
    assert not is_answer(query, [*others, first], right), "the order was asked for"
    assert not is_answer(query, [(*first[:2], first[2] + 1, *first[3:]), *others], right), "a sum"
    assert not is_answer(query, [(*first[:6], first[6] * (1 + 1e-7), *first[7:]), *others], right), "an average"
