"""What a context's methods raise after the user stopped Spark; prints it as JSON."""

from __future__ import annotations

import json
import threading

import pyarrow as pa
from pyspark.sql import SparkSession

import headrace as hr

SCHEMA = pa.schema([("a", pa.int64())])
ROW = pa.record_batch([pa.array([1], pa.int64())], schema=SCHEMA)


def outcome(function) -> list[str]:
    try:
        return ["no error", str(function())]
    except Exception as error:
        return [type(error).__name__, str(error)]


def main() -> None:
    found: dict[str, object] = {}
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    ctx = hr.SessionContext(spark)
    sink = ctx.register_streaming_table("t", SCHEMA, 1)
    frame = ctx.table("t")
    sink.write(ROW)
    blocked: list[list[str]] = []
    writer = threading.Thread(target=lambda: blocked.append(outcome(lambda: sink.write(ROW))), daemon=True)
    writer.start()
    spark.stop()
    writer.join(20)
    found["write"] = blocked[0] if blocked else ["hangs", ""]
    found["methods"] = {
        "register_table": outcome(lambda: ctx.register_table("u", hr.MemTable(ROW))),
        "register_streaming_table": outcome(lambda: ctx.register_streaming_table("v", SCHEMA)),
        "deregister_table": outcome(lambda: ctx.deregister_table("t")),
        "table_exists": outcome(lambda: ctx.table_exists("t")),
        "table_names": outcome(ctx.table_names),
        "table": outcome(lambda: ctx.table("t")),
        "sql": outcome(lambda: ctx.sql("SELECT 1")),
        "collect": outcome(lambda: ctx.collect(frame)),
        "collect sql": outcome(lambda: ctx.collect("SELECT 1")),
        "execute_stream": outcome(lambda: ctx.execute_stream(frame)),
        "explain": outcome(lambda: ctx.explain(frame)),
    }
    found["close"] = outcome(ctx.close)
    found["attach"] = outcome(lambda: hr.SessionContext(spark))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
