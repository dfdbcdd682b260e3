"""A column ``a.b`` beside a struct ``a`` with a field ``b``: each keeps its own values, whatever is pushed down."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as hr

NESTED = "struct<b: long, `d.e`: long, d: struct<e: long>>"
COLUMNS = ("`a.b`", "a.b", "a.`d.e`", "a.d.e", "x")
NUMBERS = [None, 1, 2, 3, 50, 60]


def rows() -> pa.Table:
    """In some row groups one of the columns has low values only and its namesake high ones."""
    inner = pa.struct([("b", pa.int64()), ("d.e", pa.int64()), ("d", pa.struct([("e", pa.int64())]))])
    schema = pa.schema([("a.b", pa.int64()), ("a", inner), ("x", pa.int64())])
    mixed = [
        {"a.b": b, "a": None if x % 7 == 0 else {"b": c, "d.e": b, "d": {"e": c}}, "x": x}
        for x, (b, c) in enumerate(itertools.product(NUMBERS, NUMBERS))
    ]
    low = [{"a.b": n, "a": {"b": 100, "d.e": n, "d": {"e": 100}}, "x": 100 + n} for n in range(4)]
    high = [{"a.b": 100, "a": {"b": n, "d.e": 100, "d": {"e": n}}, "x": 200 + n} for n in range(4)]
    return pa.Table.from_pylist([*low, *high, *mixed], schema=schema)


@pytest.fixture
def tables(ctx: hr.SessionContext, tmp_path: Path) -> Iterator[tuple[str, ...]]:
    """Headrace's; ``dotted`` has the same rows in Spark's memory. Its Parquet reader mixes the two names up itself."""
    pq.write_table(rows(), tmp_path / "rows.parquet", row_group_size=4)
    ctx.register_table("dotted_mem", hr.MemTable(rows(), 3))
    ctx.register_table("dotted_files", hr.DatasetTable(str(tmp_path)))
    plain = [
        (row["a.b"], row["a"] and (row["a"]["b"], row["a"]["d.e"], (row["a"]["d"]["e"],)), row["x"])
        for row in rows().to_pylist()
    ]
    ctx.spark.createDataFrame(plain, f"`a.b` long, a {NESTED}, x long").createOrReplaceTempView("dotted")
    yield "dotted_mem", "dotted_files"
    ctx.spark.catalog.dropTempView("dotted")


def queries(column: str) -> Iterator[str]:
    yield f"SELECT {column} AS r, a, `a.b` FROM dotted"
    yield f"SELECT x FROM dotted WHERE {column} IN (1, 2, 100)"
    yield f"SELECT min({column}) AS low, max({column}) AS high, count({column}) AS c FROM dotted"
    yield f"SELECT {column} AS k, count(*) AS c FROM dotted GROUP BY {column}"
    yield f"SELECT {column} AS r FROM dotted ORDER BY {column} DESC NULLS LAST LIMIT 3"
    for other in COLUMNS:
        yield f"SELECT x FROM dotted WHERE {column} > 55 AND {other} < 110"
        if other != column:
            yield f"SELECT max({column}) AS high FROM dotted WHERE {other} < 3"


@pytest.mark.daily("column", "field")
@pytest.mark.parametrize("column", COLUMNS, ids=["column", "field", "dotted-field", "deep-field", "plain"])
def test_column_with_a_dot_beside_a_struct_is_filtered_projected_and_aggregated_by_itself(
    ctx: hr.SessionContext, tables: tuple[str, ...], column: str
) -> None:
    for query in queries(column):
        expected = sorted(map(str, ctx.collect(query).to_pylist()))
        for table in tables:
            found = sorted(map(str, ctx.collect(query.replace("FROM dotted", f"FROM {table}")).to_pylist()))
            assert found == expected, f"{query} of {table}"
