"""A coordinator asks many shards at once and reduces over their answers with GROUP BY as they arrive.

Shows a push table with many producers. Each shard is asked in a thread of its own and answers page by page, at its
own speed; every page goes to the sink as it comes, and Spark is already adding up. A shard that breaks off is asked
again from the page it had reached. One that stays away fails the query: a sum without it would be wrong.

    python examples/shard_coordinator.py
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

import headrace as hr

SCHEMA = pa.schema([("shard", pa.string()), ("word", pa.string()), ("hits", pa.int64())])
QUERY = "SELECT word, sum(hits) AS hits, count(*) AS answers FROM answers GROUP BY word ORDER BY word"
ATTEMPTS = 3


@dataclass
class Shard:
    """Stands for a remote shard: answers a page at a time, and may break off."""

    name: str
    pages: int
    seconds_a_page: float
    breaks_at: int = -1
    """The page at which the connection is lost, ``failures`` times."""
    failures: int = 1

    def answer(self, first_page: int) -> Iterator[pa.RecordBatch]:
        for page in range(first_page, self.pages):
            time.sleep(self.seconds_a_page)
            if page == self.breaks_at and self.failures > 0:
                self.failures -= 1
                raise ConnectionError(f"{self.name} broke off at page {page}")
            words = ["grain", "river", "stone"]
            yield pa.record_batch({"shard": [self.name] * 3, "word": words, "hits": [page, 1, 10]}, SCHEMA)


def ask(shard: Shard, sink: hr.TableSink) -> int:
    """Push everything that the shard answers; returns how often it had to be asked."""
    page = 0
    for attempt in range(1, ATTEMPTS + 1):
        try:
            for batch in shard.answer(page):
                sink.write(batch)  # blocks while the query has enough to do
                page += 1
            break
        except ConnectionError as error:
            print(f"  {error} (attempt {attempt} of {ATTEMPTS})")
            if attempt == ATTEMPTS:
                sink.fail(error)  # at once: the query need not wait for the others
                raise
    return attempt


def ask_all(shards: list[Shard], sink: hr.TableSink) -> dict[str, int]:
    with sink, ThreadPoolExecutor(len(shards)) as pool:  # closed when every shard has answered
        asked = {shard.name: pool.submit(ask, shard, sink) for shard in shards}
        return {name: attempts.result() for name, attempts in asked.items()}


def coordinate(ctx: hr.SessionContext, shards: list[Shard]) -> tuple[pa.Table, dict[str, int], Any]:
    """The reduced answers, how often each shard was asked, and the sink's statistics."""
    sink = ctx.register_streaming_table("answers", SCHEMA, capacity=4)
    with ThreadPoolExecutor(1) as asking:
        try:
            attempts = asking.submit(ask_all, shards, sink)
            table = ctx.collect(QUERY)
            return table, attempts.result(), sink.stats
        finally:
            ctx.deregister_table("answers")  # lets go of shards that still write, if the query failed


def main(ctx: hr.SessionContext | None = None) -> dict[str, Any]:
    """Ask five shards; returns the reduced rows, the attempts per shard and what the sink measured."""
    if ctx is None:
        with hr.SessionContext() as own:
            return main(own)
    shards = [
        Shard("shard-0", pages=400, seconds_a_page=0),
        Shard("shard-1", pages=400, seconds_a_page=0),
        Shard("shard-2", pages=20, seconds_a_page=0.01),
        Shard("shard-3", pages=20, seconds_a_page=0.01, breaks_at=7),
        Shard("shard-4", pages=5, seconds_a_page=0.1),
    ]
    print(QUERY)
    table, attempts, stats = coordinate(ctx, shards)
    rows = table.to_pylist()
    for row in rows:
        print(f"  -> {row}")
    print(f"\nasked  {attempts}")
    print(
        f"sink   {stats.batches_written} batches ({stats.rows_written} rows) through {stats.capacity} places;"
        f" the shards were blocked for {stats.blocked_s:.2f} s in all; {stats.state}"
    )
    return {"rows": rows, "attempts": attempts, "stats": stats}


if __name__ == "__main__":
    main()
