"""One run's settings and what its cases share: the session, the data at rest, the peers, the in-process engines."""

from __future__ import annotations

import contextlib
import functools
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import pyarrow.parquet as pq

import headrace as hr
from benchmarks.peer import Peer
from benchmarks.sources import PARTITIONS, Source, rival_frame

Rows = list[tuple[Any, ...]]
Kept = TypeVar("Kept")


@dataclass(frozen=True)
class Settings:
    """How much is measured. Bars are meant for ``full``; the quick run shows where things stand in a few minutes."""

    rows: int
    rounds: int
    full: bool = False
    warm_seconds: float = 0.5
    tpch_scale: float = 0.02
    tpcds_scale: float = 0.01
    most_growth_rows: int = 10_000_000
    most_partitions: int = 1000
    pages: int = 100
    memory_bytes: int = 5 << 30

    @classmethod
    def quick(cls) -> Settings:
        return cls(rows=10_000_000, rounds=2)

    @classmethod
    def whole(cls) -> Settings:
        return cls(
            rows=20_000_000,
            rounds=5,
            full=True,
            warm_seconds=1.0,
            tpch_scale=1.0,
            tpcds_scale=1.0,
            most_growth_rows=100_000_000,
        )

    @classmethod
    def tiny(cls, rows: int = 20_000) -> Settings:
        """For tests: everything runs, no number means anything."""
        return cls(
            rows=rows,
            rounds=1,
            full=True,
            warm_seconds=0.0,
            tpch_scale=0.001,
            most_growth_rows=rows,
            most_partitions=10,
            pages=3,
            memory_bytes=64 << 20,
        )

    def with_(self, rows: int | None, rounds: int | None) -> Settings:
        return replace(self, rows=rows or self.rows, rounds=rounds or self.rounds)

    def at_most(self, rows: int) -> int:
        """A size for cases that would take too long, or too much memory, with all the rows."""
        return min(self.rows, rows)


class Bench:
    """What cases are built from. Everything costly is made on first use and kept until ``close``."""

    def __init__(self, ctx: hr.SessionContext, settings: Settings) -> None:
        self.ctx = ctx
        self.settings = settings
        self._stack = contextlib.ExitStack()
        self.directory = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="headrace-bench-")))
        self._in_memory: str | None = None

    @property
    def rows(self) -> int:
        return self.settings.rows

    def sql(self, query: str, **names: str) -> Rows:
        """The query's rows, sorted: contenders need not agree on an order that was not asked for."""
        return sorted_rows(self.ctx.sql(query.format(**names)).collect())

    @functools.cached_property
    def peers(self) -> list[Peer]:
        return [self._stack.enter_context(Peer()) for _ in range(PARTITIONS)]

    @functools.cached_property
    def duckdb(self) -> Any:
        import duckdb

        connection = duckdb.connect(config={"threads": PARTITIONS})
        self._stack.callback(connection.close)
        return connection

    @functools.cached_property
    def datafusion(self) -> Any:
        import datafusion

        return datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(PARTITIONS))

    @functools.cache  # noqa: B019 - lives as long as the run
    def parquet(self, source: Source) -> str:
        """The same rows in a Parquet file with pyarrow's defaults."""
        path = self.directory / f"{source.label}.parquet"
        write_parquet(path, source)
        return str(path)

    @functools.cache  # noqa: B019 - lives as long as the run
    def rival_view(self, source: Source, *, arrow: bool = True) -> str:
        """The source through Spark's own Python Data Source."""
        name = f"rival_{'arrow' if arrow else 'tuples'}_{source.label}"
        rival_frame(self.ctx, source, arrow=arrow).createOrReplaceTempView(name)
        return name

    def in_memory(self, source: Source) -> str:
        """The same rows in Spark's own column cache, in as many partitions. Only the last one asked for is kept."""
        name = f"memory_{source.label}"
        if self._in_memory != name:
            self.forget_memory()
            parts = [functools.partial(source.batches, i) for i in range(source.partitions)]
            self.ctx.register_table(f"{name}_source", hr.StreamTable(source.schema, parts), replace=True)
            self.ctx.table(f"{name}_source").createOrReplaceTempView(name)
            self.ctx.spark.catalog.cacheTable(name)
            self.ctx.spark.table(name).count()
            self._in_memory = name
        return name

    def keep(self, resource: contextlib.AbstractContextManager[Kept]) -> Kept:
        """Enter something that is left when the run ends."""
        return self._stack.enter_context(resource)

    def forget_memory(self) -> None:
        if self._in_memory is not None:
            self.ctx.spark.catalog.uncacheTable(self._in_memory)
            self._in_memory = None

    def close(self) -> None:
        self.forget_memory()
        self._stack.close()

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def sorted_rows(rows: Sequence[Any]) -> Rows:
    return sorted((tuple(row) for row in rows), key=repr)


def write_parquet(path: Path, source: Source) -> None:
    with pq.ParquetWriter(path, source.schema) as writer:
        for partition in range(source.partitions):
            for batch in source.batches(partition):
                writer.write_batch(batch)
