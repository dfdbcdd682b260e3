"""Compares Headrace with Spark's own reader over random Parquet files; a seed makes the files and the queries."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

import headrace as hr
from parquet_queries import Query, random_query
from random_parquet import SCHEMA, Files, write_files
from session_settings import session_settings

_NEGATIVE_ZERO = re.compile(r"-0\.0\b")
QUERIES = 20
"""For each seed."""


def compare(ctx: hr.SessionContext, root: Path, seed: int, queries: int = QUERIES) -> Counter[str]:
    """How many answers were equal, failed in both, or were refused by name; AssertionError says what differed."""
    files = write_files(ctx, root, seed)
    provider = files.table()
    ctx.register_table("by_headrace", provider, replace=True)
    present = [name for name in SCHEMA.names if name in provider.schema().names]
    reader = ctx.spark.read if files.alike else ctx.spark.read.schema(_spark_schema(ctx))
    reader.parquet(str(root)).createOrReplaceTempView("by_spark")
    counts: Counter[str] = Counter()
    differences = []
    for number in range(queries):
        rng = Random(f"{seed}/{number}")
        query, settings = random_query(rng, present), _settings(rng)
        with session_settings(ctx.spark, settings):
            found, wanted = (_answer(ctx, query, name) for name in ("by_headrace", "by_spark"))
        outcome = _outcome(found, wanted, files)
        counts[outcome] += 1
        if outcome == "different":
            differences.append(
                f"seed {seed}, query {number}: {query.text}\n  settings {settings}\n"
                f"  Headrace {str(found)[:1500]}\n  Spark    {str(wanted)[:1500]}"
            )
    assert not differences, f"{len(differences)} of {queries} differ over\n{files.story}\n" + "\n".join(differences)
    return counts


def _settings(rng: Random) -> dict[str, str]:
    return {
        "spark.sql.adaptive.enabled": rng.choice(["true", "false"]),
        "spark.sql.ansi.enabled": rng.choice(["true", "false"]),
        "spark.sql.session.timeZone": rng.choice(["UTC", "America/Sao_Paulo", "Asia/Kolkata", "Europe/Paris"]),
        "spark.sql.caseSensitive": rng.choice(["true", "false"]),
        "spark.sql.parquet.filterPushdown": "false",  # Spark's own loses NaN
        "spark.sql.parquet.enableVectorizedReader": rng.choice(["true", "false"]),
    }


def _spark_schema(ctx: hr.SessionContext) -> Any:
    ctx.register_table("schema_only", hr.MemTable(SCHEMA.empty_table()), replace=True)
    return ctx.spark.table("schema_only").schema


def _answer(ctx: hr.SessionContext, query: Query, name: str) -> list[str] | Exception:
    try:
        rows = [repr(row) for row in _plain(ctx.collect(query.text.format(t=name))).to_pylist()]
    except Exception as error:  # whatever it is, the other reader's outcome decides
        return error
    rows = rows if query.signed_zeros else [_NEGATIVE_ZERO.sub("0.0", row) for row in rows]
    return rows if query.ordered else sorted(rows)


def _plain(table: pa.Table) -> pa.Table:
    """Instants in UTC: in the session's zone some have no Python value."""
    types = [
        pa.timestamp("us", "UTC") if pa.types.is_timestamp(type_) and type_.tz else type_
        for type_ in table.schema.types
    ]
    return table.cast(pa.schema(list(zip(table.schema.names, types, strict=True))))


def _outcome(found: list[str] | Exception, wanted: list[str] | Exception, files: Files) -> str:
    if isinstance(found, Exception) and isinstance(wanted, Exception):
        return "failed in both"
    if isinstance(found, Exception):
        refused = files.old_calendar and "which are stored in the calendar that Spark used" in str(found)
        return "refused by name" if refused else "different"
    return "equal" if found == wanted else "different"
