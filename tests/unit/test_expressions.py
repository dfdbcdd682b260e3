"""Expr: text, equality, pickling, normal form and the reference evaluation."""

from __future__ import annotations

import datetime as dt
import math
import pickle
import subprocess
import sys
from decimal import Decimal
from random import Random

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
    legs,
)
from headrace.expr.normal_form import FALSE, NULL, TRUE, normal_form
from random_predicates import one_batch, random_predicate, random_table

A = Column("a")
ONE = Literal(1, pa.int64())
NULL_INT = Literal(None, pa.int64())
LESS = Comparison("<", A, ONE)


def truths(expr: Expr, **columns: object) -> list[bool | None]:
    return list(expr.evaluate(pa.RecordBatch.from_pydict(columns)).to_pylist())


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (Column("a", ("b",)), "a.b"),
        (Column("a.b"), "`a.b`"),
        (Column("we`ird"), "`we``ird`"),
        (Not(Comparison("=", A, ONE)), "a != 1"),
        (Not(IsNull(A)), "a IS NOT NULL"),
        (Not(InList(A, (ONE, NULL_INT))), "a NOT IN (1, NULL)"),
        (And(And(LESS, IsNull(A)), Or(LESS, LESS)), "(a < 1) AND (a IS NULL) AND ((a < 1) OR (a < 1))"),
        (Comparison("=", A, Literal("it's", pa.string())), "a = 'it''s'"),
        (Comparison("=", A, Literal(math.nan, pa.float64())), "a = NaN"),
        (Comparison("<", A, Literal(-math.inf, pa.float64())), "a < -Infinity"),
        (Comparison("=", A, Literal(b"\xff", pa.binary())), "a = X'FF'"),
        (Comparison("=", A, Literal(dt.date(2024, 1, 2), pa.date32())), "a = DATE '2024-01-02'"),
        (Comparison("=", A, Literal(Decimal("1.50"), pa.decimal128(5, 2))), "a = 1.50"),
        (StringMatch("CONTAINS", A, Literal("x", pa.string())), "CONTAINS(a, 'x')"),
        (Comparison("=", Call("UPPER", (Cast(A, "string"),)), ONE), "UPPER(CAST(a AS string)) = 1"),
        (Comparison("=", Call("+", (Call("%", (A, ONE)), Call("-", (A,)))), ONE), "(a % 1) + (-a) = 1"),
        (IsNull(Call("/", (A, ONE))), "a / 1 IS NULL"),
        (Call("CASE_WHEN", (LESS, ONE, IsNull(A), A)), "CASE WHEN a < 1 THEN 1 WHEN a IS NULL THEN a END"),
        (Call("CASE_WHEN", (LESS, ONE, A)), "CASE WHEN a < 1 THEN 1 ELSE a END"),
        (Comparison("=", Call("EXTRACT_YEAR", (A,)), ONE), "EXTRACT(YEAR FROM a) = 1"),
        (Comparison("=", Not(A), Literal(True, pa.bool_())), "(NOT a) = TRUE"),
    ],
)
def test_repr_is_readable_sql(expr: Expr, text: str) -> None:
    assert repr(expr) == text


def test_repr_of_a_long_list_shows_its_first_values() -> None:
    few, many = (tuple(Literal(i, pa.int64()) for i in range(n)) for n in (20, 1500))
    shown = ", ".join(map(str, range(20)))
    assert repr(InList(A, few)) == f"a IN ({shown})"
    assert repr(InList(A, many)) == f"a IN ({shown}, and 1,480 more)"
    assert repr(Or(LESS, Not(InList(A, many)))) == f"(a < 1) OR (a NOT IN ({shown}, and 1,480 more))"


def test_literal_nan_equals_nan_and_hashes_alike() -> None:
    a, b = Literal(float("nan"), pa.float64()), Literal(float("nan"), pa.float64())
    assert a == b
    assert hash(a) == hash(b)
    assert a != Literal(float("nan"), pa.float32())
    assert Literal(0.0, pa.float64()) == Literal(-0.0, pa.float64())


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        ([1, math.nan], pa.list_(pa.float64())),
        ({"x": [1]}, pa.struct([("x", pa.list_(pa.int64()))])),
        (bytearray(b"ab"), pa.binary()),
        (None, pa.null()),
        (dt.datetime(2024, 1, 1, tzinfo=dt.UTC), pa.timestamp("us", tz="UTC")),
    ],
)
def test_literal_of_any_value_is_hashable_and_pickles(value: object, type_: pa.DataType) -> None:
    literal = Literal(value, type_)
    copy = pickle.loads(pickle.dumps(literal))
    assert copy == literal
    assert hash(copy) == hash(literal)
    assert literal in {copy}


def test_literal_differs_by_type_and_kind_of_node() -> None:
    assert Literal(1, pa.int32()) != Literal(1, pa.int64())
    assert Literal(1, pa.int64()) != A


def test_walk_and_columns_reach_everything() -> None:
    expr = Or(Not(LESS), Comparison("=", Call("ABS", (Column("x", ("y",)),)), ONE))
    assert expr.columns() == {"a", "x"}
    assert [type(node).__name__ for node in expr.walk()][:4] == ["Or", "Not", "Comparison", "Column"]


def test_legs_flattens_a_chain_of_any_depth() -> None:
    chain: Expr = LESS
    for _ in range(5000):
        chain = Or(chain, LESS)
    assert len(legs(chain, Or)) == 5001
    assert chain.evaluate(pa.RecordBatch.from_pydict({"a": [0]})).to_pylist() == [True]
    assert normal_form(chain) == LESS
    assert repr(chain).count(" OR ") == 5000


def test_expressions_import_neither_spark_nor_sqlglot() -> None:
    code = (
        "import sys, headrace.expr.nodes, headrace.pruning.predicate, headrace.provider;"
        "assert not {'pyspark', 'sqlglot', 'pandas'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})


def test_evaluate_not_in_with_null_is_never_true() -> None:
    expr = Not(InList(A, (ONE, NULL_INT)))
    assert truths(expr, a=[1, 2, None]) == [False, None, None]


def test_evaluate_empty_in_list_is_false_even_for_null() -> None:
    assert truths(InList(A, ()), a=[1, None]) == [False, False]


def test_evaluate_float_order_puts_nan_above_all() -> None:
    five = Literal(5.0, pa.float64())
    values = [math.nan, math.inf, -0.0, None]
    assert truths(Comparison(">", A, five), a=values) == [True, True, False, None]
    assert truths(Comparison("=", A, Literal(math.nan, pa.float64())), a=values) == [True, False, False, None]
    assert truths(Comparison("=", A, Literal(0.0, pa.float64())), a=values) == [False, False, True, None]


def test_evaluate_null_safe_equality_is_never_null() -> None:
    assert truths(Comparison("<=>", A, NULL_INT), a=[1, None]) == [False, True]
    assert truths(Comparison("<=>", A, ONE), a=[1, None]) == [True, False]


def test_evaluate_nested_field_of_null_struct_is_null() -> None:
    column = pa.array([{"b": 1}, None, {"b": None}], pa.struct([("b", pa.int64())]))
    assert truths(IsNull(Column("a", ("b",))), a=column) == [False, True, True]


def test_evaluate_sees_arrow_types_as_spark_does() -> None:
    text = Comparison("<", A, Literal("b", pa.string()))
    for type_ in (pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())):
        assert truths(text, a=pa.array(["a", "b", None]).cast(type_)) == [True, False, None]
    big = Comparison("=", A, Literal(Decimal(2**64 - 1), pa.decimal128(20, 0)))
    assert truths(big, a=pa.array([2**64 - 1, 1], pa.uint64())) == [True, False]
    half = Comparison(">", A, Literal(1.0, pa.float32()))
    assert truths(half, a=pa.array([math.nan, 0.5], pa.float16())) == [True, False]


def test_evaluate_decimals_of_other_scale_compare_by_value() -> None:
    column = pa.array([Decimal("1.50"), Decimal("9" * 36 + ".99")], pa.decimal128(38, 2))
    fine = Literal(Decimal("1.5"), pa.decimal128(38, 36))
    assert truths(Comparison("=", A, fine), a=column) == [True, False]


def test_evaluate_unknown_function_raises_and_names_it() -> None:
    expr = Comparison("=", Call("SOUNDEX", (A,)), Literal("x", pa.string()))
    with pytest.raises(NotImplementedError, match="SOUNDEX"):
        truths(expr, a=["x"])


def test_evaluate_missing_column_and_value_expression_raise() -> None:
    with pytest.raises(KeyError, match="nope"):
        truths(IsNull(Column("nope")), a=[1])
    with pytest.raises(TypeError, match="not a predicate"):
        truths(A, a=[1])


def test_evaluate_empty_batch_gives_no_rows() -> None:
    assert LESS.evaluate(pa.RecordBatch.from_pydict({"a": pa.array([], pa.int64())})).to_pylist() == []


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (Not(LESS), Comparison(">=", A, ONE)),
        (Not(Not(LESS)), LESS),
        (Comparison("<", ONE, A), Comparison(">", A, ONE)),
        (Comparison("=", A, NULL_INT), NULL),
        (Comparison("<=>", NULL_INT, A), IsNull(A)),
        (InList(A, (ONE,)), Comparison("=", A, ONE)),
        (InList(A, ()), FALSE),
        (Not(InList(A, (ONE, NULL_INT))), And(Not(Comparison("=", A, ONE)), NULL)),
        (Or(LESS, Comparison("=", ONE, ONE)), TRUE),
        (And(LESS, Not(FALSE)), LESS),
        (Not(Or(LESS, IsNull(A))), And(Comparison(">=", A, ONE), Not(IsNull(A)))),
    ],
)
def test_normal_form_has_the_shape_translators_know(expr: Expr, expected: Expr) -> None:
    assert normal_form(expr) == expected


@settings(max_examples=cases(150), deadline=None)
@given(st.integers(0, 2**32).map(Random))
def test_normal_form_random_predicates_keep_their_meaning(rng: Random) -> None:
    batch = one_batch(random_table(Random(rng.randint(0, 50)), 30))
    expr = random_predicate(rng)
    assert normal_form(expr).evaluate(batch).equals(expr.evaluate(batch))


@pytest.mark.parametrize(
    "values",
    [
        (),
        (Literal(1, pa.int64()), Literal(None, pa.int64()), Literal(2, pa.int64())),
        (Literal(1, pa.int64()), Literal(1, pa.int32())),
        (Literal(-0.0, pa.float64()), Literal(float("nan"), pa.float64())),
        (Literal(1, pa.int64()), Column("b")),
        (Column("b"), Literal(1, pa.int64())),
    ],
    ids=repr,
)
def test_list_of_any_values_pickles(values: tuple[Expr, ...]) -> None:
    listed = InList(Column("a", ("b",)), values)
    copy = pickle.loads(pickle.dumps(listed))
    assert copy == listed
    assert [getattr(value, "type", None) for value in copy.values] == [getattr(v, "type", None) for v in values]


def test_long_list_of_constants_pickles_to_little_more_than_its_values() -> None:
    listed = InList(Column("a"), tuple(Literal(i * 1000, pa.int64()) for i in range(1000)))
    assert len(pickle.dumps(listed)) < 8000


@settings(max_examples=cases(100), deadline=None)
@given(st.integers(0, 2**32).map(Random))
def test_random_predicates_pickle_and_hash(rng: Random) -> None:
    expr = random_predicate(rng)
    copy = pickle.loads(pickle.dumps(expr))
    assert copy == expr
    assert hash(copy) == hash(expr)
    assert repr(copy) == repr(expr)
