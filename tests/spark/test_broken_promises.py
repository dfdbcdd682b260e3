"""Plans, answers and batches that are not what the contract says: each is refused with what, where and why."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from misbehaving import BadProvider, plan_with
from placements import placements
from producing import NUMBERS, FunctionPlan, FunctionTable, numbers

WRONG_NAME = pa.record_batch({"b": pa.array([1], pa.int64())})
WRONG_TYPE = pa.record_batch({"a": pa.array(["x"])})


@pytest.mark.daily("*-EXECUTORS", "other type-DRIVER")
@placements
@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda _: None, "FunctionPlan.execute returned NoneType"),
        (lambda _: 7, "FunctionPlan.execute returned int"),
        (lambda _: [None], "FunctionPlan.execute yielded NoneType"),
        (lambda _: iter([{"a": 1}]), "FunctionPlan.execute yielded dict"),
        (lambda _: [{"a": 1, "b": 2}], "rows with the key 'b' do not fit"),
        (lambda _: [pa.table({"a": [1.5]})], "column 'a': a value of type double does not fit"),
        (lambda _: [numbers(1), WRONG_NAME], "b: int64"),
        (lambda _: [WRONG_TYPE], "a: string"),
        (lambda _: pa.Table.from_batches([WRONG_TYPE]), "a: string"),
    ],
    ids=[
        "None",
        "int",
        "yields None",
        "yields dict",
        "other key",
        "value lost",
        "other name",
        "other type",
        "stream, type",
    ],
)
def test_execute_breaking_its_promise_is_a_named_error(
    ctx: hr.SessionContext, placement: hr.Placement, function: Callable[[int], Any], words: str
) -> None:
    ctx.register_table("broken", FunctionTable(function, placement=placement))
    with pytest.raises(hr.HeadraceError) as caught:
        ctx.collect("SELECT * FROM broken")
    text = str(caught.value)
    assert words in text
    assert "'broken'" in text
    assert "partition 0" in text


@placements
def test_execute_yielding_a_value_that_does_not_fit_prints_both_schemas(
    ctx: hr.SessionContext, placement: hr.Placement
) -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.int8())])
    wide = pa.record_batch({"b": [1, 1000], "a": [1, 2]})
    ctx.register_table("wide", FunctionTable(lambda _: [wide], schema=schema, placement=placement))
    with pytest.raises(hr.SchemaMismatchError) as caught:
        ctx.collect("SELECT * FROM wide")
    assert "column 'b'" in str(caught.value)
    assert "1000" in str(caught.value)
    assert "expected:\n  a: int64\n  b: int8\nfound:\n  b: int64\n  a: int64" in str(caught.value)


@placements
def test_execute_yielding_nulls_where_none_were_promised_is_an_error(
    ctx: hr.SessionContext, placement: hr.Placement
) -> None:
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False)])
    nulls = pa.record_batch([pa.array([1, None], pa.int64())], schema=NUMBERS)
    ctx.register_table("nulls", FunctionTable(lambda _: [nulls], schema=schema, placement=placement))
    with pytest.raises(hr.SchemaMismatchError, match="yielded nulls in column 'a'"):
        ctx.collect("SELECT * FROM nulls")


@placements
def test_execute_yielding_batches_that_differ_in_nullability_only_is_accepted(
    ctx: hr.SessionContext, placement: hr.Placement
) -> None:
    declared = pa.schema([pa.field("a", pa.int64(), nullable=False)])
    other = pa.record_batch([pa.array([1])], schema=declared)

    def mixed(_partition: int) -> Iterator[pa.RecordBatch]:
        for _ in range(500):  # in quick succession, so that they are merged
            yield numbers(1)
            yield other

    ctx.register_table("mixed", FunctionTable(mixed, placement=placement))
    assert ctx.collect("SELECT count(a) AS n FROM mixed").to_pydict() == {"n": [1000]}


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        (lambda _: None, "returned None"),
        (lambda _: "exact", 'returned str "exact"'),
        (lambda filters: [hr.FilterPushdown.EXACT] * (len(filters) + 1), "answers for"),
        (lambda _: [], "returned 0 answers for"),
        (lambda filters: [True] * len(filters), "answered True for the filter"),
    ],
    ids=["None", "str", "too many", "too few", "bool"],
)
def test_pushdown_answers_that_break_the_contract_are_a_plan_error(
    ctx: hr.SessionContext, answers: Callable[[Any], Any], words: str
) -> None:
    ctx.register_table("bad", BadProvider("supports_filters_pushdown", answers))
    with pytest.raises(hr.PlanError) as caught:
        ctx.collect("SELECT * FROM bad WHERE a > 1")
    assert "BadProvider.supports_filters_pushdown" in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.daily(every=3)
@pytest.mark.parametrize(
    ("scan", "words"),
    [
        (lambda _: None, "BadProvider.scan returned None, expected an ExecutionPlan"),
        (lambda _: FunctionPlan, "BadProvider.scan returned"),
        (plan_with(partitioning=hr.UnknownPartitioning(-1)), "promises -1 partitions"),
        (plan_with(partitioning=3), "has partitioning 3"),
        (plan_with(partitioning=hr.KeyPartitioning(["a"], [(1, 2)])), "each key needs one value per column"),
        (plan_with(partitioning=hr.KeyPartitioning(["z"], [1])), "'z', which is not a column"),
        (plan_with(partitioning=hr.KeyPartitioning(["a"], ["x"])), "partition key 'x' is not a int64"),
        (plan_with(placement="driver"), "has placement 'driver'"),
        (plan_with(ordering=["a"]), "expected SortKeys"),
        (plan_with(schema=None), "has schema None"),
    ],
)
def test_plan_that_breaks_the_contract_is_a_plan_error(
    ctx: hr.SessionContext, scan: Callable[[Any], Any], words: str
) -> None:
    ctx.register_table("bad", BadProvider("scan", scan))
    with pytest.raises(hr.PlanError) as caught:
        ctx.collect("SELECT * FROM bad")
    assert words in str(caught.value)


def test_plan_with_another_schema_prints_the_schemas(ctx: hr.SessionContext) -> None:
    ctx.register_table("bad", BadProvider("scan", plan_with(schema=pa.schema([("a", pa.string())]))))
    with pytest.raises(hr.SchemaMismatchError) as caught:
        ctx.collect("SELECT * FROM bad")
    assert "a: int64" in str(caught.value)
    assert "a: string" in str(caught.value)
    assert "BadProvider.scan" in str(caught.value)


def test_plan_that_cannot_be_pickled_says_so_and_points_at_driver_placement(ctx: hr.SessionContext) -> None:
    ctx.register_table("live", BadProvider("scan", plan_with(connection=threading.Lock())))
    with pytest.raises(hr.PlanError) as caught:
        ctx.collect("SELECT * FROM live")
    text = str(caught.value)
    assert "FunctionPlan (table 'live') cannot be pickled" in text
    assert "Placement.DRIVER" in text
