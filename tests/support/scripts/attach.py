"""Every way to get a context, one after the other in one process; prints what was seen as JSON."""

from __future__ import annotations

import json
import os
import sys

import pyarrow as pa
from beside import SCHEMA, BesidePlan, BesideTable, FailingPlan
from pyspark import SparkContext
from pyspark.sql import SparkSession

import headrace as hr


class ScriptPlan(BesidePlan):
    """Defined in the script itself."""

    def __init__(self, placement: hr.Placement) -> None:
        self.placement = placement

    def execute(self, partition):
        yield pa.record_batch([pa.array([10 + partition], pa.int64())], schema=SCHEMA)


CELL = """
import pyarrow as pa
import headrace as hr

cell_schema = pa.schema([("a", pa.int64())])

class CellPlan(hr.ExecutionPlan):
    schema = cell_schema
    def execute(self, partition):
        yield pa.record_batch([pa.array([20], pa.int64())], schema=cell_schema)

class CellTable(hr.TableProvider):
    def schema(self): return cell_schema
    def scan(self, request): return CellPlan()
"""


def values(ctx: hr.SessionContext, table: str) -> list[int]:
    return sorted(ctx.collect(f"SELECT a FROM {table}").to_pydict()["a"])


def attached() -> dict[str, object]:
    seen: dict[str, object] = {}
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.range(10).count()  # in use already, without the connector
    ctx = hr.SessionContext(spark)
    seen["same session"] = ctx.spark is spark
    ctx.register_table("beside", BesideTable(BesidePlan()))
    seen["beside"] = values(ctx, "beside")
    for placement in hr.Placement:
        ctx.register_table(placement.name, BesideTable(ScriptPlan(placement)))
        seen[f"script {placement.name}"] = values(ctx, placement.name)
    cell = {"__name__": "__main__"}
    exec(compile(CELL, "<cell>", "exec"), cell)
    ctx.register_table("cell", cell["CellTable"]())
    seen["cell"] = values(ctx, "cell")
    ctx.register_table("failing", BesideTable(FailingPlan()))
    try:
        ctx.collect("SELECT * FROM failing")
    except hr.ProviderError as error:
        seen["error"] = [error.exception_type, type(error.__cause__).__name__]

    other = spark.newSession()
    with hr.SessionContext(other) as second:
        second.register_table("beside", BesideTable(ScriptPlan(hr.Placement.EXECUTORS)))
        seen["new session"] = values(second, "beside")
        seen["old session"] = values(ctx, "beside")
        seen["views are the session's own"] = not other.catalog.tableExists("cell")
    seen["after the second closed"] = values(ctx, "beside")
    ctx.close()
    seen["spark goes on"] = spark.range(3).count()
    spark.stop()
    try:
        hr.SessionContext(spark)
    except hr.HeadraceError as error:
        seen["stopped"] = str(error)
    return seen


def embedded() -> dict[str, object]:
    seen: dict[str, object] = {}
    with hr.SessionContext() as ctx:
        seen["master"] = ctx.spark.sparkContext.master
        seen["shuffle partitions"] = int(ctx.spark.conf.get("spark.sql.shuffle.partitions"))
        ctx.register_table("beside", BesideTable(BesidePlan()))
        seen["beside"] = values(ctx, "beside")
        with hr.SessionContext() as second:
            second.register_table("second", BesideTable(BesidePlan()))
            seen["second"] = values(second, "second")
        seen["first after second"] = values(ctx, "beside")
    seen["stopped"] = SparkContext._active_spark_context is None
    ctx.close()
    with hr.SessionContext(
        master="local[1]", config={"spark.sql.shuffle.partitions": 3, "spark.app.name": "mine"}
    ) as own:
        seen["own"] = [
            own.spark.sparkContext.master,
            own.spark.sparkContext.appName,
            own.spark.conf.get("spark.sql.shuffle.partitions"),
        ]
        own.register_table("beside", BesideTable(BesidePlan()))
        seen["own beside"] = values(own, "beside")
        own.spark.stop()  # by the user: close must cope
    seen["stopped again"] = SparkContext._active_spark_context is None
    return seen


if __name__ == "__main__":
    result = {"cwd": os.getcwd(), "attached": attached(), "embedded": embedded()}
    print("RESULT " + json.dumps(result), file=sys.stdout, flush=True)
