"""Every row is delivered exactly once, whatever its type, nulls, batch size, slicing and placement."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import headrace as hr
from effort import cases
from headrace.arrow.conversion import to_wire
from headrace.arrow.types import wire_type
from lossless import LOSSLESS
from natural import COUNTING, TEXTS, Natural, natural_rows
from recording import Batches, Recorder
from session_settings import session_settings

PLACEMENTS = list(hr.Placement)
UTC = dt.UTC
VALUES: dict[pa.DataType, list[Any]] = {
    pa.bool_(): [True, False, True],
    pa.int8(): [-(2**7), 0, 2**7 - 1],
    pa.int16(): [-(2**15), 0, 2**15 - 1],
    pa.int32(): [-(2**31), 0, 2**31 - 1],
    pa.int64(): [-(2**63), 0, 2**63 - 1],
    pa.float32(): [1.5, float("-inf"), 0.0],
    pa.float64(): [1e300, float("inf"), -0.0],
    pa.date32(): [dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(9999, 12, 31)],
    pa.timestamp("us"): [dt.datetime(1, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(9999, 1, 1)],
    pa.timestamp("us", "UTC"): [dt.datetime(1900, 1, 1, tzinfo=UTC), dt.datetime(2024, 2, 29, 1, 2, 3, 4, UTC), None],
    pa.duration("us"): [dt.timedelta(days=-3), dt.timedelta(microseconds=1), dt.timedelta(0)],
    pa.decimal128(9, 2): [Decimal("-9999999.99"), Decimal("0.00"), Decimal("0.01")],
    pa.decimal128(18, 0): [Decimal(-(10**18) + 1), Decimal(0), Decimal(10**18 - 1)],
    pa.decimal128(38, 10): [Decimal("-9999999999999999999999999999.9999999999"), Decimal("1E-10"), Decimal(2**62)],
    pa.string(): ["", "zürich 💧", "a" * 300],
    pa.binary(): [b"", b"\x00\xff", b"x" * 300],
    pa.null(): [None],
    pa.list_(pa.int32()): [[], [1, None, 3], [4]],
    pa.list_(pa.list_(pa.string())): [[["a", None], [], None], [], [["b"]]],
    pa.struct([("a", pa.int64()), ("b", pa.string())]): [{"a": 1, "b": "x"}, {"a": None, "b": None}, {"a": 3, "b": ""}],
    pa.map_(pa.string(), pa.float64()): [[("k", 1.0), ("l", None)], [], [("m", 2.0)]],
    pa.list_(pa.struct([("m", pa.map_(pa.int32(), pa.list_(pa.date32())))])): [
        [{"m": [(1, [dt.date(2020, 1, 1), None])]}, None, {"m": None}],
        [],
        [{"m": []}],
    ],
    pa.struct([("s", pa.struct([("l", pa.list_(pa.decimal128(38, 2)))]))]): [
        {"s": {"l": [Decimal("1.25"), None]}},
        {"s": None},
        {"s": {"l": []}},
    ],
}


def wide_table(rows: int) -> pa.Table:
    """An id and three columns per type: without nulls, with some, of nulls only."""
    columns: dict[str, pa.Array] = {"id": pa.array(range(rows), pa.int64())}
    for number, (type_, values) in enumerate(VALUES.items()):
        cycle = list(itertools.islice(itertools.cycle(values), rows))
        columns[f"c{number}_none"] = pa.array(cycle, type_)
        columns[f"c{number}_some"] = pa.array([v if (i + number) % 3 else None for i, v in enumerate(cycle)], type_)
        columns[f"c{number}_all"] = pa.nulls(rows, type_)
    return pa.table(columns)


def in_batches(table: pa.Table, size: int) -> list[pa.RecordBatch]:
    """Slices of one large batch, so that all but the first start inside its buffers."""
    whole = table.combine_chunks().to_batches()
    return [batch.slice(start, size) for batch in whole for start in range(0, batch.num_rows, size)]


def assert_same_rows(got: pa.Table, expected: pa.Table, by: str = "id") -> None:
    assert got.num_rows == expected.num_rows
    got = got.sort_by(by)
    assert got.column_names == expected.column_names
    for name in expected.column_names:
        column = expected.column(name)
        wire = [to_wire(chunk, wire_type(column.type, name), name) for chunk in column.chunks]
        assert got.column(name).to_pylist() == [value for chunk in wire for value in chunk.to_pylist()], name


WIDE = wide_table(60)


@pytest.mark.daily("Placement.EXECUTORS")
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_rows_every_type_and_batch_size_arrive_once(ctx: hr.SessionContext, placement: hr.Placement) -> None:
    empty = WIDE.slice(0, 0).to_batches() or [pa.RecordBatch.from_pylist([], WIDE.schema)]
    partitions: list[Sequence[pa.RecordBatch]] = [
        in_batches(WIDE.slice(0, 20), 1),
        [],
        [*empty, *in_batches(WIDE.slice(20, 20), 7), *empty, *empty],
        empty,
        in_batches(WIDE.slice(40), 8192),
    ]
    provider = Recorder(WIDE.schema, partitions, placement=placement)
    ctx.register_table("wide", provider)
    frame = ctx.sql("SELECT * FROM wide")
    assert_same_rows(ctx.collect(frame), WIDE)
    assert_same_rows(ctx.collect(frame), WIDE)
    assert ctx.sql("SELECT count(*) FROM wide").collect()[0][0] == WIDE.num_rows


def test_rows_every_type_read_row_by_row_arrive_once(ctx: hr.SessionContext) -> None:
    ctx.register_table("wide", Recorder(WIDE.schema, [in_batches(WIDE, 13)], placement=hr.Placement.DRIVER))
    spark = ctx.spark
    spark.conf.set("spark.sql.codegen.wholeStage", "false")
    spark.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    try:
        assert_same_rows(ctx.collect("SELECT * FROM wide ORDER BY id"), WIDE)
    finally:
        spark.conf.unset("spark.sql.codegen.wholeStage")
        spark.conf.unset("spark.sql.codegen.factoryMode")


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_rows_every_cast_type_sliced_arrives_once(ctx: hr.SessionContext, placement: hr.Placement) -> None:
    block = pa.RecordBatch.from_arrays([pa.array(range(4)), *LOSSLESS.values()], names=["id", *LOSSLESS])
    parts = [block, block.slice(1, 2), block.slice(3), block.slice(0, 0), block.slice(2)]
    ctx.register_table("casts", Recorder(block.schema, [parts, parts], placement=placement))
    rows = ctx.collect("SELECT * FROM casts")
    expected = sorted(i for part in parts * 2 for i in part.column("id").to_pylist())
    assert sorted(rows.column("id").to_pylist()) == expected
    ids = rows.column("id").to_pylist()
    for name, array in LOSSLESS.items():
        values = to_wire(array, wire_type(array.type, name), name).to_pylist()
        assert rows.column(name).to_pylist() == [values[i] for i in ids], name


class Counting(Batches):
    """Partition p yields the numbers p, p + n, p + 2n, ... up to a total, in batches of a size."""

    def __init__(self, total: int, partitions: int, size: int, placement: hr.Placement) -> None:
        super().__init__(pa.schema([("i", pa.int64())]), [[]] * partitions, placement=placement)
        self._total = total
        self._size = size

    def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
        step = self.partitioning.n
        numbers = pa.array(range(partition, self._total, step), pa.int64())
        for start in range(0, len(numbers), self._size):
            yield pa.record_batch([numbers.slice(start, self._size)], schema=self.schema)


class CountingTable(hr.TableProvider):
    def __init__(self, plan: hr.ExecutionPlan) -> None:
        self._plan = plan

    def schema(self) -> pa.Schema:
        return self._plan.schema

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        return self._plan


@pytest.mark.daily("20000-3-7-*", "40-40-1-Placement.EXECUTORS")
@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize(
    ("total", "partitions", "size"),
    [(3000, 2, 1), (20_000, 3, 7), (100_000, 2, 8192), (300_000, 2, 100_000), (40, 40, 1)],
)
def test_rows_batch_size_and_partition_count_arrive_once(
    ctx: hr.SessionContext, placement: hr.Placement, total: int, partitions: int, size: int
) -> None:
    ctx.register_table("n", CountingTable(Counting(total, partitions, size, placement)))
    (row,) = ctx.sql("SELECT count(i), sum(i), count(DISTINCT i), min(i), max(i) FROM n").collect()
    assert tuple(row) == (total, total * (total - 1) // 2, total, 0, total - 1)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_rows_zero_partitions_is_an_empty_table(ctx: hr.SessionContext, placement: hr.Placement) -> None:
    ctx.register_table("n", CountingTable(Counting(0, 0, 1, placement)))
    assert ctx.collect("SELECT * FROM n").num_rows == 0
    assert ctx.sql("SELECT count(*), max(i) FROM n").collect() == [(0, None)]


def test_rows_table_without_columns_are_counted(ctx: hr.SessionContext) -> None:
    batch = pa.record_batch({"i": pa.array(range(7))}).select([])
    ctx.register_table("t", Recorder(batch.schema, [[batch, batch.slice(0, 2)], [batch]]))
    assert ctx.sql("SELECT count(*) FROM t").collect()[0][0] == 16


def test_rows_columns_under_one_plan_in_another_order_are_the_named_ones(ctx: hr.SessionContext) -> None:
    data = pa.table({"a": [1, 2], "b": ["x", "y"], "c": [0.5, 1.5]})
    provider = Recorder(data.schema, [data.to_batches()], whole=False)
    ctx.register_table("t", provider)
    assert ctx.collect("SELECT c, a FROM t").to_pylist() == [{"c": 0.5, "a": 1}, {"c": 1.5, "a": 2}]


def test_rows_batch_of_another_type_fails_and_names_both_schemas(ctx: hr.SessionContext) -> None:
    wrong = pa.record_batch({"a": ["1"]})
    ctx.register_table("t", Recorder(pa.schema([("a", pa.int64())]), [[wrong]]))
    with pytest.raises(hr.SchemaMismatchError, match=r"(?s)expected:\s+.*a: int64.*found:\s+.*a: string"):
        ctx.collect("SELECT a FROM t")


def test_rows_nanoseconds_that_do_not_fit_fail_and_name_the_column(ctx: hr.SessionContext) -> None:
    batch = pa.record_batch({"at": pa.array([1001], pa.timestamp("ns"))})
    ctx.register_table("t", Recorder(batch.schema, [[batch]]))
    with pytest.raises(hr.SchemaMismatchError, match=r"column 'at'.*would lose data: 1001"):
        ctx.collect("SELECT at FROM t")


def test_rows_nested_null_where_none_is_declared_fails_and_names_the_path(ctx: hr.SessionContext) -> None:
    schema = pa.schema([("s", pa.struct([pa.field("x", pa.int64(), nullable=False)]))])
    batch = pa.RecordBatch.from_pylist([{"s": {"x": None}}], schema)
    ctx.register_table("t", Recorder(schema, [[batch]]))
    with pytest.raises(hr.SchemaMismatchError, match=r"nulls in column 's\.x'"):
        ctx.collect("SELECT s FROM t")


def test_register_table_type_spark_lacks_is_refused_by_name(ctx: hr.SessionContext) -> None:
    with pytest.raises(hr.UnsupportedTypeError, match=r"column 'at' has Arrow type month_day_nano.*use a duration"):
        ctx.register_table("t", Recorder(pa.schema([("at", pa.month_day_nano_interval())]), []))
    assert not ctx.table_exists("t")


KINDS = [pa.int32(), pa.float64(), pa.bool_(), pa.string(), pa.decimal128(20, 3), pa.list_(pa.int64())]
ELEMENTS = {
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.float64(): st.floats(allow_nan=False),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    pa.decimal128(20, 3): st.decimals(-(10**16), 10**16, places=3),
    pa.list_(pa.int64()): st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=4),
}


@st.composite
def partitions_of_batches(draw: st.DrawFn) -> tuple[pa.Table, list[list[pa.RecordBatch]]]:
    rows = draw(st.integers(1, 40))
    columns = [draw(st.lists(st.none() | ELEMENTS[kind], min_size=rows, max_size=rows)) for kind in KINDS]
    arrays = [pa.array(values, kind) for values, kind in zip(columns, KINDS, strict=True)]
    table = pa.table([pa.array(range(rows)), *arrays], names=["id", *map(str, range(len(KINDS)))])
    cuts = sorted(draw(st.lists(st.integers(0, rows), max_size=6)))
    pieces = [table.slice(a, b - a).to_batches() for a, b in itertools.pairwise([0, *cuts, rows])]
    count = draw(st.integers(1, 3))
    partitions: list[list[pa.RecordBatch]] = [[] for _ in range(count)]
    for index, piece in enumerate(pieces):
        partitions[index % count] += piece
    return table, partitions


@settings(max_examples=cases(12), deadline=None, suppress_health_check=list(HealthCheck))
@given(made=partitions_of_batches(), placement=st.sampled_from(PLACEMENTS))
def test_rows_random_tables_arrive_once(
    spark: SparkSession, made: tuple[pa.Table, list[list[pa.RecordBatch]]], placement: hr.Placement
) -> None:
    table, partitions = made
    with hr.SessionContext(spark) as ctx:
        ctx.register_table("t", Recorder(table.schema, partitions, placement=placement))
        assert_same_rows(ctx.collect("SELECT * FROM t"), table)


@pytest.mark.parametrize("at_source", ["true", "false"])
@pytest.mark.parametrize("kind", ["provider", "SimpleTable"])
def test_rows_that_are_only_counted_are_all_there(ctx: hr.SessionContext, kind: str, at_source: str) -> None:
    ctx.register_table("t", Natural() if kind == "provider" else hr.SimpleTable(TEXTS, natural_rows))
    with session_settings(ctx.spark, {"spark.headrace.workAtSource": at_source}):
        for query, expected in COUNTING.items():
            assert list(map(tuple, ctx.sql(query).collect())) == expected, query
        assert ctx.table("t").count() == 10
        assert ctx.collect("SELECT count(*) AS n FROM t")["n"].to_pylist() == [10]


def test_rows_with_a_schema_are_registered_as_it_says(ctx: hr.SessionContext) -> None:
    rows = [(1, "a", pd.NaT), (2, pd.NA, pd.Timestamp("2024-01-02"))]
    ctx.register_table("t", rows, schema="id INT NOT NULL, name STRING, at TIMESTAMP_NTZ")
    assert ctx.collect("SELECT id, name, year(at) AS y FROM t ORDER BY id").to_pylist() == [
        {"id": 1, "name": "a", "y": None},
        {"id": 2, "name": None, "y": 2024},
    ]
    with pytest.raises(hr.SchemaMismatchError, match="column 'id'"):
        ctx.register_table("t", [("one",)], schema="id INT", replace=True)
    with pytest.raises(hr.RegistrationError, match="schema"):
        ctx.register_table("t", [(1,)], schema="id NO_TYPE", replace=True)
    assert ctx.sql("SELECT count(*) FROM t").collect()[0][0] == 2
    ctx.register_table("t", [], schema="id INT", replace=True)
    assert ctx.sql("SELECT count(*), max(id) FROM t").collect() == [(0, None)]


@pytest.mark.parametrize("placement", list(hr.Placement))
def test_rows_of_any_data_that_execute_yields_are_read(ctx: hr.SessionContext, placement: hr.Placement) -> None:
    schema = pa.schema([("a", pa.int64()), ("s", pa.string())])

    def yielded() -> Iterator[Any]:
        yield [{"a": 1, "s": "x"}, {"a": pd.NA}]
        yield [(2, "y")]
        yield pd.DataFrame({"s": ["z"], "a": [3]})
        yield pa.table({"s": ["u"], "a": pa.array([4], pa.int8())})

    ctx.register_table("t", hr.SimpleTable(schema, yielded, placement=placement))
    expected = [(1, "x"), (None, None), (2, "y"), (3, "z"), (4, "u")]
    assert list(map(tuple, ctx.sql("SELECT a, s FROM t").collect())) == expected
    assert ctx.sql("SELECT count(*), sum(a) FROM t WHERE a > 1").collect() == [(3, 9)]
    assert len(ctx.sql("SELECT a FROM t LIMIT 3").collect()) == 3


COPIED: list[tuple[pa.DataType, Any]] = [
    (pa.bool_(), True),
    (pa.int8(), 1),
    (pa.int16(), 1),
    (pa.int32(), 1),
    (pa.int64(), 1),
    (pa.float32(), 1.5),
    (pa.float64(), 1.5),
    (pa.date32(), dt.date(2020, 1, 2)),
    (pa.timestamp("us"), dt.datetime(2020, 1, 2)),
    (pa.timestamp("us", "UTC"), dt.datetime(2020, 1, 2, tzinfo=dt.UTC)),
    (pa.duration("us"), dt.timedelta(seconds=1)),
    (pa.decimal128(9, 2), Decimal("1.25")),
    (pa.decimal128(38, 2), Decimal("1.25")),
    (pa.string(), "a"),
    (pa.binary(), b"a"),
]


def test_rows_nulls_inside_of_nested_values_survive_their_copies(ctx: hr.SessionContext) -> None:
    """Spark copies arrays of numbers as a whole, and reads the nulls among them."""
    fields, columns = [], []
    for i, (type_, value) in enumerate(COPIED):
        values = [value, None, value]
        nested = pa.struct([("v", pa.list_(type_)), ("m", pa.map_(pa.string(), type_))])
        fields += [pa.field(f"a{i}", pa.list_(type_)), pa.field(f"s{i}", pa.list_(nested))]
        one = {"v": values, "m": list(zip("xyz", values, strict=True))}
        columns += [[values, None, []], [[one, None, {"v": None, "m": None}], None, [one]]]
    schema = pa.schema(fields)
    rows = pa.table([pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema)
    ctx.register_table("nested", hr.MemTable(rows))
    every = ", ".join(f"transform({name}, x -> x) AS {name}" for name in schema.names)
    assert ctx.collect(f"SELECT {every} FROM nested").to_pylist() == rows.to_pylist()
    ctx.register_table("copied", hr.MemTable(schema.empty_table()))
    ctx.spark.sql("INSERT INTO copied BY NAME SELECT * FROM nested")
    assert ctx.collect("SELECT * FROM copied").to_pylist() == rows.to_pylist()
