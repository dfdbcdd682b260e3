"""Two columns of timestamps in different zones and units: one comparison of instants, answered EXACT by a provider."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as hr

MOMENTS = [
    None,
    dt.datetime(2020, 3, 29, 0, 30, tzinfo=dt.UTC),  # half an hour before Paris changes its clocks
    dt.datetime(2020, 3, 29, 1, 30, tzinfo=dt.UTC),
    dt.datetime(1, 1, 1, tzinfo=dt.UTC),
    dt.datetime(9999, 12, 31, 23, 59, 59, tzinfo=dt.UTC),
]
SCHEMA = pa.schema(
    [("id", pa.int64()), ("a", pa.timestamp("ms", tz="UTC")), ("b", pa.timestamp("us", tz="Europe/Paris"))]
)


def rows() -> pa.Table:
    pairs = [(a, b) for a in MOMENTS for b in MOMENTS]
    instants = [pa.array(side, pa.timestamp("us", tz="UTC")) for side in zip(*pairs, strict=True)]
    return pa.table([pa.array(range(len(pairs))), *instants], names=["id", "a", "b"]).cast(SCHEMA)


@pytest.mark.parametrize("op", ["=", "<=>", "<", "<=", ">", ">=", "!="])
def test_timestamps_of_two_zones_and_units_compare_as_spark_compares_them(ctx: hr.SessionContext, op: str) -> None:
    table = rows()
    ctx.register_table("zones", hr.MemTable(table))
    plain = table.cast(pa.schema([("id", pa.int64()), *((name, pa.timestamp("us", tz="UTC")) for name in "ab")]))
    ctx.spark.createDataFrame(plain).createOrReplaceTempView("instants")
    query = f"SELECT id FROM zones WHERE a {op} b ORDER BY id"
    assert f"a {op} b  EXACT" in ctx.explain(query)
    assert ctx.collect(query) == ctx.collect(query.replace("zones", "instants"))
    ctx.spark.catalog.dropTempView("instants")


def test_timestamps_of_two_zones_in_files_compare_as_spark_compares_them(
    ctx: hr.SessionContext, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("zones")
    pq.write_table(rows(), folder / "rows.parquet", row_group_size=5)
    ctx.register_table("zone_files", hr.DatasetTable(str(folder)))
    ctx.spark.read.parquet(str(folder)).createOrReplaceTempView("own_files")
    query = "SELECT id FROM zone_files WHERE a < b ORDER BY id"
    assert ctx.collect(query) == ctx.collect(query.replace("zone_files", "own_files"))
    ctx.spark.catalog.dropTempView("own_files")
