"""docs/expressions.md: each predicate of its table is planned by Spark, and what it offers is what the page says."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import headrace as hr
from places import ROOT
from recording import Recorder, inexact

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "name": pa.string(),
        "price": pa.decimal128(10, 2),
        "qty": pa.int32(),
        "ratio": pa.float64(),
        "open": pa.bool_(),
        "day": pa.date32(),
        "at": pa.timestamp("us", tz="UTC"),
        "place": pa.struct([("city", pa.string())]),
    }
)
TABLE = (ROOT / "docs/expressions.md").read_text().partition("| WHERE |")[2]
ROWS = re.findall(r"^\| `(.+?)` \| (`.+`|not offered) \| (.*?) \|$", TABLE, re.MULTILINE)


@pytest.fixture(scope="module")
def shared(spark: SparkSession) -> Iterator[hr.SessionContext]:
    with hr.SessionContext(spark) as context:
        yield context


def offered(ctx: hr.SessionContext, condition: str) -> list[hr.Expr]:
    """What Spark offers for ``WHERE condition``, but for the IS NOT NULL that it adds by itself."""
    provider = Recorder(SCHEMA, [[]], answer=inexact)
    ctx.register_table("orders", provider, replace=True)
    ctx.sql(f"SELECT id FROM orders WHERE {condition}")._jdf.queryExecution().executedPlan()
    every = [expr for filters in provider.asked("filters") for expr in filters]
    added = [expr for expr in every if isinstance(expr, hr.Not) and isinstance(expr.operand, hr.IsNull)]
    return [expr for expr in every if expr not in added] or added


@pytest.mark.daily(every=4)
@pytest.mark.parametrize(("condition", "text", "nodes"), ROWS, ids=[row[0] for row in ROWS])
def test_documented_predicate_is_what_spark_offers(
    shared: hr.SessionContext, condition: str, text: str, nodes: str
) -> None:
    found = offered(shared, condition.replace("\\|", "|"))
    told = ", ".join(f"`{expr!r}`" for expr in found) or "not offered"
    assert told.replace("|", "\\|") == text
    names = [type(node).__name__ for expr in found for node in expr.walk()]
    for name in re.findall(r"`(\w+)`", nodes):
        assert name in names


def test_documented_predicates_are_all_read() -> None:
    assert len(ROWS) > 30
