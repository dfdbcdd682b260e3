"""``register_table(..., verify=...)`` on a real Spark: a broken promise fails the query, in both placements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from placements import placements

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])


class LyingPlan(hr.ExecutionPlan):
    schema = SCHEMA
    partitioning = hr.KeyPartitioning("k", [0, 1])
    ordering = (hr.SortKey("v"),)

    def __init__(self, placement: hr.Placement, lie: str) -> None:
        self.placement, self.lie = placement, lie

    def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
        keys = [partition] * 10 if self.lie != "keys" else [i % 2 for i in range(10)]
        values = list(range(10)) if self.lie != "order" else list(range(10))[::-1]
        yield pa.record_batch([keys, values], schema=SCHEMA)


class Lying(hr.TableProvider):
    """Yields all rows whatever is asked, and promises more."""

    def __init__(self, placement: hr.Placement, lie: str) -> None:
        self.placement, self.lie = placement, lie

    def schema(self) -> pa.Schema:
        return SCHEMA

    def supports_filters_pushdown(self, filters: Sequence[hr.Expr]) -> list[hr.Pushdown]:
        return [hr.Pushdown.EXACT if self.lie == "filter" else hr.Pushdown.UNSUPPORTED] * len(filters)

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        return LyingPlan(self.placement, self.lie)


@placements
def test_verified_table_that_breaks_a_promise_fails_the_query_with_it(
    ctx: hr.SessionContext, placement: hr.Placement
) -> None:
    cases: dict[str, tuple[str, str]] = {
        "filter": ("filters", "SELECT count(*) FROM filter WHERE v > 4"),
        "keys": ("partitioning", "SELECT k, count(*) FROM keys GROUP BY k"),
        "order": ("ordering", "SELECT v FROM order"),
    }
    for lie, (promise, query) in cases.items():
        ctx.register_table(lie, Lying(placement, lie), verify="all")
        with pytest.raises(hr.BrokenPromiseError) as raised:
            ctx.collect(query)
        assert raised.value.promise == promise
        assert f"(table '{lie}', rows of LyingPlan.execute)" in str(raised.value)


@placements
@pytest.mark.parametrize("verify", ["sample", "all"])
def test_verified_table_that_keeps_its_promises_gives_the_same_answers(
    ctx: hr.SessionContext, placement: hr.Placement, verify: Any
) -> None:
    ctx.register_table("honest", Lying(placement, "nothing"), verify=verify)
    answer = ctx.collect("SELECT k, sum(v) AS s FROM honest WHERE v > 4 GROUP BY k ORDER BY k").to_pylist()
    assert answer == [{"k": 0, "s": 35}, {"k": 1, "s": 35}]


def test_verified_table_native_call_and_explain_name_the_promise(ctx: hr.SessionContext) -> None:
    ctx.register_table("lying", Lying(hr.Placement.EXECUTORS, "filter"), verify="sample")
    frame = ctx.sql("SELECT k FROM lying WHERE v > 4")
    explained = ctx.explain(frame)
    assert "verified      on up to 64 rows of each batch: v IS NOT NULL, v > 4, the partitioning" in explained
    assert "columns       k  [1 of 2]" in explained
    with pytest.raises(Exception, match="BrokenPromiseError: Lying answered EXACT for `v > 4`"):
        frame.collect()


def test_register_table_with_another_verify_is_refused(ctx: hr.SessionContext) -> None:
    with pytest.raises(ValueError, match="verify must be"):
        ctx.register_table("t", Lying(hr.Placement.DRIVER, ""), verify="some")  # type: ignore[arg-type]
    assert not ctx.table_exists("t")
