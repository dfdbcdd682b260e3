"""Push: producer threads and a query that run at the same time, against what people do today."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from unittest import mock

import psutil
import pyarrow as pa

import headrace.push.packing
import headrace.push.table
from benchmarks import rivals
from benchmarks.bench import Bench, Rows
from benchmarks.data import SCHEMA, base_batch
from benchmarks.harness import Case, Contender, Figure, Probe
from benchmarks.pull import FOUR
from benchmarks.rivals import CREATE, DETOUR, HEADRACE, MEMORY, SOCKET
from benchmarks.sources import Source
from headrace.arrow.rows import counted

FLUSH = "one flush per batch"
EIGHT = "headrace, 8 threads"
MOST_ANSWER_ROWS = 5_000_000
BATCH_SIZES = {1: 100_000, 100: 6_000_000, 8_192: None, 65_536: None, 1_000_000: None}
"""Rows in a batch, and how many rows there are at most."""
CAPACITIES = {1: 4096, 100: 256, 8_192: 64, 65_536: 16, 1_000_000: 4}
"""Batches that may wait: more of them where they are small, as a producer of such would choose."""


def cases(bench: Bench) -> list[Case | Probe]:
    found: list[Case | Probe] = [_aggregate(bench), _small_batches(bench), _answer(bench), *_batch_sizes(bench)]
    if bench.settings.full:
        found.append(Probe("push: memory", lambda: [memory_growth(bench, bench.settings.memory_bytes)]))
    return found


def pushed(bench: Bench, source: Source, threads: int = 1, capacity: int = 16) -> Rows:
    """Each thread pushes its share of the source, one partition of it, while this thread queries."""
    shares = Source(source.rows, source.shape, source.batch_rows, threads)
    return pushing(bench, [partial(shares.batches, i) for i in range(threads)], capacity)


def pushing(bench: Bench, producers: list[Callable[[], Iterator[pa.RecordBatch]]], capacity: int) -> Rows:
    sink = bench.ctx.register_streaming_table("pushed", SCHEMA, capacity=capacity)

    def produce(made: Callable[[], Iterator[pa.RecordBatch]]) -> None:
        for batch in made():
            sink.write(batch)

    def produce_all() -> None:
        with sink, ThreadPoolExecutor(len(producers)) as pool:
            list(pool.map(produce, producers))

    producer = threading.Thread(target=produce_all)
    producer.start()
    try:
        return bench.sql(FOUR, t="pushed")
    finally:
        producer.join()
        bench.ctx.deregister_table("pushed")


def _aggregate(bench: Bench) -> Case:
    """Bound by the slower of the two limits: by the socket, or by Spark's sums over rows that are there already.

    One sink is one partition, so the data in memory is one too: both have one core for the sums.
    """
    source = Source(bench.rows, partitions=1)
    return Case(
        "push: four columns",
        [
            Contender(HEADRACE, lambda: pushed(bench, source)),
            rivals.pushed_bytes(bench, source),
            rivals.memory(bench, source, FOUR),
        ],
        {SOCKET: 0.6, MEMORY: 0.6},
        either=True,
        rows=source.rows,
        prepare=lambda: bench.in_memory(source),
        finish=bench.forget_memory,
    )


def _small_batches(bench: Bench) -> Case:
    rows = bench.rows if bench.settings.full else bench.settings.at_most(6_000_000)
    source = Source(rows, batch_rows=100)
    return Case(
        "push: 100-row batches, merged",
        [
            Contender(HEADRACE, lambda: pushed(bench, source, capacity=256)),
            Contender(FLUSH, lambda: flushing(lambda: pushed(bench, source, capacity=256))),
        ],
        {FLUSH: 4.0},
        rows=source.rows,
        most_rounds=3,
    )


def _answer(bench: Bench) -> Case:
    source = Source(bench.settings.at_most(MOST_ANSWER_ROWS), partitions=1)
    return Case(
        "push: from batches to the answer",
        [
            Contender(HEADRACE, lambda: pushed(bench, source)),
            rivals.created(bench, source, FOUR),
            rivals.detoured(bench, source, FOUR),
        ],
        {CREATE: 5.0, DETOUR: 1.5},
        rows=source.rows,
    )


def _batch_sizes(bench: Bench) -> list[Case]:
    """Whole batches, as many for each of the eight threads: so that their rows are those of the one thread."""
    found = []
    for size, most in BATCH_SIZES.items():
        rows = bench.settings.at_most(most or bench.rows) // (8 * size) * 8 * size
        if rows == 0:
            continue
        source = Source(rows, batch_rows=size, partitions=1)
        capacity = CAPACITIES[size]
        found.append(
            Case(
                f"push: batches of {counted(size, 'row')}",
                [
                    Contender(HEADRACE, partial(pushed, bench, source, 1, capacity)),
                    Contender(EIGHT, partial(pushed, bench, source, 8, capacity)),
                    rivals.pushed_bytes(bench, source),
                ],
                rows=source.rows,
                most_rounds=3,
            )
        )
    return found


def flushing(run: Callable[[], Rows]) -> Rows:
    """Headrace with merging switched off: each batch is taken alone and sent at once."""
    with (
        mock.patch.object(headrace.push.table, "BATCH_ROWS", 1),
        mock.patch.object(headrace.push.packing, "MANY_BATCHES", sys.maxsize),
    ):
        return run()


def memory_growth(bench: Bench, total_bytes: int) -> Figure:
    """How much this process grows while ``total_bytes`` are pushed through a channel of four batches."""
    batch = base_batch()
    me = psutil.Process()
    pushing(bench, [lambda: iter([batch] * 20)], capacity=4)
    before = peak = me.memory_info().rss

    def watched() -> Iterator[pa.RecordBatch]:
        nonlocal peak
        for _ in range(max(1, total_bytes // batch.nbytes)):
            peak = max(peak, me.memory_info().rss)
            yield batch

    pushing(bench, [watched], capacity=4)
    return Figure(
        f"push: driver's memory growth over {total_bytes / (1 << 30):.2g} GB", (peak - before) / 1e6, "MB", 200.0
    )
