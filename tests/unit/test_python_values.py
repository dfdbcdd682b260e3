"""Rows of Python values, pandas' and numpy's among them: each is itself or null in Arrow, or is refused."""

from __future__ import annotations

import datetime
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import headrace as hr
from headrace.arrow.data import opened, table_of
from headrace.arrow.python_values import array_of
from headrace.errors import RegistrationError, SchemaMismatchError
from headrace.tables.choose import provider_for

DAY = datetime.date(2024, 1, 2)
NOON = datetime.datetime(2024, 1, 2, 12)
LONG_AGO = np.datetime64("0001-01-01T00:00:00.000001", "us")
VALUES: dict[str, tuple[pa.DataType, list[Any], list[Any]]] = {
    "integers": (pa.int64(), [np.int8(1), 2, pd.NA, None], [1, 2, None, None]),
    "floats": (pa.float64(), [np.float32(1.5), pd.NA, 2.0], [1.5, None, 2.0]),
    "booleans": (pa.bool_(), [np.bool_(True), pd.NA], [True, None]),
    "texts": (pa.string(), [np.str_("a"), pd.NA, pd.NaT], ["a", None, None]),
    "bytes": (pa.binary(), [b"a", pd.NA], [b"a", None]),
    "days": (pa.date32(), [DAY, pd.NaT, np.datetime64("2024-01-02")], [DAY, None, DAY]),
    "moments": (
        pa.timestamp("us"),
        [pd.Timestamp(NOON), pd.NaT, np.datetime64(NOON, "s"), np.datetime64("NaT"), LONG_AGO],
        [NOON, None, NOON, None, LONG_AGO.item()],
    ),
    "moments of numpy's days": (pa.timestamp("us"), [np.datetime64("2024-01-02")], [datetime.datetime(2024, 1, 2)]),
    "durations": (
        pa.duration("us"),
        [pd.Timedelta(1, "s"), pd.NaT, np.timedelta64(1, "s")],
        [datetime.timedelta(seconds=1), None, datetime.timedelta(seconds=1)],
    ),
    "lists": (pa.list_(pa.int64()), [[1, pd.NA], pd.NA, np.array([np.int64(3)])], [[1, None], None, [3]]),
    "object arrays": (pa.list_(pa.int64()), [np.array([1, pd.NA], dtype=object)], [[1, None]]),
    "maps": (pa.map_(pa.string(), pa.int64()), [[("a", pd.NA), ("b", np.int8(1))]], [[("a", None), ("b", 1)]]),
    "structs": (pa.struct([("a", pa.date32())]), [{"a": pd.NaT}, {"a": DAY}], [{"a": None}, {"a": DAY}]),
}


PAIR = pa.struct([("a", pa.int64()), ("b", pa.string())])


class Pair(NamedTuple):
    b: Any
    a: Any


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ((1, "x"), {"a": 1, "b": "x"}),
        ((pd.NA, "x"), {"a": None, "b": "x"}),
        (Pair("x", np.int8(1)), {"a": 1, "b": "x"}),
        (Pair("x", pd.NA), {"a": None, "b": "x"}),
    ],
    ids=["tuple", "tuple with NA", "named tuple", "named tuple with NA"],
)
def test_tuple_in_a_row_is_a_struct_by_its_names_or_by_the_order(value: Any, expected: dict[str, Any]) -> None:
    assert array_of([value], pa.field("x", PAIR)).to_pylist() == [expected]


def test_named_tuple_of_one_type_is_never_read_by_the_order() -> None:
    two = pa.struct([("a", pa.int64()), ("b", pa.int64())])
    assert array_of([Pair(b=2, a=1)], pa.field("x", two)).to_pylist() == [{"a": 1, "b": 2}]
    with pytest.raises(SchemaMismatchError):
        array_of([Pair(b=2, a=1)], pa.field("x", pa.struct([("a", pa.int64()), ("c", pa.int64())])))


def test_integer_of_numpy_fits_a_decimal_as_pythons_does() -> None:
    decimals = pa.field("x", pa.decimal128(10, 2))
    assert array_of([np.int64(5), pd.NA], decimals).to_pylist() == array_of([5, None], decimals).to_pylist()


@pytest.mark.parametrize("case", VALUES)
def test_value_of_pandas_or_numpy_is_itself_or_null(case: str) -> None:
    type_, values, expected = VALUES[case]
    assert array_of(values, pa.field("x", type_)).to_pylist() == expected


@pytest.mark.parametrize("case", sorted(VALUES.keys() - {"maps", "moments", "moments of numpy's days"}))
def test_rows_without_a_schema_have_the_same_values(case: str) -> None:
    _, values, expected = VALUES[case]
    table = table_of([{"x": value} for value in values])
    assert table is not None
    assert table["x"].to_pylist() == expected


@pytest.mark.parametrize("unit", ["us", "ns"])
def test_rows_of_timestamps_with_missing_ones_are_moments(unit: str) -> None:
    rows = pd.DataFrame({"at": pd.Series([NOON, None]).astype(f"datetime64[{unit}]")}).to_dict("records")
    table = table_of(rows)
    assert table is not None
    assert table["at"].to_pylist() == [NOON, None]


def test_nanoseconds_of_numpy_keep_each_of_them() -> None:
    exact = np.datetime64("2024-01-02T00:00:00.000000001", "ns")
    assert array_of([exact], pa.field("x", pa.timestamp("ns"))).cast(pa.int64()).to_pylist() == [exact.astype(int)]
    with pytest.raises(SchemaMismatchError, match="column 'x'"):
        array_of([exact], pa.field("x", pa.timestamp("us")))


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (pa.int64(), np.float64(1.5)),
        (pa.int8(), np.int64(1000)),
        (pa.int64(), float("nan")),
        (pa.date32(), np.datetime64("2024-01-02T05")),
        (pa.timestamp("us", "UTC"), np.datetime64("2024-01-02T05", "us")),  # of no zone
        (pa.string(), np.int64(1)),
    ],
    ids=str,
)
def test_value_that_would_change_is_refused(type_: pa.DataType, value: Any) -> None:
    with pytest.raises(SchemaMismatchError, match="column 'x'"):
        array_of([pd.NA, value], pa.field("x", type_))


class Named(NamedTuple):
    name: str
    id: int


SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


def rows_in(value: Any, schema: pa.Schema = SCHEMA) -> list[dict[str, Any]]:
    found = opened(value, schema, "do not fit")
    assert found is not None
    return [row for batch in found[1] for row in batch.to_pylist()]


def test_tuples_have_the_order_of_the_columns_and_named_ones_their_names() -> None:
    assert rows_in([(1, "a"), (2, pd.NA)]) == [{"id": 1, "name": "a"}, {"id": 2, "name": None}]
    assert rows_in([Named("a", 1)]) == [{"id": 1, "name": "a"}]
    with pytest.raises(SchemaMismatchError, match="rows with 1 value do not fit, which has the columns id, name"):
        rows_in([(1, "a"), (2,)])
    with pytest.raises(SchemaMismatchError, match="rows with the key 'name'"):
        rows_in([Named("a", 1)], pa.schema([("id", pa.int64()), ("text", pa.string())]))


def test_rows_of_no_columns_keep_their_number() -> None:
    assert rows_in([{}, {}], pa.schema([])) == [{}, {}]


@pytest.mark.parametrize(
    "data",
    [
        [(1, "a"), (2, None)],
        [{"id": 1, "name": "a"}, {"id": np.int32(2)}],
        {"name": ["a", pd.NA], "id": [1, 2]},
        pd.DataFrame({"id": [1, 2], "name": ["a", None]}),
        pa.table({"name": ["a", None], "id": pa.array([1, 2], pa.int8())}),
    ],
    ids=["tuples", "rows", "columns", "pandas", "table"],
)
def test_data_with_a_schema_has_its_columns_and_types(data: Any) -> None:
    table = provider_for(data, "here", SCHEMA)
    assert table.schema() == SCHEMA
    plan = table.scan(hr.ScanRequest(SCHEMA, ("id", "name")))
    assert [row for batch in plan.execute(0) for row in batch.to_pylist()] == [
        {"id": 1, "name": "a"},
        {"id": 2, "name": None},
    ]


def test_no_rows_with_a_schema_are_an_empty_table() -> None:
    assert provider_for([], "here", SCHEMA).statistics() == hr.Statistics(0, 0)


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        ([(1.5, "a")], SchemaMismatchError, "column 'id': the value 1.5 would become 1"),
        ([{"id": 1, "nmae": "a"}], SchemaMismatchError, "'nmae'"),
        ([(None, "a")], SchemaMismatchError, "nulls in 'id'"),
        (pd.DataFrame({"id": [1]}), SchemaMismatchError, "column 'name' is missing"),
        (pa.table({"id": [2.5], "name": ["a"]}), SchemaMismatchError, "column 'id'.*2.5"),
        (hr.MemTable(pa.table({"id": [1]})), RegistrationError, "rows"),
        (iter([(1, "a")]), RegistrationError, "read once"),
        ("text", RegistrationError, "str"),
    ],
    ids=["value", "key", "null", "missing", "cast", "provider", "iterator", "text"],
)
def test_data_that_a_schema_does_not_fit_is_refused(data: Any, error: type[Exception], words: str) -> None:
    declared = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string())])
    with pytest.raises(error, match=f"(?s)^here.*{words}"):
        provider_for(data, "here", declared)


def test_tuples_without_a_schema_are_told_to_give_one() -> None:
    with pytest.raises(RegistrationError, match="schema="):
        provider_for([(1, "a")], "here")
