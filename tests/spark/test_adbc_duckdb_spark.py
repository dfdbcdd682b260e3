"""AdbcTable over a DuckDB file with a real Spark: several workers read it at once; who writes to it is told of."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import headrace as hr
from producing import wait_until

ROWS = 20_000


@pytest.fixture
def path(tmp_path: Path) -> str:
    file = str(tmp_path / "shop.duckdb")
    with duckdb.connect(file) as database:
        database.execute(
            "CREATE TABLE t AS SELECT i AS id, 'n' || i % 7 AS s, i / 4 AS v, DATE '2024-01-01' + CAST(i % 50 AS INT) "
            f"AS day FROM range({ROWS}) r(i)"
        )
    return file


def test_duckdb_file_is_read_by_several_workers_at_once(ctx: hr.SessionContext, path: str) -> None:
    class Slow(hr.AdbcTable):
        """Each partition stays open until two are, in processes of their own."""

        def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
            return SlowPlan(super().scan(request), path + ".seen")

    ctx.register_table("t", Slow("duckdb", path, "t", "id", partitions=4))
    found = ctx.collect("SELECT id FROM t WHERE upper(s) = 'N3'")
    assert sorted(found["id"].to_pylist()) == [i for i in range(ROWS) if i % 7 == 3]
    assert len(set(Path(path + ".seen").read_text().split())) >= 2


class SlowPlan(hr.ExecutionPlan):
    def __init__(self, plan: hr.ExecutionPlan, seen: str) -> None:
        self.schema, self.partitioning = plan.schema, plan.partitioning
        self._plan, self._seen = plan, seen

    def execute(self, partition: int) -> Any:
        import os
        import time

        stream: Any = self._plan.execute(partition)
        yield next(stream)
        with open(self._seen, "a") as seen:
            seen.write(f"{os.getpid()}\n")
        deadline = time.monotonic() + 60
        while len(set(Path(self._seen).read_text().split())) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        yield from stream


@pytest.mark.parametrize("query", ["SELECT count(*) AS n, sum(v) AS s FROM t", "SELECT id FROM t ORDER BY id LIMIT 2"])
def test_duckdb_file_asked_by_the_driver_again_gives_the_same(ctx: hr.SessionContext, path: str, query: str) -> None:
    table = hr.AdbcTable("duckdb", path, "t", "id", partitions=4)
    ctx.register_table("t", table)
    first = ctx.collect(query)
    table.schema()
    assert ctx.collect(query).equals(first)
    with duckdb.connect(path) as database:  # nobody keeps it open
        database.execute("INSERT INTO t VALUES (-1, 'x', 0, NULL)")
    assert ctx.collect("SELECT min(id) AS n FROM t").to_pylist() == [{"n": -1}]


def test_duckdb_file_that_another_process_writes_is_an_error_that_says_so(
    ctx: hr.SessionContext, path: str, tmp_path: Path
) -> None:
    ctx.register_table("t", hr.AdbcTable("duckdb", path, "t"))
    ready = tmp_path / "ready"
    code = f"import duckdb, pathlib; d = duckdb.connect({path!r}); pathlib.Path({str(ready)!r}).touch(); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as writer:
        try:
            wait_until(ready.exists)
            with pytest.raises(OSError, match=r"another process has the DuckDB file .* open for writing: end that one"):
                hr.AdbcTable("duckdb", path, "t").schema()
            with pytest.raises(hr.ProviderError, match=r"another process has the DuckDB file"):
                ctx.collect("SELECT id FROM t")
        finally:
            writer.communicate(b"\n", timeout=60)
    assert ctx.collect("SELECT id FROM t").num_rows == ROWS


def test_duckdb_file_that_this_process_writes_is_an_error_and_keeps_its_lock(path: str) -> None:
    table = hr.AdbcTable("duckdb", path, "t")
    with duckdb.connect(path):
        with pytest.raises(
            OSError, match=r"this process has the DuckDB file .* open for writing: close that connection"
        ):
            table.schema()
        code = f"import duckdb; duckdb.connect({path!r})"
        other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert "Conflicting lock" in other.stderr
    assert table.schema().names == ["id", "s", "v", "day"]
    with duckdb.connect(path, read_only=True):
        table.schema()


@pytest.mark.parametrize("path", ["", ":memory:"], ids=["empty", "memory"])
def test_duckdb_in_memory_is_refused_by_name(path: str) -> None:
    with pytest.raises(ValueError, match="in memory is seen by no other process"):
        hr.AdbcTable("duckdb", path, "t").schema()


def test_duckdb_options_reach_the_driver(path: str) -> None:
    table = hr.AdbcTable("duckdb", path, "t", db_kwargs={"access_mode": "READ_WRITE"})
    assert table.schema().names[0] == "id"
    with pytest.raises(Exception, match="no_such_option"):
        hr.AdbcTable("duckdb", path, "t", db_kwargs={"no_such_option": "1"}).schema()


def test_duckdb_infinities_are_refused_by_name_or_null(ctx: hr.SessionContext, path: str) -> None:
    with duckdb.connect(path) as database:
        database.execute("CREATE TABLE far (i INT, d DATE, ts TIMESTAMP, tz TIMESTAMPTZ, l DATE[], st STRUCT(d DATE))")
        database.execute(
            "INSERT INTO far VALUES (1, '2024-01-01', '2024-01-01', '2024-01-01 00:00:00+00', ['2024-01-01'], NULL)"
        )
        for i, (column, value) in enumerate(
            [("d", "'infinity'"), ("d", "'-infinity'"), ("ts", "'infinity'"), ("tz", "'-infinity'")]
        ):
            database.execute(f"INSERT INTO far (i, {column}) VALUES ({i + 2}, {value})")
        database.execute("INSERT INTO far (i, l) VALUES (6, ['infinity'])")
        database.execute("INSERT INTO far (i, st) VALUES (7, {'d': DATE '-infinity'})")
    ctx.register_table("far", hr.AdbcTable("duckdb", path, "far", "d"))
    ctx.register_table("near", hr.AdbcTable("duckdb", path, "far", "d", out_of_range_as_null=True))
    for i, column in [(2, "d"), (3, "d"), (4, "ts"), (5, "tz"), (6, "l"), (7, "st")]:
        with pytest.raises(hr.SchemaMismatchError, match=f"column '{column}' holds an infinite date or timestamp"):
            ctx.collect(f"SELECT {column} FROM far WHERE i = {i}")
    with pytest.raises(hr.SchemaMismatchError, match="infinite"):
        ctx.collect("SELECT max(d) FROM far")
    assert ctx.collect("SELECT i FROM far WHERE d > DATE '2030-01-01'").to_pylist() == [{"i": 2}]
    assert ctx.collect("SELECT d FROM far WHERE d BETWEEN DATE '0001-01-01' AND DATE '9999-12-31'").num_rows == 1
    assert ctx.collect("SELECT i FROM near WHERE d > DATE '2030-01-01'").num_rows == 0
    found = ctx.collect("SELECT max(d) AS d, min(ts) AS ts, count(d) AS n, count(tz) AS m FROM near").to_pylist()
    assert found == [{"d": dt.date(2024, 1, 1), "ts": dt.datetime(2024, 1, 1), "n": 1, "m": 1}]
    assert ctx.collect("SELECT d, ts, tz FROM near").num_rows == 7
    assert pa.types.is_date32(ctx.collect("SELECT d FROM near").schema.field("d").type)
