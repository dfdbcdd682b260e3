"""Random rows that keep coming, read by each kind of stream and by Spark's own file source: the same rows, each once.

Queries stop, fail before or after their sink has kept a batch, and go on from their checkpoints with other limits.
Sinks are idempotent by batch id.
"""

from __future__ import annotations

import contextlib
import random
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as hr
from effort import share
from growing import running

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("size", pa.float64())])
FILTERS = ["true", "id % 3 = 0", "size > 5", "name IS NOT NULL AND id > 7", "name < 'n5' OR size IS NULL"]
COLUMNS = [["id", "name", "size"], ["id"], ["name", "id"], ["size", "id"]]


class LogPlan(hr.ExecutionPlan):
    placement = hr.Placement.DRIVER

    def __init__(self, rows: list[dict[str, Any]], schema: pa.Schema, parts: int) -> None:
        self.rows, self.schema = rows, schema
        self.partitioning = hr.UnknownPartitioning(parts)

    def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
        mine = self.rows[partition :: self.partitioning.n]
        yield pa.RecordBatch.from_pylist(mine, SCHEMA).select(self.schema.names)


class Log(hr.StreamProvider):
    """Rows in a list, with an offset of two parts."""

    def __init__(self, rows: list[dict[str, Any]], parts: int) -> None:
        self.rows, self.parts = rows, parts

    def schema(self) -> pa.Schema:
        return SCHEMA

    def initial_offset(self) -> hr.Offset:
        return {"rows": 0, "by": "row"}

    def latest_offset(self, start: hr.Offset, limit: hr.ReadLimit) -> hr.Offset:
        ends = [len(self.rows)]
        ends += [] if limit.max_rows is None else [start["rows"] + limit.max_rows]
        ends += [] if limit.until is None else [limit.until["rows"]]
        return {"by": "row", "rows": min(ends)}

    def scan_between(self, start: hr.Offset, end: hr.Offset, request: hr.ScanRequest) -> hr.ExecutionPlan:
        return LogPlan(self.rows[start["rows"] : end["rows"]], request.schema, self.parts)


class Growth:
    """The same rows as files, in a database and in a list."""

    def __init__(self, directory: Path, rng: random.Random) -> None:
        self.directory, self.rng = directory, rng
        self.rows: list[dict[str, Any]] = []
        self.files = directory / "files"
        self.files.mkdir()
        self.database = str(directory / "rows.sqlite")
        with contextlib.closing(sqlite3.connect(self.database)) as connection:
            connection.execute("CREATE TABLE rows (id BIGINT PRIMARY KEY, name TEXT, size DOUBLE)")

    def grow(self) -> None:
        for _ in range(self.rng.randint(0, 3)):
            new = [self._row(len(self.rows) + i) for i in range(self.rng.randint(1, 12))]
            written = self.directory / "written.parquet"
            pq.write_table(pa.Table.from_pylist(new, SCHEMA), written)
            written.rename(self.files / f"{len(self.rows):05d}.parquet")
            with contextlib.closing(sqlite3.connect(self.database)) as connection:
                connection.executemany("INSERT INTO rows VALUES (:id, :name, :size)", new)
                connection.commit()
            self.rows += new

    def _row(self, id: int) -> dict[str, Any]:
        name = None if self.rng.random() < 0.2 else f"n{self.rng.randint(0, 9)}"
        return {"id": id, "name": name, "size": None if self.rng.random() < 0.2 else self.rng.random() * 10}


class Query:
    """A query of one source over all its lives, and what its sink has kept."""

    def __init__(self, frame: Callable[[int], DataFrame], checkpoint: Path) -> None:
        self.frame, self.checkpoint = frame, checkpoint
        self.kept: dict[int, list[tuple[Any, ...]]] = {}

    def run(self, limit: int, fault: str | None, after: int) -> None:
        """Until all is read, or until the sink fails in its batch number ``after``."""
        seen = 0

        def sink(frame: DataFrame, batch: int) -> None:
            nonlocal seen
            rows = [tuple(row) for row in frame.collect()]
            seen += 1
            if fault == "before" and seen == after:
                raise RuntimeError("the sink fails")
            self.kept[batch] = rows
            if fault == "after" and seen == after:
                raise RuntimeError("the sink fails")

        with running(self.frame(limit), self.checkpoint, sink, availableNow=True) as query:
            try:
                assert query.awaitTermination(120), "the query did not end"
            except Exception as error:
                if "the sink fails" not in str(error):
                    raise

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        return sorted((row for rows in self.kept.values() for row in rows), key=str)


def _queries(
    ctx: hr.SessionContext, spark: SparkSession, growth: Growth, rng: random.Random, change: Callable[[Any], Any]
) -> dict[str, Query]:
    ctx.register_table("log", Log(growth.rows, rng.randint(1, 3)))
    ctx.register_table("files", hr.DatasetTable(growth.files, schema=SCHEMA))
    ctx.register_table("database", hr.AdbcTable("sqlite", growth.database, "rows", cursor="id"))

    def own(limit: int) -> DataFrame:
        files = spark.readStream.schema("id BIGINT, name STRING, size DOUBLE").option("maxFilesPerTrigger", limit)
        return change(files.parquet(str(growth.files)))

    def of(name: str) -> Callable[[int], DataFrame]:
        return lambda limit: change(ctx.stream(name, maxRowsPerTrigger=limit * 4))

    frames = {"Spark's": own, "log": of("log"), "files": of("files"), "database": of("database")}
    return {name: Query(frame, growth.directory / f"checkpoint of {name}") for name, frame in frames.items()}


@pytest.mark.parametrize("seed", share(range(9)))
@pytest.mark.daily("0")
def test_random_growing_rows_come_once_from_every_kind_of_stream(
    ctx: hr.SessionContext, spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    growth = Growth(tmp_path, rng)
    where, columns = rng.choice(FILTERS), rng.choice(COLUMNS)
    queries = _queries(ctx, spark, growth, rng, lambda frame: frame.where(where).select(*columns))
    for _ in range(3):
        growth.grow()
        for name, query in queries.items():
            if name == "Spark's" or rng.random() < 0.3:
                continue
            query.run(rng.randint(1, 4), rng.choice([None, "before", "after"]), rng.randint(1, 3))
    growth.grow()
    for query in queries.values():
        query.run(limit=5, fault=None, after=0)
    expected = queries["Spark's"].rows
    for name, query in queries.items():
        assert query.rows == expected, f"{name}, seed {seed}: WHERE {where}, columns {columns}"
