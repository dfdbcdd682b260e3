"""Recursive queries whose steps join tables of Headrace's: Spark optimizes each step again, over the same scans."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

import headrace as hr
from versions import spark_version

pytestmark = [
    pytest.mark.core,
    pytest.mark.skipif(spark_version() < (4, 1), reason="WITH RECURSIVE came with Spark 4.1"),
]
TREE = """
WITH RECURSIVE tree(n, depth) AS (
  SELECT 0L, 0
  UNION ALL
  SELECT edge.child, tree.depth + 1 FROM tree JOIN edge ON edge.parent = tree.n WHERE tree.depth < 4 {condition}
) {query}
"""
DEPTHS = "SELECT depth, count(*) AS c FROM tree GROUP BY depth ORDER BY depth"


@pytest.fixture
def edges(ctx: hr.SessionContext) -> Iterator[hr.SessionContext]:
    parents = [n for n in range(100) for _ in range(2)]
    table = pa.table({"parent": parents, "child": range(1, 201)})
    ctx.register_table("edge", hr.MemTable(table, 3))
    yield ctx
    ctx.deregister_table("edge")


@pytest.mark.parametrize(
    "condition",
    [
        "",
        "AND tree.n IN (SELECT parent FROM edge WHERE child < 100)",
        "AND tree.n >= (SELECT min(e.parent) FROM edge e JOIN edge f ON e.parent = f.child WHERE f.parent < 3) - 1",
        "AND edge.parent < (SELECT max(child) FROM edge)",
    ],
    ids=["join", "semi-join", "join in a subquery", "scalar subquery"],
)
def test_recursion_that_joins_a_table_gives_the_rows_of_every_step(edges: hr.SessionContext, condition: str) -> None:
    answer = edges.collect(TREE.format(condition=condition, query=DEPTHS)).to_pylist()
    assert answer == [{"depth": depth, "c": 2**depth} for depth in range(5)]


def test_recursion_in_a_subquery_gives_the_rows_of_every_step(edges: hr.SessionContext) -> None:
    subquery = TREE.format(condition="", query="SELECT count(*) FROM tree")
    assert edges.collect(f"SELECT ({subquery}) AS c").to_pylist() == [{"c": 31}]


def test_join_with_a_recursion_gives_its_rows(edges: hr.SessionContext) -> None:
    query = "SELECT count(*) AS c FROM tree JOIN edge ON edge.parent = tree.n WHERE tree.depth = 2"
    assert edges.collect(TREE.format(condition="", query=query)).to_pylist() == [{"c": 8}]
