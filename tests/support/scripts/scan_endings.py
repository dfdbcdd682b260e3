"""What the producers of push tables are told when a query ends (argument: the master); prints their reasons as JSON."""

from __future__ import annotations

import json
import sys
import threading

import pyarrow as pa

import headrace as hr
import headrace.push.table

SCHEMA = pa.schema([("a", pa.int64())])
PARTITIONS = 2
PATIENCE_S = 20


class Producers:
    """One for each partition of a table, writing until it is told that the scan ended."""

    def __init__(self, ctx: hr.SessionContext, name: str) -> None:
        self.sink = ctx.register_streaming_table(name, SCHEMA, 4, partitions=PARTITIONS)
        self.reasons = ["hangs"] * PARTITIONS
        self.threads = [threading.Thread(target=self.produce, args=(i,), daemon=True) for i in range(PARTITIONS)]
        for thread in self.threads:
            thread.start()

    def produce(self, partition: int) -> None:
        batch = pa.record_batch([pa.array([partition] * 10, pa.int64())], schema=SCHEMA)
        try:
            while True:
                self.sink.partition(partition).write(batch)
        except hr.ScanEndedError as error:
            self.reasons[partition] = error.reason
        except hr.StreamError as error:
            self.reasons[partition] = repr(error)

    def told(self) -> list[str]:
        for thread in self.threads:
            thread.join(PATIENCE_S)
        return self.reasons

    def await_reading(self) -> None:
        while self.sink.stats.rows_delivered == 0:
            threading.Event().wait(0.01)


def quietly(function) -> threading.Thread:
    def run() -> None:
        try:
            function()
        except Exception:
            return

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def main() -> None:
    headrace.push.table._QUERY_END_S = PATIENCE_S / 2  # on a busy machine Spark says late how a query ended
    ctx = hr.SessionContext(master=sys.argv[1])
    found: dict[str, list[str]] = {}

    producers = Producers(ctx, "limited")
    ctx.collect("SELECT a FROM limited LIMIT 5")
    found["limit of collect"] = producers.told()

    producers = Producers(ctx, "native")
    ctx.sql("SELECT a FROM native LIMIT 5").collect()
    found["limit of a native query"] = producers.told()

    producers = Producers(ctx, "cancelled")
    query = quietly(lambda: ctx.collect("SELECT count(*) FROM cancelled"))
    producers.await_reading()
    ctx.spark.sparkContext.cancelAllJobs()
    found["jobs cancelled"] = producers.told()
    query.join(PATIENCE_S)

    producers = Producers(ctx, "closed")
    stream = ctx.execute_stream("SELECT a FROM closed")
    next(stream)
    stream.close()
    found["result stream closed"] = producers.told()

    producers = Producers(ctx, "broken")
    query = quietly(lambda: ctx.collect("SELECT if(a = 1, raise_error('one'), a) FROM broken"))
    found["query failed in one of its tasks"] = producers.told()
    query.join(PATIENCE_S)

    producers = Producers(ctx, "stopped")
    quietly(lambda: ctx.collect("SELECT count(*) FROM stopped"))
    producers.await_reading()
    ctx.spark.stop()
    found["spark stopped"] = producers.told()
    ctx.close()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
