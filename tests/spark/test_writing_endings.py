"""How a write ends: whole, or not at all, and with the user's own error first."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import headrace as hr
from headrace.errors import HeadraceError, ProviderError, ScanEndedError
from headrace.negotiate.registry import RegisteredTable
from headrace.spark.task_places import TaskPlaces
from headrace.spark.writes import Writes
from headrace.transport.endpoint import Endpoint
from producing import wait_until
from write_faults import Fault
from written_files import FilePlan, FileTable

pytestmark = pytest.mark.core

INSERT = "INSERT INTO t SELECT id, 'a' FROM range(0, 100000, 1, 3)"


@pytest.fixture(params=[hr.Placement.EXECUTORS, hr.Placement.DRIVER], ids=lambda one: one.name.lower())
def table(request: pytest.FixtureRequest, ctx: hr.SessionContext, tmp_path: Path) -> Iterator[FileTable]:
    made = FileTable(tmp_path, placement=request.param)
    ctx.register_table("t", made)
    yield made
    assert writes_left(ctx) == 0


def writes_left(ctx: hr.SessionContext) -> int:
    planner: Any = ctx._attached.planner
    return len(planner.writes) if planner is not None else 0


def assert_sound(ctx: hr.SessionContext, table: FileTable, rows: int = 0) -> None:
    """Nothing more was published than ``rows``, and the table can be written to afterwards."""
    assert len(table.rows()) == rows
    table.fault = Fault("nowhere")
    ctx.collect("INSERT INTO t VALUES (1, 'after')")
    assert len(table.rows()) == rows + 1


@pytest.mark.parametrize("place", ["write", "batch", "end"])
def test_write_that_raises_fails_the_statement_with_its_error(
    ctx: hr.SessionContext, table: FileTable, place: str
) -> None:
    table.fault = Fault(place, partition=1)
    with pytest.raises(ProviderError) as error:
        ctx.collect(INSERT)
    assert (error.value.exception_type, error.value.message) == ("LookupError", f"raised at {place}")
    assert (error.value.table, error.value.partition) == ("t", 1)
    assert "write_faults.py" in error.value.traceback
    assert isinstance(error.value.__cause__, LookupError)
    ((_, told),) = table.calls("abort")
    assert (len(told), told[1]) == (3, False)
    with pytest.raises(PySparkException, match=f"LookupError: raised at {place}"):
        ctx.spark.sql(INSERT)
    assert_sound(ctx, table)


def test_commit_that_raises_is_followed_by_abort_and_its_error_is_the_one_to_tell(
    ctx: hr.SessionContext, table: FileTable
) -> None:
    table.fault = Fault("commit")
    with pytest.raises(ProviderError) as error:
        ctx.collect(INSERT)
    assert (error.value.exception_type, error.value.message) == ("LookupError", "raised at commit")
    assert "write_faults.py" in error.value.traceback
    assert [call[0] for call in table.calls("commit", "abort")] == ["commit", "abort"]
    assert table.calls("abort") == [["abort", [True, True, True]]]
    assert table.staged() == []
    with pytest.raises(PySparkException, match="LookupError: raised at commit"):
        ctx.spark.sql(INSERT)
    assert_sound(ctx, table)


def test_commit_that_raises_after_it_published_leaves_what_is_published(
    ctx: hr.SessionContext, table: FileTable
) -> None:
    table.fault = Fault("committed")
    with pytest.raises(ProviderError, match="raised at committed"):
        ctx.collect(INSERT)
    assert_sound(ctx, table, rows=100_000)


class Aborting(Fault):
    """Raises in ``abort`` too."""

    def __call__(self, place: str, task: hr.WriteTask | None) -> None:
        if place == "abort":
            raise OSError("raised in abort")
        super().__call__(place, task)


@pytest.mark.parametrize("place", ["batch", "commit"])
def test_abort_that_raises_hides_no_error_and_is_logged(
    ctx: hr.SessionContext, table: FileTable, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    table.fault = Aborting(place)
    with caplog.at_level(logging.WARNING, "headrace"), pytest.raises(ProviderError, match=f"raised at {place}"):
        ctx.collect(INSERT)
    assert "FilePlan.abort raised OSError: raised in abort (table 't')" in caplog.text
    assert_sound(ctx, table)


def test_worker_that_dies_in_write_is_a_named_error(ctx: hr.SessionContext, tmp_path: Path) -> None:
    table = FileTable(tmp_path, fault=Fault("batch", "die", partition=2))
    ctx.register_table("t", table)
    with pytest.raises(HeadraceError, match="the Python worker died while it received partition 2 of table 't'"):
        ctx.collect(INSERT)
    assert_sound(ctx, table)


def test_query_that_fails_tells_the_plan_and_keeps_its_own_error(ctx: hr.SessionContext, table: FileTable) -> None:
    statement = (
        "INSERT INTO t SELECT if(id = 99000, raise_error('no more')::bigint, id), 'a' FROM range(0, 100000, 1, 1)"
    )
    with pytest.raises(PySparkException, match="no more"):
        ctx.spark.sql(statement)
    assert table.calls("written", "commit") == []
    assert table.calls("abort") == [["abort", [False]]]
    assert_sound(ctx, table)


class Denying(FilePlan):
    """Takes a cut stream for its end."""

    def write(self, task: hr.WriteTask, batches: Iterator[pa.RecordBatch]) -> hr.Message:
        taken = []
        try:
            taken += list(batches)
        except BaseException as error:
            (self.table.directory / f"denied {task.attempt}").write_text(type(error).__name__)
        return {"file": "none", "rows": len(taken)}


class Early(FilePlan):
    def write(self, task: hr.WriteTask, batches: Iterator[pa.RecordBatch]) -> hr.Message:
        return {"rows": next(batches).num_rows}


class Telling(FilePlan):
    """Returns what ``answers`` has for its table's name."""

    def write(self, task: hr.WriteTask, batches: Iterator[pa.RecordBatch]) -> hr.Message:
        for _ in batches:
            pass
        return MESSAGES[str(self.request.options["say"])]


MESSAGES: dict[str, Any] = {
    "set": {1, 2},
    "object": object(),
    "nan": float("nan"),
    "keys": {1: "a"},
    "deep": {"a": [{"b": {2: 3}}]},
    "bytes": b"x",
    "large": "x" * (2 << 20),
}


class PlannedTable(FileTable):
    plan: type[FilePlan] = FilePlan

    def insert(self, request: hr.WriteRequest) -> hr.WritePlan:
        return self.plan(self, request)


@pytest.fixture
def planned(table: FileTable, ctx: hr.SessionContext) -> PlannedTable:
    made = PlannedTable(table.directory, placement=table.placement)
    ctx.register_table("t", made, replace=True)
    return made


def test_write_that_passes_over_the_end_of_a_failed_query_is_not_believed(
    ctx: hr.SessionContext, planned: PlannedTable
) -> None:
    planned.plan = Denying
    statement = (
        "INSERT INTO t SELECT if(id = 99000, raise_error('no more')::bigint, id), 'a' FROM range(0, 100000, 1, 1)"
    )
    with pytest.raises(PySparkException, match="no more"):
        ctx.spark.sql(statement)
    assert planned.calls("commit") == []
    assert planned.rows() == []


def test_write_that_returns_early_is_an_error(ctx: hr.SessionContext, planned: PlannedTable) -> None:
    planned.plan = Early
    with pytest.raises(
        HeadraceError, match=r"Early\.write \(table 't', partition 0\) returned before it had taken all batches"
    ):
        ctx.collect("INSERT INTO t SELECT id, 'a' FROM range(0, 1000000, 1, 1)")
    assert planned.calls("commit") == []


@pytest.mark.parametrize("message", MESSAGES)
def test_message_that_is_no_json_is_a_named_error(
    ctx: hr.SessionContext, planned: PlannedTable, message: str, spark: SparkSession
) -> None:
    planned.plan = Telling
    expected = (
        r"Telling\.write \(table 't', partition 0\) returned a message of 2,097,154 bytes"
        if message == "large"
        else r"Telling.write returned .* which is no JSON value"
    )
    frame = spark.range(0, 10, 1, 1).selectExpr("id", "'a' AS name")
    with pytest.raises(PySparkException, match=expected) as error:
        frame.writeTo("t").option("say", message).append()
    assert message == "large" or "WriteError" in str(error.value)
    assert planned.calls("commit") == []


@pytest.mark.parametrize("place", ["write", "batch", "end"])
def test_statement_that_is_cancelled_stops_the_plan_and_publishes_nothing(
    ctx: hr.SessionContext, spark: SparkSession, table: FileTable, place: str
) -> None:
    table.fault = Fault(place, "sleep", partition=0)
    failed: list[BaseException] = []

    def work() -> None:
        spark.sparkContext.setJobGroup("write", "", interruptOnCancel=False)
        try:
            ctx.collect("INSERT INTO t SELECT id, 'a' FROM range(0, 100000, 1, 1)")
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    wait_until(lambda: bool(table.calls("write" if place != "end" else "written")), what="the write")
    spark.sparkContext.cancelJobGroup("write")
    thread.join(60)
    assert len(failed) == 1
    assert isinstance(failed[0], ScanEndedError)
    assert table.calls("abort") == [["abort", [False]]]
    assert table.calls("commit") == []
    assert_sound(ctx, table)


def test_context_that_is_closed_while_a_statement_writes_aborts_it(
    spark: SparkSession, tmp_path: Path, table: FileTable
) -> None:
    other = hr.SessionContext(spark)
    table.fault = Fault("batch", "sleep")
    other.register_table("u", table)
    failed: list[BaseException] = []

    def work() -> None:
        spark.sparkContext.setJobGroup("write", "", interruptOnCancel=True)
        try:
            spark.sql(f"INSERT INTO {other.catalog}.u SELECT id, 'a' FROM range(0, 100000, 1, 1)")
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    wait_until(lambda: bool(table.calls("write")), what="the write")
    other.close()
    assert table.calls("abort") == [["abort", [False]]]
    spark.sparkContext.cancelJobGroup("write")
    thread.join(60)
    assert len(failed) == 1
    assert table.calls("commit") == []
    assert len(table.calls("abort")) == 1


def test_commit_of_a_context_that_closed_is_a_named_error(spark: SparkSession, tmp_path: Path) -> None:
    """The tasks are done, and the driver's Python has gone: nothing is published, and that is said."""
    context = hr.SessionContext(spark)
    table = FileTable(tmp_path, fault=Fault("end", "wait", once=tmp_path / "go"))
    context.register_table("u", table)
    failed: list[BaseException] = []

    def work() -> None:
        try:
            spark.sql(f"INSERT INTO {context.catalog}.u SELECT id, 'a' FROM range(0, 10, 1, 1)")
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    wait_until(lambda: bool(table.calls("written")), what="the write")
    context.close()
    (tmp_path / "go").touch()
    thread.join(60)
    assert len(failed) == 1
    assert "the Headrace session context behind this table is closed" in str(failed[0])
    assert table.rows() == []
    assert json.dumps(table.calls("abort")) == '[["abort", [false]]]'


@pytest.mark.parametrize("message", ["no JSON", "9" * 5000, "[" * 100_000], ids=["text", "number", "depth"])
def test_write_with_a_message_that_cannot_be_read_is_aborted(message: str) -> None:
    aborted: list[Any] = []

    class Plan(hr.WritePlan):
        placement = hr.Placement.DRIVER

        def write(self, task: hr.WriteTask, batches: Iterator[pa.RecordBatch]) -> hr.Message:
            return None

        def commit(self, messages: Sequence[hr.Message]) -> None:
            pytest.fail("it has no messages")

        def abort(self, messages: Sequence[hr.Message | None]) -> None:
            aborted.extend(messages)

    class Table(hr.MemTable):
        def insert(self, request: hr.WriteRequest) -> hr.WritePlan:
            return Plan()

    table = RegisteredTable.of("t", Table({"a": [1]}))
    endpoint = Endpoint()
    try:
        writes = Writes(lambda _id: table, TaskPlaces(endpoint, "", "", True))
        start = {"mode": "append", "filters": [], "query": "q", "epoch": None, "options": {}, "partitions": 2}
        question = {"table": table.id, "write": "w", "messages": ["1", message]}
        writes.answers["begin_write"]({**question, **start})
        with pytest.raises((ValueError, RecursionError)):
            writes.answers["commit_write"](question)
        writes.answers["abort_write"](question)
    finally:
        endpoint.close()
    assert aborted == [1, None]
    assert len(writes) == 0
    assert endpoint._tickets == {}
