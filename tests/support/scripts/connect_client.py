"""A Spark Connect client that reads its own push table, and waits to be killed; prints "reading" once rows are read."""

from __future__ import annotations

import sys
import threading

import headrace as hr
from catalogs import Shop
from producing import NUMBERS, numbers
from pushing import reading


def main(url: str) -> None:
    from pyspark.sql.connect.session import SparkSession

    spark = SparkSession.builder.remote(url).create()
    ctx = hr.SessionContext(spark)
    ctx.register_catalog("crm", Shop())
    ctx.register_table_function("nothing", lambda: hr.MemTable(numbers(0)))
    sink = ctx.register_streaming_table("t", NUMBERS)
    threading.Thread(target=lambda: spark.sql("SELECT sum(a) FROM t").collect(), daemon=True).start()
    sink.write(numbers(10))
    reading(sink)
    print("reading", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main(sys.argv[1])
