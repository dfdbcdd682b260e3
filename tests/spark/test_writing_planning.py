"""What is asked and refused before a statement writes anything: read-only tables, modes, columns, layouts."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

import headrace as hr
from headrace.errors import ProviderError, SchemaMismatchError, WriteError
from written_files import FilePlan, FileTable

pytestmark = pytest.mark.core


def test_read_only_table_says_so_and_which_class_would_make_it_writable(
    ctx: hr.SessionContext, spark: SparkSession
) -> None:
    ctx.register_table("t", hr.SimpleTable("id BIGINT", list))
    for statement in (
        "INSERT INTO t VALUES (1)",
        "INSERT OVERWRITE t VALUES (1)",
        f"INSERT INTO {ctx.catalog}.t VALUES (1)",
        "DELETE FROM t",
        f"DELETE FROM {ctx.catalog}.t WHERE id = 1",
        f"TRUNCATE TABLE {ctx.catalog}.t",
    ):
        with pytest.raises(WriteError) as error:
            ctx.collect(statement)
        assert "the table 't' is read-only" in str(error.value), statement
        assert "SimpleTable is no WritableProvider" in str(error.value)
        with pytest.raises(PySparkException, match=r"WriteError: the table 't' is read-only"):
            spark.sql(statement)


def test_table_that_is_registered_read_only_refuses_what_its_provider_can_do(
    ctx: hr.SessionContext, spark: SparkSession, tmp_path: Path
) -> None:
    table = FileTable(tmp_path)
    ctx.register_table("t", table, read_only=True)
    name = f"{ctx.catalog}.t"
    rows = spark.sql("SELECT 1L AS id, 'a' AS name")
    stream = spark.readStream.format("rate").load().selectExpr("value AS id", "'a' AS name")
    writers: list[Callable[[], Any]] = [
        lambda: spark.sql("INSERT INTO t VALUES (1, 'a')"),
        lambda: spark.sql("INSERT OVERWRITE t VALUES (1, 'a')"),
        lambda: spark.sql("DELETE FROM t WHERE id = 1"),
        lambda: spark.sql(f"TRUNCATE TABLE {name}"),
        lambda: rows.write.insertInto("t"),
        lambda: rows.writeTo(name).overwritePartitions(),
        lambda: rows.write.format("headrace").option("table", "t").mode("append").save(),
        lambda: stream.writeStream.option("checkpointLocation", str(tmp_path / "c")).toTable(name).awaitTermination(60),
    ]
    for write in writers:
        with pytest.raises(PySparkException, match=r"WriteError: the table 't' is read-only.*read_only=True"):
            write()
    assert "read_only=True" in ctx.explain("INSERT INTO t VALUES (1, 'a')")
    assert table.calls("insert", "delete") == []
    ctx.register_table("t", table, replace=True)
    ctx.collect("INSERT INTO t VALUES (1, 'a')")
    assert ctx.collect("SELECT * FROM t").num_rows == 1


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE {} SET name = 'b' WHERE id = 1",
        "UPDATE {} SET name = 'b'",
        "MERGE INTO {} AS t USING (SELECT 1L AS id) AS s ON t.id = s.id WHEN MATCHED THEN DELETE",
        "MERGE INTO {} AS t USING (SELECT 1L AS id) AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = 'b'",
    ],
)
def test_update_and_merge_are_refused_with_advice_that_works(
    ctx: hr.SessionContext, spark: SparkSession, statement: str
) -> None:
    ctx.register_table("t", hr.MemTable(pa.table({"id": [1, 2], "name": ["a", "a"]})))
    for name in ("t", f"{ctx.catalog}.t"):
        with pytest.raises(
            WriteError, match=r"does not work on the table 't'.*INSERT OVERWRITE \w+\.t .*DELETE.*upsert_on"
        ):
            ctx.collect(statement.format(name))
        with pytest.raises(AnalysisException, match="WriteError"):
            spark.sql(statement.format(name))
    ctx.collect("INSERT OVERWRITE t SELECT id, if(id = 1, 'b', name) FROM t")
    assert sorted(map(tuple, ctx.sql("SELECT * FROM t").collect())) == [(1, "b"), (2, "a")]
    ctx.collect("DELETE FROM t WHERE id = 2")
    ctx.collect("INSERT INTO t VALUES (2, 'c')")
    assert sorted(map(tuple, ctx.sql("SELECT * FROM t").collect())) == [(1, "b"), (2, "c")]


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE `my table` SET id = 2",
        "MERGE INTO `my table` AS t USING (SELECT 1L AS id) AS s ON t.id = s.id WHEN MATCHED THEN DELETE",
    ],
)
def test_advice_for_a_name_that_has_to_be_quoted_and_a_cached_table_works(
    ctx: hr.SessionContext, spark: SparkSession, statement: str, cached: bool
) -> None:
    ctx.register_table("my table", hr.MemTable(pa.table({"id": [1]})))
    kept = ctx.table("my table")
    if cached:
        kept.cache().count()
    with pytest.raises(WriteError, match="does not work on the table 'my table'") as caught:
        ctx.collect(statement)
    advice = re.search("INSERT OVERWRITE (.+) SELECT .* FROM (.+) with all", str(caught.value))
    assert advice is not None
    spark.sql(f"INSERT OVERWRITE {advice[1]} SELECT id + 1 FROM {advice[2]}")
    assert [row.id for row in spark.table("`my table`").collect()] == [2]
    kept.unpersist()


def test_push_table_says_that_its_rows_come_from_its_sink(ctx: hr.SessionContext) -> None:
    with ctx.register_streaming_table("t", "id BIGINT") as sink, pytest.raises(WriteError, match=r"sink\.write"):
        ctx.collect("INSERT INTO t VALUES (1)")
    assert sink.stats.rows_written == 0


@pytest.mark.parametrize(
    ("mode", "statement"),
    [
        ("APPEND", "INSERT INTO t VALUES (1, 'a')"),
        ("TRUNCATE", "INSERT OVERWRITE t VALUES (1, 'a')"),
        ("OVERWRITE", "INSERT INTO t REPLACE WHERE id = 1 SELECT 1L, 'a'"),
    ],
)
def test_mode_that_a_provider_has_not_is_refused_by_name(
    ctx: hr.SessionContext, tmp_path: Path, mode: str, statement: str
) -> None:
    others = frozenset(hr.WriteMode) - {hr.WriteMode[mode]}
    table = FileTable(tmp_path, modes=others)
    ctx.register_table("t", table)
    with pytest.raises(WriteError, match=rf"the table 't' takes no .* FileTable.write_modes has no {mode}"):
        ctx.collect(statement)
    assert table.calls() == []


def test_condition_that_a_provider_cannot_replace_is_refused_by_name(ctx: hr.SessionContext, tmp_path: Path) -> None:
    table = FileTable(tmp_path, replaceable=False)
    ctx.register_table("t", table)
    with pytest.raises(WriteError, match=r"cannot replace the rows where id = 1: FileTable.can_overwrite says no"):
        ctx.collect("INSERT INTO t REPLACE WHERE id = 1 SELECT 1L, 'a'")
    with pytest.raises(WriteError, match=r"cannot delete the rows where id = 1: FileTable.can_delete says no"):
        ctx.collect(f"DELETE FROM {ctx.catalog}.t WHERE id = 1")
    with pytest.raises(WriteError, match=r"cannot delete all rows: FileTable.can_delete says no"):
        ctx.collect(f"TRUNCATE TABLE {ctx.catalog}.t")
    assert table.calls("insert", "delete") == []


def test_insert_is_called_when_the_statement_runs_and_not_when_it_is_planned(
    ctx: hr.SessionContext, spark: SparkSession, tmp_path: Path
) -> None:
    table = FileTable(tmp_path)
    ctx.register_table("t", table)
    plan = spark.sql("EXPLAIN INSERT INTO t VALUES (1, 'a')").collect()[0][0]
    assert "FileTable table=t mode=APPEND" in plan
    assert table.calls() == []
    spark.sql("INSERT INTO t VALUES (1, 'a')")
    assert [call[0] for call in table.calls()] == ["insert", "write", "written", "commit"]


def test_columns_that_do_not_fit_are_refused_before_anything_runs(
    ctx: hr.SessionContext, spark: SparkSession, tmp_path: Path
) -> None:
    table = FileTable(tmp_path, pa.schema([("id", pa.int32()), ("name", pa.string())]))
    ctx.register_table("t", table)
    for statement, what in {
        "INSERT INTO t SELECT 'a', DATE '2026-01-01'": "INCOMPATIBLE_DATA_FOR_TABLE",
        "INSERT INTO t VALUES (1)": "NOT_ENOUGH_DATA_COLUMNS",
        "INSERT INTO t (id, other) VALUES (1, 'a')": "other",
    }.items():
        with pytest.raises(AnalysisException, match=what):
            spark.sql(statement).collect()
    assert table.calls() == []
    stream = spark.readStream.format("rate").load().selectExpr("value AS id", "'a' AS name")
    query = stream.writeStream.option("checkpointLocation", str(tmp_path / "c")).toTable(f"{ctx.catalog}.t")
    with pytest.raises(PySparkException, match=r"the columns that are written to table 't' are not its own"):
        query.awaitTermination(60)
    assert table.calls() == []


@pytest.mark.parametrize("placement", hr.Placement)
def test_null_for_a_column_that_is_not_null_is_a_named_error_and_publishes_nothing(
    ctx: hr.SessionContext, spark: SparkSession, tmp_path: Path, placement: hr.Placement
) -> None:
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string())])
    table = FileTable(tmp_path, columns, placement)
    ctx.register_table("t", table)
    spark.sql("INSERT INTO t VALUES (1, NULL)")
    with pytest.raises(PySparkException, match="NOT_NULL_ASSERT_VIOLATION"):
        spark.sql("INSERT INTO t SELECT nullif(id, 5), 'a' FROM range(10)")
    assert len(table.rows()) == 1
    (tmp_path / "source").mkdir()
    stream = spark.readStream.schema("id BIGINT, name STRING").json(str(tmp_path / "source"))
    (tmp_path / "source" / "rows.json").write_text('{"name": "a"}\n')
    query = (
        stream.writeStream.option("checkpointLocation", str(tmp_path / "c"))
        .trigger(availableNow=True)
        .toTable(f"{ctx.catalog}.t")
    )
    with pytest.raises(PySparkException, match="a null came for column 'id', which the table declares not null"):
        query.awaitTermination(60)
    assert len(table.rows()) == 1


def test_values_that_the_tables_own_types_cannot_hold_are_a_named_error(
    ctx: hr.SessionContext, spark: SparkSession, tmp_path: Path
) -> None:
    """Spark's types are wider than some of Arrow's."""
    columns = pa.schema([("u", pa.uint8()), ("s", pa.timestamp("s")), ("d", pa.dictionary(pa.int8(), pa.string()))])
    table = FileTable(tmp_path, columns)
    ctx.register_table("t", table)
    spark.sql("INSERT INTO t VALUES (200, TIMESTAMP_NTZ '2026-01-01 10:00:00', 'x')")
    assert table.rows()[0]["u"] == 200
    for values in (
        "(300, NULL, NULL)",
        "(-1, NULL, NULL)",
        "(NULL, TIMESTAMP_NTZ '2026-01-01 10:00:00.5', NULL)",
    ):
        with pytest.raises(SchemaMismatchError, match=r"column '[us]'.*table 't'"):
            ctx.collect(f"INSERT INTO t VALUES {values}")
    assert len(table.rows()) == 1


def test_layout_has_spark_cluster_and_sort_the_rows(
    ctx: hr.SessionContext, spark: SparkSession, tmp_path: Path, adaptive: None
) -> None:
    layout = hr.WriteLayout(("id",), (hr.SortKey("name", descending=True),), partitions=3)
    table = FileTable(tmp_path, wanted=layout)
    ctx.register_table("t", table)
    text = "FileTable table=t mode=APPEND layout=[cluster by id; order by name DESC; 3 tasks]"
    statement = "INSERT INTO t SELECT id % 5, lpad(id, 4, '0') FROM range(0, 1000, 1, 4)"
    assert text in spark.sql(f"EXPLAIN {statement}").collect()[0][0]
    spark.sql(statement)
    keys: list[set[int]] = []
    for name in table.published():
        with pa.OSFile(str(tmp_path / name)) as file:
            part = pa.ipc.open_stream(file).read_all()
        names = part["name"].to_pylist()
        assert names == sorted(names, reverse=True)
        keys.append(set(part["id"].to_pylist()))
    assert len(keys) == 3
    assert sum(map(len, keys)) == 5


class Answering(FileTable):
    """Answers one method with something else."""

    method = ""
    answer: Any = None

    def _of(self, method: str, otherwise: Any) -> Any:
        if method != self.method:
            return otherwise
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

    def insert(self, request: hr.WriteRequest) -> Any:
        return self._of("insert", super().insert(request))

    def write_modes(self) -> Any:
        return self._of("write_modes", super().write_modes())

    def can_overwrite(self, filters: Sequence[hr.Expr]) -> Any:
        return self._of("can_overwrite", True)

    def layout(self, mode: hr.WriteMode) -> Any:
        return self._of("layout", None)

    def can_delete(self, filters: Sequence[hr.Expr]) -> Any:
        return self._of("can_delete", True)


WRONG: list[tuple[str, Any, str]] = [
    ("insert", None, "Answering.insert returned None, expected a WritePlan"),
    ("insert", LookupError("gone"), "LookupError: gone"),
    ("write_modes", ["append"], "Answering.write_modes returned .*expected a set of WriteMode"),
    ("write_modes", LookupError("gone"), "LookupError: gone"),
    ("can_overwrite", "yes", "Answering.can_overwrite returned .* expected True or False"),
    ("layout", ["id"], "Answering.layout returned .* expected a WriteLayout or None"),
    ("layout", hr.WriteLayout(("other",)), "names the column 'other', which the table 't' has not"),
    ("layout", hr.WriteLayout(partitions=3), "and the columns to cluster by"),
    ("can_delete", 1, "Answering.can_delete returned .* expected True or False"),
]


@pytest.mark.parametrize(("method", "answer", "message"), WRONG, ids=range(len(WRONG)))
def test_provider_that_answers_wrongly_is_named(
    ctx: hr.SessionContext, tmp_path: Path, method: str, answer: Any, message: str
) -> None:
    table = Answering(tmp_path)
    table.method, table.answer = method, answer
    ctx.register_table("t", table)
    statement = "DELETE FROM t" if method == "can_delete" else "INSERT INTO t REPLACE WHERE id = 1 SELECT 1L, 'a'"
    with pytest.raises((WriteError, ProviderError), match=message):
        ctx.collect(statement)
    assert table.calls("write") == []
    assert len(ctx._attached.planner.writes) == 0  # type: ignore[union-attr]


class Held(FilePlan):
    """Cannot be pickled."""

    def __init__(self, table: FileTable, request: hr.WriteRequest) -> None:
        super().__init__(table, request)
        self.lock = threading.Lock()


class HeldTable(FileTable):
    def insert(self, request: hr.WriteRequest) -> hr.WritePlan:
        return Held(self, request)


def test_plan_that_cannot_be_pickled_is_named_and_aborted(ctx: hr.SessionContext, tmp_path: Path) -> None:
    table = HeldTable(tmp_path)
    ctx.register_table("t", table)
    with pytest.raises(hr.PlanError, match=r"Held \(table 't'\) cannot be pickled .* files in write\)"):
        ctx.collect("INSERT INTO t VALUES (1, 'a')")
    assert [call[0] for call in table.calls()] == ["abort"]
    table.placement = hr.Placement.DRIVER
    ctx.collect("INSERT INTO t VALUES (1, 'a')")
    assert len(table.rows()) == 1


def test_table_that_was_replaced_is_not_written_to(ctx: hr.SessionContext, tmp_path: Path) -> None:
    first, second = (FileTable(tmp_path / name) for name in ("first", "second"))
    for table in (first, second):
        table.directory.mkdir()
    ctx.register_table("t", first)
    frame = ctx.sql("SELECT 1L AS id, 'a' AS name")
    writer = frame.writeTo("t")
    ctx.register_table("t", second, replace=True)
    writer.append()
    assert (first.rows(), len(second.rows())) == ([], 1)
