"""What ``execute`` and ``read`` log in Spark's workers, in Spark's own table of such logs."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

import headrace as hr
from producing import wait_until
from versions import skip_module_without

skip_module_without("worker logs")
SETTING = "spark.sql.pyspark.worker.logging.enabled"
SCHEMA = pa.schema([("n", pa.int64())])


class Plan(hr.ExecutionPlan):
    schema = SCHEMA
    partitioning = hr.UnknownPartitioning(2)

    def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
        logging.getLogger("of the provider").warning("reading %d", partition)
        print(f"printed {partition}")
        yield pa.record_batch({"n": [partition]})


class Table(hr.TableProvider):
    def schema(self) -> pa.Schema:
        return SCHEMA

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        return Plan()


class Reader(DataSourceReader):
    def read(self, partition: InputPartition) -> Iterator[Any]:
        logging.getLogger("of the source").error("read")
        yield (7,)


class Source(DataSource):
    def schema(self) -> str:
        return "n bigint"

    def reader(self, schema: StructType) -> DataSourceReader:
        return Reader()


@pytest.fixture
def logging_on(spark: SparkSession) -> Iterator[None]:
    spark.conf.set(SETTING, "true")
    yield
    spark.conf.unset(SETTING)


@pytest.mark.usefixtures("logging_on")
def test_worker_logs_have_what_user_code_logged_and_who_it_was(ctx: hr.SessionContext, spark: SparkSession) -> None:
    ctx.register_table("logging", Table())
    ctx.register_table("logging_source", hr.from_data_source(Source))
    assert ctx.collect("SELECT sum(n) AS n FROM logging").to_pylist() == [{"n": 1}]
    assert ctx.collect("SELECT n FROM logging_source").to_pylist() == [{"n": 7}]

    def found() -> set[tuple[Any, ...]]:
        logs = spark.sql("SELECT level, msg, logger, context.func_name, context.class_name FROM python_worker_logs()")
        return set(map(tuple, logs.collect()))

    expected = {
        *(("WARNING", f"reading {n}", "of the provider", "execute", "Plan") for n in range(2)),
        *(("INFO", f"printed {n}", "stdout", "execute", "Plan") for n in range(2)),
        ("ERROR", "read", "of the source", "read", "Reader"),
    }
    wait_until(lambda: found() >= expected, what="logs of three tasks")  # Spark collects them beside the query
