"""The ready-made providers over memory, functions and streams: what they promise."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import headrace as hr
from small_tables import SCHEMA, numbers, request


def rows(plan: hr.ExecutionPlan) -> list[dict[str, Any]]:
    return [row for i in range(plan.partitioning.n) for batch in plan.execute(i) for row in batch.to_pylist()]


SOURCES: dict[str, Callable[[], Any]] = {
    "table": lambda: numbers(5),
    "batch": lambda: numbers(5).to_batches()[0],
    "batches": lambda: numbers(5, chunk=2).to_batches(),
    "generator": lambda: iter(numbers(5, chunk=2).to_batches()),
    "reader": lambda: numbers(5).to_reader(),
    "struct array": lambda: numbers(5).to_struct_array().chunk(0),
    "polars": lambda: pl.from_arrow(numbers(5)),
    "pandas": lambda: numbers(5).to_pandas(),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_mem_table_arrow_of_any_kind_has_its_rows(kind: str) -> None:
    provider = hr.MemTable(SOURCES[kind]())
    plan = provider.scan(request(provider.schema(), "a", "s"))
    assert rows(plan) == numbers(5).to_pylist()
    assert plan.placement is hr.Placement.DRIVER


def test_mem_table_duckdb_result_has_its_rows() -> None:
    duckdb = pytest.importorskip("duckdb")
    provider = hr.MemTable(duckdb.connect().sql("SELECT 7 AS a, 'x' AS s"))
    assert rows(provider.scan(request(provider.schema(), "s", "a"))) == [{"s": "x", "a": 7}]


@pytest.mark.parametrize("partitions", [1, 3, 7, 40])
def test_mem_table_partitions_share_the_rows_evenly_and_in_order(partitions: int) -> None:
    plan = hr.MemTable(numbers(25, chunk=4), partitions=partitions).scan(request(SCHEMA, "a"))
    sizes = [sum(batch.num_rows for batch in plan.execute(i)) for i in range(partitions)]
    assert plan.partitioning == hr.UnknownPartitioning(partitions)
    assert max(sizes) - min(sizes) <= 1
    assert [row["a"] for row in rows(plan)] == list(range(25))


def test_mem_table_projection_reads_the_named_columns_in_order_without_a_copy() -> None:
    table = numbers(1000)
    plan = hr.MemTable(table).scan(request(SCHEMA, "s", "a"))
    (batch,) = plan.execute(0)
    assert batch.schema == plan.schema == pa.schema([SCHEMA.field("s"), SCHEMA.field("a")])
    assert batch.column("a").buffers()[1].address == table.column("a").chunk(0).buffers()[1].address


def test_mem_table_no_columns_keeps_the_row_count() -> None:
    plan = hr.MemTable(numbers(70_000), partitions=2).scan(request(SCHEMA))
    assert [sum(batch.num_rows for batch in plan.execute(i)) for i in range(2)] == [35_000, 35_000]


def test_mem_table_limit_cuts_rows_and_partitions() -> None:
    plan = hr.MemTable(numbers(100), partitions=8).scan(request(SCHEMA, "a", limit=10))
    assert plan.partitioning.n == 1
    assert [row["a"] for row in rows(plan)] == list(range(10))
    assert plan.statistics() == hr.Statistics(10, 80)


def test_mem_table_limit_under_a_filter_does_not_cut_before_it() -> None:
    filters = (hr.Comparison(">", hr.Column("a"), hr.Literal(90, pa.int64())),)
    plan = hr.MemTable(numbers(100), partitions=2).scan(request(SCHEMA, "a", filters=filters, limit=3))
    assert [row["a"] for row in rows(plan)] == list(range(91, 100))


def test_mem_table_filter_on_a_column_not_read_is_exact_and_keeps_order() -> None:
    provider = hr.MemTable(numbers(200_000, chunk=30_000), partitions=2)
    filters = (hr.Comparison(">=", hr.Column("a"), hr.Literal(150_000, pa.int64())),)
    assert list(provider.supports_filters_pushdown(filters)) == [hr.FilterPushdown.EXACT]
    plan = provider.scan(request(SCHEMA, "s", filters=filters))
    assert [row["s"] for row in rows(plan)] == [f"r{i}" for i in range(150_000, 200_000)]
    counted = provider.scan(request(SCHEMA, filters=filters))
    assert sum(batch.num_rows for i in range(2) for batch in counted.execute(i)) == 50_000


def test_mem_table_unknown_function_is_left_to_spark() -> None:
    call = hr.Call("UPPER", (hr.Column("s"),))
    assert list(hr.MemTable(numbers(1)).supports_filters_pushdown([call])) == [hr.FilterPushdown.UNSUPPORTED]


def test_mem_table_big_batches_are_sliced_and_small_ones_merged() -> None:
    big = hr.MemTable(numbers(200_000)).scan(request(SCHEMA, "a"))
    assert [batch.num_rows for batch in big.execute(0)] == [65_536, 65_536, 65_536, 3_392]
    small = hr.MemTable(numbers(100_000, chunk=10)).scan(request(SCHEMA, "a"))
    assert [batch.num_rows for batch in small.execute(0)] == [65_530, 34_470]


def test_mem_table_statistics_are_exact_for_the_projection() -> None:
    provider = hr.MemTable(numbers(1000))
    assert provider.scan(request(SCHEMA, "a")).statistics() == hr.Statistics(1000, 8000)
    assert provider.statistics() == hr.Statistics(1000, numbers(1000).nbytes)


def test_mem_table_pruned_nested_request_gets_the_whole_struct() -> None:
    table = pa.table({"p": [{"x": 1, "y": "u"}], "q": [5]})
    pruned = pa.schema([("p", pa.struct([("x", pa.int64())]))])
    plan = hr.MemTable(table).scan(hr.ScanRequest(pruned, ("p",)))
    assert plan.schema == table.select(["p"]).schema
    assert rows(plan) == [{"p": {"x": 1, "y": "u"}}]


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        ({"a": [1, "x"]}, TypeError, "the values of column 'a' are not of one type"),
        ({"a": [1], "b": [1, 2]}, TypeError, "the dict is no table: Column 1 named b"),
        ([{"a": 1}, {"a": "x"}], TypeError, "the values of column 'a' are not of one type"),
        ([{"a": 1}, 2], TypeError, "item 1 is a int"),
        (5, TypeError, "not int"),
        ("a.parquet", TypeError, "not str"),
        (pa.Table, TypeError, "the class Table"),
        (pa.chunked_array([[1]]), TypeError, "single column"),
        (pl.Series([1]), TypeError, "single column"),
        ([], ValueError, "empty_table"),
        ([1, 2], TypeError, "item 0 of the list is a int"),
        ([numbers(1)], TypeError, "concat_tables"),
    ],
)
def test_mem_table_bad_data_is_refused_with_advice(data: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        hr.MemTable(data)


def test_mem_table_batches_that_differ_are_refused_naming_both_schemas() -> None:
    other = pa.record_batch({"a": [1.5], "s": ["x"]})
    with pytest.raises(hr.SchemaMismatchError, match=r"batch 1 (.|\n)*a: int64(.|\n)*a: double"):
        hr.MemTable([*numbers(1).to_batches(), other])


@pytest.mark.parametrize(
    ("partitions", "error"), [(0, ValueError), (-1, ValueError), (1.5, TypeError), (True, TypeError)]
)
def test_mem_table_bad_partitions_are_refused(partitions: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="partition"):
        hr.MemTable(numbers(1), partitions=partitions)


def whole(n: int = 3) -> Iterator[pa.RecordBatch]:
    yield from numbers(n).to_batches()


def test_simple_table_function_without_parameters_yields_the_table() -> None:
    provider = hr.SimpleTable(SCHEMA, whole)  # n has a default, so no request is passed
    plan = provider.scan(request(SCHEMA, "a"))
    assert plan.placement is hr.Placement.EXECUTORS
    assert plan.schema == SCHEMA
    assert rows(plan) == numbers(3).to_pylist()


REQUEST_FUNCTIONS: dict[str, Callable[[hr.ScanRequest], Any]] = {
    "whole batches": lambda request: [numbers(3).to_batches()[0]],
    "projected batches": lambda request: iter(numbers(3).select(list(request.projection)).to_batches()),
    "a reader": lambda asked: numbers(3).to_reader(),
    "a polars-like stream": lambda asked: numbers(3).select(list(asked.projection)),
}


@pytest.mark.parametrize("kind", REQUEST_FUNCTIONS)
def test_simple_table_function_of_the_request_may_answer_whole_or_projected(kind: str) -> None:
    plan = hr.SimpleTable(SCHEMA, REQUEST_FUNCTIONS[kind]).scan(request(SCHEMA, "s"))
    assert plan.schema.names == ["s"]
    assert rows(plan) == [{"s": "r0"}, {"s": "r1"}, {"s": "r2"}]


def test_simple_table_whole_batches_for_a_pruned_struct_are_pruned() -> None:
    table = pa.table({"p": [{"x": 1, "y": "u"}, None], "q": [5, 6]})
    pruned = pa.schema([("p", pa.struct([("x", pa.int64())]))])
    plan = hr.SimpleTable(table.schema, lambda request: table.to_batches()).scan(hr.ScanRequest(pruned, ("p",)))
    assert rows(plan) == [{"p": {"x": 1}}, {"p": None}]


def test_simple_table_wrong_batches_for_a_request_name_all_schemas() -> None:
    plan = hr.SimpleTable(SCHEMA, lambda request: [pa.record_batch({"z": [1]})]).scan(request(SCHEMA, "a"))
    with pytest.raises(hr.SchemaMismatchError, match=r"requested:(.|\n)*the table's:(.|\n)*found:\n  .*z: int64"):
        rows(plan)


def test_simple_table_reader_that_stops_early_closes_the_function() -> None:
    closed = []

    def endless(request: hr.ScanRequest) -> Iterator[pa.RecordBatch]:
        try:
            while True:
                yield numbers(1).to_batches()[0]
        finally:
            closed.append(request.limit)

    batches = hr.SimpleTable(SCHEMA, endless).scan(request(SCHEMA, "a", limit=1)).execute(0)
    assert next(iter(batches)).num_rows == 1
    batches.close()  # type: ignore[union-attr]
    assert closed == [1]


def test_simple_table_parameter_named_request_is_given_despite_its_default() -> None:
    seen = []

    def function(request: hr.ScanRequest | None = None) -> list[pa.RecordBatch]:
        seen.append(request)
        return []

    asked = request(SCHEMA, "a")
    rows(hr.SimpleTable(SCHEMA, function).scan(asked))
    rows(hr.SimpleTable(SCHEMA, functools.partial(function, None)).scan(asked))
    assert seen == [asked, None]


@pytest.mark.parametrize(
    ("function", "words"),
    [(numbers(1), "not Table"), (lambda a, b: [], "needs a, b"), (lambda *, k: [], "needs k")],
)
def test_simple_table_bad_function_is_refused(function: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        hr.SimpleTable(SCHEMA, function)


def test_stream_table_has_a_partition_per_factory() -> None:
    plan = hr.StreamTable(SCHEMA, [functools.partial(whole, n) for n in (1, 0, 2)]).scan(request(SCHEMA, "a"))
    assert plan.partitioning == hr.UnknownPartitioning(3)
    assert [[row["a"] for batch in plan.execute(i) for row in batch.to_pylist()] for i in range(3)] == [
        [0],
        [],
        [0, 1],
    ]


@pytest.mark.parametrize(("factories", "words"), [([whole()], "item 0 is a generator"), (whole, r"\[factory\]")])
def test_stream_table_streams_in_place_of_factories_are_refused(factories: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        hr.StreamTable(SCHEMA, factories)


@pytest.mark.parametrize("make", [hr.SimpleTable, hr.StreamTable])
def test_table_without_a_schema_is_refused(make: Any) -> None:
    with pytest.raises(TypeError, match=r"Table's schema must be a pyarrow\.Schema, DDL text .* not int"):
        make(5, [])
    with pytest.raises(TypeError, match=r"as a list has a pair of name and type for each column.* not 'a'"):
        make(["a"], [])
    with pytest.raises(ValueError, match="Table's schema cannot be read: at character 4 of the schema: 'BIGNT'"):
        make("id BIGNT", [])


def test_sorted_table_delegates_all_but_the_ordering() -> None:
    inner = hr.MemTable(numbers(10), partitions=2)
    provider = hr.SortedTable(inner, [hr.SortKey("a")])
    asked = request(SCHEMA, "a")
    plan = provider.scan(asked)
    assert plan.ordering == (hr.SortKey("a"),)
    assert (plan.schema, plan.partitioning, plan.placement) == (
        asked.schema,
        hr.UnknownPartitioning(2),
        hr.Placement.DRIVER,
    )
    assert (plan.statistics(), provider.statistics()) == (inner.scan(asked).statistics(), inner.statistics())
    assert rows(plan) == rows(inner.scan(asked))


@pytest.mark.parametrize(
    ("keys", "error", "words"),
    [
        ([], ValueError, "at least one"),
        (["a"], TypeError, r"SortKey\('a'\)"),
        (hr.SortKey("a"), TypeError, "a list"),
    ],
)
def test_sorted_table_bad_keys_are_refused(keys: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        hr.SortedTable(hr.MemTable(numbers(1)), keys)


def test_sorted_table_key_that_is_no_column_is_refused_at_registration() -> None:
    provider = hr.SortedTable(hr.MemTable(numbers(1)), [hr.SortKey("ts")])
    with pytest.raises(hr.RegistrationError, match=r"'ts'.*no column.*a, s"):
        provider.schema()


def test_mem_table_is_pickled_with_its_rows() -> None:
    copy = pickle.loads(pickle.dumps(hr.MemTable({"n": [1, 2]})))
    copy.delete(())
    assert copy.statistics().num_rows == 0
