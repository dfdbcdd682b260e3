"""``as_data_source``: a provider on PySpark's own Python Data Source gives the rows that it gives as a table."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import DataFrame, SparkSession

import headrace as hr
from natural import COUNTING, Natural
from versions import has

KINDS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False, metadata={"comment": "counts up"}),
        pa.field("small", pa.uint8()),
        pa.field("x", pa.float32()),
        pa.field("s", pa.large_string()),
        pa.field("d", pa.dictionary(pa.int32(), pa.string())),
        pa.field("b", pa.binary()),
        pa.field("day", pa.date32()),
        pa.field("at", pa.timestamp("ns", tz="Europe/Berlin")),
        pa.field("local", pa.timestamp("us")),
        pa.field("n", pa.decimal128(10, 2)),
        pa.field("took", pa.duration("us")),
        pa.field("list", pa.list_(pa.field("thing", pa.int32()))),
        pa.field("map", pa.map_(pa.string(), pa.int64())),
        pa.field("st", pa.struct([pa.field("a", pa.int32(), nullable=False), pa.field("t", pa.list_(pa.string()))])),
    ]
)
ROWS = 50


def row(number: int) -> dict[str, Any]:
    if number % 7 == 6:
        return {"id": number}
    at = dt.datetime(2024, 3, 1, 12, tzinfo=dt.UTC) + dt.timedelta(hours=number)
    return {
        "id": number,
        "small": number % 5,
        "x": number / 8,
        "s": f"s{number % 3}",
        "d": "even" if number % 2 == 0 else "odd",
        "b": b"\x00" * (number % 4),
        "day": dt.date(2024, 1, 1) + dt.timedelta(days=number % 10),
        "at": at,
        "local": at.replace(tzinfo=None),
        "n": Decimal(number) / 4,
        "took": dt.timedelta(seconds=number),
        "list": [number, None],
        "map": {"k": number},
        "st": {"a": number % 4, "t": ["u", None]},
    }


class Kinds(hr.TableProvider):
    """One column of each kind; equality is decided exactly, comparisons are used and left to Spark as well."""

    def schema(self) -> pa.Schema:
        return KINDS

    def supports_filters_pushdown(self, filters: Sequence[hr.Expr]) -> list[hr.FilterPushdown]:
        answers = {"=": hr.FilterPushdown.EXACT, ">": hr.FilterPushdown.INEXACT}
        return [answers.get(getattr(one, "op", ""), hr.FilterPushdown.UNSUPPORTED) for one in filters]

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        return KindsPlan(request)


class KindsPlan(hr.ExecutionPlan):
    def __init__(self, request: hr.ScanRequest) -> None:
        self.schema = request.schema
        self.partitioning = hr.UnknownPartitioning(2)
        self.filters = request.filters

    def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
        rows = [row(number) for number in range(partition, ROWS, 2)]
        batch = pa.RecordBatch.from_pylist(rows, KINDS)
        for one in self.filters:
            batch = batch.filter(one.evaluate(batch))
        yield batch.select(self.schema.names)


class Moody(hr.TableProvider):
    """Raises where it is told to."""

    def __init__(self, where: str) -> None:
        self.where = where

    def schema(self) -> pa.Schema:
        return pa.schema({"id": pa.int64()})

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        if self.where == "scan":
            raise LookupError("no shard is up")
        return MoodyPlan(self.where)


class MoodyPlan(hr.ExecutionPlan):
    schema = pa.schema({"id": pa.int64()})

    def __init__(self, where: str) -> None:
        if where == "pickle":
            self.placement = hr.Placement.DRIVER
            self.lock = threading.Lock()

    def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"id": [1]})
        raise LookupError("the shard went down")


def loaded(spark: SparkSession, provider: Any, name: str, schema: str | None = None) -> DataFrame:
    spark.dataSource.register(hr.as_data_source(provider, name))
    reader = spark.read.format(name)
    return (reader if schema is None else reader.schema(schema)).load()


@pytest.fixture
def pushing(spark: SparkSession) -> Iterator[SparkSession]:
    """With Spark's own switch for filters of Python data sources on, where it has one."""
    setting = "spark.sql.python.filterPushdown.enabled"
    if not has("data source filters"):
        yield spark
        return
    spark.conf.set(setting, "true")
    yield spark
    spark.conf.unset(setting)


def test_as_data_source_gives_the_rows_schema_and_comments_of_the_table(
    ctx: hr.SessionContext, spark: SparkSession
) -> None:
    ctx.register_table("kinds", Kinds())
    found = loaded(spark, Kinds(), "kinds_source")
    assert found.schema == ctx.table("kinds").schema
    assert found.schema["id"].metadata == {"comment": "counts up"}
    assert found.orderBy("id").collect() == ctx.table("kinds").orderBy("id").collect()
    assert found.rdd.getNumPartitions() == 2


@pytest.mark.daily("id > 30 AND*")
@pytest.mark.parametrize(
    ("where", "reread"),
    [
        (
            "at = TIMESTAMP '2024-03-01 16:00:00 UTC' AND local = TIMESTAMP_NTZ '2024-03-01 16:00:00' AND n = 1.00 AND "
            "day = DATE '2024-01-05' AND x = 0.5 AND b = X'' AND st.a = 0",
            False,
        ),
        ("id > 30 AND d = 'odd' AND s IN ('s1', NULL) AND s LIKE 's%' AND small <> 3", True),
        ("took = INTERVAL '5' SECOND AND small <=> 0", True),
        ("list = array(4, CAST(NULL AS INT))", True),
    ],
)
def test_filter_that_is_exact_is_the_providers_and_the_others_are_sparks(
    ctx: hr.SessionContext, pushing: SparkSession, where: str, reread: bool
) -> None:
    ctx.register_table("kinds", Kinds())
    found = loaded(pushing, Kinds(), "kinds_source").where(where).select("id", "s")
    assert found.count() > 0
    assert sorted(found.collect()) == sorted(ctx.sql(f"SELECT id, s FROM kinds WHERE {where}").collect())
    plan = found._jdf.queryExecution().optimizedPlan().toString()
    assert ("Filter" in plan) == (reread or not has("data source filters"))


def test_schema_that_is_given_selects_columns(spark: SparkSession) -> None:
    found = loaded(spark, Kinds(), "kinds_source", "s string, id bigint not null")
    assert found.columns == ["s", "id"]
    assert found.where("id = 4").collect() == [("s1", 4)]
    with pytest.raises(AnalysisException, match="SchemaMismatchError: the schema that was given for 'kinds_source'"):
        loaded(spark, Kinds(), "kinds_source", "s int").collect()


def test_round_trip_through_from_data_source_gives_the_same_rows_and_filters(ctx: hr.SessionContext) -> None:
    ctx.register_table("kinds", Kinds())
    ctx.register_table("again", hr.from_data_source(hr.as_data_source(Kinds(), "kinds_source")))
    assert ctx.table("again").schema == ctx.table("kinds").schema
    query = "SELECT * FROM {} WHERE id > 10 AND d = 'odd' ORDER BY id"
    assert ctx.sql(query.format("again")).collect() == ctx.sql(query.format("kinds")).collect()
    if has("data source filters"):
        told = ctx.explain(query.format("again"))
        assert "d = 'odd'  EXACT" in told
        assert "id > 10  INEXACT" in told


def test_table_in_memory_is_sent_along(spark: SparkSession) -> None:
    table = pa.table({"id": pa.array(range(100), pa.int64())})
    assert loaded(spark, hr.MemTable(table, partitions=3), "in_memory").where("id > 89").count() == 10
    assert loaded(spark, table, "plain_data").where("id > 89").count() == 10


def test_provider_that_cannot_be_pickled_is_refused_at_once() -> None:
    provider = Kinds()
    provider.lock = threading.Lock()  # type: ignore[attr-defined]
    with pytest.raises(hr.RegistrationError, match=r"Kinds cannot be pickled.*_thread\.lock.*SessionContext"):
        hr.as_data_source(provider, "kinds_source")
    with pytest.raises(hr.RegistrationError, match=r"takes a TableProvider or data, not int"):
        hr.as_data_source(5, "kinds_source")


@pytest.mark.parametrize(
    ("where", "kind", "text"),
    [
        ("scan", AnalysisException, "LookupError: no shard is up"),
        ("pickle", AnalysisException, "MoodyPlan .table 'moody'. cannot be pickled for Spark's Python workers"),
        ("execute", PythonException, "LookupError: the shard went down"),
    ],
)
def test_provider_that_fails_is_told_with_its_own_error(
    spark: SparkSession, where: str, kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text):
        loaded(spark, Moody(where), "moody").collect()


def test_rows_that_are_only_counted_are_all_there(spark: SparkSession) -> None:
    spark.dataSource.register(hr.as_data_source(Natural(), "natural"))
    spark.read.format("natural").load().createOrReplaceTempView("t")
    try:
        for query, expected in COUNTING.items():
            assert list(map(tuple, spark.sql(query).collect())) == expected, query
        assert spark.read.schema("id BIGINT").format("natural").load().count() == 10
    finally:
        spark.catalog.dropTempView("t")
