"""Spark Connect: a SessionContext on a real server, which comes back to this process for plans and rows."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException

import headrace as hr
from connect_server import ConnectServer
from connecting import fails_after_a_batch, hides_the_unix_socket
from natural import COUNTING, Natural
from placements import placements
from places import EXAMPLES
from producing import NUMBERS, FunctionTable, ten_rows
from recording import inexact, table_of

pytestmark = pytest.mark.timeout(200)

DOCUMENTED = "sc://spark.example.com:15002"
COUNTING_MODULE = """
import pyarrow as pa

CALLS = []

def counted(partition):
    CALLS.append(partition)
    yield pa.record_batch({"a": pa.array([len(CALLS)], pa.int64())})
"""


# Rows


@placements
def test_connect_session_reads_every_partition_of_a_live_provider(
    ctx: hr.SessionContext, placement: hr.Placement
) -> None:
    ctx.register_table("t", FunctionTable(ten_rows, partitions=3, placement=placement))
    assert [row.a for row in ctx.spark.sql("SELECT a FROM t ORDER BY a").collect()] == list(range(30))
    assert ctx.collect("SELECT sum(a) AS s FROM t").to_pylist() == [{"s": 435}]


@pytest.mark.parametrize("on_another_host", [False, True], ids=["server on this machine", "server elsewhere"])
def test_connect_session_modules_travel_only_where_the_server_cannot_import_them(
    spark: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, on_another_host: bool
) -> None:
    """What is imported stays in a worker with all it has learnt; what travels is made anew for every task."""
    name = f"module_of_{'this' if on_another_host else 'that'}_test"
    (tmp_path / f"{name}.py").write_text(COUNTING_MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    counted = importlib.import_module(name).counted
    if on_another_host:
        hides_the_unix_socket(monkeypatch)
    with hr.SessionContext(spark) as ctx:
        ctx.register_table("t", FunctionTable(counted, partitions=8, placement=hr.Placement.EXECUTORS))
        most = ctx.collect("SELECT max(a) AS most FROM t")["most"].to_pylist()[0]
    assert most == 1 if on_another_host else most > 1


def test_connect_session_negotiates_with_the_provider_in_this_process(ctx: hr.SessionContext) -> None:
    data = pa.table({"a": range(100), "b": [str(i) for i in range(100)], "c": [0.5] * 100})
    table = table_of(data, 2, answer=inexact)
    ctx.register_table("t", table)
    assert [row.b for row in ctx.spark.table("t").where("a > 97").select("b").collect()] == ["98", "99"]
    request = table.request()
    assert request.projection == ("b", "a")  # a is for Headrace's own filter, and not sent
    assert [repr(one) for one in request.filters if "NULL" not in repr(one)] == ["a > 97"]


def test_connect_session_joins_two_tables_and_keeps_their_types(ctx: hr.SessionContext) -> None:
    ctx.register_table("t", hr.MemTable(pa.table({"k": range(50), "when": pa.array(range(50), pa.timestamp("us"))})))
    ctx.register_table("u", FunctionTable(ten_rows, partitions=2))
    found = ctx.collect("SELECT t.when FROM t JOIN u ON t.k = u.a WHERE u.a > 17 ORDER BY t.k")
    assert found.schema == pa.schema([("when", pa.timestamp("us"))])
    assert found["when"].cast(pa.int64()).to_pylist() == [18, 19]


def test_connect_session_rows_that_are_only_counted_are_all_there(ctx: hr.SessionContext) -> None:
    ctx.register_table("t", Natural())
    for query, expected in COUNTING.items():
        assert list(map(tuple, ctx.spark.sql(query).collect())) == expected, query
    assert ctx.table("t").count() == 10


# Errors


@placements
def test_connect_session_provider_that_raises_is_a_provider_error(
    ctx: hr.SessionContext, placement: hr.Placement
) -> None:
    from pyspark.errors.exceptions.connect import SparkException

    ctx.register_table("t", FunctionTable(fails_after_a_batch, placement=placement))
    with pytest.raises(hr.ProviderError) as caught:
        ctx.collect("SELECT * FROM t")
    error = caught.value
    assert (error.exception_type, error.message) == ("ValueError", "no more: 0\nsee the manual")
    assert (error.table, error.partition) == ("t", 0)
    assert "fails_after_a_batch" in error.traceback
    assert isinstance(error.__cause__, ValueError)
    with pytest.raises(SparkException) as native:
        ctx.spark.sql("SELECT * FROM t").collect()
    assert native.value.getCondition() == "PYTHON_DATA_SOURCE_ERROR"
    assert str(native.value).startswith("ValueError: no more: 0\nsee the manual\n  in FunctionPlan.execute, table 't'")


def test_connect_session_provider_that_raises_while_planning_is_named(ctx: hr.SessionContext) -> None:
    class Unplannable(FunctionTable):
        def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
            raise LookupError("no such shard")

    ctx.register_table("t", Unplannable(ten_rows))
    with pytest.raises(hr.ProviderError, match=r"LookupError: no such shard\n  in Unplannable.scan, table 't'"):
        ctx.collect("SELECT * FROM t")
    with pytest.raises(AnalysisException, match="LookupError: no such shard") as native:
        ctx.spark.table("t").collect()
    assert native.value.getCondition() == "PYTHON_DATA_SOURCE_ERROR"


def test_connect_session_own_errors_keep_their_class(ctx: hr.SessionContext) -> None:
    def wrong(partition: int) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"b": ["x"]})

    ctx.register_table("t", FunctionTable(wrong))
    with pytest.raises(hr.SchemaMismatchError, match="b: string"):
        ctx.collect("SELECT * FROM t")


# The context


def test_connect_context_registers_replaces_and_forgets(ctx: hr.SessionContext, spark: Any) -> None:
    ctx.register_table("t", FunctionTable(ten_rows))
    with pytest.raises(hr.TableExistsError):
        ctx.register_table("t", FunctionTable(ten_rows))
    before = ctx.table("t")
    assert before.count() == 10
    ctx.register_table("t", FunctionTable(ten_rows, partitions=2), replace=True)
    assert spark.table("t").count() == 20
    assert before.count() == 20  # the server analyses a query for each run
    assert ctx.table_names() == ["t"]
    assert ctx.deregister_table("t") is True
    assert ctx.deregister_table("t") is False
    assert not spark.catalog.tableExists("t")
    assert "Spark Connect at 127.0.0.1" in repr(ctx)


def test_connect_replacing_while_a_thread_queries_gives_old_or_new_rows(spark: Any) -> None:
    """Also where a process beside the server plans, which is sent every table."""
    for planning in ("client", "server"):
        with hr.SessionContext(spark, planning=planning) as ctx:
            ctx.register_table("t", hr.MemTable(pa.table({"a": [0] * 5})))
            replaced = threading.Event()

            def query(ctx: hr.SessionContext = ctx, replaced: threading.Event = replaced) -> int:
                for count in range(1000):
                    for name in ("t", f"{ctx.catalog}.t"):
                        rows = ctx.collect(f"SELECT * FROM {name}")["a"].to_pylist()
                        assert (len(rows), len(set(rows))) == (5, 1)
                    if replaced.is_set():
                        return count
                raise AssertionError("the replacements did not end")

            with ThreadPoolExecutor(1) as pool:
                found = pool.submit(query)
                for number in range(1, 12):
                    ctx.register_table("t", hr.MemTable(pa.table({"a": [number] * 5})), replace=True)
                replaced.set()
                found.result()
            assert ctx.collect("SELECT * FROM t")["a"].to_pylist() == [11] * 5
            assert hr.SessionContext.get_or_create(spark) is ctx


def test_connect_context_that_closes_takes_its_views_along_and_no_others(spark: Any) -> None:
    with hr.SessionContext(spark) as ctx:
        ctx.register_table("t", FunctionTable(ten_rows))
        ctx.register_table("mine", FunctionTable(ten_rows))
        spark.range(3).createOrReplaceTempView("mine")
    assert not spark.catalog.tableExists("t")
    assert spark.table("mine").count() == 3
    assert not [key for key in spark.conf.getAll if "headrace_" in key]
    spark.catalog.dropTempView("mine")


def test_connect_explain_tells_what_was_negotiated_and_sparks_plan(ctx: hr.SessionContext) -> None:
    ctx.register_table("t", table_of(pa.table({"a": range(10), "b": range(10), "c": range(10)}), answer=inexact))
    text = ctx.explain("SELECT a FROM t WHERE b > 3")
    assert text.startswith("scan 1: t (")
    assert "b > 3  INEXACT, HEADRACE: the provider skips data by it; done in Arrow; Spark does not filter again" in text
    assert "columns       a, b  [2 of 3]" in text
    assert "== Physical Plan ==" in text


def test_connect_example_reads_a_live_object(ctx: hr.SessionContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    example = importlib.import_module("connect_session")
    assert example.main(ctx) == [{"inlet": 3.5, "outlet": 0.75}, {"inlet": 13.5, "outlet": 0.75}]


@pytest.mark.daily
def test_connect_page_code_runs_in_a_process_of_its_own(server: ConnectServer) -> None:
    addresses = {DOCUMENTED: server.url}
    code = f"from documents import run_blocks; run_blocks('docs/howto/connect.md', {{}}, {addresses!r})"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr[-2000:]


# Files, catalogs and data sources


def what_the_file_says(partition: int) -> Iterator[pa.RecordBatch]:
    from pyspark import SparkFiles

    yield pa.record_batch([pa.array([int(Path(SparkFiles.get("told_in_connect.txt")).read_text())])], schema=NUMBERS)


def test_connect_files_of_the_session_are_found_in_workers(ctx: hr.SessionContext, spark: Any, tmp_path: Path) -> None:
    (tmp_path / "told_in_connect.txt").write_text("17")
    spark.addArtifacts(str(tmp_path / "told_in_connect.txt"), file=True)
    ctx.register_table("told", FunctionTable(what_the_file_says))
    assert ctx.collect("SELECT a FROM told")["a"].to_pylist() == [17]


def test_connect_session_reads_a_provider_as_a_data_source(spark: Any) -> None:
    """Without the jar: no SessionContext was made for it."""
    provider = hr.MemTable(pa.table({"a": range(100), "b": [str(i) for i in range(100)]}), partitions=2)
    spark.dataSource.register(hr.as_data_source(provider, "headrace_hundred"))
    frame = spark.read.format("headrace_hundred").load()
    assert [row.b for row in frame.where("a >= 98").orderBy("a").collect()] == ["98", "99"]
