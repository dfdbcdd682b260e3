"""What DatasetTable estimates of its filters, on a real Spark: broadcasts, and lists of keys that joins learn."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as hr
from versions import has

pytestmark = pytest.mark.daily("adaptive*")

PEOPLE, VISITS, KINDS = 60_000, 20_000, 50
THRESHOLD = "spark.sql.autoBroadcastJoinThreshold"
JOIN = "SELECT count(*), sum(v.amount) FROM visits v JOIN people p ON v.person = p.id"


@pytest.fixture(autouse=True)
def threshold(adaptive: None, spark: Any) -> Iterator[None]:
    spark.conf.set(THRESHOLD, "200000")
    yield
    spark.conf.unset(THRESHOLD)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("estimates")
    rng = random.Random(3)
    people = pa.table(
        {
            "id": range(PEOPLE),
            "kind": [f"kind {rng.randrange(KINDS)}" for _ in range(PEOPLE)],
            "note": [f"something about {i}" for i in range(PEOPLE)],
        }
    )
    visits = pa.table(
        {
            "person": [rng.randrange(PEOPLE) for _ in range(VISITS)],
            "amount": range(VISITS),
            "place": [i % 300 for i in range(VISITS)],
        }
    )
    places = pa.table({"place": range(300), "open": [i % 100 != 7 for i in range(300)], "zone": range(300)})
    for name, table in (("people", people), ("visits", visits), ("places", places)):
        pq.write_table(table, root / f"{name}.parquet")
    return root


@pytest.fixture
def tables(ctx: hr.SessionContext, files: Path) -> None:
    for name in ("people", "visits", "places"):
        ctx.register_table(name, hr.DatasetTable(files / f"{name}.parquet"))
        ctx.spark.read.parquet(str(files / f"{name}.parquet")).createOrReplaceTempView(f"true_{name}")


def answer(ctx: hr.SessionContext, query: str) -> list[dict[str, Any]]:
    """The rows, which are those of Spark's own reader."""
    found = ctx.collect(query).to_pylist()
    truth = query
    for name in ("people", "visits", "places"):
        truth = truth.replace(f"{name} ", f"true_{name} ")
    assert found == ctx.collect(truth).to_pylist()
    return found


def first_plan(ctx: hr.SessionContext, query: str) -> str:
    """Before anything ran."""
    return str(ctx.sql(query)._jdf.queryExecution().executedPlan().toString())


def test_what_a_filter_leaves_of_a_large_table_is_broadcast(ctx: hr.SessionContext, tables: None) -> None:
    assert "SortMergeJoin" in first_plan(ctx, JOIN)
    filtered = f"{JOIN} WHERE p.kind = 'kind 7'"
    assert "BroadcastHashJoin" in first_plan(ctx, filtered)
    answer(ctx, filtered)


def test_filters_come_back_for_the_columns_that_are_read(ctx: hr.SessionContext, tables: None) -> None:
    """All of people is too large for it, and so is what the filter leaves with its notes."""
    query = f"{JOIN} WHERE p.kind = 'kind 7'"
    assert ("Spark filters again" in ctx.explain(query)) is has("filters put back")


def test_list_of_few_keys_gives_the_same_rows(ctx: hr.SessionContext, tables: None) -> None:
    query = "SELECT count(*), sum(v.amount) FROM visits v JOIN places p ON v.place = p.place WHERE p.zone < 20"
    answer(ctx, query)


def test_long_list_of_nearly_all_keys_gives_the_same_rows(ctx: hr.SessionContext, tables: None) -> None:
    query = "SELECT count(*), sum(v.amount) FROM visits v JOIN places p ON v.place = p.place WHERE p.zone % 100 != 7"
    (row,) = answer(ctx, query)
    assert row["count(1)"] == sum(i % 300 % 100 != 7 for i in range(VISITS))


def test_explain_says_that_rows_are_not_looked_up_in_a_long_list(ctx: hr.SessionContext, tables: None) -> None:
    said = "values for place the least and greatest are asked of rows (to look up all would leave out too few)"
    for wanted, narrowed in (("p.zone % 100 >= 3", True), ("p.zone % 100 < 3", False)):  # Spark filters, on 4.0 too
        frame = ctx.sql(f"SELECT sum(v.amount) FROM visits v JOIN places p ON v.place = p.place WHERE {wanted}")
        frame.collect()
        text = ctx.explain(frame)
        assert ": place IN (" in text
        assert (said in text) is narrowed


def test_explain_shows_the_first_of_many_values(ctx: hr.SessionContext, tables: None) -> None:
    values = ", ".join(str(i) for i in range(0, 900, 3))
    for test in ("IN", "NOT IN"):
        query = f"SELECT * FROM people WHERE id {test} ({values})"
        text = ctx.explain(query)
        assert f"id {test} (" in text
        assert ", and 280 more)" in text
        assert len(text) < 3000
        assert ", and 280 more): EXACT" in ctx.sql(f"EXPLAIN {query}").collect()[0][0]
    shown = ctx.explain("SELECT * FROM people WHERE id IN (1, 5, 9)")
    assert "more)" not in shown
