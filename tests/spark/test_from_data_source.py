"""``from_data_source``: the same rows as ``spark.read.format(...)`` gives for the same data source."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark.cloudpickle
import pytest
from pyspark import SparkFiles, TaskContext
from pyspark.errors import PySparkAssertionError, PySparkRuntimeError
from pyspark.sql import Row, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import ArrayType, IntegerType, MapType, StringType, StructField, StructType

import headrace as hr
from headrace.spark.data_source.plan import DataSourcePlan
from versions import has

ROWS = 700
PARTS = 8 if has("rounded decimals") else 4  # eighths have one digit more than the type
DDL = (
    "id bigint, b boolean, i int, d double, s string, y binary, day date, ts timestamp, ntz timestamp_ntz, "
    "n decimal(10, 2), a array<int>, m map<string, int>, st struct<x: int, y: string>"
)


def value(number: int) -> tuple[Any, ...]:
    """Every kind of value, some that Spark's conversion changes on the way, and a row of nulls now and then."""
    if number % 9 == 8:
        return (number, *[None] * 12)
    return (
        number,
        number % 2 == 0,
        number,
        number / 8,
        number if number % 5 == 0 else True if number % 5 == 1 else f"s{number}",
        bytearray(b"x") if number % 2 else b"y",
        dt.date(2024, 1, 1) + dt.timedelta(days=number),
        dt.datetime(2024, 1, 1, 12, tzinfo=dt.timezone(dt.timedelta(hours=5)))
        if number % 2
        else dt.datetime(2024, 1, 1),
        dt.datetime(2024, 1, 1, 12, 0, 0, number),
        Decimal("NaN") if number % 7 == 0 else Decimal(number) / PARTS,
        [number, None],
        {"k": number},
        Row(x=number, y="z") if number % 2 else {"x": number},
    )


class Reader(DataSourceReader):
    def __init__(self, kind: str, names: Sequence[str]) -> None:
        self.kind = kind
        self.names = list(names)

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(start) for start in (0, ROWS)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        numbers = range(partition.value, partition.value + ROWS)
        if self.kind == "arrow":
            arrays = [pa.array(numbers, pa.int64()), pa.array([f"s{n}" for n in numbers])]
            for start in range(0, ROWS, 100):
                yield pa.RecordBatch.from_arrays([array.slice(start, 100) for array in arrays], ["id", "s"])
        elif self.kind == "row":
            backwards = Row(*reversed(self.names))
            for number in numbers:
                yield backwards(*reversed(value(number)))
        elif self.kind == "list":
            yield from (list(value(number)) for number in numbers)
        else:
            yield from map(value, numbers)


class Source(DataSource):
    @classmethod
    def name(cls) -> str:
        return "everything"

    def schema(self) -> str | StructType:
        if self.options["KIND"] == "arrow":
            return "id bigint, s string"
        return DDL

    def reader(self, schema: StructType) -> DataSourceReader:
        return Reader(self.options["kind"], schema.names)


@pytest.fixture(autouse=True, scope="module")
def _classes_travel() -> Iterator[None]:
    """For Spark's own path, whose workers cannot import this module; Headrace brings it by itself."""
    module = sys.modules[__name__]
    pyspark.cloudpickle.register_pickle_by_value(module)
    yield
    pyspark.cloudpickle.unregister_pickle_by_value(module)


@pytest.mark.daily("arrow")
@pytest.mark.parametrize("kind", ["tuple", "row", "arrow"])
def test_data_source_gives_the_rows_that_spark_gives(ctx: hr.SessionContext, spark: SparkSession, kind: str) -> None:
    spark.dataSource.register(Source)
    expected = spark.read.format("everything").option("kind", kind).load()
    ctx.register_table("everything", hr.from_data_source(Source, {"Kind": kind}))
    found = ctx.table("everything")
    assert found.schema == expected.schema
    assert (
        sorted(found.collect()) == sorted(expected.collect())
        if kind == "arrow"
        else ({row.id: row for row in found.collect()} == {row.id: row for row in expected.collect()})
    )
    assert ctx.collect("SELECT count(*) AS n, max(s) AS s FROM everything").to_pylist() == [
        {"n": 2 * ROWS, "s": expected.agg({"s": "max"}).collect()[0][0]}
    ]


class AskingReader(DataSourceReader):
    """Asks PySpark about the task that reads."""

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(3)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        task: Any = TaskContext.get()
        with open(SparkFiles.get("headrace_told.txt")) as told:
            yield (
                partition.value,
                task.partitionId(),
                task.attemptNumber(),
                task.getLocalProperty("headrace.told"),
                told.read(),
                task.stageId() >= 0 and task.taskAttemptId() >= 0 and task.cpus() == 1 and task.resources() == {},
            )


class AskingSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "asking"

    def schema(self) -> str:
        return "n int, partition int, attempt int, property string, file string, others boolean"

    def reader(self, schema: StructType) -> DataSourceReader:
        return AskingReader()


def test_task_context_files_and_local_properties_are_those_of_the_task(
    ctx: hr.SessionContext, spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "headrace_told.txt").write_text("hello")
    spark.sparkContext.addFile(str(tmp_path / "headrace_told.txt"))
    ctx.register_table("asking", hr.from_data_source(AskingSource))
    for told in ("one", "another"):  # the same workers, another query
        spark.sparkContext.setLocalProperty("headrace.told", told)
        found = sorted(ctx.table("asking").collect())
        assert found == [(n, n, 0, told, "hello", True) for n in range(3)]
    spark.sparkContext.setLocalProperty("headrace.told", None)  # type: ignore[arg-type]
    spark.dataSource.register(AskingSource)
    spark_own = sorted(spark.read.format("asking").load().collect())
    assert spark_own == [(n, n, 0, None, "hello", True) for n in range(3)]


# --- without Spark ---------------------------------------------------------------------------------------


class Given(DataSourceReader):
    """Yields what it was made with."""

    def __init__(self, records: Any) -> None:
        self.records = records
        self.closed = False

    def read(self, partition: InputPartition) -> Any:
        return self.records


STRUCT = StructType([StructField("id", IntegerType()), StructField("s", StringType())])


class Empty(DataSource):
    """Has two columns and no rows."""

    @classmethod
    def name(cls) -> str:
        return "empty"

    def schema(self) -> StructType:
        return STRUCT

    def reader(self, schema: StructType) -> DataSourceReader:
        return Given([])


def plan_of(records: Any, projection: tuple[str, ...] = ("id", "s")) -> DataSourcePlan:
    return DataSourcePlan(Given(records), (InputPartition(None),), STRUCT, projection, "given")


@pytest.mark.parametrize(
    ("records", "message"),
    [
        (iter([(1, "a"), (2,)]), r"RETURN_SCHEMA_MISMATCH\].*Expected: 2 columns, Found: 1 columns"),
        (iter([(1, "a"), "xy"]), r"INVALID_RETURN_TYPE\].*'str'"),
        (iter([5]), r"INVALID_RETURN_TYPE\].*'int'"),
        (iter([None]), r"INVALID_RETURN_TYPE\].*'NoneType'"),
        (iter([Row(id=1, t="a")]), r"Expected: \['id', 's'\] columns, Found: \['id', 't'\]"),
        (iter([pa.record_batch({"id": [1], "s": ["a"]})]), "(?s)Expected: id: int32.*Found: id: int64"),
        (iter([pa.record_batch([pa.array([1], pa.int32()), ["a"]], ["id", "s"]), (1, "a")]), "'tuple'"),
        (None, r"INVALID_RETURN_TYPE\].*'NoneType'.*Expected types: iterator"),
    ],
)
def test_records_that_do_not_fit_are_refused(records: Any, message: str) -> None:
    with pytest.raises(PySparkRuntimeError, match=message):
        list(plan_of(records).execute(0))


@pytest.mark.parametrize("projection", [(), ("s",), ("s", "id")])
def test_records_only_needed_columns_are_turned(projection: tuple[str, ...]) -> None:
    rows = [(n if "id" in projection else object(), f"s{n}") for n in range(1000)]
    batches = list(plan_of(iter(rows), projection).execute(0))
    assert [batch.num_rows for batch in batches] == [256, 512, 232]
    assert all(batch.schema.names == list(projection) for batch in batches)


def test_records_iterator_is_closed_on_early_stop() -> None:
    ended = []

    def records() -> Iterator[tuple[int, str]]:
        try:
            while True:
                yield 1, "a"
        finally:
            ended.append(True)

    stream: Any = plan_of(records()).execute(0)
    next(stream)
    stream.close()
    assert ended == [True]


def test_schema_that_would_change_is_refused() -> None:
    lower = StructType([StructField("s", StringType("UTF8_LCASE"))])
    with pytest.raises(hr.UnsupportedTypeError, match="collate UTF8_LCASE"):
        hr.from_data_source(Empty, schema=lower).schema()


def test_class_that_is_none_is_refused() -> None:
    with pytest.raises(TypeError, match="the class itself"):
        hr.from_data_source(Empty({}))  # type: ignore[arg-type]


def test_partitions_of_another_kind_are_refused() -> None:
    class Wrong(Given):
        def partitions(self) -> Any:
            return [1, 2]

    class WrongSource(Empty):
        def reader(self, schema: StructType) -> DataSourceReader:
            return Wrong([])

    provider = hr.from_data_source(WrongSource)
    schema = provider.schema()
    with pytest.raises(PySparkAssertionError, match=r"DATA_SOURCE_TYPE_MISMATCH\].*'InputPartition'"):
        provider.scan(hr.ScanRequest(schema, tuple(schema.names)))


class CommentedSource(Empty):
    def schema(self) -> StructType:
        inner = StructType([StructField("x", IntegerType(), metadata={"comment": "inside"})])
        return StructType(
            [
                StructField("id", IntegerType(), metadata={"comment": "the key"}),
                StructField("s", StringType()),
                StructField("list", ArrayType(inner), metadata={"comment": "many"}),
                StructField("map", MapType(StringType(), inner)),
            ]
        )


def test_data_source_comments_are_those_of_its_schema(ctx: hr.SessionContext) -> None:
    ctx.register_table("commented", hr.from_data_source(CommentedSource))
    described = {row["col_name"]: row["comment"] for row in ctx.sql("DESCRIBE commented").collect()}
    assert described == {"id": "the key", "s": None, "list": "many", "map": None}
    assert ctx.table("commented").schema == CommentedSource({}).schema()
