"""INSERT INTO ready-made tables: files against Spark's own Parquet write, PostgreSQL against bulk ingest and rows."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

import headrace as hr
from benchmarks.bench import Bench
from benchmarks.harness import Case, Contender

SPARK = "df.write.parquet"
INGEST = "adbc_ingest, one connection"
ROWS = "rows, executemany"
MOST_INGESTED = 2_000_000
MOST_INSERTED = 200_000
COLUMNS = "id, id * 0.5 AS v, CAST(id % 1000 AS INT) AS k, concat('name', id % 50) AS s"
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.float64()), ("k", pa.int32()), ("s", pa.string())])


def cases(bench: Bench) -> list[Case]:
    return [_files(bench), *_database(bench)]


def _files(bench: Bench) -> Case:
    ctx, rows = bench.ctx, bench.rows
    folder = bench.directory / "written"
    ctx.register_table("written", hr.DatasetTable(folder / "headrace", schema=SCHEMA), replace=True)
    query = f"SELECT {COLUMNS} FROM range({rows})"

    def inserted() -> int:
        ctx.sql(f"INSERT OVERWRITE {ctx.catalog}.written {query}").collect()
        return int(ds.dataset(folder / "headrace").count_rows())

    def written_by_spark() -> int:
        ctx.sql(query).write.mode("overwrite").parquet(str(folder / "spark"))
        return int(ds.dataset(folder / "spark").count_rows())

    return Case(
        "writers: four columns into Parquet files",
        [Contender("headrace", inserted), Contender(SPARK, written_by_spark)],
        {SPARK: 1.0},
        cpu_bars={SPARK: 1.0},
        rows=rows,
        most_rounds=5,
    )


def _database(bench: Bench) -> list[Case]:
    """The rows are in memory, for all contenders, and the table is empty before each of them."""
    sys.path.append(str(Path(__file__).parent.parent / "tests" / "support"))
    from postgres import running_postgres

    ctx, server = bench.ctx, bench.keep(running_postgres())
    server.run("CREATE TABLE loaded (id bigint, v double precision, k integer, s text)")
    found: list[Case] = []
    for name, staged, most, bar in (
        ("in one transaction", False, MOST_INGESTED, {INGEST: 0.9}),
        ("through staging tables", True, MOST_INGESTED, {INGEST: 0.5}),
        ("against rows", False, MOST_INSERTED, {ROWS: 3.0}),
    ):
        rows = bench.settings.at_most(most)
        table = _rows(rows)
        source, target = f"to_load_{len(found)}", f"loaded_{len(found)}"
        ctx.register_table(source, hr.MemTable(table, partitions=2 if staged else 1), replace=True)
        ctx.register_table(target, hr.AdbcTable("postgresql", server.uri, "loaded", staged=staged), replace=True)
        rival = next(iter(bar))
        run = _ingested if rival == INGEST else _row_by_row
        found.append(
            Case(
                f"writers: PostgreSQL {name}",
                [
                    Contender("headrace", lambda s=source, t=target: _inserted(ctx, server, s, t)),  # type: ignore[misc]
                    Contender(rival, lambda run=run, table=table: run(server, table)),  # type: ignore[misc]
                ],
                bar,
                rows=rows,
                most_rounds=3,
            )
        )
    return found


def _rows(rows: int) -> pa.Table:
    numbers = range(rows)
    columns = [numbers, [n * 0.5 for n in numbers], [n % 1000 for n in numbers], [f"name{n % 50}" for n in numbers]]
    return pa.table(
        [pa.array(values, field.type) for values, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def _inserted(ctx: hr.SessionContext, server: Any, source: str, target: str) -> int:
    server.run("TRUNCATE loaded")
    ctx.sql(f"INSERT INTO {ctx.catalog}.{target} SELECT * FROM {source}").collect()
    return _count(server)


def _ingested(server: Any, table: pa.Table) -> int:
    server.run("TRUNCATE loaded")
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.adbc_ingest("loaded", table.to_reader(max_chunksize=65_536), mode="append")
    return _count(server)


def _row_by_row(server: Any, table: pa.Table) -> int:
    import psycopg

    server.run("TRUNCATE loaded")
    rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    with psycopg.connect(server.uri) as connection, connection.cursor() as cursor:
        cursor.executemany("INSERT INTO loaded VALUES (%s, %s, %s, %s)", rows)
    return _count(server)


def _count(server: Any) -> int:
    return int(server.rows("SELECT count(*) FROM loaded")[0][0])
