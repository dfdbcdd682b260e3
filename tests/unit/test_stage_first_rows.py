"""The source stage keeps the first rows of a partition, in Spark's order, in bounded memory. No Spark."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest

from arrays_of_types import arrays_of_types, taken
from effort import cases
from headrace.arrow.conversion import to_wire
from headrace.arrow.types import wire_type
from headrace.execute.stage import first_rows
from headrace.execute.stage.ability import MOST_FIRST_ROWS, why_not_order
from headrace.execute.stage.source_stage import SourceStage
from headrace.execute.stage.work import StageWork
from headrace.expr.nodes import Column, Comparison, Expr, Literal
from headrace.expr.semantics import is_comparable
from headrace.plan import SortKey
from naive_stage import passing, sort_key
from random_predicates import POOLS, SCHEMA, random_table

LONG = pa.int64()


def first(table: pa.Table, order: list[SortKey], limit: int, *filters: Expr, rows: int = 17) -> list[dict[str, Any]]:
    stage = SourceStage(StageWork(filters=filters, order=tuple(order), limit=limit), table.schema, table.schema)
    found = [one for batch in table.to_batches(max_chunksize=rows) for one in stage.add(batch)]
    found += stage.finish()
    return pa.Table.from_batches(found, stage.schema).to_pylist()


def random_order(rng: Random) -> list[SortKey]:
    names = rng.sample([*POOLS], rng.randint(1, 3))
    return [SortKey(name, rng.random() < 0.5, rng.random() < 0.5) for name in names]


@pytest.mark.parametrize("seed", range(cases(150)))
def test_random_orders_have_the_first_rows_of_a_sorted_list(seed: int) -> None:
    rng = Random(seed)
    table = random_table(rng, rng.choice([0, 5, 300]))
    rows = table.to_pylist()
    for _ in range(8):
        order, limit = random_order(rng), rng.choice([0, 1, 3, 20, 400])
        assert why_not_order(order, limit, SCHEMA) is None
        filters = [Comparison(">", Column("l"), Literal(0, LONG))] if rng.random() < 0.3 else []
        found = first(table, order, limit, *filters)
        expected = sorted(sort_key(row, order) for row in passing(rows, filters))[:limit]
        assert sorted(sort_key(row, order) for row in found) == expected, (order, limit)
        assert [row["id"] for row in found] == sorted(row["id"] for row in found), "they stay in their order"


ENCODED = arrays_of_types()


@pytest.mark.parametrize("name", [name for name, array in ENCODED.items() if is_comparable(array.type)])
def test_values_of_every_type_are_ordered(name: str) -> None:
    array = taken(ENCODED[name], [*range(len(ENCODED[name]))] * 2)
    table = pa.table({"c": array, "n": pa.array(range(len(array)), LONG)})
    rows = [{"c": value} for value in to_wire(array, wire_type(array.type, "c"), "c").to_pylist()]
    for descending in (False, True):
        for nulls_first in (False, True):
            order = [SortKey("c", descending, nulls_first)]
            found = first(table, order, 3, rows=4)
            assert sorted(sort_key(row, order) for row in found) == sorted(sort_key(row, order) for row in rows)[:3]


@pytest.mark.parametrize("values", [range(100_000), range(100_000, 0, -1)], ids=["rising", "falling"])
@pytest.mark.parametrize("limit", [1, 10, 5000])
def test_rows_come_in_the_order_and_against_it(values: range, limit: int) -> None:
    table = pa.table({"v": pa.array(values, LONG), "s": ["x"] * len(values)})
    found = first(table, [SortKey("v")], limit, rows=8192)
    assert sorted(row["v"] for row in found) == sorted(values)[:limit]


def test_wide_rows_are_handed_out_before_they_take_much_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_rows, "_MOST_BYTES", 1 << 20)
    wide = "x" * 50_000
    schema = pa.schema([("v", LONG), ("s", pa.string())])
    stage = SourceStage(StageWork(order=(SortKey("v"),), limit=1000), schema, schema)
    before, most, early = pa.total_allocated_bytes(), 0, list[int]()
    for i in range(200):
        batch = pa.RecordBatch.from_pydict({"v": [200 - i], "s": [wide]}, schema)
        early += [value for one in stage.add(batch) for value in one["v"].to_pylist()]
        most = max(most, pa.total_allocated_bytes() - before)
    assert early
    assert most < 6 << 20
    rest = [value for one in stage.finish() for value in one["v"].to_pylist()]
    assert sorted(early + rest) == list(range(1, 201))


def test_sort_column_that_is_not_sent_is_left_out() -> None:
    table = pa.table({"v": [3, 1, 2], "s": ["c", "a", "b"]})
    sent = pa.schema([table.schema.field("s")])
    stage = SourceStage(StageWork(order=(SortKey("v"),), limit=2), table.schema, sent)
    found = [row for batch in table.to_batches() for one in stage.add(batch) for row in one.to_pylist()]
    found += [row for one in stage.finish() for row in one.to_pylist()]
    assert found == [{"s": "a"}, {"s": "b"}]


def test_orders_that_arrow_does_not_know_and_long_ones_are_refused() -> None:
    assert why_not_order([SortKey("st")], 10, SCHEMA)
    assert why_not_order([SortKey("nothing")], 10, SCHEMA)
    assert why_not_order([SortKey("i")], MOST_FIRST_ROWS + 1, SCHEMA)
