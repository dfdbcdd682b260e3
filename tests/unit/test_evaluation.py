"""The reference evaluation of functions, arithmetic and casts: failures, refusals, laziness, result types.

What the answers are is compared with Spark itself in tests/spark/test_expressions_spark.py.
"""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import EvaluationError
from headrace.expr import arithmetic
from headrace.expr.arithmetic import decimal_result
from headrace.expr.civil import DATE_FIELDS, date_text, days_of, year_month_day
from headrace.expr.nodes import And, Call, Cast, Column, Comparison, Expr, IsNull, Literal, Not, Or

A = Column("a")


def truths(expr: Expr, **columns: object) -> list[bool | None]:
    return list(expr.evaluate(pa.RecordBatch.from_pydict(columns)).to_pylist())


def test_evaluate_cast_without_a_reference_raises_and_names_it() -> None:
    for column, target in ((pa.array([1.5]), "string"), (pa.array(["x"]), "timestamp"), (pa.array([1]), "binary")):
        with pytest.raises(NotImplementedError, match=rf"CAST\(a AS {target}\)"):
            truths(IsNull(Cast(A, target)), a=column)


def call(name: str, *args: object) -> Call:
    """A function call; plain Python values are literals of the type that Spark gives them."""
    typed = {int: pa.int32(), str: pa.string(), float: pa.float64()}
    return Call(name, tuple(arg if isinstance(arg, Expr) else Literal(arg, typed[type(arg)]) for arg in args))


I32, TEXT = pa.int32(), pa.string()


@pytest.mark.parametrize(
    ("condition", "expr", "column"),
    [
        ("ARITHMETIC_OVERFLOW", IsNull(call("+", A, 1)), pa.array([2**31 - 1], I32)),
        ("ARITHMETIC_OVERFLOW", IsNull(call("-", A)), pa.array([-(2**31)], I32)),
        ("BINARY_ARITHMETIC_OVERFLOW", IsNull(call("*", A, A)), pa.array([100], pa.int8())),
        ("DIVIDE_BY_ZERO", IsNull(call("/", 1.0, A)), pa.array([1.0, 0.0])),
        ("REMAINDER_BY_ZERO", IsNull(call("%", 1, A)), pa.array([0], I32)),
        ("CAST_INVALID_INPUT", IsNull(Cast(A, "int")), pa.array(["1", "1.5"])),
        ("CAST_OVERFLOW", IsNull(Cast(A, "tinyint")), pa.array([128], I32)),
        ("NUMERIC_VALUE_OUT_OF_RANGE", IsNull(Cast(A, "decimal(3,1)")), pa.array([100], I32)),
    ],
)
def test_evaluate_what_fails_in_spark_raises_with_ansi_only(condition: str, expr: Expr, column: pa.Array) -> None:
    batch = pa.record_batch({"a": column})
    with pytest.raises(EvaluationError, match=condition) as caught:
        expr.evaluate(batch)
    assert caught.value.condition == condition
    assert pickle.loads(pickle.dumps(caught.value)).condition == condition
    assert len(expr.evaluate(batch, ansi=False)) == len(column)


@pytest.mark.parametrize(
    "expr",
    [
        And(Not(Comparison("=", A, Literal(0, I32))), Comparison("=", call("%", 7, A), Literal(1, I32))),
        Or(Comparison("=", A, Literal(0, I32)), Comparison("=", call("%", 7, A), Literal(1, I32))),
        Comparison("=", Call("CASE_WHEN", (Comparison("=", A, Literal(0, I32)), A, call("%", 7, A))), Literal(1, I32)),
        Comparison(
            "=", call("COALESCE", Call("CASE_WHEN", (Comparison("=", A, Literal(0, I32)), A)), call("%", 7, A)), A
        ),
        IsNull(call("%", Literal(None, I32), Literal(0, I32))),
        IsNull(call("+", Call("CASE_WHEN", (Not(Comparison("=", A, Literal(0, I32))), A)), call("%", 7, A))),
    ],
)
def test_evaluate_what_spark_does_not_evaluate_cannot_fail(expr: Expr) -> None:
    assert len(truths(expr, a=pa.array([0, 2, 3, None], I32))) == 4


@pytest.mark.parametrize(
    ("left", "op", "right", "result"),
    [
        ((10, 2), "+", (20, 5), (21, 5)),
        ((38, 10), "+", (38, 2), (38, 6)),
        ((10, 2), "*", (20, 5), (31, 7)),
        ((38, 10), "*", (38, 10), (38, 6)),
        ((10, 2), "/", (20, 5), (36, 23)),
        ((38, 10), "/", (38, 10), (38, 6)),
        ((10, 2), "%", (20, 5), (13, 5)),
    ],
)
def test_decimal_result_follows_spark(
    left: tuple[int, int], op: str, right: tuple[int, int], result: tuple[int, int]
) -> None:
    assert decimal_result(op, pa.decimal128(*left), pa.decimal128(*right)) == pa.decimal128(*result)


@pytest.mark.parametrize(
    ("op", "left", "right", "result"),
    [
        ("/", ("1e-9", 9, 9), ("-5037040476", 38, 0), "-0.00000000000000000019852927622176209012"),
        (
            "-",
            ("-9", 1, 0),
            ("-99999999999999999999999999999999999999", 38, 0),
            "99999999999999999999999999999999999990",
        ),
        ("%", ("-0.99999999999999999999999999999999999999", 38, 38), ("1", 1, 0), "-0." + "9" * 38),
    ],
)
def test_decimals_of_many_digits_are_cut_and_rounded_as_spark_does(
    op: str, left: tuple[str, int, int], right: tuple[str, int, int], result: str
) -> None:
    a, b = (pa.array([Decimal(text)], pa.decimal128(p, s)) for text, p, s in (left, right))
    assert arithmetic.call(op, [a, b], ansi=True).to_pylist() == [Decimal(result)]


@pytest.mark.parametrize("ansi", [True, False])
def test_remainder_of_decimals_too_far_apart_fails_as_in_spark(ansi: bool) -> None:
    far, near = pa.array([Decimal("9" * 38)], pa.decimal128(38, 0)), pa.array([Decimal("7e-38")], pa.decimal128(38, 38))
    with pytest.raises(EvaluationError, match="DIVISION_IMPOSSIBLE"):
        arithmetic.call("%", [far, near], ansi)
    exact = pa.array([Decimal("1e-38")], pa.decimal128(38, 38))  # 10**39 such and no rest: its digits are few
    assert arithmetic.call("%", [pa.array([Decimal(10)], pa.decimal128(2, 0)), exact], ansi).to_pylist() == [0]


def test_evaluate_time_zone_of_the_session_decides_or_is_asked_for() -> None:
    at = pa.array([dt.datetime(2023, 12, 31, 23, 30, tzinfo=dt.UTC)], pa.timestamp("us", tz="UTC"))
    year = Comparison("=", call("EXTRACT_YEAR", Cast(A, "date")), Literal(2024, I32))
    with pytest.raises(NotImplementedError, match="time_zone"):
        truths(year, a=at)
    batch = pa.record_batch({"a": at})
    assert year.evaluate(batch, time_zone="Europe/Paris").to_pylist() == [True]
    assert year.evaluate(batch, time_zone="UTC").to_pylist() == [False]


def test_evaluate_fields_of_a_time_before_1970_count_upwards() -> None:
    at = pa.array([-1, -61_000_000, 3_723_999_999], pa.timestamp("us"))
    for field, wanted in (("HOUR", [23, 23, 1]), ("MINUTE", [59, 58, 2]), ("SECOND", [59, 59, 3])):
        for i, value in enumerate(wanted):
            assert truths(Comparison("=", call(f"EXTRACT_{field}", A), Literal(value, I32)), a=at)[i], (field, value)


def test_evaluate_dates_beyond_those_of_python() -> None:
    days = pa.array([-(2**31), -719_529, 2**31 - 1], I32).cast(pa.date32())
    for field, wanted in (("YEAR", [-5877641, -1, 5881580]), ("MONTH", [6, 12, 7]), ("DAY", [23, 31, 11])):
        for i, value in enumerate(wanted):
            assert truths(Comparison("=", call(f"EXTRACT_{field}", A), Literal(value, I32)), a=days)[i], (field, value)
    texts = ["-5877641-06-23", "-0001-12-31", "+5881580-07-11"]
    for i, text in enumerate(texts):
        assert truths(Comparison("=", Cast(A, "string"), Literal(text, TEXT)), a=days)[i]


@given(st.dates())
def test_civil_days_are_those_of_python(day: dt.date) -> None:
    days = (day - dt.date(1970, 1, 1)).days
    assert year_month_day(days) == (day.year, day.month, day.day)
    assert days_of(day.year, day.month, day.day) == days
    year, week, weekday = day.isocalendar()
    fields = (DATE_FIELDS[name](days) for name in ("YEAR_OF_WEEK", "WEEK", "DAY_OF_WEEK", "DAY_OF_YEAR"))
    assert tuple(fields) == (year, week, weekday, day.timetuple().tm_yday)
    assert date_text(days) == day.isoformat()
