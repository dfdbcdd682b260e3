"""Guarantees and container pruning, against brute force by the reference evaluation."""

from __future__ import annotations

import datetime as dt
import math
import pickle
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import cases
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
    Or,
    StringMatch,
)
from headrace.pruning.guarantee import Bound, Guarantee, after_prefix
from headrace.pruning.predicate import ColumnStats, ContainerStats, PruningPredicate, guarantees
from random_predicates import ORDER, POOLS, SCHEMA, one_batch, random_leaf, random_predicate, random_table

A, B = Column("a"), Column("b")
NAN = math.nan


def lit(value: Any, type_: pa.DataType | None = None) -> Literal:
    return Literal(value, type_ or pa.scalar(value).type)


def cmp(op: Any, value: Any, column: Expr = A) -> Comparison:
    return Comparison(op, column, lit(value))


def starts(prefix: Any) -> StringMatch:
    return StringMatch("STARTS_WITH", A, lit(prefix))


@pytest.mark.parametrize(
    ("filters", "text"),
    [
        ([cmp("=", 1)], "in {1}, not null"),
        ([cmp("<=>", 1)], "in {1}, not null"),
        ([IsNull(A)], "in {None}"),
        ([cmp(">", 1), cmp("<=", 9)], "> 1, <= 9, not null"),
        ([Comparison("<", lit(1), A)], "> 1, not null"),
        ([Not(cmp("=", 1)), Not(cmp("=", 2))], "not in {1, 2}, not null"),
        ([Not(cmp("<=>", 1))], "not in {1}, or null"),
        ([Not(InList(A, (lit(1), lit(2))))], "not in {1, 2}, not null"),
        ([InList(A, (lit(1), lit(9))), cmp(">", 5)], "in {9}, not null"),
        ([Or(cmp("<", 3), And(cmp(">", 5), cmp("<", 7)))], "<= 6, not null"),
        ([Or(cmp("<", 3), cmp("<=", 3))], "<= 3, not null"),
        ([Or(cmp("<=", 3), cmp("<", 3))], "<= 3, not null"),
        ([Or(cmp(">=", 3), cmp(">", 3))], ">= 3, not null"),
        ([Or(cmp("=", 3), IsNull(A))], "in {3, None}"),
        ([Or(cmp(">", 3), IsNull(A))], "> 3, or null"),
        ([Not(Or(cmp("<", 3), cmp(">", 5)))], ">= 3, <= 5, not null"),
        ([cmp(">", 4), cmp("<", 6)], "in {5}, not null"),
        ([cmp(">=", 4), cmp("<", 6), Not(cmp("=", 4))], "in {5}, not null"),
        ([starts("ab"), starts("abc")], ">= 'abc', < 'abd', starts with 'abc', not null"),
        ([Or(starts("abc"), cmp("=", "abx"))], ">= 'abc', <= 'abx', starts with 'ab', not null"),
        ([StringMatch("ENDS_WITH", A, lit("x"))], "not null"),
        ([Comparison("=", A, lit(True))], "in {True}, not null"),
        ([Not(A)], "in {False}, not null"),
        ([Not(cmp("=", True))], "in {False}, not null"),
        ([cmp("<", NAN)], "not in {nan}, not null"),
        ([cmp(">=", NAN)], "in {nan}, not null"),
        ([cmp("<=", NAN)], "not null"),
        ([Comparison("=", A, B)], "not null"),
        ([Comparison("=", Cast(A, "bigint"), lit(5))], "not null"),
        ([cmp(">", 1), cmp("<", "x")], "> 1, not null"),
    ],
)
def test_guarantees_of_supported_forms(filters: list[Expr], text: str) -> None:
    assert repr(guarantees(filters)["a"]) == f"Guarantee({text})"


@pytest.mark.parametrize(
    "filters",
    [
        [cmp("=", 1), cmp("=", 2)],
        [cmp(">", 2), cmp("<", 2)],
        [cmp(">", 2), cmp("<", 3)],
        [IsNull(A), cmp(">", 2)],
        [Not(InList(A, (lit(1), lit(None, pa.int64()))))],
        [Comparison("=", A, lit(None, pa.int64()))],
        [InList(A, ())],
        [starts("ab"), starts("ba")],
        [cmp(">", NAN)],
        [cmp("=", NAN), cmp("<", 5.0)],
        [IsNull(A), Not(IsNull(A))],
        [cmp(">", 2), lit(False)],
    ],
)
def test_guarantees_of_contradictions_are_empty(filters: list[Expr]) -> None:
    found = guarantees(filters)["a"]
    assert found.is_empty
    assert found.values == frozenset()


def test_guarantees_contradiction_in_one_column_empties_all() -> None:
    found = guarantees([cmp("=", 1), cmp("=", 2), cmp(">", 3, Column("s", ("x",)))])
    assert set(found) == {"a", "s", "s.x"}
    assert all(guarantee.is_empty for guarantee in found.values())


@pytest.mark.parametrize(
    "filters",
    [
        [],
        [Or(cmp("=", 1), cmp("=", 2, B))],
        [Comparison("=", Call("ABS", (A,)), lit(1))],
        [Not(Comparison("=", Call("ABS", (A,)), lit(1)))],
        [Or(cmp("=", 1), Call("ANYTHING", ()))],
        [IsNull(Cast(A, "int"))],
        [Comparison("<=>", A, B)],
    ],
)
def test_guarantees_where_nothing_is_certain_are_absent(filters: list[Expr]) -> None:
    assert guarantees(filters) == {}


def test_guarantees_of_nested_field_use_dotted_key_and_parent_is_not_null() -> None:
    found = guarantees([cmp("=", 1, Column("a", ("b",)))])
    assert found == {"a.b": guarantees([cmp("=", 1)])["a"], "a": Guarantee(not_null=True)}


def test_guarantees_column_named_like_a_path_hides_the_nested_field() -> None:
    found = guarantees([cmp("=", 1, Column("a", ("b",))), cmp("=", 2, Column("a.b"))])
    assert found["a.b"].values == frozenset([2])


@pytest.mark.parametrize(
    ("column_type", "cast", "op", "value", "text"),
    [
        (pa.int32(), "bigint", "=", lit(5), "in {5}, not null"),
        (pa.int32(), "double", ">", lit(1.5), ">= 2, not null"),
        (pa.int32(), "double", "<", lit(1.5), "<= 1, not null"),
        (pa.int32(), "double", "<", lit(NAN), "not null"),
        (pa.int32(), "double", "=", lit(1.5), "nothing passes"),
        (pa.int32(), "double", ">", lit(math.inf), "nothing passes"),
        (pa.int32(), "decimal(12,2)", "<=", lit(Decimal("2.00"), pa.decimal128(12, 2)), "<= 2, not null"),
        (pa.float32(), "double", ">", lit(0.1), "> 0.1, not null"),
        (pa.string(), "bigint", "=", lit(5), "not null"),
        (pa.int64(), "double", "=", lit(5.0), "not null"),
        (pa.float64(), "float", "=", lit(5.0, pa.float32()), "not null"),
    ],
)
def test_guarantees_see_through_widening_casts_only(
    column_type: pa.DataType, cast: str, op: Any, value: Literal, text: str
) -> None:
    found = guarantees([Comparison(op, Cast(A, cast), value)], schema=pa.schema([("a", column_type)]))
    assert repr(found["a"]) == f"Guarantee({text})"


def test_guarantee_values_are_found_by_ordinary_means() -> None:
    found = guarantees([InList(A, (lit(float("nan")), lit(-0.0)))])["a"]
    assert found.values is not None
    assert math.nan in found.values
    assert 0.0 in found.values
    assert found.allows(float("nan"))
    assert not found.allows(1.0)
    assert not found.allows(None)
    assert found.upper is None
    assert found.lower == Bound(0.0, True)


@pytest.mark.parametrize(
    ("prefix", "after"),
    [
        ("ab", "ac"),
        ("a\U0010ffff", "b"),
        ("\U0010ffff", None),
        ("a\ud7ff", "a\ue000"),
        (b"a\xff", b"b"),
        (b"\xff", None),
    ],
)
def test_after_prefix_is_the_next_value(prefix: str | bytes, after: str | bytes | None) -> None:
    assert after_prefix(prefix) == after


@settings(max_examples=cases(300), deadline=None)
@given(st.integers(0, 2**32).map(Random))
def test_guarantees_random_filters_never_exclude_a_row_that_passes(rng: Random) -> None:
    table = random_table(Random(rng.randint(0, 50)), 30)
    filters = random_filters(rng)
    for schema in (None, SCHEMA):
        found = guarantees(filters, schema=schema)
        for row in passing(filters, table).to_pylist():
            for name, guarantee in found.items():
                assert guarantee.allows(field(row, name)), (name, guarantee, row)


def random_filters(rng: Random) -> list[Expr]:
    """Filters over all columns, or over one, where they meet more often."""
    columns = "".join(POOLS) if rng.random() < 0.3 else rng.choice([*POOLS])
    return [random_predicate(rng, 3, columns, nested=len(columns) > 1) for _ in range(rng.randint(1, 2))]


def passing(filters: list[Expr], table: pa.Table) -> pa.Table:
    batch = one_batch(table)
    for expr in filters:
        batch = batch.filter(expr.evaluate(batch))
    return pa.Table.from_batches([batch])


def field(row: dict[str, Any], name: str) -> Any:
    value: Any = row
    for part in name.split("."):
        value = None if value is None else value[part]
    return value


def stats_of(table: pa.Table, rng: Random) -> ContainerStats:
    """Statistics as formats write them: NaN left out, strings perhaps cut, some missing."""
    columns = {}
    for name in [*POOLS, "st.x", "st.s"]:
        values = [field(row, name) for row in table.to_pylist()]
        plain = [value for value in values if value is not None and value == value]
        low: Any = min(plain, default=None)
        high: Any = max(plain, default=None)
        cut = False
        if plain and isinstance(low, (str, bytes)) and rng.random() < 0.5:
            low, high, cut = low[:1], high[:1], True
        nans = sum(value is not None and value != value for value in values)
        if rng.random() < 0.8:
            columns[name] = ColumnStats(
                min=low if rng.random() < 0.9 else None,
                max=high if rng.random() < 0.9 else None,
                null_count=values.count(None) if rng.random() < 0.8 else None,
                nan_count=nans if rng.random() < 0.3 else None,
                truncated=cut,
            )
    return ContainerStats(columns, table.num_rows if rng.random() < 0.8 else None)


@settings(max_examples=cases(150), deadline=None)
@given(st.integers(0, 2**32).map(Random))
def test_keep_random_filters_never_drop_a_container_with_a_match(rng: Random) -> None:
    tables = [random_table(Random(rng.randint(0, 200)), rng.randint(0, 3)) for _ in range(8)]
    filters = random_filters(rng)
    stats = [stats_of(table, Random(rng.randint(0, 200))) for table in tables]

    kept = PruningPredicate(filters, SCHEMA).keep(stats)

    for table, keep in zip(tables, kept, strict=True):
        assert keep or passing(filters, table).num_rows == 0


@settings(max_examples=cases(300), deadline=None)
@given(st.integers(0, 2**32).map(Random))
def test_keep_conjunctions_on_an_integer_drop_all_that_the_bounds_rule_out(rng: Random) -> None:
    schema = pa.schema([("i", pa.int64())])

    def small() -> Literal:
        return Literal(None if rng.random() < 0.05 else rng.randint(0, 6), pa.int64())

    def leaf() -> Expr:
        expr = random_leaf(rng, "i", nested=False)
        if isinstance(expr, InList):
            expr = InList(Column("i"), (small(), small()))
        elif not isinstance(expr, IsNull):
            expr = Comparison(rng.choice(ORDER), Column("i"), small())
        return Not(expr) if rng.random() < 0.4 else expr

    filters = [leaf() for _ in range(rng.randint(1, 3))]
    low = rng.randint(0, 6)
    high = rng.randint(low, 6)
    nulls = rng.choice([0, 1])
    possible = pa.table({"i": [*range(low, high + 1), *[None] * nulls]}, schema=schema)

    stats = ContainerStats({"i": ColumnStats(low, high, nulls)}, row_count=10)
    kept = PruningPredicate(filters, schema).keep([stats])

    assert kept == [passing(filters, possible).num_rows > 0], (filters, stats)


def keep(filters: list[Expr], type_: pa.DataType, row_count: int | None = 10, **stats: Any) -> bool:
    schema = pa.schema([("a", type_), ("b", pa.int64())])
    return PruningPredicate(filters, schema).keep([ContainerStats({"a": ColumnStats(**stats)}, row_count)])[0]


def test_keep_missing_statistics_keep_the_container() -> None:
    predicate = PruningPredicate([cmp("=", 1)], pa.schema([("a", pa.int64())]))
    unknown = [ContainerStats(), ContainerStats({"a": ColumnStats()}), ContainerStats(row_count=3)]
    assert predicate.keep(unknown) == [True, True, True]
    assert predicate.keep([ContainerStats(row_count=0)]) == [False]


def test_keep_all_null_container_holds_no_match_but_is_null() -> None:
    assert not keep([cmp("=", 1)], pa.int64(), null_count=10)
    assert not keep([Not(cmp("=", 1))], pa.int64(), null_count=10)
    assert keep([IsNull(A)], pa.int64(), null_count=10)
    assert not keep([IsNull(A)], pa.int64(), null_count=0)
    assert keep([cmp("=", 1)], pa.int64(), row_count=None, null_count=10)


def test_keep_float_bounds_do_not_speak_of_nan() -> None:
    stats: dict[str, Any] = {"min": 1.0, "max": 2.0}
    assert keep([cmp(">", 5.0)], pa.float64(), **stats)
    assert not keep([cmp(">", 5.0)], pa.float64(), **stats, nan_count=0)
    assert not keep([cmp("<", 0.5)], pa.float64(), **stats)
    assert keep([cmp("=", NAN)], pa.float64(), **stats)
    assert keep([cmp("=", 5.0)], pa.float64(), min=NAN, max=NAN)
    assert keep([cmp("=", 0.0)], pa.float64(), min=-0.0, max=-0.0, nan_count=0)
    assert keep([Not(cmp("=", 1.0))], pa.float64(), min=1.0, max=1.0)
    assert not keep([Not(cmp("=", 1.0))], pa.float64(), min=1.0, max=1.0, nan_count=0)


def test_keep_truncated_maximum_is_a_prefix() -> None:
    beyond = cmp(">", "abz")
    assert not keep([beyond], pa.string(), min="aa", max="ab")
    assert keep([beyond], pa.string(), min="aa", max="ab", truncated=True)
    assert not keep([cmp(">=", "ac")], pa.string(), min="aa", max="ab", truncated=True)
    assert keep([cmp("=", b"\xff\xff")], pa.binary(), min=b"a", max=b"\xff", truncated=True)


def test_keep_prefix_and_its_negation() -> None:
    assert not keep([starts("b")], pa.string(), min="aa", max="az")
    assert keep([starts("a")], pa.string(), min="Z", max="ab")
    assert not keep([Not(starts("a"))], pa.string(), min="aa", max="az")
    assert keep([Not(starts("a"))], pa.string(), min="aa", max="b")


@pytest.mark.parametrize(
    ("type_", "low", "high", "inside", "outside"),
    [
        (pa.int8(), 1, 3, lit(2, pa.int8()), lit(4, pa.int8())),
        (pa.uint64(), 1, 3, lit(Decimal(2), pa.decimal128(20, 0)), lit(Decimal(4), pa.decimal128(20, 0))),
        (pa.decimal128(9, 2), Decimal("1.00"), Decimal("1.50"), lit(Decimal("1.5")), lit(Decimal("1.51"))),
        (pa.string(), "a", "c", lit("b"), lit("d")),
        (pa.large_string(), "\ufffd", "\ufffe", lit("\ufffd"), lit("😀")),
        (pa.dictionary(pa.int8(), pa.string()), "a", "c", lit("b"), lit("d")),
        (pa.binary(), b"\x7f", b"\x80", lit(b"\x80"), lit(b"\x81")),
        (pa.bool_(), False, False, lit(False), lit(True)),
        (pa.date32(), dt.date.min, dt.date(2024, 1, 3), lit(dt.date(2024, 1, 2)), lit(dt.date(2024, 1, 4))),
        (
            pa.timestamp("us"),
            dt.datetime(2024, 1, 1),
            dt.datetime(2024, 1, 3),
            lit(dt.datetime(2024, 1, 2)),
            lit(dt.datetime(2024, 1, 4)),
        ),
        (
            pa.timestamp("ns", tz="Europe/Paris"),
            dt.datetime(2024, 1, 1),
            dt.datetime(2024, 1, 3, tzinfo=dt.timezone(dt.timedelta(hours=2))),
            lit(dt.datetime(2024, 1, 2, tzinfo=dt.UTC)),
            lit(dt.datetime(2024, 1, 3, tzinfo=dt.UTC)),
        ),
        (pa.float32(), pa.scalar(1.0, pa.float32()), 3, lit(2.0, pa.float32()), lit(4.0, pa.float32())),
    ],
)
def test_keep_every_type_by_its_bounds(
    type_: pa.DataType, low: Any, high: Any, inside: Literal, outside: Literal
) -> None:
    assert keep([Comparison("=", A, inside)], type_, min=low, max=high)
    assert not keep([Comparison("=", A, outside)], type_, min=low, max=high)


def test_keep_or_over_two_columns_needs_both_ruled_out() -> None:
    predicate = PruningPredicate([Or(cmp("=", 1), cmp("=", 2, B))], pa.schema([("a", pa.int64()), ("b", pa.int64())]))
    far = ColumnStats(10, 20)
    near = ColumnStats(0, 5)
    containers = [{"a": far, "b": far}, {"a": far, "b": near}, {"a": near, "b": far}, {"a": far}]
    assert predicate.keep([ContainerStats(columns) for columns in containers]) == [False, True, True, True]


def test_keep_bound_of_wrong_type_raises_and_names_the_column() -> None:
    with pytest.raises(TypeError, match=r"column 'a'.*'x'"):
        keep([cmp("=", 1)], pa.int64(), min="x", max="y")


def test_keep_unknown_parts_keep_the_container() -> None:
    assert keep([Comparison("=", Call("ABS", (A,)), lit(1))], pa.int64(), min=5, max=6)
    assert keep([cmp("=", 1)], pa.string(), min="x", max="y")
    assert keep([cmp("=", 1, Column("missing"))], pa.int64(), min=5, max=6)


def test_predicate_names_the_columns_whose_statistics_it_uses() -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("c", pa.string()), ("d", pa.int64())])
    nested = cmp("=", 1, Column("n", ("x",)))
    filters = [Or(cmp("=", 1), And(cmp("=", 2, B), nested)), StringMatch("CONTAINS", Column("c"), lit("x"))]
    assert PruningPredicate(filters, schema).columns == {"a", "b", "c", "n", "n.x"}
    assert PruningPredicate([Comparison("=", Call("ABS", (A,)), lit(1))], schema).columns == frozenset()


def test_predicate_that_was_used_and_pickled_answers_the_same() -> None:
    long = InList(A, tuple(lit(value) for value in range(0, 9000, 3)))
    containers = [ContainerStats({"a": ColumnStats(value, value)}) for value in (2, 3, 10_000)]
    predicate = PruningPredicate([long], pa.schema([("a", pa.int64())]))
    for _ in range(2):
        assert predicate.keep(containers) == [False, True, False]
        predicate = pickle.loads(pickle.dumps(predicate))


def test_keep_long_not_in_rules_out_what_holds_nothing_else() -> None:
    excluded = Not(InList(A, tuple(lit(value) for value in range(5000))))
    assert not keep([excluded], pa.int64(), min=0, max=4999)
    assert keep([excluded], pa.int64(), min=0, max=5000)
