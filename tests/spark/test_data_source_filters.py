"""``from_data_source`` and filters, on a Spark whose Python Data Source takes some: what arrives, whose they stay."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyspark.cloudpickle
import pytest
from pyspark.sql import SparkSession

import headrace as hr
from headrace.arrow.types import wire_schema
from headrace.negotiate.negotiation import Negotiation
from headrace.negotiate.registry import RegisteredTable
from versions import skip_module_without

skip_module_without("data source filters")

from pyspark.sql.datasource import (  # noqa: E402
    DataSource,
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    In,
    InputPartition,
    IsNotNull,
    IsNull,
    LessThan,
    Not,
    StringStartsWith,
)
from pyspark.sql.types import IntegerType, StringType, StructField, StructType  # noqa: E402

from headrace.spark.data_source.filters import pushed_filter  # noqa: E402


class PushingReader(DataSourceReader):
    """Takes equality on ``id``, uses ``>`` on it but leaves it to Spark as well."""

    def __init__(self) -> None:
        self.equal: int | None = None
        self.above = -1
        self.given: list[Filter] = []

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:  # noqa: N802
        self.given = list(filters)
        for filter_ in filters:
            match filter_:
                case EqualTo(attribute=("id",), value=number):
                    self.equal = number
                    continue
                case GreaterThan(attribute=("id",), value=number):
                    self.above = number // 10 * 10
            yield filter_

    def read(self, partition: InputPartition) -> Iterator[Any]:
        for number in range(self.above + 1, 300):
            if self.equal is None or self.equal == number:
                yield number, f"s{number % 4}"


class PushingSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "pushing"

    def schema(self) -> StructType:
        return StructType([StructField("id", IntegerType()), StructField("s", StringType())])

    def reader(self, schema: StructType) -> DataSourceReader:
        return PushingReader()


@pytest.fixture(autouse=True, scope="module")
def _classes_travel() -> Iterator[None]:
    """For Spark's own path, whose workers cannot import this module; Headrace brings it by itself."""
    module = sys.modules[__name__]
    pyspark.cloudpickle.register_pickle_by_value(module)
    yield
    pyspark.cloudpickle.unregister_pickle_by_value(module)


@pytest.mark.daily
@pytest.mark.parametrize(
    "condition",
    [
        "id = 7",
        "id > 255",
        "id = 7 OR id = 8",
        "id > 255 AND s = 's3' AND upper(s) = 'S3'",
        "id IS NOT NULL AND s IN ('s1')",
    ],
)
def test_data_source_with_push_filters_gives_the_rows_that_spark_gives(
    ctx: hr.SessionContext, spark: SparkSession, condition: str
) -> None:
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        spark.dataSource.register(PushingSource)
        expected = spark.read.format("pushing").load().where(condition).collect()
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    ctx.register_table("pushing", hr.from_data_source(PushingSource))
    assert ctx.table("pushing").where(condition).collect() == expected


def test_data_source_with_push_filters_where_the_session_says_false_is_refused(
    ctx: hr.SessionContext, spark: SparkSession
) -> None:
    ctx.register_table("pushing", hr.from_data_source(PushingSource))
    other = spark.newSession()
    other.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    for _ in range(3):  # the sessions in turn, on the same threads
        for condition in ("true", "id = 7"):
            frame = other.table(f"{ctx.catalog}.pushing").where(condition)
            with pytest.raises(Exception, match=r"DATA_SOURCE_PUSHDOWN_DISABLED.*PushingReader implements pushFilters"):
                frame.collect()
        assert ctx.table("pushing").where("id = 7").count() == 1


ID, S = hr.Column("id"), hr.Column("s")


def number(op: Any, n: int) -> hr.Expr:
    return hr.Comparison(op, ID, hr.Literal(n, pa.int32()))


def pushing() -> Any:
    provider = hr.from_data_source(PushingSource)
    provider.schema()
    return provider


def test_push_filters_answers_tell_kept_from_returned() -> None:
    provider = pushing()
    filters = [number("=", 7), number(">", 3), hr.Or(number("=", 1), number("=", 2)), hr.Not(hr.IsNull(ID))]
    answers = provider.supports_filters_pushdown(filters)
    assert answers == [
        hr.FilterPushdown.EXACT,
        hr.FilterPushdown.INEXACT,
        hr.FilterPushdown.UNSUPPORTED,
        hr.FilterPushdown.INEXACT,
    ]


def test_push_filters_interleaved_scans_each_get_their_own_reader() -> None:
    provider = pushing()
    table = RegisteredTable("t", provider, provider.schema(), wire_schema(provider.schema()))
    before = dict(vars(provider))
    # IS NOT NULL is implied by id = 7 and not part of the request
    asked = [(number("=", 7), hr.Not(hr.IsNull(ID))), (number("=", 8), number(">", 3)), (number("=", 7),), ()]
    negotiations = [Negotiation(table) for _ in asked]
    for negotiation, filters in zip(negotiations, asked, strict=True):
        negotiation.offer_filters(filters)
    plans: list[Any] = [negotiation.plan().plan for negotiation in reversed(negotiations)]
    assert [sum(batch.num_rows for batch in plan.execute(0)) for plan in plans] == [300, 1, 1, 1]
    assert [[batch["id"].to_pylist() for batch in plan.execute(0)] for plan in plans[1:]] == [[[7]], [[8]], [[7]]]
    assert [len(plan._reader.given) for plan in plans] == [0, 1, 2, 2]
    assert vars(provider) == before


def test_scan_without_a_question_before_pushes_the_filters_of_the_request() -> None:
    provider = pushing()
    plan = provider.scan(hr.ScanRequest(pa.schema([("id", pa.int32())]), ("id",), (number("=", 7),)))
    assert [batch["id"].to_pylist() for batch in plan.execute(0)] == [[7]]
    assert len(plan._reader.given) == 1


def test_push_filters_behind_a_sorted_table_one_reader_is_asked_and_reads() -> None:
    inner = hr.from_data_source(PushingSource)
    provider = hr.SortedTable(inner, [hr.SortKey("id")])
    schema = provider.schema()
    negotiation = Negotiation(RegisteredTable("t", provider, schema, wire_schema(schema)))
    negotiation.offer_filters((number("=", 7), hr.Not(hr.IsNull(ID))))
    plan: Any = negotiation.plan().plan
    assert [batch["id"].to_pylist() for batch in plan.execute(0)] == [[7]]
    assert len(plan.inner._reader.given) == 2


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (number("=", 1), EqualTo(("id",), 1)),
        (hr.Comparison("<", hr.Literal(1, pa.int32()), ID), GreaterThan(("id",), 1)),
        (hr.Not(number("<", 1)), Not(LessThan(("id",), 1))),
        (hr.Column("flag"), EqualTo(("flag",), True)),
        (hr.Not(hr.Column("flag")), Not(EqualTo(("flag",), True))),
        (hr.IsNull(hr.Column("a", ("b",))), IsNull(("a", "b"))),
        (hr.Not(hr.IsNull(ID)), IsNotNull(("id",))),
        (hr.InList(ID, (hr.Literal(1, pa.int32()), hr.Literal(None, pa.int32()))), In(("id",), [1, None])),
        (hr.Not(hr.InList(ID, (hr.Literal(1, pa.int32()), hr.Literal(None, pa.int32())))), None),
        (hr.StringMatch("STARTS_WITH", S, hr.Literal("a", pa.string())), StringStartsWith(("s",), "a")),
        (hr.StringMatch("STARTS_WITH", S, hr.Literal(b"a", pa.binary())), None),
        (hr.Comparison("=", ID, hr.Literal(None, pa.int32())), None),
        (hr.Comparison("=", hr.Column("a"), hr.Literal([1, None], pa.list_(pa.int32()))), EqualTo(("a",), [1, None])),
        (hr.Comparison("=", ID, S), None),
        (hr.Comparison("=", hr.Cast(ID, "bigint"), hr.Literal(1, pa.int64())), None),
        (hr.Or(number("=", 1), number("=", 2)), None),
    ],
)
def test_pushed_filter_is_what_spark_gives(expr: hr.Expr, expected: Filter | None) -> None:
    assert pushed_filter(expr) == expected


given: list[Filter] = []


class NestedReader(DataSourceReader):
    def pushFilters(self, filters: list[Filter]) -> list[Filter]:  # noqa: N802
        given[:] = [filter_ for filter_ in filters if not isinstance(filter_, IsNotNull)]
        return filters

    def read(self, partition: InputPartition) -> Iterator[Any]:
        yield [1, None], (1, dt.date(2024, 1, 1))
        yield [1, 2], (2, None)


class NestedSource(DataSource):
    def schema(self) -> str:
        return "a array<int>, st struct<x: int, day: date>"

    def reader(self, schema: StructType) -> DataSourceReader:
        return NestedReader()


def test_array_and_struct_equality_is_passed_on_and_other_tables_do_not_see_it(ctx: hr.SessionContext) -> None:
    provider = hr.from_data_source(NestedSource)
    ctx.register_table("nested", provider)
    query = (
        "SELECT st.x FROM {} WHERE a = array(1, CAST(NULL AS INT)) AND st = struct(1 AS x, DATE '2024-01-01' AS day)"
    )
    assert ctx.sql(query.format("nested")).collect() == [(1,)]
    day = dt.date(2024, 1, 1)
    assert given == [EqualTo(("a",), [1, None]), EqualTo(("st",), {"x": 1, "day": day})]
    rows = [{"a": [1, None], "st": {"x": 1, "day": day}}, {"a": [1, 2], "st": {"x": 2, "day": None}}]
    ctx.register_table("in_memory", hr.MemTable(pa.Table.from_pylist(rows, provider.schema())))
    assert ctx.sql(query.format("in_memory")).collect() == [(1,)]
    assert "[1, None]" in ctx.explain(query.format("nested"))
    assert "[1, None]" not in ctx.explain(query.format("in_memory"))
