"""A pipeline's definitions: what ``spark-pipelines run`` makes of the tables of examples/declarative_pipeline.py."""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession, functions

spark = SparkSession.active()


@dp.table
def orders() -> DataFrame:
    """A streaming table: each run takes the orders that are new."""
    return spark.readStream.format("headrace").option("table", "incoming").load()


@dp.materialized_view
def turnover() -> DataFrame:
    """Orders, and the customers' towns as they are now: by the name that they have in Headrace's catalog."""
    towns = spark.table("headrace.default.customers")
    return spark.table("orders").join(towns, "customer").groupBy("town").agg(functions.sum("euros").alias("euros"))


dp.create_sink("large_orders", "headrace", {"table": "alerts"})


@dp.append_flow(target="large_orders")
def alert() -> DataFrame:
    return spark.readStream.table("orders").where("euros >= 100").select("customer", "euros")
