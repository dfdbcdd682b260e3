"""Runtime filters of joins of many tables: how deep they may be nested, each being a query that Spark plans anew."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr

TABLES = 6
ROWS = 40


@pytest.fixture
def tables(ctx: hr.SessionContext) -> Iterator[list[str]]:
    names = [f"link_{number}" for number in range(TABLES)]
    for name in names:
        rows = pa.table({"id": range(ROWS), "k": range(ROWS), "s": [f"x{i % 4}y" for i in range(ROWS)]})
        ctx.register_table(name, hr.MemTable(rows, 2))
    yield names
    for name in names:
        ctx.deregister_table(name)


def elements(sequence: Any) -> list[Any]:
    return [sequence.apply(index) for index in range(sequence.size())]


def prunings(node: Any) -> Iterator[Any]:
    """The runtime filters of a plan or an expression, without those inside of their queries."""
    if node.getClass().getSimpleName() == "DynamicPruningSubquery":
        yield node
        return
    parts = (
        elements(node.expressions()) if hasattr(node, "expressions") and "plans" in node.getClass().getName() else []
    )
    for part in (*parts, *elements(node.children())):
        yield from prunings(part)


def depth(plan: Any) -> int:
    return max((1 + depth(pruning.buildQuery()) for pruning in prunings(plan)), default=0)


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_join_of_many_tables_nests_runtime_filters_twice_at_most(
    ctx: hr.SessionContext, tables: list[str], adaptive: str
) -> None:
    first, *others = tables
    joins = " ".join(f"JOIN {name} ON {before}.k = {name}.id" for before, name in zip(tables, others, strict=False))
    ctx.spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    try:
        frame = ctx.sql(f"SELECT count(*) AS c FROM {first} {joins} WHERE {first}.s LIKE 'x_y'")  # a filter for Spark
        jframe: Any = frame._jdf
        assert 1 <= depth(jframe.queryExecution().optimizedPlan()) <= 2
        dropped = [line for line in ctx.explain(frame).splitlines() if "would be learnt in more than two steps" in line]
        assert dropped
        assert all(line.count("not used: the one on ") == 1 for line in dropped)
        assert ctx.collect(frame).to_pylist() == [{"c": ROWS}]
    finally:
        ctx.spark.conf.unset("spark.sql.adaptive.enabled")
