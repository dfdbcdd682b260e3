"""TableSink and schemas: what it refuses, and which types it casts because they are one type to Spark."""

from __future__ import annotations

import asyncio
import datetime
import re
from typing import Any

import pyarrow as pa
import pytest

from headrace.errors import SchemaMismatchError
from sinks import new_sink, received

# Schema


@pytest.mark.parametrize(
    "wrong",
    [
        pa.record_batch({"x": ["1"], "s": ["a"]}),
        pa.record_batch({"y": pa.array([1], pa.int64()), "s": ["a"]}),
        pa.record_batch({"x": pa.array([1], pa.int64())}),
        pa.table({"x": pa.array([1.5])}),
    ],
    ids=["type", "name", "missing", "table"],
)
def test_write_other_schema_raises_with_both_and_writes_nothing(wrong: Any) -> None:
    sink, _ = new_sink()
    for write in (sink.write, sink.try_write, lambda data: asyncio.run(sink.awrite(data))):
        with pytest.raises(SchemaMismatchError) as raised:
            write(wrong)
        text = str(raised.value)
        assert "'t'" in text
        assert "expected:\n  x: int64\n  s: string\n" in text
        assert "found:\n" + "\n".join(f"  {field.name}: {field.type}" for field in wrong.schema) in text
    assert sink.stats.batches_written == 0


def test_write_metadata_and_nullability_differ_is_accepted() -> None:
    schema = pa.schema([pa.field("x", pa.int64(), nullable=False)], metadata={"a": "b"})
    sink, channel = new_sink(schema)
    sink.write(pa.record_batch({"x": [1, 2]}).replace_schema_metadata({"other": "one"}))
    (only,) = received(channel)
    assert only.schema.equals(schema, check_metadata=True)


NON_NULL: dict[str, tuple[pa.Field, list[Any], list[Any], str]] = {
    "top": (pa.field("f", pa.int64(), nullable=False), [1, 2], [1, None], "f"),
    "struct": (
        pa.field("f", pa.struct([pa.field("a", pa.int64(), nullable=False)])),
        [{"a": 1}, None],
        [{"a": 1}, {"a": None}],
        "f.a",
    ),
    "list": (
        pa.field("f", pa.list_(pa.field("item", pa.int64(), nullable=False))),
        [[1, 2], None, []],
        [[1], [None]],
        "f.element",
    ),
    "large list": (
        pa.field("f", pa.large_list(pa.field("item", pa.int64(), nullable=False))),
        [[1, 2], None, []],
        [[1], [None]],
        "f.element",
    ),
    "fixed-size list": (
        pa.field("f", pa.list_(pa.field("item", pa.int64(), nullable=False), 2)),
        [[1, 2], None],
        [[1, 2], [3, None]],
        "f.element",
    ),
    "list view of strings": (
        pa.field("f", pa.list_view(pa.field("item", pa.string_view(), nullable=False))),
        [["a", "b"], None, []],
        [["a"], [None]],
        "f.element",
    ),
    "map": (
        pa.field("f", pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False))),
        [[("a", 1)], None],
        [[("a", None)]],
        "f.value",
    ),
}


@pytest.mark.parametrize("where", NON_NULL)
def test_write_null_where_declared_not_null_raises_and_writes_nothing(where: str) -> None:
    field, right, wrong, path = NON_NULL[where]
    schema = pa.schema([field])
    sink, _ = new_sink(schema)

    def as_batch(values: list[Any]) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([pa.array(values, field.type)], schema=schema)

    sink.write(as_batch(right))
    with pytest.raises(SchemaMismatchError, match=f"nulls in '{path}', which is declared not null"):
        sink.write(pa.Table.from_batches([as_batch(right), as_batch(wrong)]))
    sink.write(as_batch([*wrong, *right]).slice(len(wrong)))  # a slice is judged by its own rows
    assert sink.stats.batches_written == 2


# Types that are one type to Spark


CAST: dict[str, tuple[pa.DataType, pa.DataType, list[Any]]] = {
    "large string": (pa.string(), pa.large_string(), ["a", None]),
    "string view": (pa.string(), pa.string_view(), ["a", None]),
    "dictionary": (pa.string(), pa.dictionary(pa.int8(), pa.string()), ["a", None, "a"]),
    "to large string": (pa.large_string(), pa.string(), ["a", None]),
    "to dictionary": (pa.dictionary(pa.int32(), pa.string()), pa.string(), ["a", None, "a"]),
    "binary view": (pa.binary(), pa.binary_view(), [b"a", None]),
    "nanoseconds": (pa.timestamp("us"), pa.timestamp("ns"), [0, 1_000_000, None]),
    "milliseconds": (pa.timestamp("us", "UTC"), pa.timestamp("ms", "Europe/Berlin"), [0, 1, None]),
    "unsigned": (pa.int16(), pa.uint8(), [0, 255, None]),
    "large list of views": (pa.list_(pa.string()), pa.large_list(pa.string_view()), [["a"], None, []]),
    "struct": (pa.struct([("s", pa.string())]), pa.struct([("s", pa.large_string())]), [{"s": "a"}, None]),
}


@pytest.mark.parametrize("case", CAST)
def test_write_type_that_is_the_same_to_spark_is_cast(case: str) -> None:
    declared, given, values = CAST[case]
    sink, channel = new_sink(pa.schema([("x", declared)]))
    array = pa.array(values, given)
    sink.write(pa.record_batch({"x": array}))
    assert sink.try_write(pa.table({"x": array}))
    sink.close()
    batches = received(channel)
    assert [each.schema.field("x").type for each in batches] == [declared] * len(batches)
    rows = [value for each in batches for value in each.column(0).to_pylist()]
    assert rows == [*array.to_pylist(), *array.to_pylist()]


def test_write_polars_and_pandas_frames_as_they_are() -> None:
    import pandas as pd
    import polars as pl

    when = [datetime.datetime(2024, 1, 2, 3, 4, 5, 6)]
    schema = pa.schema([("n", pa.int64()), ("s", pa.string()), ("at", pa.timestamp("us"))])
    sink, channel = new_sink(schema)
    sink.write(pl.DataFrame({"n": [1], "s": ["polars"], "at": when}))
    sink.write(pd.DataFrame({"n": [2], "s": ["pandas"], "at": pd.to_datetime(when).as_unit("ns")}))
    sink.write(pd.DataFrame({"n": [3], "s": pd.Categorical(["category"]), "at": pd.to_datetime(when)}))
    sink.close()
    rows = pa.Table.from_batches(received(channel)).to_pylist()
    assert rows == [{"n": n, "s": s, "at": when[0]} for n, s in ((1, "polars"), (2, "pandas"), (3, "category"))]


def test_write_value_that_a_cast_would_change_raises_and_writes_nothing() -> None:
    sink, channel = new_sink(pa.schema([("at", pa.timestamp("us"))]))
    with pytest.raises(SchemaMismatchError, match=r"column 'at': a value of type timestamp\[ns\] does not fit"):
        sink.write(pa.record_batch({"at": pa.array([1], pa.timestamp("ns"))}))
    assert channel.stats.batches_written == 0


@pytest.mark.parametrize("given", [pa.bool_(), pa.string(), pa.timestamp("us")], ids=str)
def test_write_type_that_spark_tells_apart_raises_with_the_remedy(given: pa.DataType) -> None:
    sink, _ = new_sink(pa.schema([("x", pa.int64())]))
    with pytest.raises(
        SchemaMismatchError, match=f"column 'x' is {re.escape(str(given))}, expected int64\nfix it with batch.cast"
    ):
        sink.write(pa.record_batch({"x": pa.array([], given)}))


def test_write_null_inside_a_cast_dictionary_where_none_is_declared_raises() -> None:
    sink, _ = new_sink(pa.schema([pa.field("x", pa.string(), nullable=False)]))
    values = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), pa.array(["a", None]))
    with pytest.raises(SchemaMismatchError, match="nulls in 'x', which is declared not null"):
        sink.write(pa.record_batch({"x": values}))
