"""Reads streaming tables in the main thread, each until Ctrl-C; prints how reader and producer ended as JSON.

With ``--uncaught`` it reads an endless table, and ends by Ctrl-C.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator

import pyarrow as pa

import headrace as hr

SCHEMA = pa.schema([("a", pa.int64())])


def read(ctx: hr.SessionContext, action: str) -> dict[str, object]:
    """Reads a streaming table until Ctrl-C, and tells how reader and producer ended."""
    sink = ctx.register_streaming_table(action, SCHEMA)
    found: dict[str, object] = {"interrupted": False}

    def produce() -> None:
        try:
            while True:
                sink.write(pa.record_batch([pa.array([1])], schema=SCHEMA))
                threading.Event().wait(0.01)
        except hr.StreamError as error:
            found["producer"] = [type(error).__name__, str(error)]

    def say_when_reading() -> None:
        while sink.stats.rows_delivered < 5:
            threading.Event().wait(0.05)
        print("reading", flush=True)

    producer = threading.Thread(target=produce, daemon=True)
    producer.start()
    threading.Thread(target=say_when_reading, daemon=True).start()
    try:
        if action == "stream":
            for _ in ctx.execute_stream("SELECT sum(a) FROM stream"):
                pass
        else:
            ctx.sql(f"SELECT a FROM {action} WHERE a > 0").collect()
    except KeyboardInterrupt:
        found["interrupted"] = True
    producer.join(20)
    return found


def read_uncaught(ctx: hr.SessionContext, action: str) -> None:
    """Reads an endless table until Ctrl-C, which nothing catches."""

    def endless() -> Iterator[pa.RecordBatch]:
        print("reading", flush=True)
        while True:
            threading.Event().wait(0.01)
            yield pa.record_batch([pa.array([1])], schema=SCHEMA)

    ctx.register_table("t", hr.SimpleTable(SCHEMA, endless, placement=hr.Placement.DRIVER))
    if action == "collect":
        ctx.collect("SELECT sum(a) FROM t")
    elif action == "show":
        ctx.sql("SELECT sum(a) FROM t").show()
    elif action == "pandas":
        ctx.sql("SELECT sum(a) FROM t").toPandas()
    elif action == "insert":
        ctx.register_table("written", hr.MemTable(SCHEMA.empty_table()))
        ctx.sql("INSERT INTO written SELECT a FROM t")
    else:
        list(ctx.execute_stream("SELECT a FROM t"))


def main() -> None:
    ctx = hr.SessionContext(master="local[2]")
    if sys.argv[1] == "--uncaught":
        read_uncaught(ctx, sys.argv[2])
    for action in sys.argv[1:]:
        print(json.dumps(read(ctx, action)), flush=True)
    ctx.close()


if __name__ == "__main__":
    main()
