"""DatasetTable as the target of writes: what readers see, what crashes leave, what other readers find."""

from __future__ import annotations

import datetime
import functools
import json
import math
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as fs
import pyarrow.parquet as pq
import pytest

import headrace as hr
from headrace.tables.dataset import file_writers
from headrace.tables.dataset.csv_writer import BLOCK_BYTES
from headrace.tables.dataset.hive import partitions_of
from writing import committed, read_rows, request_for, written

FORMATS = ("parquet", "csv", "tsv", "orc", "feather", "ipc")
SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("day", pa.date32())])
DAY = datetime.date(2024, 5, 17)


def rows(*ids: int, city: str | None = "bonn", day: datetime.date | None = DAY) -> pa.Table:
    return pa.Table.from_pylist([{"id": i, "city": city, "day": day} for i in ids], SCHEMA)


def new_table(folder: Path, **options: Any) -> hr.DatasetTable:
    return hr.DatasetTable(folder, **{"schema": SCHEMA, **options})


def ids(table: hr.TableProvider) -> list[int]:
    return sorted(read_rows(table)["id"].to_pylist())


def files(folder: Path) -> list[str]:
    """Every file in the folder, staged and hidden ones too, without those that are always there."""
    found = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]
    return sorted(set(found) - {"_headrace/record.json", "_headrace/lock"})


def equals(column: str, value: Any) -> hr.Expr:
    return hr.Comparison("=", hr.Column(column), hr.Literal(value, SCHEMA.field(column).type))


@pytest.mark.parametrize("format", FORMATS)
def test_written_rows_are_read_back(tmp_path: Path, format: str) -> None:
    schema = pa.schema(
        [
            ("i", pa.int32()),
            ("f", pa.float64()),
            ("s", pa.string()),
            ("t", pa.timestamp("us")),
            ("z", pa.timestamp("us", "UTC")),
            ("n", pa.decimal128(12, 2)),
        ]
    )
    moment = datetime.datetime(2024, 1, 2, 3, 4, 5, 678901)
    values = [
        {
            "i": 1,
            "f": 1.5,
            "s": 'a "quoted", text\nof two lines',
            "t": moment,
            "z": moment.replace(tzinfo=datetime.UTC),
        },
        {"i": None, "f": math.nan, "s": None, "n": None},
        {"i": 2, "f": None, "s": "", "n": 0},
        {"i": 3, "f": math.inf, "s": "NA"},
    ]
    data = pa.Table.from_pylist(values, schema)
    table = hr.DatasetTable(tmp_path / "t", schema=schema, format=format)
    committed(table, data.slice(0, 3), data.slice(3))
    again = hr.DatasetTable(tmp_path / "t")
    assert again.schema().equals(table.schema())
    for read in (read_rows(table), read_rows(again)):
        assert str(read.sort_by("i").to_pylist()) == str(data.sort_by("i").to_pylist())


@pytest.mark.parametrize("format", ["parquet", "csv", "feather"])
def test_folder_of_another_writer_takes_more_rows(tmp_path: Path, format: str) -> None:
    existing = pa.table({"id": [1], "city": ["ulm"], "year": pa.array([2023], pa.int32())})
    hive = ds.partitioning(pa.schema([("year", pa.int32())]), flavor="hive")
    ds.write_dataset(existing, tmp_path, format=format, partitioning=hive)
    table = hr.DatasetTable(tmp_path)
    new = pa.table({"id": [2, 3], "city": ["bonn", None], "year": pa.array([2023, 2024], pa.int32())})
    committed(table, new.cast(table.schema()))
    assert ids(table) == ids(hr.DatasetTable(tmp_path)) == [1, 2, 3]
    assert {str(path.parent.relative_to(tmp_path)) for path in tmp_path.glob("year=*/*")} == {"year=2023", "year=2024"}


def test_other_readers_see_the_rows_and_nothing_else(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", partition_by=["city"])
    committed(table, rows(1), rows(2, city="Köln / Deutz"), rows(3, city=None))
    committed(table, rows(4), mode=hr.WriteMode.DYNAMIC)
    plan = table.insert(request_for(table))
    written(plan, rows(99))  # staged, and not to be found
    query = f"SELECT id, city FROM read_parquet('{tmp_path}/t/**/*.parquet', hive_partitioning = true) ORDER BY id"
    expected = [(2, "Köln / Deutz"), (3, None), (4, "bonn")]
    assert duckdb.sql(query).fetchall() == expected
    plain = ds.dataset(tmp_path / "t", partitioning="hive").to_table().sort_by("id")
    assert list(zip(plain["id"].to_pylist(), plain["city"].to_pylist(), strict=True)) == expected


@pytest.mark.parametrize("value", ["a b", "x=1", "50%", "ö/ü", "..", "__x", "{}[]^", "tab\there", "'\"", "2024"])
def test_any_text_can_be_a_partition(tmp_path: Path, value: str) -> None:
    committed(new_table(tmp_path / "t", partition_by=["city"]), rows(1, city=value), rows(2, city=None))
    read = read_rows(hr.DatasetTable(tmp_path / "t")).sort_by("id")
    assert read["city"].to_pylist() == [value, None]


def test_partition_of_empty_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(hr.WriteError, match="'city' has an empty text"):
        committed(new_table(tmp_path / "t", partition_by=["city"]), rows(1, city=""))


def test_rows_are_not_seen_before_commit_and_once_after_it(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    committed(table, rows(1))
    plan = table.insert(request_for(table))
    message = written(plan, rows(2, 3))
    lost = written(plan, rows(2, 3))  # another attempt of the same task
    assert ids(table) == ids(hr.DatasetTable(tmp_path / "t")) == [1]
    plan.commit([message])
    plan.commit([message])
    assert lost != message
    assert ids(table) == ids(hr.DatasetTable(tmp_path / "t")) == [1, 2, 3]
    assert len(files(tmp_path / "t")) == 2


def test_messages_are_json(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    plan = table.insert(request_for(table))
    plan.commit(json.loads(json.dumps([written(plan, rows(1, 2))])))
    assert ids(table) == [1, 2]


def test_aborted_write_leaves_nothing(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    committed(table, rows(1))
    before = files(tmp_path / "t")
    plan = table.insert(request_for(table, mode=hr.WriteMode.TRUNCATE))
    plan.abort([written(plan, rows(2)), None])
    assert files(tmp_path / "t") == before
    assert ids(table) == [1]


def test_task_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def batches() -> Any:
        yield from rows(1).to_batches()
        raise ConnectionError("the stream was cut")

    table = new_table(tmp_path / "t")
    plan = table.insert(request_for(table))
    with pytest.raises(ConnectionError, match="the stream was cut"):
        plan.write(hr.WriteTask(0, 1), batches())
    assert [name for name in files(tmp_path / "t") if not name.endswith("/alive")] == []


@pytest.mark.parametrize(
    ("mode", "filters", "left"),
    [
        (hr.WriteMode.APPEND, (), [1, 2, 3, 4]),
        (hr.WriteMode.TRUNCATE, (), [4]),
        (hr.WriteMode.OVERWRITE, (equals("city", "ulm"),), [1, 3, 4]),
        (hr.WriteMode.OVERWRITE, (hr.IsNull(hr.Column("city")),), [1, 2, 4]),
        (hr.WriteMode.DYNAMIC, (), [2, 3, 4]),
    ],
    ids=["append", "truncate", "overwrite", "overwrite the null partition", "dynamic"],
)
def test_modes_replace_what_they_say(tmp_path: Path, mode: Any, filters: Any, left: list[int]) -> None:
    table = new_table(tmp_path / "t", partition_by=["city"])
    committed(table, rows(1), rows(2, city="ulm"), rows(3, city=None))
    assert table.can_overwrite(filters)
    assert mode in table.write_modes()
    committed(table, rows(4), mode=mode, filters=filters)
    assert ids(table) == ids(hr.DatasetTable(tmp_path / "t")) == left
    assert len(files(tmp_path / "t")) == len(left)


def test_delete_removes_whole_partitions(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", partition_by=["city", "day"])
    committed(table, rows(1), rows(2, city="ulm"), rows(3, day=None))
    assert table.can_delete([equals("city", "bonn"), equals("day", DAY)])
    table.delete((equals("city", "bonn"), equals("day", DAY)))
    assert ids(table) == [2, 3]
    table.delete(())
    assert ids(table) == ids(hr.DatasetTable(tmp_path / "t")) == []
    committed(hr.DatasetTable(tmp_path / "t"), rows(7))
    assert ids(hr.DatasetTable(tmp_path / "t")) == [7]
    assert files(tmp_path / "t")[0].startswith("city=bonn/day=2024-05-17/part-00000-")


def test_filters_that_partitions_do_not_decide_are_refused(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", partition_by=["city"])
    committed(table, rows(1))
    for filters in ([equals("id", 1)], [equals("city", "bonn"), equals("id", 1)]):
        assert not table.can_overwrite(filters)
        assert not table.can_delete(filters)
    assert not new_table(tmp_path / "flat").can_overwrite([equals("id", 1)])
    assert new_table(tmp_path / "flat").write_modes() == {hr.WriteMode.APPEND, hr.WriteMode.TRUNCATE}


def test_epoch_committed_again_is_there_once(tmp_path: Path) -> None:
    for epoch in (0, 1, 1, 2, 1):
        committed(new_table(tmp_path / "t"), rows(epoch), query_id="q", epoch=epoch)
    committed(new_table(tmp_path / "t"), rows(9), query_id="another", epoch=0)
    assert ids(hr.DatasetTable(tmp_path / "t")) == [0, 1, 2, 9]
    assert len(files(tmp_path / "t")) == 4


def test_scan_keeps_its_files_while_rows_are_appended(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    committed(table, rows(1))
    scan = table.for_scan()
    committed(table, rows(2))
    assert ids(table) == [1, 2]
    plan = scan.scan(hr.ScanRequest(SCHEMA, tuple(SCHEMA.names)))
    assert [row["id"] for batch in plan.execute(0) for row in batch.to_pylist()] == [1]
    assert table.statistics().num_rows == 2


# What killed writers leave


def crashed(step: int, work: Callable[[], None]) -> bool:
    """Runs ``work`` in a process that is gone, without a last word, before its ``step``-th change of the folder."""
    pid = os.fork()
    if pid == 0:
        left = [step]

        def counted(change: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            if left[0] == 0:
                os._exit(9)
            left[0] -= 1
            return change(*args, **kwargs)

        for name in ("rename", "replace", "unlink", "mkdir", "rmdir"):
            setattr(os, name, functools.partial(counted, getattr(os, name)))
        try:
            work()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9


@pytest.mark.parametrize("mode", [hr.WriteMode.APPEND, hr.WriteMode.TRUNCATE, hr.WriteMode.DYNAMIC], ids=str)
def test_killed_commit_is_seen_whole_or_not_at_all_and_is_cleaned_up(tmp_path: Path, mode: hr.WriteMode) -> None:
    after = {
        hr.WriteMode.APPEND: [1, 2, 3, 4, 5],
        hr.WriteMode.TRUNCATE: [4, 5],
        hr.WriteMode.DYNAMIC: [2, 3, 4, 5],
    }[mode]
    seen, step = set(), 0
    while True:
        folder = tmp_path / str(step)
        table = new_table(folder, partition_by=["city"])
        committed(table, rows(1), rows(2, city="ulm"), rows(3, city="kiel"))
        plan = table.insert(request_for(table, mode=mode, query_id="q", epoch=0))
        messages = [written(plan, rows(4)), written(plan, rows(5, city="essen"), 1)]
        killed = crashed(step, lambda plan=plan, messages=messages: plan.commit(messages))  # type: ignore[misc]
        found = ids(hr.DatasetTable(folder))
        assert found in ([1, 2, 3], after), f"killed at step {step}"
        seen.add(tuple(found))
        del plan, table  # the process that held its lock is gone
        again = hr.DatasetTable(folder)
        retried = committed(again, rows(4), rows(5, city="essen"), mode=mode, query_id="q", epoch=0)
        assert ids(again) == ids(hr.DatasetTable(folder)) == after
        committed(again, rows(6))
        listed = [str(Path(part.whole.path).relative_to(folder)) for part in again._parts]
        assert files(folder) == sorted(listed), f"killed at step {step}, then wrote {retried}"
        step += 1
        if not killed:
            break
    assert seen == {(1, 2, 3), tuple(after)}
    assert step > 8


def test_next_write_removes_what_a_dead_one_staged_and_not_what_a_live_one_did(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    dead, alive = table.insert(request_for(table)), table.insert(request_for(table))
    written(dead, rows(1))
    message = written(alive, rows(2))
    dead_place, alive_place = (plan._staged.directory for plan in (dead, alive))  # type: ignore[attr-defined]
    del dead  # and with it the lock
    committed(table, rows(3))
    assert not os.path.exists(dead_place)
    assert os.path.exists(alive_place)
    alive.commit([message])
    assert ids(table) == [2, 3]
    assert len(files(tmp_path / "t")) == 2


def test_file_that_cannot_be_renamed_leaves_the_table_as_it_was(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    committed(table, rows(1))
    plan = table.insert(request_for(table, mode=hr.WriteMode.TRUNCATE))
    first, second = written(plan, rows(2)), written(plan, rows(3), 1)
    (folder,) = (tmp_path / "t" / "_headrace" / "writes").glob("*/1-*")
    shutil.rmtree(folder)
    with pytest.raises(hr.WriteError, match="the folder must be one that all machines share"):
        plan.commit([first, second])
    plan.abort([first, second])
    assert ids(table) == ids(hr.DatasetTable(tmp_path / "t")) == [1]
    assert len(files(tmp_path / "t")) == 1


def test_writers_and_readers_at_once_see_whole_writes(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    committed(new_table(folder, partition_by=["city"]), rows(0), rows(0, city="ulm"))
    ends = threading.Event()
    seen: list[list[int]] = []

    def write(number: int) -> None:
        for i in range(10):
            mode = hr.WriteMode.TRUNCATE if i % 3 == 2 else hr.WriteMode.APPEND
            value = 100 * number + i
            committed(hr.DatasetTable(folder), rows(value), rows(value, city="ulm"), mode=mode)

    def read() -> None:
        while not ends.is_set():
            found = hr.DatasetTable(folder)
            seen.append([part.keys["city"] for part in found._parts])

    reader = threading.Thread(target=read)
    writers = [threading.Thread(target=write, args=(number,)) for number in (1, 2)]
    for thread in (reader, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    ends.set()
    reader.join()
    assert len(seen) > 5
    assert all(found and found.count("bonn") == found.count("ulm") for found in seen)


# Files that readers like


def test_small_batches_become_one_row_group_of_one_file(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    data = pa.table({"id": range(5000), "city": ["x"] * 5000, "day": [DAY] * 5000}).cast(SCHEMA)
    committed(table, data)
    (path,) = files(tmp_path / "t")
    assert pq.ParquetFile(tmp_path / "t" / path).metadata.num_row_groups == 1


def test_large_tasks_roll_over_to_further_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_writers, "_GROUP_ROWS", 2000)
    monkeypatch.setattr(file_writers, "_FILE_BYTES", 20_000)
    table = new_table(tmp_path / "t")
    data = pa.table({"id": range(20_000), "city": [str(i) for i in range(20_000)], "day": [DAY] * 20_000}).cast(SCHEMA)
    committed(table, data)
    assert 3 < len(files(tmp_path / "t")) < 11
    assert ids(table) == list(range(20_000))


def test_mixed_partitions_keep_few_files_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_writers, "_OPEN_FILES", 3)
    table = hr.DatasetTable(tmp_path / "t", schema="id BIGINT, p INT", partition_by=["p"])
    data = pa.table({"id": range(5000), "p": [i % 10 for i in range(5000)]}).cast(table.schema())
    committed(table, data)
    assert ids(table) == list(range(5000))
    assert table.layout(hr.WriteMode.APPEND) == hr.WriteLayout(("p",), (hr.SortKey("p"),))
    committed(table, data.sort_by("p"), mode=hr.WriteMode.TRUNCATE)
    assert len(files(tmp_path / "t")) == 10


# What cannot be written to


def test_tables_that_can_only_be_read_say_why(tmp_path: Path) -> None:
    pq.write_table(rows(1), tmp_path / "a.parquet")
    (tmp_path / "j").mkdir()
    (tmp_path / "j" / "a.json").write_text('{"id": 1}')
    (tmp_path / "mixed" / "x=1").mkdir(parents=True)
    for name in ("mixed/a.parquet", "mixed/x=1/a.parquet"):
        pq.write_table(rows(1), tmp_path / name)
    local = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    cases = {
        "it is made of a pyarrow dataset": hr.DatasetTable(ds.dataset(tmp_path / "a.parquet")),
        "it is made of one file": hr.DatasetTable(tmp_path / "a.parquet"),
        "it is made of a glob": hr.DatasetTable(f"{tmp_path}/*.parquet"),
        "it is made of a list of paths": hr.DatasetTable([tmp_path / "a.parquet"]),
        "SubTreeFileSystem is no file system that": hr.DatasetTable("mixed", filesystem=local),
        "json files cannot be written": hr.DatasetTable(tmp_path / "j"),
        "its files are partitioned in several ways, by no column and by x": hr.DatasetTable(tmp_path / "mixed"),
    }
    for reason, table in cases.items():
        assert table.write_modes() == {hr.WriteMode.APPEND}
        assert not table.can_delete([])
        with pytest.raises(hr.WriteError, match=f"can only be read: {reason}"):
            table.insert(request_for(table))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"schema": "id BIGINT, l ARRAY<INT>", "format": "csv"}, "csv files cannot hold these columns"),
        ({"schema": "id BIGINT, x BINARY", "format": "csv"}, "csv files hold text, and column 'x' has bytes"),
        ({"schema": "id BIGINT, f DOUBLE", "partition_by": ["f"]}, "'f' has type double"),
        ({"schema": "id BIGINT, _p INT", "partition_by": ["_p"]}, "'_p': readers leave out"),
        ({"schema": "id BIGINT", "partition_by": ["id"]}, "all columns are partition columns"),
    ],
)
def test_columns_that_files_or_paths_cannot_hold_are_named(tmp_path: Path, options: Any, message: str) -> None:
    table = hr.DatasetTable(tmp_path / "t", **options)
    with pytest.raises(hr.WriteError, match=message):
        table.insert(request_for(table))
    assert not (tmp_path / "t").exists()


def test_null_alone_on_a_line_of_csv_is_refused(tmp_path: Path) -> None:
    table = hr.DatasetTable(tmp_path / "t", schema="id BIGINT", format="csv")
    with pytest.raises(hr.WriteError, match="'id' is the only one of a CSV file and has a null"):
        committed(table, pa.table({"id": pa.array([1, None], pa.int64())}))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"partition_by": ["x"]}, ValueError, "needs its schema"),
        ({"schema": SCHEMA, "partition_by": ["x"]}, ValueError, r"there is no column 'x' \(id, city, day\)"),
        ({"schema": SCHEMA, "partition_by": "city"}, TypeError, "must be a list or tuple of text"),
        ({}, FileNotFoundError, "there is no file or folder"),
    ],
)
def test_wrong_partitions_of_a_new_folder_are_named(tmp_path: Path, options: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        hr.DatasetTable(tmp_path / "t", **options)


def test_text_that_stands_for_a_null_in_paths_is_refused(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", partition_by=["city"])
    with pytest.raises(hr.WriteError, match="'city' has the text __HIVE_DEFAULT_PARTITION__"):
        committed(table, rows(1, city="__HIVE_DEFAULT_PARTITION__"))
    assert ids(table) == []


MOMENTS = {
    "1899-12-31 23:59:59.999999": False,
    "1969-12-31 23:59:59": True,
    "1677-01-01 00:00:00": False,
    "1700-01-01 00:00:00": True,
    "2261-12-31 23:59:59.999999": True,
    "2262-12-31 00:00:00": False,
    "0001-01-01 00:00:00": False,
}


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("text", MOMENTS)
def test_timestamps_that_readers_of_orc_would_fail_on_are_refused(tmp_path: Path, text: str, nested: bool) -> None:
    moment = datetime.datetime.fromisoformat(text)
    kind = pa.timestamp("us")
    schema = pa.schema([("t", pa.list_(pa.struct([("at", kind)])) if nested else kind)])
    data = pa.Table.from_pylist([{"t": [{"at": moment}] if nested else moment}, {"t": None}], schema)
    table = hr.DatasetTable(tmp_path / "t", schema=schema, format="orc")
    if MOMENTS[text]:
        committed(table, data)
        assert read_rows(table).to_pylist() == data.to_pylist()
    else:
        with pytest.raises(hr.WriteError, match=f"column 't' has {text[:10]}.*Use Parquet"):
            committed(table, data)


def test_days_before_1582_are_refused_for_orc(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", format="orc")
    committed(table, rows(1, day=datetime.date(1582, 10, 15)))
    with pytest.raises(hr.WriteError, match="column 'day' has 1582-10-04"):
        committed(table, rows(2, day=datetime.date(1582, 10, 4)))
    assert ids(table) == [1]


@pytest.mark.parametrize("format", ["csv", "tsv"])
def test_long_rows_of_csv_are_read_back_up_to_a_block_and_refused_beyond(tmp_path: Path, format: str) -> None:
    table = new_table(tmp_path / "t", format=format)
    fits = [3 << 20, BLOCK_BYTES - 1000, BLOCK_BYTES // 2 - 500]
    for letter, length in zip('x\n"', fits, strict=True):
        data = pa.concat_tables([rows(1, city=letter * length), rows(2, city="y"), rows(3, city=letter * length)])
        committed(table, data, mode=hr.WriteMode.TRUNCATE)
        assert read_rows(hr.DatasetTable(tmp_path / "t")).equals(data)
    for text in ("x" * BLOCK_BYTES, '"' * (BLOCK_BYTES // 2)):
        with pytest.raises(hr.WriteError, match="in column 'city'"):
            committed(table, rows(1, city="y"), rows(2, city=text))
    assert ids(hr.DatasetTable(tmp_path / "t")) == [1, 2, 3]


_YEAR_0, _YEAR_10000 = -62_167_219_200_000_000, 253_402_300_800_000_000


@pytest.mark.parametrize(
    "kind", [pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.timestamp("us", "Europe/Berlin")], ids=str
)
def test_years_that_csv_files_cannot_hold_are_refused(tmp_path: Path, kind: pa.DataType) -> None:
    schema = pa.schema([("t", kind), ("d", pa.date32())])
    table = hr.DatasetTable(tmp_path / "t", schema=schema, format="csv")

    def of(*moments: int) -> pa.Table:
        days = pa.array([moment // 86_400_000_000 for moment in moments], pa.int32()).cast(pa.date32())
        return pa.table([pa.array(moments, pa.int64()).cast(kind), days], schema)

    held = of(_YEAR_0, -1, 0, 1, _YEAR_10000 - 1)
    committed(table, held)
    assert read_rows(hr.DatasetTable(tmp_path / "t")).cast(schema).equals(held)
    for moment in (_YEAR_0 - 1, _YEAR_10000, -(2**62), 2**62):
        for column in ("t", "d"):
            far, near = of(moment), of(0)
            data = pa.table([(far if name == column else near)[name] for name in schema.names], schema)
            with pytest.raises(hr.WriteError, match=f"column '{column}' has .* years 0 to 9999"):
                committed(table, data)


def test_partition_date_that_python_has_none_of_names_its_column() -> None:
    far = pa.record_batch({"day": pa.array([6_000_000], pa.int32()).cast(pa.date32())})
    with pytest.raises(hr.WriteError, match=r"'day' has a date .* outside of 1 to 9999"):
        list(partitions_of(far, ["day"]))
