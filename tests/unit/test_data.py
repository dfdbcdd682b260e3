"""What counts as data, for MemTable, register_table and read_table alike, and what is refused."""

from __future__ import annotations

import datetime
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import headrace as hr
from headrace.arrow.data import is_data, table_of
from headrace.tables.choose import is_table, provider_for

ROWS = [{"id": 1, "name": "a"}, {"id": 2, "name": None}]
TABLE = pa.table({"id": [1, 2], "name": ["a", None]})


def batches() -> Iterator[pa.RecordBatch]:
    yield from TABLE.to_batches()


class OneBatch:
    """Exports one batch, and no stream."""

    def __arrow_c_array__(self, requested_schema: object = None) -> Any:
        return TABLE.to_batches()[0].__arrow_c_array__(requested_schema)


DATA: dict[str, Any] = {
    "table": TABLE,
    "batch": TABLE.to_batches()[0],
    "batches": TABLE.to_batches(),
    "array protocol": OneBatch(),
    "pandas": pd.DataFrame(ROWS, index=[7, 9]),
    "polars": pl.DataFrame(ROWS),
    "duckdb": duckdb.sql("SELECT * FROM (VALUES (1::BIGINT, 'a'), (2, NULL)) AS t(id, name)"),
    "rows": ROWS,
    "tuple of rows": tuple(ROWS),
    "columns": {"id": [1, 2], "name": ["a", None]},
    "columns of arrays": {"id": np.array([1, 2]), "name": pa.array(["a", None])},
    "dataset": ds.dataset(TABLE),
}


@pytest.mark.parametrize("kind", DATA)
def test_provider_for_data_is_a_table_of_its_rows(kind: str) -> None:
    assert is_table(DATA[kind])
    provider = provider_for(DATA[kind], "here")
    assert isinstance(provider, hr.DatasetTable if kind == "dataset" else hr.MemTable)
    schema: pa.Schema = provider.schema()
    plan = provider.scan(hr.ScanRequest(schema, tuple(schema.names)))
    found = [row for i in range(plan.partitioning.n) for batch in plan.execute(i) for row in batch.to_pylist()]  # type: ignore[union-attr]
    assert found == ROWS
    assert found == [row for i in range(plan.partitioning.n) for batch in plan.execute(i) for row in batch.to_pylist()]  # type: ignore[union-attr]


def test_provider_for_a_provider_is_itself() -> None:
    table = hr.MemTable(TABLE)
    assert provider_for(table, "here") is table


@pytest.mark.parametrize(
    ("index", "columns"),
    [
        (None, ["x"]),
        ([5, 6], ["x"]),
        (pd.Index(["a", "b"], name="key"), ["x", "key"]),
        (pd.RangeIndex(2, name="row"), ["x", "row"]),
        (pd.MultiIndex.from_tuples([(1, 2), (3, 4)], names=["k", None]), ["x", "k"]),
        (pd.MultiIndex.from_tuples([(1, 2), (3, 4)]), ["x"]),
    ],
    ids=["none", "unnamed", "named", "named range", "one level named", "no level named"],
)
def test_pandas_index_is_left_out_unless_it_has_a_name(index: Any, columns: list[str]) -> None:
    frame = pd.DataFrame({"x": [1, 2]}, index=index)
    assert hr.MemTable(frame).schema().names == columns
    assert list(frame.columns) == ["x"]  # the caller's frame is as it was


def test_rows_with_other_keys_than_the_first_are_kept_whole() -> None:
    table = table_of([{"a": 1}, {"b": "x", "a": 2}, {}])
    assert table is not None
    assert table.to_pylist() == [{"a": 1, "b": None}, {"a": 2, "b": "x"}, {"a": None, "b": None}]


@pytest.mark.parametrize(
    "value", [3, "x.csv", b"x", None, [], [1], {}, {"a": 1}, {"a": "text"}, pa.Table, len], ids=repr
)
def test_is_data_what_is_none_is_not_taken_for_it(value: Any) -> None:
    assert not is_data(value)
    assert not is_table(value)


@pytest.mark.parametrize(
    "stream",
    [lambda: TABLE.to_reader(), batches, lambda: iter(ROWS), lambda: map(str, [])],
    ids=["reader", "generator", "iterator", "map"],
)
def test_provider_for_a_stream_that_is_read_once_names_the_tables_to_use(stream: Any) -> None:
    words = (
        r"here takes .* it can be read once.*hr\.MemTable\(.*hr\.SimpleTable\(schema, function\).*register_streaming"
    )
    with pytest.raises(hr.RegistrationError, match=words):
        provider_for(stream(), "here")


def test_mem_table_reads_such_a_stream_now() -> None:
    assert hr.MemTable(TABLE.to_reader()).statistics().num_rows == 2
    assert hr.MemTable(batches()).statistics().num_rows == 2


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([{"a": 1}, {"a": "x"}], "here: the values of column 'a' are not of one type"),
        ([{"a": 1}, [2]], "here: a list of rows has a dict for each row, but item 1 is a list"),
        ([{1: 2}], "here: the names of columns are text, but a row has the key 1"),
        ({"a": [1], "b": [1, 2]}, "here: the dict is no table: Column 1 named b expected length 1"),
        (pd.DataFrame({"a": [1, "x"]}), "here: the DataFrame is no table: .*column a"),
        (pl.Series([1]), "here: Series is a single column, not a table"),
        ({"a": 1}, "here takes a TableProvider or data, not dict: a dict of columns has a list for each name"),
        ([], "not list: an empty list has no columns"),
        ([1, 2], "not list: a list of rows has a dict for each row"),
        ({}, "not dict: an empty dict has no columns"),
        ([{}], "here: the rows are dicts without a key"),
        ({1: [2]}, "here: the names of columns are text, but the dict has the key 1"),
        (pl.LazyFrame({"a": [1]}), r"not LazyFrame: it is a query that has not run yet; pass frame\.collect\(\)"),
        (pl.DataFrame({"a": [object()]}), "here: the column 'a' has Python objects"),
    ],
    ids=[
        *("mixed", "no row", "no name", "lengths", "mixed pandas", "series", "scalars", "empty", "numbers"),
        *("empty dict", "empty rows", "no name of a list", "lazy polars", "objects of polars"),
    ],
)
def test_provider_for_data_that_is_no_table_says_why(value: Any, words: str) -> None:
    with pytest.raises(hr.RegistrationError, match=words):
        provider_for(value, "here")


DAY = datetime.date(2026, 1, 1)
HOUR = datetime.datetime(2026, 1, 1, 5)


@pytest.mark.parametrize(
    "values",
    [
        [DAY, HOUR],
        [HOUR.replace(tzinfo=datetime.UTC), HOUR],
        [HOUR, HOUR.replace(tzinfo=datetime.UTC)],
        [pd.Timestamp("2026-01-01T00:00:00.000000001")],
        [b"x", "y"],
        [{"at": [DAY]}, {"at": [HOUR]}],
    ],
    ids=["day and hour", "zone and none", "none and zone", "nanosecond", "bytes and text", "nested"],
)
@pytest.mark.parametrize("kind", ["rows", "columns", "pandas"])
def test_values_that_pyarrow_would_change_are_refused(kind: str, values: list[Any]) -> None:
    data: Any = {
        "rows": [{"a": value} for value in values],
        "columns": {"a": values},
        "pandas": pd.DataFrame({"a": pd.Series(values, dtype=object)}),
    }[kind]
    with pytest.raises(hr.RegistrationError, match=r"here: .*column 'a'.* would become"):
        provider_for(data, "here")


@pytest.mark.parametrize("kind", ["rows", "columns", "pandas"])
def test_values_of_one_kind_of_time_are_kept(kind: str) -> None:
    twice = datetime.datetime(2025, 10, 26, 2, 30, tzinfo=ZoneInfo("Europe/Zurich"))  # an hour that comes twice
    columns: dict[str, list[Any]] = {
        "day": [DAY, None],
        "hour": [HOUR, None],
        "instant": [twice, twice.replace(fold=1)],
        "bytes": [b"x", None],
    }
    data: Any = {
        "rows": [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)],
        "columns": columns,
        "pandas": pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns.items()}),
    }[kind]
    table = table_of(data)
    assert table is not None
    assert table["instant"].cast(pa.timestamp("s", "UTC")).cast(pa.int64()).to_pylist() == [1761438600, 1761442200]
    assert {name: table[name].to_pylist() for name in ("day", "hour", "bytes")} == {
        name: columns[name] for name in ("day", "hour", "bytes")
    }


@pytest.mark.parametrize(
    "index",
    [pd.Index([7], name="x"), pd.MultiIndex.from_tuples([(1, 2)], names=["k", "k"])],
    ids=["as a column", "as a level"],
)
def test_pandas_index_with_a_name_that_is_taken_says_how_to_rename_it(index: Any) -> None:
    with pytest.raises(hr.RegistrationError, match=r"its index has the name '[xk]'.*rename_axis.*reset_index"):
        provider_for(pd.DataFrame({"x": [1]}, index=index), "here")


def test_recognising_data_imports_no_library_of_frames() -> None:
    code = (
        "import sys, headrace.tables.choose as c, pyarrow as pa\n"
        "assert all(map(c.is_table, ([{'a': 1}], {'a': [1]}, pa.table({}), c.MemTable(pa.table({})))))\n"
        "assert not any(map(c.is_table, (3, 'x', [1], iter([]), object())))\n"
        "print([m for m in ('pandas', 'polars', 'duckdb', 'pyarrow.dataset', 'pyspark') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout == "[]\n"
