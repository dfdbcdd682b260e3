"""Equal scans of one query are run once: Spark uses the rows that one of them shuffled for both."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import headrace as hr

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])
JOIN = "SELECT count(*) FROM t a JOIN t b ON a.k = b.k WHERE a.v {one} AND b.v {other}"


class CountedPlan(hr.ExecutionPlan):
    """Leaves a file for each time a partition is opened, in whatever process."""

    schema = SCHEMA
    partitioning = hr.UnknownPartitioning(2)

    def __init__(self, opened: Path, nonce: int) -> None:
        self.opened = opened
        self.nonce = nonce

    def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
        (self.opened / uuid.uuid4().hex).touch()
        yield pa.record_batch({"k": list(range(20)), "v": [i % 4 for i in range(20)]}, schema=SCHEMA)


class CountedTable(hr.TableProvider):
    def __init__(self, opened: Path, *, each_its_own: bool = False) -> None:
        self.opened = opened
        self.each_its_own = each_its_own
        self.scans = 0

    def schema(self) -> pa.Schema:
        return SCHEMA

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        self.scans += 1
        return CountedPlan(self.opened, self.scans if self.each_its_own else 0)


@pytest.fixture
def shuffled(ctx: hr.SessionContext) -> Iterator[hr.SessionContext]:
    """Joins shuffle both sides instead of sending the small one to all."""
    before = ctx.spark.conf.get("spark.sql.autoBroadcastJoinThreshold")
    ctx.spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    yield ctx
    ctx.spark.conf.set("spark.sql.autoBroadcastJoinThreshold", before)


def opens(directory: Path) -> int:
    return len(list(directory.iterdir()))


def test_a_self_join_reads_the_table_once(shuffled: hr.SessionContext, tmp_path: Path) -> None:
    shuffled.register_table("t", CountedTable(tmp_path))
    assert shuffled.sql(JOIN.format(one="= 3", other="= 3")).collect()[0][0] == 20
    assert opens(tmp_path) == 2


def test_other_filters_are_other_rows(shuffled: hr.SessionContext, tmp_path: Path) -> None:
    shuffled.register_table("t", CountedTable(tmp_path))
    assert shuffled.sql(JOIN.format(one="= 3", other=">= 2")).collect()[0][0] == 20
    assert opens(tmp_path) == 4


def test_other_columns_are_other_rows(shuffled: hr.SessionContext, tmp_path: Path) -> None:
    shuffled.register_table("t", CountedTable(tmp_path))
    query = "SELECT sum(a.v), count(*) FROM t a JOIN (SELECT k AS v FROM t) b ON a.v = b.v"
    assert tuple(shuffled.sql(query).collect()[0]) == (2 * 2 * 5 * (1 + 2 + 3), 2 * 2 * 20)
    assert opens(tmp_path) == 4


def test_plans_that_differ_are_both_run(shuffled: hr.SessionContext, tmp_path: Path) -> None:
    shuffled.register_table("t", CountedTable(tmp_path, each_its_own=True))
    assert shuffled.sql(JOIN.format(one="= 3", other="= 3")).collect()[0][0] == 20
    assert opens(tmp_path) == 4


def test_two_tables_with_the_same_plan_are_both_read(shuffled: hr.SessionContext, tmp_path: Path) -> None:
    for name in ("one", "other"):
        shuffled.register_table(name, CountedTable(tmp_path))
    query = "SELECT count(*) FROM one JOIN other ON one.k = other.k WHERE one.v = 3 AND other.v = 3"
    assert shuffled.sql(query).collect()[0][0] == 20
    assert opens(tmp_path) == 4
