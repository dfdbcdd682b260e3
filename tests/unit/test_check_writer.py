"""check_writer: honest tables keep all promises, planted faults are found and named. Without Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import bad_writers as bad
import headrace as hr
from headrace.testing import Promise, check_writer

WRITE_PROMISES = {
    *(Promise.WRITING, Promise.COMMIT, Promise.ABORT, Promise.ATTEMPTS, Promise.WRITE_MODES, Promise.EPOCHS),
}
FAULTS: dict[type[bad.HonestWriter], tuple[Promise, str]] = {
    bad.SeenAtOnce: (Promise.COMMIT, "rows are seen before they are committed: 40 rows are new"),
    bad.LosesTheLastBatch: (Promise.WRITING, "the rows that were written are not those that are read: 3 rows are miss"),
    bad.ReversesTexts: (Promise.WRITING, "the rows that were written are not those that are read"),
    bad.StopsEarly: (Promise.WRITING, "Write.write returned before it had read all batches"),
    bad.TakesACutForAnEnd: (Promise.WRITING, "Write.write took a stream that was cut for one that ended"),
    bad.SaysNoJson: (Promise.WRITING, "Write.write returned set"),
    bad.CannotBePickled: (Promise.WRITING, "cannot pickle"),
    bad.RaisesInWrite: (Promise.WRITING, "Write.write raised ConnectionError: no server (bad_writers.py:"),
    bad.ReturnsNoPlan: (Promise.WRITING, "ReturnsNoPlan.insert returned NoneType, expected a WritePlan"),
    bad.CommitsAgain: (Promise.COMMIT, "to commit the same messages again changed the rows: 40 rows are new"),
    bad.RaisesInASecondCommit: (Promise.COMMIT, "Write.commit raised KeyError"),
    bad.CommitsEveryAttempt: (Promise.ATTEMPTS, "of two attempts of one task, one was committed"),
    bad.AbortPublishes: (Promise.ABORT, "a write that was aborted has changed the rows: 5 rows are new"),
    bad.AbortUndoesACommit: (Promise.ABORT, "an abort that follows a commit"),
    bad.RaisesInAbort: (Promise.ABORT, "Write.abort raised KeyError"),
    bad.LostWritesArePublished: (Promise.ABORT, "a write that nobody committed or aborted has changed the rows"),
    bad.ForgetsEpochs: (Promise.EPOCHS, "epoch 1 of a query was committed again"),
    bad.RemembersOneEpochOfAll: (Promise.EPOCHS, "epoch 2 of a query was committed once, and the rows are not right"),
    bad.TruncateAppends: (Promise.WRITE_MODES, "TRUNCATE left other rows than its own"),
    bad.OverwriteRemovesNulls: (Promise.WRITE_MODES, "can_overwrite agreed to `"),
    bad.DeleteRemovesAll: (Promise.WRITE_MODES, "can_delete agreed to `"),
    bad.DeleteDoesNothing: (Promise.WRITE_MODES, "can_delete agreed to `"),
    bad.DeleteIsNotThere: (Promise.WRITE_MODES, "DeleteIsNotThere.delete raised NotImplementedError"),
    bad.HasNoAppend: (Promise.WRITE_MODES, "write_modes has no APPEND"),
}


def test_honest_writer_keeps_all_promises() -> None:
    report = check_writer(bad.HonestWriter())
    assert str(report).startswith("HonestWriter: 6 promises kept (")
    assert set(report.promises) == WRITE_PROMISES


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_planted_fault_is_found(fault: type[bad.HonestWriter]) -> None:
    promise, message = FAULTS[fault]
    report = check_writer(fault())
    assert report.outcome(promise) == "broken", str(report)
    assert message in str(report.about(promise))


def test_every_fault_is_expected() -> None:
    planted = {one for one in vars(bad).values() if isinstance(one, type) and issubclass(one, bad.HonestWriter)}
    assert planted == {*FAULTS, bad.HonestWriter}


EVERY_TYPE = """id BIGINT NOT NULL, b BOOLEAN, t TINYINT, r FLOAT, f DOUBLE, n DECIMAL(10, 3), s STRING, x BINARY,
    d DATE, at TIMESTAMP,
    local TIMESTAMP_NTZ, l ARRAY<STRING>, m MAP<STRING, INT>, o STRUCT<a: INT, b: ARRAY<DOUBLE>>"""


def test_ready_made_tables_keep_all_promises(tmp_path: Path) -> None:
    schema = hr.SimpleTable(EVERY_TYPE, list).schema()
    check_writer(hr.MemTable(schema.empty_table(), partitions=2)).raise_if_failed()
    for format in ("parquet", "orc", "feather"):
        check_writer(hr.DatasetTable(tmp_path / format, schema=schema, format=format)).raise_if_failed()
    plain = pa.schema([one for one in schema if not pa.types.is_nested(one.type) and one.name != "x"])
    check_writer(hr.DatasetTable(tmp_path / "csv", schema=plain, format="csv")).raise_if_failed()
    for column in ("id", "d", "t"):
        table = hr.DatasetTable(tmp_path / column, schema=plain, partition_by=[column])
        check_writer(table, seed=1).raise_if_failed()


def test_rows_of_ones_own_are_written() -> None:
    rows = pa.Table.from_pylist([{"name": f"row {i}", "id": i} for i in range(12)])
    table = bad.HonestWriter()
    assert check_writer(table, rows=rows).ok
    assert not check_writer(bad.LosesTheLastBatch(), rows=rows).ok


class ReadsAFileInScan(bad.HonestWriter):
    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        Path(__file__).read_bytes()
        return super().scan(request)


def test_report_shows_a_broken_promise_of_reading() -> None:
    report = check_writer(ReadsAFileInScan())
    assert not report.ok
    assert str(report).startswith("ReadsAFileInScan: 1 promise broken, 6 kept (")
    assert "planning does no I/O" in str(report)


def test_table_that_is_too_large_is_not_checked() -> None:
    report = check_writer(hr.MemTable(pa.table({"id": range(100)})), max_rows=10)
    assert not report.ok
    assert "more than max_rows=10 rows: give it a smaller one" in str(report)


def test_what_cannot_be_written_to_is_refused() -> None:
    with pytest.raises(TypeError, match="check_writer takes a WritableProvider, not SimpleTable"):
        check_writer(hr.SimpleTable("id BIGINT", list))  # type: ignore[arg-type]
