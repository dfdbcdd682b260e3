"""Queries that fail within Spark before Headrace is asked, and the ways round that docs/expressions.md names."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

import headrace as hr

UNWRAP_CASTS = "org.apache.spark.sql.catalyst.optimizer.UnwrapCastInBinaryComparison"
FAILING = "SELECT id FROM narrow WHERE id > 0 AND coalesce(x >= 1000, true)"
WRITTEN_OUT = "SELECT id FROM narrow WHERE id > 0 AND (x >= 1000 OR x IS NULL)"


@pytest.fixture
def narrow(ctx: hr.SessionContext) -> Iterator[hr.SessionContext]:
    """``x`` is a byte, so Spark knows without a row that no value reaches 1000."""
    rows = pa.table({"id": [0, 1, 2], "x": pa.array([None, 7, None], pa.int8())})
    ctx.register_table("narrow", hr.MemTable(rows))
    yield ctx
    ctx.spark.conf.unset("spark.sql.optimizer.excludedRules")


def test_coalesce_over_a_comparison_that_spark_decides_fails_in_spark(narrow: hr.SessionContext) -> None:
    """It becomes ``x IS NULL AND NULL``, and Spark's V2ExpressionBuilder asserts that a null is a predicate."""
    with pytest.raises(Exception, match=r"assertion failed|INTERNAL_ERROR") as raised:
        narrow.collect(FAILING)
    assert not isinstance(raised.value, hr.HeadraceError)


def test_coalesce_with_its_null_written_out_is_answered(narrow: hr.SessionContext) -> None:
    assert narrow.collect(WRITTEN_OUT).to_pylist() == [{"id": 2}]


def test_coalesce_without_the_rule_that_decides_is_answered(narrow: hr.SessionContext) -> None:
    narrow.spark.conf.set("spark.sql.optimizer.excludedRules", UNWRAP_CASTS)
    assert narrow.collect(FAILING).to_pylist() == [{"id": 2}]
