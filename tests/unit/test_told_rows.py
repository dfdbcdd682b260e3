"""What footers told is kept as long as the files stay what they were; no Spark."""

from __future__ import annotations

import os
import pickle
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as hr
from headrace.tables.dataset import told as told_module
from headrace.tables.dataset.told import ToldRows

COUNT = hr.Aggregation(
    (), (hr.AggregateFunction("count", None, False, pa.int64()),), pa.schema([("count_0", pa.int64())])
)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A file that nobody has written for a while, of ten rows."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": range(10)}), path)
    aged(path)
    return path


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files count as settled at once, unless a test says otherwise: the time of a file's inode cannot be set."""
    monkeypatch.setattr(told_module, "_SETTLED_NS", -1_000_000_000_000)


def aged(path: Path) -> None:
    past = time.time() - 60
    os.utime(path, (past, past))


def count(table: hr.DatasetTable) -> int:
    scan = table.for_scan()
    scan.supports_filters_pushdown([])
    assert scan.supports_aggregate_pushdown(COUNT) is hr.AggregatePushdown.COMPLETE
    plan = scan.scan(hr.ScanRequest(COUNT.schema, ("count_0",), aggregation=COUNT))
    assert "read while planning" in plan.describe()
    return int(next(iter(plan.execute(0))).column(0)[0].as_py())


def test_second_question_reads_no_footer(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = hr.DatasetTable(old)
    assert count(table) == 10
    monkeypatch.setattr("headrace.tables.dataset.aggregate._with_footers", None)
    assert count(table) == 10


@pytest.mark.parametrize("replace", [True, False], ids=["replaced", "written in place"])
def test_file_that_was_written_is_read_again(old: Path, replace: bool) -> None:
    table = hr.DatasetTable(old)
    assert count(table) == 10
    other = old.with_suffix(".new")
    pq.write_table(pa.table({"id": range(20)}), other)
    if replace:
        other.replace(old)
    else:
        old.write_bytes(other.read_bytes())
    aged(old)
    assert count(table) == 20


def test_file_that_was_just_written_is_not_remembered(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(told_module, "_SETTLED_NS", 2_000_000_000)
    pq.write_table(pa.table({"id": range(3)}), old)
    kept = ToldRows()
    read: list[int] = []

    def row() -> pa.RecordBatch:
        read.append(1)
        return pa.record_batch({"count_0": [len(read)]})

    for _ in range(2):
        kept.row(COUNT, [str(old)], row)
    assert len(read) == 2


def test_file_that_is_gone_is_asked_for_again(old: Path) -> None:
    kept = ToldRows()
    row = pa.record_batch({"count_0": [1]})
    assert kept.row(COUNT, [str(old)], lambda: row) is row
    old.unlink()
    assert kept.row(COUNT, [str(old)], lambda: None) is None


def test_rows_of_the_latest_questions_are_kept_and_none_in_a_copy(old: Path) -> None:
    kept = ToldRows()
    row = pa.record_batch({"count_0": [1]})
    others = [str(old.with_name(f"{i}.parquet")) for i in range(100)]
    for other in others:
        os.link(old, other)
    for other in others:
        kept.row(COUNT, [other], lambda: row)
    assert len(kept._rows) == told_module._MOST
    assert kept.row(COUNT, [others[-1]], lambda: None) is row
    assert pickle.loads(pickle.dumps(kept))._rows == {}


def test_table_with_rows_that_were_told_can_be_pickled(old: Path) -> None:
    table = hr.DatasetTable(old)
    assert count(table) == 10
    assert count(pickle.loads(pickle.dumps(table))) == 10
