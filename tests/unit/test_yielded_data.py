"""What ``execute`` may yield and return beside RecordBatches: read in the plan's schema, where nothing is lost."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import headrace as hr
from headrace.arrow.sources import batch_iterator
from headrace.errors import SchemaMismatchError
from headrace.execute.partition_stream import PartitionStream, ScanTask
from headrace.execute.stopping import StopFlag
from headrace.testing import check_provider
from producing import FunctionPlan, FunctionTable

SCHEMA = pa.schema([("id", pa.int32()), ("name", pa.string())])
ROWS = [{"id": 1, "name": "a"}, {"id": 2, "name": None}]


class ArrayOnly:
    """Has ``__arrow_c_array__`` and nothing else."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch

    def __arrow_c_array__(self, requested_schema: object | None = None) -> Any:
        return self._batch.__arrow_c_array__(requested_schema)


WIDE = pa.table({"name": pa.array(["a", None], pa.large_string()), "id": pa.array([1, 2], pa.int64())})
KINDS: dict[str, Callable[[], Any]] = {
    "batch": lambda: pa.RecordBatch.from_pylist(ROWS, SCHEMA),
    "batch of wider types in another order": lambda: WIDE.to_batches()[0],
    "table": lambda: WIDE,
    "table of several batches": lambda: pa.concat_tables([WIDE.slice(0, 1), WIDE.slice(1)]),
    "rows": lambda: ROWS,
    "rows without a key": lambda: [{"name": "a", "id": 1}, {"id": 2}],
    "tuples": lambda: [(1, "a"), (2, None)],
    "rows of a cursor": lambda: ((1, "a"), (2, None)),
    "pandas": lambda: pd.DataFrame({"name": ["a", None], "id": [1, 2]}, index=[7, 8]),
    "polars": lambda: pl.DataFrame({"name": ["a", None], "id": [1, 2]}),
    "columns": lambda: {"name": ["a", None], "id": [1, 2]},
    "array": lambda: ArrayOnly(WIDE.to_batches()[0]),
    "reader": lambda: WIDE.to_reader(),
}
WAYS: dict[str, Callable[[Callable[[], Any]], Any]] = {
    "generator": lambda kind: (kind() for _ in range(2)),
    "list": lambda kind: [kind(), kind()],
    "async": lambda kind: _async(kind),
    "returned": lambda kind: kind(),
}


async def _async(kind: Callable[[], Any]) -> AsyncIterator[Any]:
    yield kind()
    yield kind()


def stream_of(source: Any, schema: pa.Schema = SCHEMA, limit: int | None = None) -> PartitionStream:
    plan = FunctionPlan(schema, lambda _: source, 1, hr.Placement.DRIVER)
    return PartitionStream(ScanTask("t", plan, schema, schema, limit), 0, StopFlag())


def rows_of(stream: PartitionStream) -> list[dict[str, Any]]:
    try:
        return [row for batch in stream for row in batch.to_pylist()]
    finally:
        stream.close()


CASES = [
    (kind, way)
    for kind in KINDS
    for way in WAYS
    if way != "list" or kind not in ("columns", "rows of a cursor")  # a list of these is rows
]


@pytest.mark.parametrize(("kind", "way"), CASES)
def test_execute_any_data_is_read_in_the_schema_of_the_plan(kind: str, way: str) -> None:
    assert rows_of(stream_of(WAYS[way](KINDS[kind]))) == ROWS * (1 if way == "returned" else 2)


@pytest.mark.parametrize("kind", KINDS)
def test_simple_table_any_data_is_read_whole_and_as_requested(kind: str) -> None:
    for function in (lambda: iter([KINDS[kind]()]), lambda request: iter([KINDS[kind]()])):
        for columns in (["name"], ["name", "id"]):
            plan = hr.SimpleTable(SCHEMA, function).scan(
                hr.ScanRequest(pa.schema([SCHEMA.field(name) for name in columns]), tuple(columns))
            )
            task = ScanTask("t", plan, plan.schema, pa.schema([SCHEMA.field(name) for name in columns]), None)
            found = rows_of(PartitionStream(task, 0, StopFlag()))
            assert found == [{name: row[name] for name in columns} for row in ROWS]


@pytest.mark.parametrize("order", [["a", "b"], ["b", "a"]])
def test_simple_table_tuples_keep_their_columns_in_any_order_of_the_request(order: list[str]) -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    wanted = pa.schema([schema.field(name) for name in order])
    asked = []

    def function(request: hr.ScanRequest) -> Iterator[Any]:
        asked.append(request.projection)
        yield [(1, 10), (2, 20)]

    plan = hr.SimpleTable(schema, function).scan(hr.ScanRequest(wanted, tuple(order)))
    found = rows_of(PartitionStream(ScanTask("t", plan, plan.schema, wanted, None), 0, StopFlag()))
    assert found == [{"a": 1, "b": 10}, {"a": 2, "b": 20}]
    assert asked == [("a", "b")]


@pytest.mark.parametrize("kind", ["table", "rows", "pandas"])
def test_sorted_table_cuts_any_data_to_the_first_rows(kind: str) -> None:
    inner = FunctionTable(lambda _: iter([KINDS[kind](), KINDS[kind]()]), schema=SCHEMA)
    order = (hr.SortKey("id"),)
    plan = hr.SortedTable(inner, order).scan(hr.ScanRequest(SCHEMA, ("id", "name"), limit=3, order=order))
    task = ScanTask("t", plan, plan.schema, SCHEMA, None)
    assert [row["id"] for row in rows_of(PartitionStream(task, 0, StopFlag()))] == [1, 2, 1]


@pytest.mark.parametrize(
    ("item", "words"),
    [
        (pa.table({"id": [2**40], "name": ["a"]}), "1099511627776"),
        (pd.DataFrame({"id": [1.5], "name": ["a"]}), "1.5"),
        (pa.record_batch({"id": ["1"], "name": ["a"]}), "column 'id' is string, expected int32"),
        (pa.table({"id": [1]}), "column 'name' is missing"),
        (pl.DataFrame({"id": [1], "name": ["a"], "more": [1]}), "column 'more' is not expected"),
    ],
    ids=["too large", "fraction", "type", "missing", "extra"],
)
def test_execute_data_that_loses_something_names_both_schemas(item: Any, words: str) -> None:
    with pytest.raises(SchemaMismatchError) as raised:
        rows_of(stream_of(iter([item])))
    text = str(raised.value)
    assert words in text
    assert "(table 't', partition 0)" in text
    assert "expected:\n  id: int32\n  name: string\nfound:\n" in text


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([{"id": 1.5}], "column 'id': the value 1.5 would become 1"),
        ([{"id": 1, "nmae": "a"}], "'nmae'"),
        ([(1, "a", 2)], "rows with 3 values"),
        ([{"id": 1}, 5], "item 1 is a int"),
    ],
    ids=["value", "key", "tuple", "mixed"],
)
def test_execute_rows_that_do_not_fit_are_named(rows: Any, words: str) -> None:
    for source in (rows, iter([rows])):
        with pytest.raises(SchemaMismatchError, match="partition 0") as raised:
            rows_of(stream_of(source))
        assert words in str(raised.value)


def test_execute_nulls_of_rows_where_none_are_declared_are_refused() -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    with pytest.raises(SchemaMismatchError, match="nulls in column 'id'"):
        rows_of(stream_of(iter([[{"id": None}]]), schema))


class Reading:
    """A stream of many batches that says how many were read and whether it was released."""

    def __init__(self) -> None:
        self.read = 0
        self.closed = False

    def batches(self) -> Iterator[pa.RecordBatch]:
        try:
            for _ in range(100):
                self.read += 1
                yield WIDE.to_batches()[0]
        finally:
            self.closed = True

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        return pa.RecordBatchReader.from_batches(WIDE.schema, self.batches()).__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("limit", [3, None], ids=["limit", "closed early"])
def test_execute_a_yielded_stream_is_read_lazily_and_closed_with_its_generator(limit: int | None) -> None:
    reading, closed = Reading(), []

    def source() -> Iterator[Any]:
        try:
            yield reading
            yield ROWS
        finally:
            closed.append(True)

    stream = stream_of(source(), limit=limit)
    found = iter(stream)
    taken = [next(found) for _ in range(2)]
    if limit is not None:
        assert next(found, None) is None
    stream.close()
    assert sum(batch.num_rows for batch in taken) == (4 if limit is None else 3)
    assert reading.read <= 3
    assert closed == [True]
    del found, taken
    assert reading.closed


def test_execute_a_batch_of_the_schema_of_the_plan_is_passed_on_as_it_is() -> None:
    batch = pa.RecordBatch.from_pylist(ROWS, SCHEMA)
    stream = stream_of(iter([batch]))
    assert next(iter(stream)) is batch


def test_execute_an_empty_list_of_rows_has_no_rows() -> None:
    assert rows_of(stream_of(iter([[], ROWS, []]))) == ROWS
    assert rows_of(stream_of([])) == []


def test_execute_a_returned_dict_of_one_row_is_refused() -> None:
    with pytest.raises(SchemaMismatchError, match="one row is a list of one dict"):
        rows_of(stream_of({"id": 1, "name": "a"}))
    assert list(batch_iterator(ROWS, "f")) == [ROWS]


@pytest.mark.parametrize("kind", ["rows", "pandas"])
def test_kit_reads_what_spark_reads(kind: str) -> None:
    check_provider(FunctionTable(lambda _: [KINDS[kind]()], schema=SCHEMA), samples=1).raise_if_failed()
