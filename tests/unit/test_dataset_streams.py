"""DatasetTable as a stream of new files: offsets, limits, files that come late, change or are gone. Without Spark."""

from __future__ import annotations

import datetime
import json
import logging
import os
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.fs
import pyarrow.parquet as pq
import pytest

import headrace as hr
from checking import check_provider
from headrace.stream import why_no_stream
from headrace.tables.dataset.record import read_record, replace_record
from reading_streams import Reader
from writing import committed, request_for, written

NOON = 1_767_268_800  # 2026-01-01T12:00:00Z


def put(path: Path, *numbers: int, at: float = 0) -> Path:
    """A file with these numbers, modified so many seconds after noon; there whole at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = pa.table({"n": pa.array(numbers, pa.int64()), "name": [f"row {n}" for n in numbers]})
    hidden = path.with_name(f".{path.name}")
    if path.suffix == ".csv":
        pyarrow.csv.write_csv(rows, hidden)
    else:
        pq.write_table(rows, hidden)
    os.utime(hidden, ns=(int((NOON + at) * 1e9), int((NOON + at) * 1e9)))
    hidden.rename(path)
    return path


def numbers(rows: list[dict[str, Any]]) -> list[int]:
    return [row["n"] for row in rows]


def test_stream_reads_files_that_are_there_and_then_those_that_come(tmp_path: Path) -> None:
    put(tmp_path / "b.parquet", 1, 2, at=0)
    put(tmp_path / "a.parquet", 3, at=1)
    reader = Reader(hr.DatasetTable(tmp_path))
    assert numbers(reader.read()) == [1, 2, 3]
    assert reader.read() == []
    put(tmp_path / "deeper" / "c.parquet", 4, at=2)
    put(tmp_path / "_half.parquet", 99, at=3)
    assert numbers(reader.read()) == [4]
    assert numbers(reader.again()) == [4]
    assert reader.again("name") == [{"name": "row 4"}]
    over = hr.Comparison(">", hr.Column("n"), hr.Literal(4, pa.int64()))
    assert reader.again(filters=(over,)) == []


def test_stream_goes_on_from_a_checkpoint_with_a_table_that_was_made_anew(tmp_path: Path) -> None:
    put(tmp_path / "a.parquet", 1, at=0)
    first = Reader(hr.DatasetTable(tmp_path))
    first.read()
    put(tmp_path / "b.parquet", 2, at=0)
    second = Reader(hr.DatasetTable(str(tmp_path) + "/"), first.offset)
    second.range = first.range
    assert numbers(second.again()) == [1]
    assert numbers(second.read()) == [2]


def test_file_that_comes_late_is_read_within_the_lookback_and_warned_of_beyond(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(tmp_path / "a.parquet", 1, at=0)
    put(tmp_path / "b.parquet", 2, at=3600)
    reader = Reader(hr.DatasetTable(tmp_path, lookback=datetime.timedelta(minutes=1)))
    assert numbers(reader.read()) == [1, 2]
    put(tmp_path / "same.parquet", 3, at=3600)
    put(tmp_path / "late.parquet", 4, at=3541)
    put(tmp_path / "too_late.parquet", 5, at=3539)
    with caplog.at_level(logging.WARNING, "headrace"):
        assert numbers(reader.read()) == [4, 3]
        assert reader.read() == []
    (warning,) = [record.getMessage() for record in caplog.records]
    assert "the file too_late.parquet came later than lookback= allows" in warning


def test_offset_has_names_of_the_lookback_only(tmp_path: Path) -> None:
    for i in range(100):
        put(tmp_path / f"{i}.parquet", i, at=i)
    reader = Reader(hr.DatasetTable(tmp_path, lookback=datetime.timedelta(seconds=10)))
    assert len(reader.read()) == 100
    assert len(reader.offset["recent"]) == 10
    assert reader.offset["files"] == 100
    assert len(json.dumps(reader.offset)) < 300


def test_another_lookback_after_a_restart_reads_nothing_twice(tmp_path: Path) -> None:
    for i in range(100):
        put(tmp_path / f"{i}.parquet", i, at=i)
    first = Reader(hr.DatasetTable(tmp_path, lookback=datetime.timedelta(seconds=10)))
    first.read()
    second = Reader(hr.DatasetTable(tmp_path, lookback=datetime.timedelta(hours=1)), first.offset)
    assert second.read() == []
    put(tmp_path / "new.parquet", 100, at=100)
    assert numbers(second.read()) == [100]


def test_limits_count_whole_files_and_pass_at_least_one(tmp_path: Path) -> None:
    for i in range(6):
        put(tmp_path / f"{i}.parquet", *range(10 * i, 10 * i + 10), at=i)
    reader = Reader(hr.DatasetTable(tmp_path))
    assert len(reader.read(max_rows=25)) == 20
    assert len(reader.read(max_rows=1)) == 10
    size = (tmp_path / "3.parquet").stat().st_size
    assert len(reader.read(max_bytes=2 * size + 10)) == 20
    assert len(reader.read(max_bytes=1)) == 10
    assert reader.read(max_bytes=1) == []


def test_files_of_one_moment_are_split_by_a_limit_and_none_is_lost(tmp_path: Path) -> None:
    for name in "edcba":
        put(tmp_path / f"{name}.parquet", ord(name), at=0)
    reader = Reader(hr.DatasetTable(tmp_path, lookback=datetime.timedelta(microseconds=1)))
    read = [numbers(reader.read(max_rows=2)) for _ in range(4)]
    assert read == [[97, 98], [99, 100], [101], []]


def test_rows_of_csv_are_counted_by_reading(tmp_path: Path) -> None:
    for i in range(3):
        put(tmp_path / f"{i}.csv", *range(10 * i, 10 * i + 10), at=i)
    reader = Reader(hr.DatasetTable(tmp_path))
    assert len(reader.read(max_rows=20)) == 20
    assert len(reader.read(max_rows=20)) == 10


def test_until_is_not_passed(tmp_path: Path) -> None:
    for i in range(4):
        put(tmp_path / f"{i}.parquet", i, at=i)
    reader = Reader(hr.DatasetTable(tmp_path))
    until = reader.stream.latest_offset(reader.offset, hr.ReadLimit())
    put(tmp_path / "later.parquet", 99, at=5)
    assert numbers(reader.read(max_rows=3, until=until)) == [0, 1, 2]
    assert numbers(reader.read(max_rows=3, until=until)) == [3]
    assert reader.offset == json.loads(json.dumps(until))
    assert numbers(reader.read()) == [99]


def test_file_that_is_written_anew_is_read_anew(tmp_path: Path) -> None:
    put(tmp_path / "a.parquet", 1, at=0)
    put(tmp_path / "b.parquet", 2, at=1)
    reader = Reader(hr.DatasetTable(tmp_path))
    reader.read()
    put(tmp_path / "a.parquet", 3, at=2)
    assert numbers(reader.read()) == [3]


def test_file_that_is_gone_before_it_was_read_is_named(tmp_path: Path) -> None:
    put(tmp_path / "a.parquet", 1, at=0)
    gone = put(tmp_path / "b.parquet", 2, at=1)
    reader = Reader(hr.DatasetTable(tmp_path))
    reader.read()
    gone.unlink()
    restarted = Reader(hr.DatasetTable(tmp_path), reader.range[0])
    start, end = reader.range
    request = hr.ScanRequest(restarted.schema, tuple(restarted.schema.names))
    with pytest.raises(hr.OffsetLostError, match=r"1 of 2 files of .* are gone, or were written anew"):
        restarted.stream.scan_between(start, end, request)
    assert restarted.stream.latest_offset(end, hr.ReadLimit()) == end


def test_folder_may_be_empty_where_the_schema_is_given(tmp_path: Path) -> None:
    table = hr.DatasetTable(tmp_path, schema="n BIGINT, name STRING, year INT", format="parquet")
    reader = Reader(table)
    assert reader.read() == []
    put(tmp_path / "year=2026" / "a.parquet", 1, at=0)
    assert reader.read() == [{"n": 1, "name": "row 1", "year": 2026}]
    with pytest.raises(ValueError, match="schema and partition_by are for a path"):
        hr.DatasetTable(ds.dataset(tmp_path, format="parquet"), schema="n BIGINT")


def test_partition_columns_of_new_folders_are_known(tmp_path: Path) -> None:
    put(tmp_path / "year=2025" / "a.parquet", 1, at=0)
    reader = Reader(hr.DatasetTable(tmp_path))
    reader.read()
    put(tmp_path / "year=2026" / "a=1.parquet", 2, at=1)
    put(tmp_path / "year=2027" / "a.parquet", 3, at=2)
    assert [(row["n"], row["year"]) for row in reader.read()] == [(2, 2026), (3, 2027)]
    this_year = hr.Comparison("=", hr.Column("year"), hr.Literal(2026, pa.int32()))
    assert numbers(reader.again("n", "year", filters=(this_year,))) == [2]


def test_glob_and_another_filesystem_can_be_streams(tmp_path: Path) -> None:
    put(tmp_path / "in" / "x" / "a.parquet", 1, at=0)
    below = pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())
    readers = [
        Reader(hr.DatasetTable(f"{tmp_path}/in/*/*.parquet")),
        Reader(hr.DatasetTable("in", filesystem=below)),
        Reader(hr.DatasetTable(f"file://{tmp_path}/in")),
    ]
    assert [numbers(reader.read()) for reader in readers] == [[1]] * 3
    put(tmp_path / "in" / "y" / "b.parquet", 2, at=0)
    put(tmp_path / "in" / "y" / "b.txt.bak", 3, at=0).unlink()
    assert [numbers(reader.read()) for reader in readers] == [[2]] * 3


def test_table_of_a_dataset_or_of_a_list_is_no_stream_and_says_why(tmp_path: Path) -> None:
    file = put(tmp_path / "a.parquet", 1)
    for table in (hr.DatasetTable(ds.dataset(tmp_path)), hr.DatasetTable([str(file)])):
        assert "make it of a folder or of a glob" in str(why_no_stream(table))
        with pytest.raises(hr.PlanError, match="does not grow"):
            table.initial_offset()
    assert why_no_stream(hr.DatasetTable(tmp_path)) is None


def test_stream_keeps_every_promise(tmp_path: Path) -> None:
    for i in range(12):
        put(tmp_path / f"part={i % 3}" / f"{i}.parquet", *range(5 * i, 5 * i + 5), at=i // 2)
    report = check_provider(hr.DatasetTable(tmp_path), samples=1)
    assert report.ok, str(report)


def test_table_that_was_pickled_is_a_stream_still(tmp_path: Path) -> None:
    put(tmp_path / "year=2026" / "a.parquet", 1, at=0)
    reader = Reader(hr.DatasetTable(tmp_path))
    reader.read()
    copy = Reader(pickle.loads(pickle.dumps(reader.stream)), reader.offset)
    put(tmp_path / "year=2027" / "b.parquet", 2, at=0)
    assert copy.read() == [{"n": 2, "name": "row 2", "year": 2027}]


@pytest.mark.parametrize("offset", [3, {"id": 3}, {"before": "x", "files": 1, "recent": []}])
def test_offset_of_another_table_is_named(tmp_path: Path, offset: Any) -> None:
    put(tmp_path / "a.parquet", 1)
    with pytest.raises(hr.OffsetLostError, match="is none of a DatasetTable"):
        hr.DatasetTable(tmp_path).latest_offset(offset, hr.ReadLimit())


def test_stream_of_a_folder_that_headrace_writes_to_reads_each_published_file_once(tmp_path: Path) -> None:
    rows = pa.table({"n": pa.array([1, 2], pa.int64()), "name": ["a", "b"]})
    table = hr.DatasetTable(tmp_path / "new", schema=rows.schema)
    reader = Reader(hr.DatasetTable(tmp_path / "new", schema=rows.schema))
    assert reader.read() == []
    committed(table, rows)
    assert numbers(reader.read()) == [1, 2]
    plan = table.insert(request_for(table))
    message = written(plan, rows.slice(1))
    (staged,) = (tmp_path / "new" / "_headrace").glob("**/*.staged")
    os.utime(staged, (NOON, NOON))  # it took long to be written
    assert reader.read() == []
    plan.commit([message])
    assert numbers(reader.read()) == [2]
    assert reader.read() == []


def test_stream_leaves_out_files_of_a_write_that_was_killed_before_it_was_published(tmp_path: Path) -> None:
    rows = pa.table({"n": pa.array([1], pa.int64()), "name": ["a"]})
    table = hr.DatasetTable(tmp_path, schema=rows.schema)
    committed(table, rows)
    put(tmp_path / "half.parquet", 99)
    replace_record(str(tmp_path), read_record(str(tmp_path)), adding=("half.parquet",))
    assert numbers(Reader(hr.DatasetTable(tmp_path)).read()) == [1]
