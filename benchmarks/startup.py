"""Start-up: what the first query of a fresh session costs, and those that follow; each in a process of its own."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import headrace as hr
from benchmarks.bench import Bench
from benchmarks.harness import Figure, Probe
from benchmarks.sources import Source, SourceTable, rival_frame

ROWS = 100_000
QUERY = "SELECT sum(id) FROM measured"
FOLLOWING = 5
KINDS = {"headrace": "Headrace", "rival": "Python Data Source"}


def cases(bench: Bench) -> list[Probe]:
    return [Probe("startup: first query", lambda: first_queries(3 if bench.settings.full else 1))]


def first_queries(rounds: int, kinds: Mapping[str, str] = KINDS) -> list[Figure]:
    """Best of the rounds, the kinds in turn."""
    found: dict[str, list[dict[str, float]]] = {kind: [] for kind in kinds}
    for _ in range(rounds):
        for kind in kinds:
            made = subprocess.run(
                [sys.executable, "-m", "benchmarks.startup", kind],
                cwd=Path(__file__).parent.parent,
                capture_output=True,
                timeout=120,
                check=False,
            )
            if made.returncode:
                raise RuntimeError(f"startup of {kind} failed: {made.stderr.decode()[-2000:]}")
            found[kind].append(json.loads(made.stdout.splitlines()[-1]))
    return [
        Figure(f"startup: {name}, {part}", min(run[part] for run in found[kind]), "s")
        for part in ("first query", "second query", "following queries")
        for kind, name in kinds.items()
    ]


def measure_here(kind: str) -> dict[str, float]:
    """In a process that has not run anything yet. The session is there, as it is for any first query."""
    with hr.SessionContext(master="local[2]") as ctx:
        ctx.spark.range(1).collect()  # Spark's own first query, which is not what is measured
        source = Source(ROWS)
        before = time.perf_counter()
        if kind == "headrace":
            ctx.register_table("measured", SourceTable(source))
        else:
            rival_frame(ctx, source).createOrReplaceTempView("measured")
        seconds = []
        for _ in range(2 + FOLLOWING):
            assert len(ctx.sql(QUERY).collect()) == 1
            seconds.append(time.perf_counter() - before)
            before = time.perf_counter()
    return {
        "first query": seconds[0],
        "second query": seconds[1],
        "following queries": statistics.median(seconds[2:]),
    }


if __name__ == "__main__":
    print(json.dumps(measure_here(sys.argv[1])))
