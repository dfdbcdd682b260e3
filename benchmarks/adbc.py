"""A database's table: AdbcTable in ranges, against reading it with pandas and handing it to Spark."""

from __future__ import annotations

import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import headrace as hr
from benchmarks.bench import Bench
from benchmarks.harness import Case, Contender

GROUPED_ROWS = 5_000_000
FETCHED = "the rows fetched"
DATABASE = "PostgreSQL itself, without Spark"
MOST_ROWS = 2_000_000  # pandas has them all in memory, twice
AGGREGATE = ("sum(id)", "sum(v)", "sum(k)", "max(s)")
PANDAS = "pandas.read_sql, createDataFrame"


class FetchesRows(hr.AdbcTable):
    """The same table, whose rows Spark groups."""

    def supports_aggregate_pushdown(self, aggregation: hr.Aggregation) -> hr.AggregatePushdown:
        return hr.AggregatePushdown.UNSUPPORTED


def cases(bench: Bench) -> list[Case]:
    ctx = bench.ctx
    rows = bench.settings.at_most(MOST_ROWS)
    server = _server(bench, rows)
    ctx.register_table("adbc_events", hr.AdbcTable("postgresql", server.uri, "events", "id"), replace=True)
    aggregate = f"SELECT {', '.join(AGGREGATE)} FROM {{t}}"
    filtered = "SELECT count(*), max(s) FROM adbc_events WHERE k = 7"

    grouped_rows = bench.settings.at_most(GROUPED_ROWS)
    server.run(
        "CREATE TABLE sales AS SELECT i::bigint AS id, (i % 100)::int AS shop, round((i * 0.7919) % 1, 6)::double "
        f"precision AS amount FROM generate_series(1, {grouped_rows}) i",
        "CREATE INDEX ON sales (id)",
        "ANALYZE sales",
        "CREATE TABLE prices AS SELECT i::bigint AS id, 'shop ' || lpad((i % 100)::text, 3, '0') AS shop, "
        f"((i * 7919::bigint) % 1000000 / 100.0)::numeric(12, 2) AS price FROM generate_series(1, {grouped_rows}) i",
        "CREATE INDEX ON prices (id)",
        "ANALYZE prices",
    )
    for table in ("sales", "prices"):
        ctx.register_table(table, hr.AdbcTable("postgresql", server.uri, table, "id"), replace=True)
        ctx.register_table(f"fetched_{table}", FetchesRows("postgresql", server.uri, table, "id"), replace=True)

    def queried(query: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in ctx.sql(query).collect()]

    def grouped(name: str, table: str, amount: str, kind: Callable[[Any], Any]) -> Case:
        query = f"SELECT shop, count(*), sum({amount}), max(id) FROM {{t}} GROUP BY shop"

        def asked_alone() -> list[tuple[Any, ...]]:
            answer = server.rows(query.format(t=table))
            return sorted((shop, count, kind(total), last) for shop, count, total, last in answer)

        return Case(
            f"adbc: {name} in PostgreSQL",
            [
                Contender("headrace", lambda: sorted(queried(query.format(t=table)))),
                Contender(FETCHED, lambda: sorted(queried(query.format(t=f"fetched_{table}")))),
                Contender(DATABASE, asked_alone, limit=True),
            ],
            {FETCHED: 10.0},
            rows=grouped_rows,
            most_rounds=3,
        )

    return [
        Case(
            "adbc: four columns of a PostgreSQL table",
            [
                Contender("headrace", lambda: queried(aggregate.format(t="adbc_events"))),
                Contender(PANDAS, lambda: _through_pandas(ctx, server.uri, AGGREGATE)),
            ],
            {PANDAS: 3.0},
            rows=rows,
            most_rounds=3,
        ),
        Case(
            "adbc: a filter that the database can use",
            [
                Contender("headrace", lambda: queried(filtered)),
                Contender(PANDAS, lambda: _through_pandas(ctx, server.uri, ("count(*)", "max(s)"), "k = 7")),
            ],
            rows=rows,
            most_rounds=3,
        ),
        grouped("GROUP BY into 100 groups", "sales", "amount", float),
        # beside the one above, which missed its bar: keys and amounts as most databases have them
        grouped("GROUP BY of names and prices", "prices", "price", Decimal),
    ]


def _server(bench: Bench, rows: int) -> Any:
    """PostgreSQL with one table, for as long as the run takes."""
    sys.path.append(str(Path(__file__).parent.parent / "tests" / "support"))
    from postgres import running_postgres

    server = bench.keep(running_postgres())
    server.run(
        "CREATE TABLE events AS SELECT i::bigint AS id, round((i * 0.7919) % 1, 6)::double precision AS v, "
        f"(i % 1000)::int AS k, 'name' || i % 50 AS s FROM generate_series(1, {rows}) i",
        "CREATE INDEX ON events (id)",
        "ANALYZE events",
    )
    return server


def _through_pandas(
    ctx: hr.SessionContext, uri: str, aggregate: tuple[str, ...], condition: str = "true"
) -> list[tuple[Any, ...]]:
    import pandas as pd
    import sqlalchemy

    ctx.spark.conf.set("spark.sql.execution.arrow.pyspark.enabled", "true")
    engine = sqlalchemy.create_engine(uri.replace("postgresql://", "postgresql+psycopg://"))
    try:
        frame = pd.read_sql("SELECT id, v, k, s FROM events", engine)
    finally:
        engine.dispose()
    spark_frame = ctx.spark.createDataFrame(frame).where(condition)
    return [tuple(row) for row in spark_frame.selectExpr(*aggregate).collect()]
