"""The source stage's groups, once merged as Spark merges them, are those of a row by row evaluation. No Spark."""

from __future__ import annotations

import datetime as dt
import math
import subprocess
import sys
from collections.abc import Iterable
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from arrays_of_types import arrays_of_types, taken
from effort import cases
from headrace.arrow.conversion import to_wire
from headrace.arrow.types import wire_type
from headrace.execute.stage import grouping
from headrace.execute.stage.ability import why_not_aggregate
from headrace.execute.stage.source_stage import SourceStage
from headrace.execute.stage.work import StageWork
from headrace.expr.nodes import Call, Cast, Column, Comparison, Expr, Literal
from headrace.expr.semantics import Kind, is_comparable, kind_of
from headrace.plan import AggregateFunction, AggregateName, Aggregation, SortKey
from naive_stage import aggregated, aggregation, merged, passing, same
from random_predicates import POOLS, SCHEMA, random_predicate, random_table

LONG, DOUBLE, STRING = pa.int64(), pa.float64(), pa.string()
EXACT_POOLS = POOLS | {"l": (LONG, [-5, 0, 3, 2**40]), "d": (DOUBLE, [*POOLS["d"][1][:5], 1.5, -0.25])}
"""Sums of these do not overflow, and of doubles have one result."""


def groups_of(batches: Iterable[pa.RecordBatch], asked: Aggregation, *filters: Expr, ansi: bool = True) -> pa.Table:
    """What comes out, batch after batch, of a stage that got these."""
    batches = list(batches)
    stage = SourceStage(StageWork(filters=filters, aggregation=asked, ansi=ansi), batches[0].schema, asked.schema)
    found = [one for batch in batches for one in stage.add(batch)]
    return pa.Table.from_batches([*found, *stage.finish()], asked.schema)


def result_type(name: AggregateName, operand: pa.DataType) -> pa.DataType:
    if name in ("min", "max"):
        return operand
    return DOUBLE if name == "sum" and pa.types.is_floating(operand) else LONG


def random_aggregation(rng: Random) -> Aggregation:
    groups: list[tuple[Expr, pa.DataType]] = [
        (Column(name), POOLS[name][0]) for name in rng.sample([*POOLS], rng.randint(0, 3))
    ]
    if rng.random() < 0.2:
        groups.append((Call("%", (Column("id"), Literal(rng.choice([-3, -1, 2, 7]), LONG))), LONG))
    functions: list[tuple[AggregateName, Expr | None, pa.DataType]] = []
    for _ in range(rng.randint(0 if groups else 1, 4)):
        name: AggregateName = rng.choice(["count", "min", "max", "sum"])
        if name == "count" and rng.random() < 0.5:
            functions.append(("count", None, LONG))
            continue
        column = rng.choice("ilfde" if name == "sum" else [*POOLS])
        type_ = POOLS[column][0]
        operand: Expr = Column(column)
        if column == "i" and rng.random() < 0.3:
            operand, type_ = Call("*", (Cast(operand, "bigint"), Literal(3, LONG))), LONG
        functions.append((name, operand, result_type(name, type_)))
    return aggregation(groups, functions)


@pytest.mark.parametrize("seed", range(cases(300)))
def test_random_aggregations_have_the_results_of_a_row_by_row_evaluation(seed: int, monkeypatch: Any) -> None:
    rng = Random(seed)
    if seed % 2:  # many chunks, which are merged and handed out over and over
        monkeypatch.setattr(grouping, "_LEAST_CHUNK_ROWS", 40)
        monkeypatch.setattr(grouping, "_MOST_GROUPS", 60)
        monkeypatch.setattr(grouping, "_TRIED_AGAIN_ROWS", 30)
    table = random_table(rng, rng.choice([0, 1, 20, 300]), pools=EXACT_POOLS)
    batches = table.to_batches(max_chunksize=17) or [pa.RecordBatch.from_pylist([], table.schema)]
    for _ in range(5):
        asked = random_aggregation(rng)
        assert why_not_aggregate(asked, SCHEMA) is None, asked
        filters = [] if rng.random() < 0.5 else [random_predicate(rng, 0, "ildb", nested=False)]
        if any(isinstance(node, Cast) for expr in filters for node in expr.walk()):
            filters = []
        found = merged(groups_of(batches, asked, *filters).to_pylist(), asked)
        expected = aggregated(passing(table.to_pylist(), filters), asked)
        assert same(found, expected), (asked, filters, found, expected)


ENCODED = arrays_of_types()


@pytest.mark.parametrize("name", [name for name, array in ENCODED.items() if is_comparable(array.type)])
def test_keys_and_extremes_of_every_type_are_right(name: str) -> None:
    """Also of dictionaries, views, runs, other units of time, and with all values null."""
    array = taken(ENCODED[name], [*range(len(ENCODED[name])), *range(len(ENCODED[name])), len(ENCODED[name]) - 1])
    numbers = pa.array(range(len(array)), LONG)
    batch = pa.RecordBatch.from_arrays([array, numbers], names=["c", "n"])
    wire = to_wire(array, wire_type(array.type, "c"), "c")
    functions: list[tuple[AggregateName, Expr | None, pa.DataType]] = [
        *((one, Column("c"), result_type(one, wire.type)) for one in ("min", "max", "count")),  # type: ignore[misc]
        ("count", None, LONG),
    ]
    rows = pa.RecordBatch.from_arrays([wire, numbers], names=["c", "n"]).to_pylist()
    modulo = Call("%", (Column("n"), Literal(2, LONG)))
    for groups in ([(Column("c"), wire.type)], [(modulo, LONG)], []):
        asked = aggregation(groups, functions)
        assert why_not_aggregate(asked, batch.schema) is None
        found = groups_of([batch, batch.slice(1), batch.slice(0, 0)], asked)
        assert same(merged(found.to_pylist(), asked), aggregated([*rows, *rows[1:]], asked))


def test_no_rows_have_one_group_without_keys_and_none_with_keys() -> None:
    batch = pa.RecordBatch.from_pylist([], pa.schema([("a", LONG), ("d", DOUBLE)]))
    functions: list[tuple[AggregateName, Expr | None, pa.DataType]] = [
        ("count", None, LONG),
        ("count", Column("a"), LONG),
        ("sum", Column("a"), LONG),
        ("min", Column("d"), DOUBLE),
    ]
    assert groups_of([batch], aggregation([], functions)).to_pylist() == [
        {"count_0": 0, "count_1": 0, "sum_2": None, "min_3": None}
    ]
    assert groups_of([batch], aggregation([(Column("a"), LONG)], functions)).num_rows == 0


def test_rows_without_columns_are_counted() -> None:
    counted = aggregation([], [("count", None, LONG)])
    stage = SourceStage(StageWork(aggregation=counted), pa.schema([]), counted.schema)
    struct = pa.StructArray.from_buffers(pa.struct([]), 5, [None])
    for _ in range(3):
        assert list(stage.add(pa.RecordBatch.from_struct_array(struct))) == []
    assert [one.to_pylist() for one in stage.finish()] == [[{"count_0": 15}]]


def test_nan_is_the_greatest_and_negative_zero_is_zero() -> None:
    nan = math.nan
    for type_ in (pa.float32(), DOUBLE):
        batch = pa.RecordBatch.from_arrays(
            [pa.array([1, 1, 1, 2, 2, 3, 4]), pa.array([nan, 1.0, -math.inf, nan, None, None, -0.0], type_)],
            names=["k", "v"],
        )
        asked = aggregation([(Column("k"), LONG)], [("min", Column("v"), type_), ("max", Column("v"), type_)])
        rows = {row["group_0"]: [row["min_0"], row["max_1"]] for row in groups_of([batch], asked).to_pylist()}
        assert rows.pop(4) == [0.0, 0.0]
        assert repr(rows) == repr({1: [-math.inf, nan], 2: [nan, nan], 3: [None, None]})  # NaN is not itself


def test_select_distinct_is_groups_without_functions() -> None:
    batch = pa.RecordBatch.from_pydict({"a": [1, 1, None, 2], "s": ["x", "x", None, "y"]})
    asked = aggregation([(Column("a"), LONG), (Column("s"), STRING)], [])
    found = groups_of([batch, batch], asked).to_pylist()
    assert sorted(found, key=repr) == sorted(
        [{"group_0": a, "group_1": s} for a, s in ((1, "x"), (None, None), (2, "y"))], key=repr
    )


@pytest.mark.parametrize("type_", [LONG, STRING, DOUBLE], ids=str)
def test_groups_of_sorted_rows_are_sorted(type_: pa.DataType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow itself has some of them out of order. Here they are handed out and begun anew, too."""
    monkeypatch.setattr(grouping, "_MOST_GROUPS", 50_000)
    rng = Random(1)
    numbers = sorted(rng.randrange(400_000) for _ in range(600_000))
    keys = pa.array([f"{number:09d}" for number in numbers]) if type_ == STRING else pa.array(numbers).cast(type_)
    keys = pa.concat_arrays([pa.nulls(3, type_), keys])
    table = pa.table({"k": keys, "v": pa.array(range(len(keys)), LONG)})
    asked = aggregation([(Column("k"), type_), (Call("%", (Column("v"), Literal(2, LONG))), LONG)], [])
    work = StageWork(aggregation=asked, group_order=(SortKey("group_0"),))
    stage = SourceStage(work, table.schema, asked.schema)
    found = [one for batch in table.to_batches(max_chunksize=65536) for one in stage.add(batch)]
    groups = pa.Table.from_batches([*found, *stage.finish()])["group_0"].drop_null()
    assert pc.all(pc.less_equal(groups.slice(0, len(groups) - 1), groups.slice(1))).as_py()
    assert found[0]["group_0"][0].as_py() is None


def test_dates_before_1582_and_far_timestamps_are_extremes() -> None:
    days = [dt.date(1, 1, 1), dt.date(1582, 10, 4), dt.date(1582, 10, 15), None, dt.date(9999, 12, 31)]
    batch = pa.RecordBatch.from_pydict({"t": pa.array(days, pa.date32())})
    asked = aggregation([], [(one, Column("t"), pa.date32()) for one in ("min", "max")])
    assert groups_of([batch], asked).to_pylist() == [{"min_0": days[0], "max_1": days[-1]}]


@pytest.mark.parametrize("keys", [0, 1])
@pytest.mark.parametrize(
    "type_", [pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.date32(), pa.duration("us")], ids=str
)
def test_moments_that_python_does_not_have_are_extremes(type_: pa.DataType, keys: int) -> None:
    integers = pa.int32() if type_ == pa.date32() else LONG
    most = 2**31 - 1 if type_ == pa.date32() else 2**63 - 1
    values = pa.array([5, most, None, -most], integers)
    batch = pa.RecordBatch.from_pydict({"k": pa.array([1] * 4, LONG), "v": values.view(type_)})
    groups: list[tuple[Expr, pa.DataType]] = [(Column("k"), LONG)] if keys else []
    asked = aggregation(groups, [(one, Column("v"), type_) for one in ("min", "max")])
    found = groups_of([batch, batch], asked).combine_chunks().to_batches()[0]
    assert [found[name].view(integers).to_pylist() for name in ("min_0", "max_1")] == [[-most], [most]]


def test_counted_columns_of_any_type_are_not_decoded() -> None:
    """Decoded this column would take a terabyte."""
    values = pa.array(["x" * (1 << 20)])
    array = pa.DictionaryArray.from_arrays(pa.array([0, None, 0] * 300_000, pa.int8()), values)
    batch = pa.RecordBatch.from_pydict({"c": array, "st": pa.array([{"x": 1}, None, {"x": None}] * 300_000)})
    asked = aggregation([], [("count", Column("c"), LONG), ("count", Column("st"), LONG), ("count", None, LONG)])
    assert why_not_aggregate(asked, batch.schema) is None
    assert groups_of([batch], asked).to_pylist() == [{"count_0": 600_000, "count_1": 600_000, "count_2": 900_000}]


def test_dictionary_keys_are_grouped_by_their_places() -> None:
    """Decoded these keys would take a terabyte."""
    values = pa.array(["x" * (1 << 20), None, "x" * (1 << 20)])
    indices = pa.array([0, 1, 2, None] * 250_000, pa.int8())
    batch = pa.RecordBatch.from_arrays([pa.DictionaryArray.from_arrays(indices, values)], names=["k"])
    asked = aggregation([(Column("k"), STRING)], [("count", None, LONG)])
    found = merged(groups_of([batch], asked).to_pylist(), asked)
    assert {key and key[:1]: count for (key,), (count,) in found.items()} == {b"x": 500_000, None: 500_000}


@pytest.mark.parametrize("changes", [3, 40])
def test_dictionaries_that_change_from_batch_to_batch_keep_their_own_values(changes: int) -> None:
    batches, expected = [], dict[Any, list[Any]]()
    for i in range(changes):
        values = pa.array([f"v{i % 5}", "both", None], pa.string_view())
        array = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 1, None], pa.int16()), values)
        batches.append(pa.RecordBatch.from_arrays([array], names=["k"]))
        for key, count in ((f"v{i % 5}".encode(), 1), (b"both", 2), (None, 2)):
            expected.setdefault((key,), [0])[0] += count
    asked = aggregation([(Column("k"), STRING)], [("count", None, LONG)])
    assert merged(groups_of(batches, asked).to_pylist(), asked) == expected


def test_groups_that_do_not_repeat_are_passed_on_as_they_come() -> None:
    rows = 1 << 19
    batch = pa.RecordBatch.from_pydict({"k": pa.array(range(rows), LONG), "v": pa.array(range(rows), LONG)})
    asked = aggregation([(Column("k"), LONG)], [("sum", Column("v"), LONG), ("count", Column("v"), LONG)])
    stage = SourceStage(StageWork(aggregation=asked), batch.schema, asked.schema)
    first = sum(one.num_rows for one in stage.add(batch))
    assert first == rows  # tried, and handed out
    small = batch.slice(0, 10)
    assert [one.to_pylist() for one in stage.add(small)] == [
        [{"group_0": i, "sum_0": i, "count_1": 1} for i in range(10)]
    ]
    assert list(stage.finish()) == []


def test_groups_are_looked_for_again_after_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouping, "_LEAST_CHUNK_ROWS", 100)
    monkeypatch.setattr(grouping, "_TRIED_AGAIN_ROWS", 1000)
    asked = aggregation([(Column("k"), LONG)], [("count", None, LONG)])
    unlike = pa.RecordBatch.from_pydict({"k": pa.array(range(100), LONG)})
    alike = pa.RecordBatch.from_pydict({"k": pa.array([1] * 100, LONG)})
    found = groups_of([unlike] * 11 + [alike] * 50, asked)
    assert found.num_rows == 1101


def test_memory_of_many_groups_is_bounded() -> None:
    """Four rows of each group come, far from each other: groups are handed out, and begun anew."""
    asked = aggregation([(Column("k"), STRING)], [("count", None, LONG)])
    schema = pa.schema([("k", STRING)])
    stage = SourceStage(StageWork(aggregation=asked), schema, asked.schema)
    before = pa.total_allocated_bytes()
    most = total = 0
    for step in range(40):
        keys = [f"{'k' * 100}{i}" for i in range(step * 4096, step * 4096 + 8192)] * 4
        for one in stage.add(pa.RecordBatch.from_pydict({"k": keys}, schema)):
            total += sum(one["count_0"].to_pylist())
        most = max(most, pa.total_allocated_bytes() - before)
    total += sum(sum(one["count_0"].to_pylist()) for one in stage.finish())
    assert total == 40 * 4 * 8192
    assert most < 200 << 20, most


def test_wide_rows_are_reduced_before_they_take_much_memory() -> None:
    asked = aggregation([(Column("k"), LONG)], [("max", Column("s"), STRING)])
    schema = pa.schema([("k", LONG), ("s", STRING)])
    stage = SourceStage(StageWork(aggregation=asked), schema, asked.schema)
    before = pa.total_allocated_bytes()
    most = 0
    for step in range(100):
        batch = pa.RecordBatch.from_pydict({"k": [0, 1], "s": [f"{step:03d}" * 700_000] * 2}, schema)
        assert list(stage.add(batch)) == []
        most = max(most, pa.total_allocated_bytes() - before)
    assert most < 150 << 20, most
    found = [row for one in stage.finish() for row in one.to_pylist()]
    assert {(row["group_0"], row["max_0"][:3]) for row in found} == {(0, "099"), (1, "099")}


@pytest.mark.parametrize("keys", [0, 1])
@pytest.mark.parametrize(
    "values",
    [
        [2**63 - 1, 1, -5, 7],
        [-(2**63), -1, 2**62, 2**62],
        [2**61] * 9,
        [2**40] * 5000 + [2**62, 2**62, 3],
        [-(2**63), 2**63 - 1] * 3000,
        [2**52] * 5000,
    ],
    ids=["up", "down", "slowly", "seldom", "by turns", "many"],
)
def test_sums_of_large_values_are_handed_out_before_they_overflow(values: list[int], keys: int) -> None:
    """Of what comes out each is exact, and all add up: whether that fails or wraps, Spark decides."""
    groups: list[tuple[Expr, pa.DataType]] = [(Column("k"), LONG)] if keys else []
    asked = aggregation(groups, [("sum", Column("v"), LONG), ("count", None, LONG)])
    batches = [
        pa.RecordBatch.from_pydict({"k": pa.array([7] * len(part), LONG), "v": pa.array(part, LONG)})
        for part in (values[:3], values[3:], values)
    ]
    found = groups_of(batches, asked)
    assert sum(found["sum_0"].to_pylist()) == 2 * sum(values)
    assert sum(found["count_1"].to_pylist()) == 2 * len(values)


def test_sums_of_partials_do_not_overflow_when_they_are_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouping, "_LEAST_CHUNK_ROWS", 4)
    asked = aggregation([], [("sum", Column("v"), LONG)])
    batch = pa.RecordBatch.from_pydict({"v": pa.array([2**60] * 4, LONG)})
    found = groups_of([batch] * 9, asked)["sum_0"].to_pylist()
    assert sum(found) == 36 * 2**60
    assert len(found) > 1


def test_small_integers_are_summed_as_long() -> None:
    for type_, value in ((pa.int8(), 127), (pa.int16(), 2**15 - 1), (pa.int32(), 2**31 - 1)):
        batch = pa.RecordBatch.from_pydict({"v": pa.array([value] * 1000, type_)})
        asked = aggregation([], [("sum", Column("v"), LONG)])
        assert groups_of([batch], asked)["sum_0"].to_pylist() == [1000 * value]


def test_floats_are_summed_as_doubles() -> None:
    tenth = pa.array([0.1], pa.float32())[0].as_py()
    batch = pa.RecordBatch.from_pydict({"v": pa.array([0.1] * 1000, pa.float32())})
    asked = aggregation([], [("sum", Column("v"), DOUBLE)])
    (found,) = groups_of([batch], asked)["sum_0"].to_pylist()
    assert math.isclose(found, 1000 * tenth, rel_tol=1e-12)


def test_wrapped_expressions_are_summed_without_ansi() -> None:
    operand = Call("+", (Column("v"), Literal(1, pa.int32())))
    asked = aggregation([], [("sum", operand, LONG)])
    batch = pa.RecordBatch.from_pydict({"v": pa.array([2**31 - 1, 1], pa.int32())})
    assert why_not_aggregate(asked, batch.schema)
    assert why_not_aggregate(asked, batch.schema, ansi=False) is None
    assert groups_of([batch], asked, ansi=False)["sum_0"].to_pylist() == [-(2**31) + 2]


def test_aggregation_begins_no_thread_and_loads_no_large_module() -> None:
    """A new worker would spend a good part of a second on pyarrow.dataset."""
    script = """
import os, sys, pyarrow as pa
import headrace.worker.task
from headrace.execute.stage.source_stage import SourceStage
from headrace.execute.stage.work import StageWork
from headrace.expr.nodes import Column
from headrace.plan import AggregateFunction, Aggregation
batch = pa.RecordBatch.from_pydict({"k": pa.array([1, 2] * 200_000, pa.int64())})
counted = AggregateFunction("count", None, False, pa.int64())
asked = Aggregation((Column("k"),), (counted,), pa.schema([("k", pa.int64()), ("n", pa.int64())]))
threads = len(os.listdir("/proc/self/task"))
stage = SourceStage(StageWork(aggregation=asked), batch.schema, asked.schema)
found = [one for _ in range(5) for one in stage.add(batch)] + list(stage.finish())
assert found[0].to_pydict() == {"k": [1, 2], "n": [1_000_000] * 2}, found
assert len(os.listdir("/proc/self/task")) == threads
assert "pyarrow.dataset" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def function(name: AggregateName, operand: Expr | None, type_: pa.DataType, distinct: bool = False) -> Aggregation:
    return Aggregation((), (AggregateFunction(name, operand, distinct, type_),), pa.schema([("r", type_)]))


REFUSED = [
    function("avg", Column("i"), DOUBLE),
    function("count", Column("i"), LONG, distinct=True),
    function("sum", Column("n"), pa.decimal128(20, 2)),
    function("sum", Call("+", (Column("l"), Column("l"))), LONG),
    function("min", Column("st"), SCHEMA.field("st").type),
    function("max", Column("st", ("x",)), pa.int32()),
    aggregation([(Cast(Column("s"), "string collate UTF8_LCASE"), STRING)], []),
    aggregation([(Column("st"), SCHEMA.field("st").type)], []),
    aggregation([(Call("UPPER", (Column("s"),)), STRING)], []),
]


@pytest.mark.parametrize("asked", REFUSED, ids=repr)
def test_aggregation_that_cannot_be_merged_or_computed_exactly_is_refused(asked: Aggregation) -> None:
    assert why_not_aggregate(asked, SCHEMA)


def test_every_kind_of_value_has_been_a_key() -> None:
    """A kind that is added is noticed here: its keys and extremes have to be right in Arrow."""
    kinds = {kind_of(wire_type(array.type, "")) for array in ENCODED.values() if is_comparable(array.type)}
    assert kinds == set(Kind)


def test_filter_and_count_read_no_other_column() -> None:
    batch = pa.RecordBatch.from_pydict({"a": pa.array(range(10), LONG), "s": ["x"] * 10})
    asked = aggregation([], [("count", None, LONG)])
    found = groups_of([batch], asked, Comparison("<", Column("a"), Literal(4, LONG)))
    assert found.to_pylist() == [{"count_0": 4}]
