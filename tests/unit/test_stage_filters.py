"""The source stage filters as Spark does, without decoding, and at once. No Spark."""

from __future__ import annotations

import datetime as dt
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from arrays_of_types import arrays_of_types, taken
from effort import cases
from headrace.arrow.conversion import to_wire
from headrace.arrow.types import is_view, wire_schema, wire_type
from headrace.execute.stage.ability import why_not_filter, why_not_runtime_filter
from headrace.execute.stage.source_stage import SourceStage
from headrace.execute.stage.work import StageWork
from headrace.expr.nodes import (
    And,
    Call,
    Cast,
    Column,
    Comparison,
    Expr,
    InList,
    IsNull,
    Literal,
    Not,
    StringMatch,
)
from headrace.expr.semantics import is_comparable
from naive_stage import passing
from random_predicates import SCHEMA, one_batch, random_predicate, random_table

LONG = pa.int64()
ROWS = 1000


def numbered(**columns: pa.Array) -> pa.RecordBatch:
    rows = len(next(iter(columns.values())))
    return pa.RecordBatch.from_pydict({"id": pa.array(range(rows), LONG), **columns})


def filtered(batch: pa.RecordBatch, *filters: Expr, sent: list[str] | None = None, **work: Any) -> pa.Table:
    schema = batch.schema if sent is None else pa.schema([batch.schema.field(name) for name in sent])
    stage = SourceStage(StageWork(filters=filters, **work), batch.schema, schema)
    found = [*stage.add(batch), *stage.finish()]
    return pa.Table.from_batches(found, stage.schema)


def ids(batch: pa.RecordBatch, *filters: Expr, **work: Any) -> list[int]:
    return filtered(batch, *filters, sent=["id"], **work)["id"].to_pylist()


def wire_column(batch: pa.RecordBatch) -> pa.Array:
    """Column ``c`` as Spark sees it."""
    return to_wire(batch["c"], wire_type(batch["c"].type, "c"), "c")


@pytest.mark.parametrize("seed", range(cases(150)))
def test_random_filters_keep_the_rows_that_a_row_by_row_evaluation_keeps(seed: int) -> None:
    rng = Random(seed)
    batch = one_batch(random_table(rng, 100))
    tried = 0
    for _ in range(20):
        exprs = [random_predicate(rng, depth=2, nested=False) for _ in range(rng.randint(1, 2))]
        if any(why_not_filter(expr, SCHEMA) is not None for expr in exprs):
            continue
        tried += 1
        expected = [row["id"] for row in passing(batch.to_pylist(), exprs)]
        assert ids(batch, *exprs) == expected, exprs
    assert tried


ENCODED = arrays_of_types()
COMPARED = [name for name, array in ENCODED.items() if is_comparable(array.type)]


@pytest.mark.parametrize("name", COMPARED)
def test_columns_of_every_type_are_compared_with_each_of_their_values(name: str) -> None:
    array = ENCODED[name]
    batch = numbered(c=array)
    wire = wire_schema(batch.schema)
    rows = pa.RecordBatch.from_arrays([batch["id"], wire_column(batch)], schema=wire).to_pylist()
    for row in rows:
        constant = Literal(row["c"], wire.field("c").type)
        for expr in (
            Comparison("<=", Column("c"), constant),
            Comparison("=", Column("c"), constant),
            Not(Comparison("=", Column("c"), constant)),
            InList(Column("c"), (constant, constant)),
            IsNull(Column("c")),
        ):
            assert why_not_filter(expr, batch.schema) is None, expr
            assert ids(batch, expr) == [one["id"] for one in passing(rows, [expr])], expr


@pytest.mark.parametrize("name", ENCODED)
def test_rows_of_every_type_are_picked(name: str) -> None:
    array = taken(ENCODED[name], [*range(len(ENCODED[name]))] * 3)
    batch = numbered(c=array)
    keep = Comparison("=", Call("%", (Column("id"), Literal(3, LONG))), Literal(1, LONG))
    places = [i for i in range(len(array)) if i % 3 == 1]
    found = filtered(batch, keep)
    assert found["id"].to_pylist() == places
    (picked,) = found.select(["id", "c"]).to_batches()
    expected = wire_column(numbered(c=taken(array, places)))
    assert repr(wire_column(picked).to_pylist()) == repr(expected.to_pylist())  # NaN is not itself


def test_dictionary_is_filtered_by_its_values_and_stays_one() -> None:
    values = pa.array(["a", "b", None, "a"])  # a null, and a value twice
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3, None], pa.int8()), values)
    batch = numbered(c=array)
    found = filtered(batch, Comparison("=", Column("c"), Literal("a", pa.string())))
    assert found["c"].to_pylist() == ["a", "a"]
    assert found["c"].type == array.type
    assert found["c"].chunk(0).dictionary.buffers()[2].address == values.buffers()[2].address
    assert ids(batch, IsNull(Column("c"))) == [2, 4]
    assert ids(batch, Not(Comparison("=", Column("c"), Literal("a", pa.string())))) == [1]


def test_dictionary_values_are_compared_once_each() -> None:
    """Decoded it would take a terabyte."""
    values = pa.array(["x" * (1 << 20), "y" * (1 << 20)])
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1] * 500_000, pa.int8()), values)
    expr = StringMatch("CONTAINS", Column("c"), Literal("xy", pa.string()))
    assert ids(numbered(c=array), expr) == []


def test_views_are_picked_without_their_data() -> None:
    array = pa.array(["a text that is longer than twelve bytes", "short", None] * 10, pa.string_view())
    found = filtered(numbered(c=array), Comparison("<", Column("id"), Literal(2, LONG)))["c"].chunk(0)
    assert is_view(found.type)
    assert found.to_pylist() == array.to_pylist()[:2]
    assert found.buffers()[2].address == array.buffers()[2].address
    found.validate(full=True)


def test_views_of_a_slice_are_picked_from_it() -> None:
    array = pa.array(["a text that is longer than twelve bytes", "short", None] * 10, pa.string_view())
    batch = numbered(c=array).slice(7, 11)
    found = filtered(batch, Comparison(">", Column("id"), Literal(12, LONG)))
    assert found["c"].to_pylist() == array.to_pylist()[13:18]


def test_batch_of_which_all_rows_pass_is_not_copied() -> None:
    batch = numbered(c=pa.array(["a", "b"]))
    (found,) = filtered(batch, Comparison(">=", Column("id"), Literal(0, LONG))).to_batches()
    assert found["c"].buffers()[2].address == batch["c"].buffers()[2].address


def test_filter_alone_gives_out_each_batch_before_the_next_comes() -> None:
    batch = numbered(c=pa.array(["a", "b"]))
    stage = SourceStage(StageWork(filters=(Not(IsNull(Column("c"))),)), batch.schema, batch.schema)
    for _ in range(3):
        assert [one.num_rows for one in stage.add(batch)] == [2]
    assert list(stage.finish()) == []


def test_column_that_only_a_filter_needs_is_not_given_out() -> None:
    batch = numbered(c=pa.array([1, 2, 3], LONG))
    assert filtered(batch, Comparison(">", Column("c"), Literal(1, LONG)), sent=["id"]).to_pydict() == {"id": [1, 2]}


def test_rows_without_columns_are_counted() -> None:
    batch = numbered(c=pa.array([1, 2, None], LONG))
    stage = SourceStage(StageWork(filters=(Not(IsNull(Column("c"))),)), batch.schema, pa.schema([]))
    (found,) = stage.add(batch)
    assert (found.num_rows, found.num_columns) == (2, 0)


def test_batch_of_no_matching_row_gives_nothing() -> None:
    stage = SourceStage(
        StageWork(filters=(IsNull(Column("id")),)), numbered(c=pa.array([1])).schema, numbered(c=pa.array([1])).schema
    )
    assert list(stage.add(numbered(c=pa.array([1, 2])))) == []


def test_runtime_filter_drops_rows_while_that_pays() -> None:
    """It may leave rows in: when it drops hardly any, or short ones, it is given up."""
    keys = pa.array(range(1 << 16), LONG)
    short, long = numbered(c=keys), numbered(c=keys, text=pa.repeat("x" * 50, len(keys)))
    few = InList(Column("c"), tuple(Literal(i, LONG) for i in range(0, 1 << 16, 7)))
    most = Comparison("<", Column("c"), Literal((1 << 16) - 10, LONG))
    for batch, learnt, expected in (
        (long, few, [9363] * 4),
        (long, most, [65526, 65536, 65536, 65536]),
        (short, few, [9363, 65536, 65536, 65536]),
    ):
        stage = SourceStage(StageWork(runtime_filters=(learnt,)), batch.schema, batch.schema)
        assert [one.num_rows for _ in range(4) for one in stage.add(batch)] == expected


def test_runtime_filter_behind_another_is_judged_by_the_rows_that_it_looks_at() -> None:
    """Which are all of the batch: those that the first has dropped are looked up like the others."""
    keys = pa.array(range(1 << 16), LONG)
    batch = numbered(c=keys, d=keys, text=pa.repeat("x" * 50, len(keys)))
    few = InList(Column("c"), tuple(Literal(i, LONG) for i in range(0, 1 << 16, 64)))
    half = Comparison("<", Column("d"), Literal(1 << 15, LONG))
    stage = SourceStage(StageWork(runtime_filters=(few, half)), batch.schema, batch.schema)
    assert [one.num_rows for _ in range(3) for one in stage.add(batch)] == [512, 1024, 1024]


def test_long_list_is_walked_once_and_not_for_each_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    walked = 0

    def children(self: InList) -> tuple[Expr, ...]:
        nonlocal walked
        walked += 1
        return (self.operand, *self.values)

    monkeypatch.setattr(InList, "children", children)
    batch = numbered(c=pa.array([1, 2, 3], LONG))
    listed = InList(Column("c"), (Literal(1, LONG), Literal(3, LONG)))
    stage = SourceStage(StageWork(filters=(listed,)), batch.schema, batch.schema)
    counts = []
    for _ in range(3):
        assert [one.num_rows for one in stage.add(batch)] == [2]
        counts.append(walked)
    assert counts[0] == counts[2]


@pytest.mark.parametrize("type_", [pa.int8(), pa.int32(), LONG], ids=str)
@pytest.mark.parametrize("distance", [1, 3, 50_000, 2**24])
def test_lists_of_integers_near_and_far_are_found(type_: pa.DataType, distance: int) -> None:
    """Near ones by a table, far ones by a hash; the ends of the type are no places outside of it."""
    bits = type_.bit_width
    ends = [-(2 ** (bits - 1)), -(2 ** (bits - 1)) + 1, 2 ** (bits - 1) - 2, 2 ** (bits - 1) - 1]
    numbers = [number for number in range(-8 * distance, 8 * distance, distance) if ends[0] < number < ends[-1]]
    integers = [*ends, *numbers, *(number + 1 for number in numbers), None]
    batch = numbered(c=pa.array(integers, type_))
    for chosen in (numbers, numbers[:2], [*numbers, ends[0]], [*numbers, ends[-1]], ends):
        literals = [Literal(value, type_) for value in chosen]
        expected = [i for i, value in enumerate(integers) if value in chosen]
        assert ids(batch, InList(Column("c"), tuple(literals))) == expected
        with_null = InList(Column("c"), (*literals, Literal(None, type_)))
        assert ids(batch, with_null) == expected
        assert ids(batch, Not(with_null)) == []


def test_list_of_days_is_found() -> None:
    days = [dt.date(1582, 10, 4), dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2024, 2, 29), None]
    batch = numbered(c=pa.array(days, pa.date32()))
    for chosen in (days[:3], days[1:4]):
        literals = tuple(Literal(day, pa.date32()) for day in chosen)
        assert ids(batch, InList(Column("c"), literals)) == [days.index(day) for day in chosen]


def test_runtime_filter_of_null_keys_keeps_no_row_that_is_null() -> None:
    batch = numbered(c=pa.array([1, None, 2], LONG))
    learnt = InList(Column("c"), (Literal(1, LONG), Literal(None, LONG)))
    stage = SourceStage(StageWork(runtime_filters=(learnt,)), batch.schema, batch.schema)
    assert [one["id"].to_pylist() for one in stage.add(batch)] == [[0]]


REFUSED = [
    Comparison("=", Call("+", (Column("i"), Column("i"))), Literal(1, pa.int32())),
    Comparison("=", Call("/", (Column("d"), Column("e"))), Literal(1.0, pa.float64())),
    Comparison("=", Call("%", (Column("i"), Column("i"))), Literal(1, pa.int32())),
    Comparison("=", Call("%", (Column("i"), Literal(0, pa.int32()))), Literal(1, pa.int32())),
    Comparison("=", Cast(Column("s"), "int"), Literal(1, pa.int32())),
    Comparison("=", Cast(Column("l"), "int"), Literal(1, pa.int32())),
    Comparison("=", Cast(Column("s"), "string collate UTF8_LCASE"), Literal("a", pa.string())),
    Comparison("=", Column("st", ("x",)), Literal(1, pa.int32())),
    Comparison("=", Call("UPPER", (Column("s"),)), Literal("A", pa.string())),
    StringMatch("CONTAINS", Column("s"), Column("r")),
    And(Not(IsNull(Column("i"))), Comparison("=", Call("ABS", (Column("i"),)), Literal(1, pa.int32()))),
    Column("i"),
]


@pytest.mark.parametrize("expr", REFUSED, ids=repr)
def test_filter_that_may_fail_or_that_spark_does_better_is_refused(expr: Expr) -> None:
    assert why_not_filter(expr, SCHEMA)


def test_filter_that_overflows_is_taken_where_it_wraps() -> None:
    expr = REFUSED[0]
    assert why_not_filter(expr, SCHEMA, ansi=False) is None
    batch = pa.RecordBatch.from_pydict({"id": [0, 1], "i": pa.array([2**31 - 1, 3], pa.int32())})
    wrapped = Comparison("=", Call("+", (Column("i"), Column("i"))), Literal(-2, pa.int32()))
    assert ids(batch, wrapped, ansi=False) == [0]


def test_sum_that_cannot_overflow_is_taken_with_ansi() -> None:
    wide = Call("+", (Cast(Column("i"), "bigint"), Literal(2**40, LONG)))
    assert why_not_filter(Comparison("=", wide, Literal(1, LONG)), SCHEMA) is None
    assert why_not_filter(Comparison("=", Call("*", (wide, wide)), Literal(1, LONG)), SCHEMA)


def test_long_list_of_keys_and_what_is_no_list_are_no_runtime_filters() -> None:
    many = InList(Column("l"), tuple(Literal(i, LONG) for i in range(20_000)))
    assert why_not_runtime_filter(many, SCHEMA)
    assert why_not_runtime_filter(IsNull(Column("l")), SCHEMA)
    assert why_not_runtime_filter(InList(Column("l"), many.values[:100]), SCHEMA) is None
