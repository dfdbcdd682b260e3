"""Columns of types that Spark has and Arrow does not tell apart: variant, TIME, intervals of other parts."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyspark.cloudpickle
import pytest
from pyspark.errors import ParseException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructField, StructType, VariantVal, YearMonthIntervalType

import headrace as hr
from headrace.arrow.types import VARIANT
from versions import has

TIME_SETTING = "spark.sql.timeType.enabled"
NEW_TYPES = "id bigint, v variant, vs array<variant>, vm map<string, variant>, st struct<v: variant, n: int>"
INTERVALS = (
    "id bigint, s interval second, dh interval day to hour, m interval minute, all interval day to second, "
    "list array<interval second>, st struct<h: interval hour to minute>"
)
TIMES_OF_DAY = "id bigint, at time(6), s time(0), list array<time(6)>, m map<string, time(3)>, st struct<at: time(6)>"


@pytest.fixture(autouse=True, scope="module")
def _classes_travel() -> Iterator[None]:
    """For Spark's own path, whose workers cannot import this module."""
    module = sys.modules[__name__]
    pyspark.cloudpickle.register_pickle_by_value(module)
    yield
    pyspark.cloudpickle.unregister_pickle_by_value(module)


@pytest.fixture
def time_type(spark: SparkSession) -> Iterator[None]:
    spark.conf.set(TIME_SETTING, "true")
    yield
    spark.conf.unset(TIME_SETTING)


def variant(number: int) -> VariantVal:
    return VariantVal.parseJson(f'{{"n": {number}, "text": "t{number}"}}')


def variants(n: int) -> tuple[Any, ...]:
    if n % 3 == 2:
        return (n, None, None, None, None)
    return (n, variant(n), [variant(n), None], {"k": variant(n)}, (variant(n + 1), n))


def intervals(n: int) -> tuple[Any, ...]:
    if n % 3 == 2:
        return (n, *[None] * 6)
    took = dt.timedelta(hours=n)
    return (n, dt.timedelta(seconds=n, microseconds=n), took, took, -took, [took, None], (took,))


def times_of_day(n: int) -> tuple[Any, ...]:
    if n % 3 == 2:
        return (n, *[None] * 5)
    at, whole = dt.time(n, 59, 59, 999_999 - n), dt.time(23, n)
    return (n, at, whole, [at, None], {"k": whole}, (at,))


ROWS = {
    "variants": (NEW_TYPES, variants),
    "intervals": (INTERVALS, intervals),
    "times": (TIMES_OF_DAY, times_of_day),
}


class Reader(DataSourceReader):
    def __init__(self, kind: str) -> None:
        self.kind = kind

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(0), InputPartition(5)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        yield from map(ROWS[self.kind][1], range(partition.value, partition.value + 5))


class Source(DataSource):
    @classmethod
    def name(cls) -> str:
        return "types_of_spark"

    def schema(self) -> str:
        return ROWS[self.options["kind"]][0]

    def reader(self, schema: StructType) -> DataSourceReader:
        return Reader(self.options["kind"])


def plain(value: Any) -> Any:
    """Variants as what they stand for, rows as tuples."""
    if isinstance(value, VariantVal):
        return value.toPython()
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    return type(value)(map(plain, value)) if type(value) in (list, tuple) else value


def collected(frame: DataFrame) -> list[Any]:
    return sorted((plain(tuple(map(_untitled, row))) for row in frame.collect()), key=repr)


def _untitled(value: Any) -> Any:
    return tuple(value) if isinstance(value, Row) else value


@pytest.mark.daily("times")
@pytest.mark.usefixtures("time_type")
@pytest.mark.parametrize("kind", ROWS)
def test_data_source_columns_of_spark_types_are_those_that_spark_reads(
    ctx: hr.SessionContext, spark: SparkSession, kind: str
) -> None:
    if kind == "times" and not has("times of day"):
        with pytest.raises(ParseException, match=r"(?i)TIME"):
            ctx.register_table("typed", hr.from_data_source(Source, {"kind": kind}))
        return
    spark.dataSource.register(Source)
    native = spark.read.format("types_of_spark").option("kind", kind).load()
    ctx.register_table("typed", hr.from_data_source(Source, {"kind": kind}))
    found = ctx.table("typed")
    assert found.schema == native.schema
    expected = sorted((plain(ROWS[kind][1](n)) for n in range(10)), key=repr)
    assert collected(found) == expected
    if kind != "variants" or has("variants in rows"):
        assert collected(native) == expected
    part = {"variants": "variant_get(st.v, '$.n', 'int')", "intervals": "st.h", "times": "st.at"}[kind]
    values = {
        "variants": lambda row: row[4][0]["n"],
        "intervals": lambda row: row[6][0],
        "times": lambda row: row[5][0],
    }[kind]
    assert collected(found.selectExpr("id", part).where("id > 3")) == [
        (row[0], None if row[1] is None else values(row)) for row in expected if row[0] > 3
    ]


def test_variants_of_a_provider_are_read_by_sql(ctx: hr.SessionContext) -> None:
    values = [VariantVal.parseJson(text) for text in ('{"a": {"b": 7}}', "[1, 2]", '"text"')]
    parts = [{"value": value.value, "metadata": value.metadata} for value in values]
    views = pa.struct(
        [pa.field("metadata", pa.binary_view(), metadata={"variant": "true"}), ("value", pa.large_binary())]
    )
    for type_ in (VARIANT, views):
        schema = pa.schema([pa.field("v", type_), ("n", pa.int64())])
        rows = pa.table([pa.array([*parts, None], type_), pa.array(range(4))], schema=schema)
        ctx.register_table("documents", hr.MemTable(rows), replace=True)
        asked = "SELECT n, variant_get(v, '$.a.b', 'int') AS b, to_json(v) AS j FROM documents WHERE v IS NOT NULL"
        assert ctx.collect(asked).to_pylist() == [
            {"n": 0, "b": 7, "j": '{"a":{"b":7}}'},
            {"n": 1, "b": None, "j": "[1,2]"},
            {"n": 2, "b": None, "j": '"text"'},
        ]
    unmarked = pa.struct([("value", pa.binary()), ("metadata", pa.binary())])
    ctx.register_table("documents", hr.MemTable(pa.table([pa.array(parts, unmarked)], ["v"])), replace=True)
    assert ctx.table("documents").schema["v"].dataType.typeName() == "struct"


def test_intervals_of_a_provider_have_the_parts_that_are_named(ctx: hr.SessionContext) -> None:
    named = [
        pa.field("took", pa.duration("ms"), metadata={"headrace.spark_type": "interval hour to second"}),
        pa.field("plain", pa.duration("us")),
    ]
    values = [dt.timedelta(hours=2, milliseconds=5), None, dt.timedelta(hours=-1)]
    rows = pa.table([pa.array(values, field.type) for field in named], schema=pa.schema(named))
    ctx.register_table("waits", hr.MemTable(rows))
    assert (
        ctx.table("waits").schema.simpleString() == "struct<took:interval hour to second,plain:interval day to second>"
    )
    assert [tuple(row) for row in ctx.table("waits").collect()] == [(value, value) for value in values]
    assert ctx.sql("SELECT max(took), count(*) FROM waits WHERE took > INTERVAL '0' HOUR").first() == (values[0], 1)
    wrong = pa.schema([pa.field("took", pa.int64(), metadata={"headrace.spark_type": "interval second"})])
    with pytest.raises(hr.UnsupportedTypeError, match=r"'took'.*int64.*'interval second'"):
        ctx.register_table("wrong", hr.MemTable(wrong.empty_table()))


TIMES = [dt.time(0, 0), dt.time(23, 59, 59, 999_999), None, dt.time(12, 30, 1)]
TIME_SCHEMA = pa.schema(
    [
        pa.field("at", pa.time64("us")),
        pa.field("s", pa.time32("s"), metadata={"headrace.spark_type": "time(0)"}),
        pa.field("list", pa.list_(pa.struct([("at", pa.time64("ns"))]))),
    ]
)


def times() -> pa.Table:
    whole = [None if time is None else time.replace(microsecond=0) for time in TIMES]
    nested = [[{"at": time}] for time in TIMES]
    return pa.table(
        [pa.array(v, f.type) for v, f in zip([TIMES, whole, nested], TIME_SCHEMA, strict=True)], TIME_SCHEMA
    )


@pytest.mark.usefixtures("time_type")
def test_times_of_day_are_sparks_where_it_has_them(ctx: hr.SessionContext) -> None:
    if not has("times of day"):
        with pytest.raises(hr.UnsupportedTypeError, match=r"'times'.*'at' is a time of day.*from 4\.1 on.*string"):
            ctx.register_table("times", hr.MemTable(times()))
        return
    ctx.register_table("times", hr.MemTable(times()))
    assert ctx.table("times").schema.simpleString() == "struct<at:time(6),s:time(0),list:array<struct<at:time(6)>>>"
    whole = times().to_pylist()
    assert [row.asDict(recursive=True) for row in ctx.table("times").collect()] == whole
    later = ctx.sql("SELECT max(at), min(s), count(*) FROM times WHERE at > TIME'12:00:00'").first()
    assert later == (TIMES[1], dt.time(12, 30, 1), 2)


@pytest.mark.usefixtures("time_type")
def test_times_of_day_as_a_data_source_and_back_are_the_same(ctx: hr.SessionContext, spark: SparkSession) -> None:
    if not has("times of day"):
        with pytest.raises(hr.UnsupportedTypeError, match=r"'at' has Arrow type time64.*TIME type from 4\.1 on"):
            hr.as_data_source(hr.MemTable(times()), "times_of_day")
        return
    source = hr.as_data_source(hr.MemTable(times()), "times_of_day")
    spark.dataSource.register(source)
    ctx.register_table("times", hr.from_data_source(source))
    for frame in (spark.read.format("times_of_day").load(), ctx.table("times")):
        assert frame.schema.simpleString() == "struct<at:time(6),s:time(0),list:array<struct<at:time(6)>>>"
        assert [row.asDict(recursive=True) for row in frame.collect()] == times().to_pylist()
        assert frame.where("at > TIME'12:00:00'").count() == 2


def test_intervals_as_a_data_source_and_back_are_the_same(ctx: hr.SessionContext, spark: SparkSession) -> None:
    field = pa.field("took", pa.duration("us"), metadata={"headrace.spark_type": "interval second"})
    values = [dt.timedelta(seconds=5, microseconds=7), None, dt.timedelta(seconds=-1)]
    rows = pa.table([pa.array(values, field.type)], schema=pa.schema([field]))
    source = hr.as_data_source(hr.MemTable(rows), "seconds")
    spark.dataSource.register(source)
    ctx.register_table("seconds", hr.from_data_source(source))
    for frame in (spark.read.format("seconds").load(), ctx.table("seconds")):
        assert frame.schema.simpleString() == "struct<took:interval second>"
        assert [row.took for row in frame.collect()] == values
        assert frame.where("took > INTERVAL '0' SECOND").count() == 1


def test_times_of_day_that_are_switched_off_are_refused_by_name(ctx: hr.SessionContext) -> None:
    nested = hr.MemTable(times().select(["list"]))
    expected = "spark.conf.set" if has("times of day") else "from 4.1 on"
    with pytest.raises(hr.UnsupportedTypeError, match=rf"'list\.element\.at' is a time of day.*{expected}.*cast"):
        ctx.register_table("times", nested)
    assert not ctx.table_exists("times")


def test_type_without_arrow_is_refused_by_name() -> None:
    months = StructType([StructField("age", YearMonthIntervalType())])

    class Months(Source):
        def schema(self) -> Any:
            return months

    with pytest.raises(hr.UnsupportedTypeError, match=r"'age' has type interval year to month.*spark\.read"):
        hr.from_data_source(Months).schema()
