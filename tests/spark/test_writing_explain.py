"""What is told of a write: EXPLAIN, ``ctx.explain``, and the metrics of Spark's SQL tab."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import headrace as hr
from headrace.spark.explain.statements import is_statement
from written_files import FileTable


def test_explain_of_a_statement_describes_the_write_and_runs_nothing(ctx: hr.SessionContext, tmp_path: Path) -> None:
    layout = hr.WriteLayout(("id",), (hr.SortKey("name"),), partitions=3)
    table = FileTable(tmp_path, wanted=layout)
    ctx.register_table("t", table)
    ctx.register_table("u", pa.table({"id": [1, 2], "name": ["a", "b"]}))
    told = ctx.explain("INSERT INTO t REPLACE WHERE id > 5 SELECT id, name FROM u")
    assert told.startswith(
        "write 1: t (FileTable)\n"
        "  mode          OVERWRITE: of the rows that are there those go for which id > 5\n"
        "  layout        cluster by id; order by name ASC; 3 tasks: Spark sees to it\n"
        "  columns       id, name\n"
    )
    assert "scan 1: u (MemTable" in told
    assert "== Physical Plan ==" in told
    assert table.calls("insert", "write", "commit") == []
    assert table.rows() == []


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("INSERT INTO t VALUES (1)", True),
        ("  -- why\n/* not */ insert overwrite t SELECT 1", True),
        ("WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x", True),
        ("DELETE FROM t", True),
        ("CREATE TABLE a.b.c AS SELECT 1", True),
        ("SELECT * FROM t", False),
        ("WITH x AS (SELECT 1) SELECT * FROM x", False),
        ("inserted", False),
    ],
)
def test_statement_is_told_from_a_query(query: str, expected: bool) -> None:
    assert is_statement(query) is expected


def metrics_of(spark: SparkSession) -> dict[str, str]:
    """Those of the last execution with a write, by their names in the SQL tab."""
    context: Any = spark
    store = context._jsparkSession.sharedState().statusStore()
    executions = store.executionsList()
    for index in reversed(range(executions.size())):
        execution = executions.apply(index)
        values = store.executionMetrics(execution.executionId())
        named = {}
        for at in range(execution.metrics().size()):
            metric = execution.metrics().apply(at)
            found = values.get(metric.accumulatorId())
            if found.isDefined():
                named[metric.name()] = found.get()
        if "rows to the provider" in named:
            return named
    return {}


def test_metrics_tell_rows_batches_and_bytes(ctx: hr.SessionContext, spark: SparkSession, tmp_path: Path) -> None:
    ctx.register_table("t", FileTable(tmp_path))
    spark.sql("INSERT INTO t SELECT id, 'a' FROM range(0, 200000, 1, 2)")
    found = {name: value.replace(",", "") for name, value in metrics_of(spark).items()}
    assert found["rows to the provider"] == "200000"
    assert int(found["Arrow batches"]) == 4
    assert int(found["bytes to the provider"]) > 200_000 * 13
