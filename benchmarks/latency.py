"""Latency: from ``write`` to the row in the result, against the same message there and back over a bare socket."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable

from benchmarks.bench import Bench
from benchmarks.data import SCHEMA, base_batch
from benchmarks.harness import Figure, Probe

QUERY = "SELECT id, v, k, s FROM latency"
WARM_WRITES = 100


def cases(bench: Bench) -> list[Probe]:
    return [Probe("push: latency", lambda: latencies(bench, 300 if bench.settings.full else 100))]


def latencies(bench: Bench, writes: int) -> list[Figure]:
    """One row at a time through a query that runs, and one message through the peer, in turn."""
    row = base_batch(1)
    message = memoryview(row.serialize())
    peer = bench.peers[0]
    total = writes + (WARM_WRITES if bench.settings.warm_seconds else 1)
    peer.prepare_echo(total, len(message))
    sink = bench.ctx.register_streaming_table("latency", SCHEMA)
    through, bare = [], []
    try:
        with bench.ctx.execute_stream(QUERY) as stream, sink:

            def write_and_see() -> None:
                sink.write(row)
                assert next(stream).num_rows == 1

            gc.collect()
            for _ in range(total):
                through.append(_seconds(write_and_see))
                bare.append(_seconds(lambda: peer.echo(message)))
            sink.close()
            assert sum(batch.num_rows for batch in stream) == 0
    finally:
        bench.ctx.deregister_table("latency")
    measured, limit = sorted(through[-writes:]), sorted(bare[-writes:])
    return [
        Figure("push: write to result seen, median", statistics.median(measured) * 1e3, "ms"),
        Figure("push: write to result seen, 99th percentile", _percentile(measured, 0.99) * 1e3, "ms"),
        Figure("push: bare socket there and back, median", statistics.median(limit) * 1e3, "ms"),
        Figure("push: bare socket there and back, 99th percentile", _percentile(limit, 0.99) * 1e3, "ms"),
    ]


def _percentile(ordered: list[float], part: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


def _seconds(run: Callable[[], None]) -> float:
    before = time.perf_counter()
    run()
    return time.perf_counter() - before
