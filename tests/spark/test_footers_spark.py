"""Counts and extremes from footers, as Spark tells them: every type, whatever stands above, files that are damaged."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import headrace as hr
from session_settings import session_settings

pytestmark = [pytest.mark.daily("adaptive*"), pytest.mark.usefixtures("drops_views")]  # adaptive as most sessions are

FILES, ROWS = 4, 25
TYPES = {
    "i8": pa.int8(),
    "i64": pa.int64(),
    "b": pa.bool_(),
    "d": pa.date32(),
    "ts": pa.timestamp("us"),
    "utc": pa.timestamp("us", "UTC"),
    "dec": pa.decimal128(20, 2),
}


@pytest.fixture(params=["true", "false"], ids=["adaptive", "not adaptive"], autouse=True)
def adaptive(request: pytest.FixtureRequest, spark: Any) -> Iterator[None]:
    with session_settings(spark, {"spark.sql.adaptive.enabled": request.param}):
        yield


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("facts")
    for day in range(FILES):
        (root / f"day={day}").mkdir()
        moments = [datetime.datetime(2026, 1, 1 + day, i % 24) for i in range(ROWS)]
        values = {
            "i8": [i - 5 for i in range(ROWS)],
            "i64": [day * ROWS + i for i in range(ROWS)],
            "b": [i % 2 == 0 for i in range(ROWS)],
            "d": [moment.date() for moment in moments],
            "ts": moments,
            "utc": moments,
            "dec": [None if i % 5 == 0 else Decimal(i * day) / 4 for i in range(ROWS)],
        }
        schema = pa.schema(list(TYPES.items()))
        pq.write_table(pa.table(values, schema=schema), root / f"day={day}" / "part.parquet")
    return root


@pytest.fixture
def facts(ctx: hr.SessionContext, files: Path) -> hr.SessionContext:
    ctx.register_table("facts", hr.DatasetTable(files))
    return ctx


def test_footers_tell_every_type_as_spark_reads_it(facts: hr.SessionContext, files: Path) -> None:
    functions = ", ".join(f"count({name}), min({name}) AS min_{name}, max({name})" for name in [*TYPES, "day"])
    facts.spark.read.parquet(str(files)).createOrReplaceTempView("by_spark")
    query = f"SELECT count(*), {functions} FROM {{}}"
    assert "footers of parquet" in facts.explain(query.format("facts"))
    found = facts.sql(query.format("facts")).collect()
    assert found == facts.sql(query.format("by_spark")).collect()
    assert found[0][0] == FILES * ROWS


def test_filter_that_keeps_no_file_gives_one_row(facts: hr.SessionContext) -> None:
    assert [tuple(row) for row in facts.sql("SELECT count(*), max(i64) FROM facts WHERE day > 9").collect()] == [
        (0, None)
    ]


def test_footer_aggregate_goes_on_through_whatever_stands_above_it(facts: hr.SessionContext) -> None:
    last = "(SELECT max(i64) AS m, count(*) AS n FROM facts)"
    expected = FILES * ROWS
    queries = {
        f"SELECT m + n FROM {last}": [(2 * expected - 1,)],
        f"SELECT n FROM {last} WHERE m > 0 ORDER BY n LIMIT 1": [(expected,)],
        f"SELECT n FROM {last} UNION ALL SELECT n + 1 FROM {last} ORDER BY 1": [(expected,), (expected + 1,)],
        f"SELECT a.n FROM {last} a JOIN {last} b ON a.m = b.m": [(expected,)],
        "SELECT count(*) FROM facts WHERE i64 = (SELECT max(i64) FROM facts)": [(1,)],
        f"SELECT rand(1) < 2, n FROM {last}": [(True, expected)],
        f"SELECT n % 2, sum(m) FROM {last} GROUP BY n % 2": [(0, expected - 1)],
    }
    for query, rows in queries.items():
        assert [tuple(row) for row in facts.sql(query).collect()] == rows, query


def test_footer_aggregate_can_be_cached_streamed_and_written(facts: hr.SessionContext, tmp_path: Path) -> None:
    frame = facts.sql("SELECT count(*) AS n, min(dec) AS low FROM facts")
    expected = [{"n": FILES * ROWS, "low": Decimal("0.00")}]
    assert facts.execute_stream(frame).read_all().to_pylist() == expected
    assert facts.collect(frame).to_pylist() == expected
    frame.write.parquet(str(tmp_path / "out"))
    assert facts.spark.read.parquet(str(tmp_path / "out")).toArrow().to_pylist() == expected
    cached = frame.cache()
    try:
        assert cached.count() == 1
        assert [row.n for row in cached.collect()] == [FILES * ROWS]
    finally:
        cached.unpersist()


def test_expression_that_fails_does_so_when_the_query_runs(facts: hr.SessionContext) -> None:
    with session_settings(facts.spark, {"spark.sql.ansi.enabled": "true"}):
        frame = facts.sql("SELECT 1 / (count(*) - count(*)) FROM facts")
        assert "footers" in facts.explain(frame)
        with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
            frame.collect()


def test_footer_that_cannot_be_read_fails_the_query_and_names_the_file(
    ctx: hr.SessionContext, files: Path, tmp_path: Path
) -> None:
    for day in range(FILES):
        content = (files / f"day={day}" / "part.parquet").read_bytes()
        (tmp_path / f"part{day}.parquet").write_bytes(content)
    ctx.register_table("damaged", hr.DatasetTable(tmp_path))
    (tmp_path / "part1.parquet").write_bytes(b"no footer at all")
    with pytest.raises(hr.HeadraceError, match=r"part1\.parquet"):
        ctx.collect("SELECT count(*) FROM damaged")


def test_replaced_files_are_counted_when_a_frame_is_collected_again(ctx: hr.SessionContext, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "a.parquet")
    ctx.register_table("replaced", hr.DatasetTable(tmp_path))
    frame = ctx.sql("SELECT count(*) AS n, max(id) AS last FROM replaced")
    assert [tuple(row) for row in frame.collect()] == [(2, 2)]
    pq.write_table(pa.table({"id": [1, 2, 3]}), tmp_path / "a.parquet")
    assert [tuple(row) for row in ctx.sql("SELECT count(*) AS n, max(id) AS last FROM replaced").collect()] == [(3, 3)]


def test_fragments_of_one_file_are_counted_and_filtered_apart(ctx: hr.SessionContext, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": range(100)}), tmp_path / "a.parquet", row_group_size=20)
    (whole,) = ds.dataset(tmp_path).get_fragments()
    parts = [whole.subset(row_group_ids=groups) for groups in ([0], [3, 4])]
    made = ds.FileSystemDataset(parts, whole.physical_schema, whole.format, whole.filesystem)
    ctx.register_table("parts", hr.DatasetTable(made))
    assert ctx.collect("SELECT count(*) AS n, max(id) AS last FROM parts").to_pylist() == [{"n": 60, "last": 99}]
    few = ctx.collect("SELECT count(*) AS n FROM parts WHERE id BETWEEN 15 AND 65")
    assert few.to_pylist() == [{"n": 11}]
