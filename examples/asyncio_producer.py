"""Producers on an asyncio event loop: batches come in over TCP and are pushed with ``await sink.awrite(batch)``.

Shows that the loop is never blocked: the query runs in a thread, and a producer whose table is full waits like any
coroutine. It then reads nothing from its connection, so the far end is slowed down too. The feeds are endless; when
the query's LIMIT is reached, each producer's next write raises ScanEndedError and it hangs up.

    python examples/asyncio_producer.py
"""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pyarrow as pa

import headrace as hr

SCHEMA = pa.schema([("feed", pa.int64()), ("tick", pa.int64()), ("price", pa.float64())])
QUERY = "SELECT feed, tick, price FROM ticks WHERE price >= 50 LIMIT 1000"
FEEDS = 3
SIZE_BYTES = 8


async def produce(feed: int, port: int, sink: hr.TableSink) -> str:
    """Move batches from one connection into the sink; returns why it stopped."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(feed.to_bytes(1))
        while True:
            size = int.from_bytes(await reader.readexactly(SIZE_BYTES))
            message = pa.py_buffer(await reader.readexactly(size))
            await sink.awrite(pa.ipc.read_record_batch(message, SCHEMA))
    except hr.ScanEndedError as ended:
        return str(ended)
    finally:
        writer.close()


async def produce_all(port: int, sink: hr.TableSink) -> list[str]:
    with sink:  # fails the query if a producer raises
        return await asyncio.gather(*(produce(feed, port, sink) for feed in range(FEEDS)))


async def run(ctx: hr.SessionContext, sink: hr.TableSink) -> dict[str, Any]:
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        table, endings = await asyncio.gather(asyncio.to_thread(ctx.collect, QUERY), produce_all(port, sink))
    print(f"{QUERY}\n  -> {table.num_rows} rows, from feeds {sorted(set(table['feed'].to_pylist()))}")
    for feed, ending in enumerate(endings):
        print(f"feed {feed} stopped: {ending}")
    return {"table": table, "endings": endings, "stats": sink.stats}


def main(ctx: hr.SessionContext | None = None) -> dict[str, Any]:
    """Returns the query's result, why each producer stopped, and what the sink measured."""
    if ctx is None:
        with hr.SessionContext() as own:
            return main(own)
    sink = ctx.register_streaming_table("ticks", SCHEMA, capacity=8)
    try:
        return asyncio.run(run(ctx, sink))
    finally:
        ctx.deregister_table("ticks")


# ---- the feeds: a server that sends Arrow IPC messages, each after its size, for as long as someone listens ----


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        feed = int.from_bytes(await reader.readexactly(1))
        for first in itertools.count(step=10):
            ticks = range(first, first + 10)
            prices = [float((tick * 37 + feed) % 100) for tick in ticks]
            batch = pa.record_batch({"feed": [feed] * 10, "tick": ticks, "price": prices}, SCHEMA)
            message = batch.serialize().to_pybytes()
            writer.write(len(message).to_bytes(SIZE_BYTES) + message)
            await writer.drain()
    except (ConnectionError, asyncio.IncompleteReadError):
        pass  # the producer has hung up
    finally:
        writer.close()


if __name__ == "__main__":
    main()
