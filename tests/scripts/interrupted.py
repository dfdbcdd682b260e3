"""Reads a streaming table in the main thread until Ctrl-C; prints how the reader and the producer ended as JSON."""

from __future__ import annotations

import json
import sys
import threading

import pyarrow as pa

import headrace as hr

SCHEMA = pa.schema([("a", pa.int64())])


def main() -> None:
    ctx = hr.SessionContext(master="local[2]")
    sink = ctx.register_streaming_table("t", SCHEMA)
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
        if sys.argv[1] == "collect":
            ctx.sql("SELECT a FROM t WHERE a > 0").collect()
        else:
            for _ in ctx.execute_stream("SELECT sum(a) FROM t"):
                pass
    except KeyboardInterrupt:
        found["interrupted"] = True
    producer.join(20)
    print(json.dumps(found), flush=True)
    ctx.close()


if __name__ == "__main__":
    main()
