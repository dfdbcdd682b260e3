"""Parquet timestamps in nanoseconds, which Spark's own reader refuses: filtered as DuckDB does it."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from random import Random

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as hr
from effort import cases

MICROS = [0, 1, -1, 1_577_847_600_000_000, -9_223_372_036_854_000, 9_223_372_036_854_000, 12_345]
FAR = [-62_135_596_800_000_000, 253_402_300_799_999_999, -9_223_372_036_854_776, 9_223_372_036_854_776]
EPOCH = dt.datetime(1970, 1, 1)


def file_of_nanoseconds(path: Path, rng: Random) -> None:
    values = [rng.choice([None, *MICROS]) for _ in range(200)]
    nanos = [
        None if value is None else value * 1000 + rng.choice([0, 0, 1, -1, 999]) for value in sorted(values, key=str)
    ]
    table = pa.table({"id": range(200), "at": pa.array(nanos, pa.timestamp("ns"))})
    pq.write_table(table, path, row_group_size=rng.choice([10, 50, 200]), use_dictionary=rng.choice([True, False]))


def ids(provider: hr.TableProvider, filters: tuple[hr.Expr, ...]) -> list[int]:
    request = hr.ScanRequest(pa.schema([provider.schema().field("id")]), ("id",), filters)
    plan = provider.scan(request)
    return [row["id"] for i in range(plan.partitioning.n) for batch in plan.execute(i) for row in batch.to_pylist()]


@pytest.mark.parametrize("seed", range(cases(30)))
def test_nanoseconds_are_filtered_as_duckdb_filters_them(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    file_of_nanoseconds(tmp_path / "a.parquet", rng)
    provider = hr.DatasetTable(tmp_path)
    assert provider.schema().field("at").type == pa.timestamp("ns")
    with duckdb.connect() as connection:
        for _ in range(20):
            op, micros = rng.choice(["=", "<", "<=", ">", ">="]), rng.choice([*MICROS, *FAR])
            bound = hr.Literal(EPOCH + dt.timedelta(microseconds=micros), pa.timestamp("us"))
            filters = (hr.Comparison(op, hr.Column("at"), bound),)  # type: ignore[arg-type]
            (answer,) = provider.supports_filters_pushdown(filters)
            if micros in FAR:  # has no nanoseconds to compare with
                assert answer is hr.FilterPushdown.UNSUPPORTED
                continue
            assert answer is hr.FilterPushdown.EXACT
            found = ids(provider, filters)
            wanted = connection.execute(
                f"SELECT id FROM '{tmp_path / 'a.parquet'}' WHERE epoch_ns(\"at\") {op} {micros * 1000} ORDER BY id"
            ).fetchall()
            assert found == [row[0] for row in wanted], (op, micros)
