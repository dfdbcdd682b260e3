"""What a sink takes: columns in any order, casts that lose nothing, frames and rows; ``async with``."""

from __future__ import annotations

import asyncio
import datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import headrace as hr
from headrace.errors import SchemaMismatchError, SinkClosedError
from sinks import new_sink, received

SCHEMA = pa.schema(
    [
        ("i", pa.int32()),
        ("s", pa.string()),
        ("f", pa.float32()),
        ("d", pa.decimal128(5, 2)),
        ("l", pa.list_(pa.int8())),
    ]
)
ROW = {"i": 1, "s": "a", "f": 1.5, "d": Decimal("2.25"), "l": [1, 2]}


def written(data: Any, schema: pa.Schema = SCHEMA) -> list[dict[str, Any]]:
    sink, channel = new_sink(schema)
    sink.write(data)
    sink.close()
    batches = received(channel)
    assert all(batch.schema.equals(schema, check_metadata=True) for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize(
    "data",
    [
        pd.DataFrame({"l": [[1, 2]], "d": [2.25], "f": [1.5], "s": ["a"], "i": [1]}, index=[9]),
        pl.DataFrame({"d": [2.25], "s": ["a"], "l": [[1, 2]], "i": [1], "f": [1.5]}),
        pa.table({"f": [1.5], "d": pa.array([Decimal("2.25")]), "i": [1.0], "s": ["a"], "l": [[1, 2]]}),
        {"i": [1], "s": ["a"], "f": [1.5], "d": [2.25], "l": [[1, 2]]},
        [ROW],
        [{**ROW, "l": (1, 2), "d": Decimal("2.250")}],
    ],
    ids=["pandas", "polars", "table", "columns", "rows", "rows of others"],
)
def test_write_columns_in_another_order_and_of_wider_types_keeps_each_value(data: Any) -> None:
    assert written(data) == [ROW]


@pytest.mark.parametrize(
    ("given", "declared", "value", "words"),
    [
        (pa.int64(), pa.int32(), 2**40, "column 'x'.*1099511627776"),
        (pa.int64(), pa.uint8(), -1, "column 'x'.*-1"),
        (pa.float64(), pa.int32(), 1.5, "column 'x'.*1.5"),
        (pa.float64(), pa.float32(), 0.1, "column 'x'.*0.1 would become 0.1000000"),
        (pa.float64(), pa.decimal128(5, 2), 1.255, "column 'x'.*1.255 would become"),
        (pa.int64(), pa.decimal128(5, 2), 1000, "column 'x'.*1000"),
        (pa.decimal128(5, 3), pa.decimal128(5, 2), Decimal("1.255"), "column 'x'.*1.255"),
        (pa.decimal128(38, 20), pa.float64(), Decimal("0.12345678901234567891"), "column 'x'.*0.12345678901234567891"),
        (pa.int64(), pa.float64(), 2**53 + 1, "column 'x'.*9007199254740993"),
        (pa.list_(pa.int64()), pa.list_(pa.int8()), [1000], "column 'x'.*1000"),
        (pa.struct([("a", pa.int64())]), pa.struct([("a", pa.int8())]), {"a": 1000}, "column 'x'.*1000"),
    ],
    ids=lambda value: str(value) if isinstance(value, pa.DataType) else "",
)
def test_write_value_that_does_not_fit_names_column_and_value_and_writes_nothing(
    given: pa.DataType, declared: pa.DataType, value: Any, words: str
) -> None:
    sink, _ = new_sink(pa.schema([("x", declared)]))
    batch = pa.record_batch({"x": pa.array([None, value, None], given)})
    for write in (sink.write, sink.try_write, lambda data: asyncio.run(sink.awrite(data))):
        with pytest.raises(SchemaMismatchError, match=words):
            write(batch)
    assert sink.stats.batches_written == 0


@pytest.mark.parametrize(
    ("given", "declared", "values"),
    [
        (pa.int64(), pa.int8(), [127, -128, None]),
        (pa.float64(), pa.float32(), [0.5, float("inf"), None]),
        (pa.float64(), pa.int64(), [3.0, None]),
        (pa.null(), pa.string(), [None, None]),
        (pa.null(), pa.list_(pa.int64()), [None]),
        (pa.int32(), pa.decimal128(38, 10), [7, None]),
        (pa.decimal128(20, 5), pa.int16(), [Decimal(3), None]),
        (pa.decimal128(10, 2), pa.float64(), [Decimal("0.25"), None]),
        (pa.struct([("b", pa.int64()), ("a", pa.int64())]), pa.struct([("a", pa.int8()), ("b", pa.int8())]), [None]),
        (pa.map_(pa.string(), pa.int64()), pa.map_(pa.string(), pa.int8()), [[("k", 1)], None]),
        (pa.dictionary(pa.int8(), pa.int64()), pa.int32(), [5, None, 5]),
    ],
    ids=lambda value: str(value) if isinstance(value, pa.DataType) else "",
)
def test_write_numbers_of_another_type_that_fit_are_cast(
    given: pa.DataType, declared: pa.DataType, values: list[Any]
) -> None:
    found = written(pa.table({"x": pa.array(values, given)}), pa.schema([("x", declared)]))
    assert [row["x"] for row in found] == values


def test_write_not_a_number_stays_one_in_a_shorter_float() -> None:
    (found,) = written(pa.table({"x": [float("nan")]}), pa.schema([("x", pa.float32())]))
    assert found["x"] != found["x"]


@pytest.mark.parametrize("index", [[3], pd.Index([3], name="i")], ids=["unnamed", "named"])
def test_write_pandas_frame_takes_its_index_only_by_name(index: Any) -> None:
    columns = ["s"] if getattr(index, "name", None) is None else ["s", "i"]
    schema = pa.schema([field for field in SCHEMA if field.name in columns])
    assert [set(row) for row in written(pd.DataFrame({"s": ["a"]}, index=index), schema)] == [set(columns)]


def test_write_rows_without_a_key_have_a_null_there() -> None:
    assert written([{"i": 1}, {"s": "b"}]) == [
        {"i": 1, "s": None, "f": None, "d": None, "l": None},
        {"i": None, "s": "b", "f": None, "d": None, "l": None},
    ]
    assert written([]) == []
    declared = pa.schema([pa.field("x", pa.int64(), nullable=False), ("y", pa.int64())])
    with pytest.raises(SchemaMismatchError, match="nulls in 'x', which is declared not null"):
        written([{"y": 1}], declared)


NESTED = pa.schema(
    [
        ("m", pa.map_(pa.string(), pa.int8())),
        ("t", pa.timestamp("us", "UTC")),
        ("n", pa.struct([("a", pa.int8()), ("b", pa.list_(pa.string()))])),
    ]
)


def test_write_rows_of_nested_values_keeps_them() -> None:
    at = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
    (found,) = written([{"m": {"k": 1}, "t": at, "n": {"b": ["x"]}}], NESTED)
    assert found["m"] == [("k", 1)]
    assert found["t"] == at
    assert found["n"] == {"a": None, "b": ["x"]}


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"i": 1.5}, "column 'i': the value 1.5 would become 1 as int32"),
        ({"i": "1"}, "column 'i': a value is no int32: .*'1'"),
        ({"i": 2**40}, "column 'i': a value is no int32"),
        ({"f": 0.1}, "column 'f': the value 0.1 would become 0.1000000"),
        ({"d": Decimal("1.255")}, "column 'd': a value is no decimal"),
        ({"l": [1000]}, "column 'l': a value is no list"),
        ({"ii": 1}, "rows with the key 'ii' cannot be written .* which has the columns i, s, f, d, l"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_write_rows_that_do_not_fit_name_column_and_value_and_write_nothing(row: dict[str, Any], words: str) -> None:
    sink, _ = new_sink(SCHEMA)
    with pytest.raises(SchemaMismatchError, match=words):
        sink.write([ROW, row])
    assert sink.stats.batches_written == 0


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (pa.date32(), datetime.datetime(2026, 1, 1, 5)),
        (pa.timestamp("s"), datetime.datetime(2026, 1, 1, 5, microsecond=1)),
        (pa.timestamp("us", "UTC"), datetime.datetime(2026, 1, 1)),  # of no zone
        (pa.struct([("a", pa.int8())]), {"a": 1, "b": 2}),
    ],
    ids=["day", "second", "zone", "struct"],
)
def test_write_rows_whose_values_pyarrow_would_change_are_refused(type_: pa.DataType, value: Any) -> None:
    with pytest.raises(SchemaMismatchError, match=r"column 'x': the value .* would become"):
        written([{"x": value}], pa.schema([("x", type_)]))


def test_write_what_is_no_data_names_what_is() -> None:
    sink, _ = new_sink()
    for data in (5, "text", iter([]), [1]):
        with pytest.raises(TypeError, match="a frame, a list of dicts"):
            sink.write(data)


def test_write_an_hour_that_comes_twice_keeps_the_instant() -> None:
    twice = datetime.datetime(2025, 10, 26, 2, 30, tzinfo=ZoneInfo("Europe/Zurich"))
    rows = [{"t": twice}, {"t": twice.replace(fold=1)}]
    found = written(rows, pa.schema([("t", pa.timestamp("us", "UTC"))]))
    assert [row["t"].timestamp() for row in found] == [1761438600, 1761442200]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"i": 1, "f": 2}, r"one row is a list of one dict, \[row\]"),
        (pl.Series("i", [1]), "Series is a single column, not a table"),
        (pl.LazyFrame({"i": [1]}), r"use frame\.collect\(\)"),
        (pl.DataFrame({"i": [object()]}), "the column 'i' has Python objects"),
    ],
    ids=["one dict", "series", "lazy", "objects"],
)
@pytest.mark.filterwarnings("error")
def test_write_what_is_nearly_data_says_what_to_write(data: Any, words: str) -> None:
    sink, _ = new_sink(SCHEMA)
    with pytest.raises(TypeError, match=words):
        sink.write(data)
    assert sink.stats.batches_written == 0


def test_async_with_sink_closes_it_at_the_end_and_fails_it_by_an_error() -> None:
    async def write(sink: hr.TableSink, error: Exception | None) -> None:
        async with sink as entered:
            assert entered is sink
            await sink.awrite([ROW])
            if error is not None:
                raise error

    sink, _ = new_sink(SCHEMA)
    asyncio.run(write(sink, None))
    assert sink.stats.state == "closed"
    with pytest.raises(SinkClosedError):
        sink.write([ROW])
    failing, _ = new_sink(SCHEMA)
    with pytest.raises(KeyError, match="broken"):
        asyncio.run(write(failing, KeyError("broken")))
    assert failing.stats.state == "failed"
