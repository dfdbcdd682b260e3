"""Spark Connect: writes to tables of this process, and of a process beside the server; whole or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

import headrace as hr
from connect_server import ConnectServer
from placements import placements
from places import SCRIPTS
from producing import wait_until
from write_faults import Fault
from written_files import FileTable

pytestmark = pytest.mark.timeout(200)

INSERT = "INSERT INTO t SELECT id, 'a' FROM range(0, 10000, 1, 3)"


@pytest.fixture(params=["client", "server"])
def planned(request: pytest.FixtureRequest, spark: Any) -> Iterator[hr.SessionContext]:
    """A context whose tables are planned here, and beside the server."""
    with hr.SessionContext(spark, planning=request.param) as context:
        yield context


@placements
def test_connect_session_writes_through_every_door(
    planned: hr.SessionContext, spark: Any, tmp_path: Path, placement: hr.Placement
) -> None:
    table = FileTable(tmp_path, placement=placement)
    planned.register_table("t", table)
    full = f"{planned.catalog}.t"
    spark.sql(INSERT)
    spark.range(3).selectExpr("id", "'b' AS name").writeTo(full).append()
    assert len(table.rows()) == 10_003
    spark.sql(f"INSERT OVERWRITE {full} VALUES (1, 'x'), (2, 'y')")
    spark.sql("INSERT INTO t REPLACE WHERE id = 1 SELECT 7L, 'new'")
    assert [row["id"] for row in table.rows()] == [2, 7]
    spark.sql(f"DELETE FROM {full} WHERE id = 2")
    assert [row["id"] for row in table.rows()] == [7]
    planned.register_table("columns", pa.table({"id": [3, 4], "name": ["c", None]}))
    assert "HeadraceHandoff of columns" in spark.sql("EXPLAIN INSERT INTO t SELECT * FROM columns").collect()[0][0]
    spark.sql("INSERT INTO t SELECT * FROM columns")
    assert [(row["id"], row["name"]) for row in table.rows()] == [(3, "c"), (4, None), (7, "new")]
    spark.sql(f"TRUNCATE TABLE {full}")
    assert table.rows() == []
    assert spark.table("t").count() == 0
    with pytest.raises(PySparkException, match="read-only"):
        planned.register_table("u", hr.SimpleTable("id BIGINT", list))
        spark.sql("INSERT INTO u VALUES (1)")


@pytest.mark.daily("client-batch-*", "server-commit-*")
@placements
@pytest.mark.parametrize("place", ["batch", "commit"])
def test_connect_write_that_raises_ends_with_the_users_error_and_publishes_nothing(
    planned: hr.SessionContext, tmp_path: Path, placement: hr.Placement, place: str
) -> None:
    table = FileTable(tmp_path, placement=placement, fault=Fault(place))
    planned.register_table("t", table)
    with pytest.raises(hr.ProviderError) as error:
        planned.collect(INSERT)
    assert (error.value.exception_type, error.value.message) == ("LookupError", f"raised at {place}")
    assert "write_faults.py" in error.value.traceback
    assert table.rows() == []
    assert len(table.calls("abort")) == 1
    with pytest.raises(PySparkException, match=f"LookupError: raised at {place}"):
        planned.spark.sql(INSERT)


@pytest.mark.daily("EXECUTORS")
@placements
def test_connect_write_that_is_interrupted_is_aborted(
    ctx: hr.SessionContext, spark: Any, tmp_path: Path, placement: hr.Placement
) -> None:
    table = FileTable(tmp_path, placement=placement, fault=Fault("batch", "sleep"))
    ctx.register_table("t", table)
    failed: list[BaseException] = []

    def work() -> None:
        try:
            spark.sql(INSERT)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    wait_until(lambda: bool(table.calls("write")), what="the write")
    wait_until(lambda: bool(spark.interruptAll()), what="an operation to interrupt")
    thread.join(60)
    assert len(failed) == 1
    wait_until(lambda: bool(table.calls("abort")), what="the abort")
    assert (table.rows(), table.calls("commit")) == ([], [])


@pytest.mark.daily("EXECUTORS-end", "DRIVER-batch")
@pytest.mark.parametrize("place", ["batch", "end"])
@placements
def test_connect_client_that_dies_in_the_midst_of_a_write_leaves_nothing(
    server: ConnectServer, ctx: hr.SessionContext, tmp_path: Path, placement: hr.Placement, place: str
) -> None:
    table = FileTable(tmp_path, placement=placement)
    client = subprocess.Popen(
        [sys.executable, str(SCRIPTS / "connect_writer.py"), server.url, str(tmp_path), placement.name, place],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        wait_until(lambda: bool(table.calls("write" if place == "batch" else "written")), what="the client's write")
    finally:
        client.kill()
        client.wait(60)
    (tmp_path / "go").touch()
    wait_until(lambda: not server.reachable("write.HeadraceDataWriter"), what="the end of the client's tasks")
    ctx.register_table("t", FileTable(tmp_path))
    ctx.collect("INSERT INTO t VALUES (1, 'after')")
    assert [row["name"] for row in table.rows()] == ["after"]
