"""What a DatasetTable publishes and deletes: only what this write staged, only in its folder, through no link."""

from __future__ import annotations

import datetime
import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as hr
from headrace.negotiate.registry import RegisteredTable
from headrace.negotiate.writing import partition_columns
from headrace.tables.dataset import file_writers
from headrace.tables.dataset import folder as folders
from headrace.tables.dataset.record import Record, consistent, read_record, replace_record
from writing import committed, read_rows, request_for, written

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("day", pa.date32())])
DAY = datetime.date(2024, 5, 17)


def rows(*ids: int, city: str | None = "bonn") -> pa.Table:
    return pa.Table.from_pylist([{"id": i, "city": city, "day": DAY} for i in ids], SCHEMA)


def new_table(folder: Path, *partition_by: str) -> hr.DatasetTable:
    return hr.DatasetTable(folder, schema=SCHEMA, partition_by=partition_by)


def ids(table: hr.TableProvider) -> list[int]:
    return sorted(read_rows(table)["id"].to_pylist())


def everything(folder: Path) -> dict[str, bytes | None]:
    """Every file with its bytes, and every directory; not what says which writes there are."""
    found = [path for path in folder.rglob("*") if "_headrace" not in path.parts]
    return {str(path): path.read_bytes() if path.is_file() else None for path in found}


def files(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.rglob("*") if path.is_file() and path.parent.name != "_headrace")


# Forged messages


def changed(**fields: Any) -> Callable[[Any], Any]:
    return lambda message: {**message, **fields}


FORGED: dict[str, Callable[[Any], Any]] = {
    "a path": lambda message: [{"staged": "/etc/passwd", "path": "x.parquet", "rows": 1, "bytes": 1}],
    "a path beside": changed(path="../x.parquet"),
    "null": lambda message: None,
    "a text": lambda message: "../../x",
    "a part of it": lambda message: {"partition": 1, "attempt": message["attempt"]},
    "text as partition": changed(partition="../.."),
    "absolute partition": changed(partition="/tmp"),
    "negative partition": changed(partition=-1),
    "true as partition": changed(partition=True),
    "fraction as attempt": changed(attempt=1.0),
    "another attempt": changed(attempt=2**40),
    "huge attempt": changed(attempt=10**400),
    "another's partition": changed(partition=0),
    "negative count": changed(files=-1),
    "something more": changed(path="x"),
    "more files": changed(files=3),
    "huge count": changed(files=2**62),
    "a list as count": changed(files=[1]),
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)
def test_forged_message_is_refused_and_nothing_is_moved(tmp_path: Path, forge: Callable[[Any], Any]) -> None:
    table = new_table(tmp_path / "t", "city")
    committed(table, rows(1))
    plan = table.insert(request_for(table, mode=hr.WriteMode.TRUNCATE))
    messages = [written(plan, rows(2)), json.loads(json.dumps(forge(written(plan, rows(3), 1))))]
    before, record = everything(tmp_path), read_record(str(tmp_path / "t"))
    with pytest.raises(hr.WriteError):
        plan.commit(messages)
    assert everything(tmp_path) == before
    assert read_record(str(tmp_path / "t")) == record
    plan.abort(messages)
    assert ids(table) == [1]
    committed(table, rows(4))
    assert ids(table) == [1, 4]


def test_messages_of_two_tasks_with_one_partition_are_refused(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    plan = table.insert(request_for(table))
    message, rival = written(plan, rows(1)), written(plan, rows(1))
    for forged in ([message, message], [message, rival]):
        with pytest.raises(hr.WriteError, match="two tasks"):
            plan.commit(forged)
    assert ids(hr.DatasetTable(tmp_path / "t", schema=SCHEMA)) == []


def test_message_names_no_attempt_of_another_write(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    one, other = table.insert(request_for(table)), table.insert(request_for(table))
    message = written(one, rows(1))
    with pytest.raises(hr.WriteError, match="all machines share"):
        other.commit([message])
    one.commit([message])
    assert ids(table) == [1]


# What a hostile task may stage


def staged_file(folder: Path) -> Path:
    (path,) = (folder / "_headrace").glob("**/*.staged")
    return path


def linked(path: Path, secret: Path) -> None:
    path.unlink()
    path.symlink_to(secret)


def hard_linked(path: Path, secret: Path) -> None:
    path.unlink()
    os.link(secret, path)


def a_pipe(path: Path, secret: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def a_directory(path: Path, secret: Path) -> None:
    path.unlink()
    path.mkdir()


def linked_attempt(path: Path, secret: Path) -> None:
    path.parent.rename(secret.parent / "elsewhere")
    path.parent.symlink_to(secret.parent / "elsewhere")


def linked_write(path: Path, secret: Path) -> None:
    linked_attempt(path.parent, secret)


def renamed(path: Path, secret: Path) -> None:
    path.rename(path.with_name("authorized_keys"))


def partitions(stored: str | bytes) -> Callable[[Path, Path], None]:
    def change(path: Path, secret: Path) -> None:
        path.with_name("partitions").write_bytes(stored if isinstance(stored, bytes) else stored.encode())

    return change


def of_partitions(change: Callable[[Path, Path], None]) -> Callable[[Path, Path], None]:
    return lambda path, secret: change(path.with_name("partitions"), secret)


STAGED: dict[str, Callable[[Path, Path], None]] = {
    "link": linked,
    "hard link": hard_linked,
    "pipe": a_pipe,
    "directory": a_directory,
    "linked attempt": linked_attempt,
    "linked write": linked_write,
    "other name": renamed,
    "partitions: link": of_partitions(linked),
    "partitions: pipe": of_partitions(a_pipe),
    "partitions: directory": of_partitions(a_directory),
    "partitions: gone": of_partitions(renamed),
    "partitions: nothing": partitions(" "),
    "one line more": partitions("city=bonn\ncity=ulm"),
    "last line ends": partitions("city=bonn\n"),
    "absolute": partitions("/tmp"),
    "above": partitions("../city=bonn"),
    "above, in it": partitions("city=bonn/../.."),
    "nested": partitions("city=bonn/city=bonn"),
    "two columns": partitions("city=bonn/day=2024-05-17"),
    "other column": partitions("day=bonn"),
    "no column": partitions("bonn"),
    "hidden": partitions("_headrace"),
    "column escaped anew": partitions("%63ity=bonn"),
    "value escaped anew": partitions("city=%62onn"),
    "slash in it": partitions("city=bo%2fnn"),
    "empty value": partitions("city="),
    "null byte": partitions("city=bo\0nn"),
    "no UTF-8": partitions(b"city=\xff"),
    "too long a value": partitions("city=" + "x" * 251),
    "too long a file": partitions("city=" + "x" * 5_000_000),
}


@pytest.mark.parametrize("forge", STAGED.values(), ids=STAGED)
def test_forged_staging_is_refused_and_nothing_is_moved(tmp_path: Path, forge: Callable[[Path, Path], None]) -> None:
    secret = tmp_path / "secret"
    pq.write_table(rows(99), secret)
    table = new_table(tmp_path / "t", "city")
    committed(table, rows(1))
    plan = table.insert(request_for(table, mode=hr.WriteMode.TRUNCATE))
    message = written(plan, rows(2))
    forge(staged_file(tmp_path / "t"), secret)
    before, record = everything(tmp_path), read_record(str(tmp_path / "t"))
    with pytest.raises(hr.WriteError, match=f"{tmp_path}/t"):
        plan.commit([message])
    assert everything(tmp_path) == before
    assert read_record(str(tmp_path / "t")) == record
    plan.abort([message])
    committed(table, rows(4))
    assert ids(table) == [1, 4]
    assert secret.exists()


@pytest.mark.parametrize("stored", ["p=300", "p=007", "p=1.5", "p=one", "p= 1", "p=+1"])
def test_staged_partition_that_its_column_cannot_have_is_refused(tmp_path: Path, stored: str) -> None:
    table = hr.DatasetTable(tmp_path / "t", schema="id BIGINT, p TINYINT", partition_by=["p"])
    plan = table.insert(request_for(table))
    message = written(plan, pa.table({"id": [1], "p": [1]}, table.schema()))
    partitions(stored)(staged_file(tmp_path / "t"), tmp_path)
    with pytest.raises(hr.WriteError, match="no partition by p"):
        plan.commit([message])


def test_what_else_lies_in_the_staging_folder_is_not_published(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    plan = table.insert(request_for(table))
    message = written(plan, rows(1))
    staged = staged_file(tmp_path / "t")
    (staged.parent / "1.staged").write_bytes(staged.read_bytes())
    plan.commit([message])
    assert ids(table) == [1]
    assert list((tmp_path / "t" / "_headrace" / "writes").iterdir()) == []


def test_file_that_becomes_a_link_while_it_is_published_is_not_part_of_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pq.write_table(rows(99), tmp_path / "secret")
    table = new_table(tmp_path / "t")
    committed(table, rows(1))
    plan = table.insert(request_for(table))
    message = written(plan, rows(2))

    def swapped(*args: Any, **kwargs: Any) -> None:
        linked(staged_file(tmp_path / "t"), tmp_path / "secret")
        monkeypatch.undo()
        os.utime(*args, **kwargs)

    monkeypatch.setattr(os, "utime", swapped)
    with pytest.raises(hr.WriteError, match="something else when it was published"):
        plan.commit([message])
    assert ids(table) == ids(hr.DatasetTable(tmp_path / "t")) == [1]
    assert not [path for path in tmp_path.glob("t/*") if path.is_symlink()]


def test_file_that_is_there_under_the_final_name_is_not_overwritten(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    plan = table.insert(request_for(table))
    message = written(plan, rows(2))
    write, attempt = staged_file(tmp_path / "t").parts[-3:-1]
    victim = tmp_path / "t" / f"part-00000-{write}-{attempt.split('-')[1]}-0.parquet"
    victim.write_bytes(b"someone else's")
    with pytest.raises(hr.WriteError, match="already"):
        plan.commit([message])
    assert victim.read_bytes() == b"someone else's"


# Links in the way of a write


@pytest.mark.parametrize("name", ["_headrace", "_headrace/writes", "_headrace/lock", "_headrace/record.json"])
def test_links_in_place_of_what_belongs_to_headrace_are_refused(tmp_path: Path, name: str) -> None:
    table = new_table(tmp_path / "t")
    committed(table, rows(1))
    elsewhere = tmp_path / "elsewhere"
    (tmp_path / "t" / name).rename(elsewhere)
    (tmp_path / "t" / name).symlink_to(elsewhere)
    if elsewhere.is_dir():
        (elsewhere / "private").mkdir()  # no write has made it
    else:
        elsewhere.write_text("private")
    before = everything(tmp_path)
    with pytest.raises(hr.HeadraceError, match="symbolic link") as caught:
        committed(table, rows(2))
    assert isinstance(caught.value, hr.WriteError) == ("record" not in name)
    with pytest.raises(hr.HeadraceError, match="symbolic link"):
        table.insert(request_for(table))
    if name in ("_headrace", "_headrace/record.json"):
        with pytest.raises(hr.HeadraceError, match="symbolic link"):
            hr.DatasetTable(tmp_path / "t")
    assert everything(tmp_path) == before


def test_new_record_is_not_written_into_a_file_that_has_its_name(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("private")
    for make in (os.symlink, os.link):
        table = new_table(tmp_path / "t")
        committed(table, rows(1))
        make(victim, tmp_path / "t" / "_headrace" / "record.json.new")
        committed(table, rows(2))
    assert victim.read_text() == "private"
    assert ids(hr.DatasetTable(tmp_path / "t")) == [1, 1, 2, 2]


def test_record_and_lock_that_are_pipes_keep_nobody_waiting(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    committed(table, rows(1))
    home = tmp_path / "t" / "_headrace"
    (home / "record.json").unlink()
    (home / "writes" / "old").mkdir()
    for name in ("record.json", "writes/old/alive"):
        os.mkfifo(home / name)
    with pytest.raises(hr.HeadraceError, match="is no record"):
        hr.DatasetTable(tmp_path / "t")
    (home / "record.json").unlink()
    committed(table, rows(2))
    assert ids(hr.DatasetTable(tmp_path / "t")) == [1, 2]


@pytest.mark.parametrize("path", ["/absolute", "../outside", "city=x/../../outside", "city=link/outside", ""])
def test_forged_record_deletes_nothing_outside_of_the_folder(tmp_path: Path, path: str) -> None:
    table = new_table(tmp_path / "t", "city")
    committed(table, rows(1))
    outside = tmp_path / "outside"
    outside.write_text("private")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "outside").write_text("private")
    (tmp_path / "t" / "city=link").symlink_to(tmp_path / "other")
    path = str(outside) if path == "/absolute" else path
    for field in ("adding", "removing"):
        replace_record(str(tmp_path / "t"), read_record(str(tmp_path / "t")), **{field: (path,)})
        committed(table, rows(2))
    assert outside.read_text() == (tmp_path / "other" / "outside").read_text() == "private"


@pytest.mark.parametrize(
    "record",
    ["[]", "{}", '{"adding": [1]}', "[" * 100_000, '{"version": 1, "epochs": 7}', "null"],
    ids=["list", "empty", "number as path", "deep", "number as epochs", "null"],
)
def test_forged_record_is_named(tmp_path: Path, record: str) -> None:
    table = new_table(tmp_path / "t")
    committed(table, rows(1))
    path = tmp_path / "t" / "_headrace" / "record.json"
    stored = json.loads(path.read_text())
    path.write_text(json.dumps({**stored, **json.loads(record)}) if record.startswith('{"') else record)
    with pytest.raises(hr.HeadraceError, match="is no record"):
        hr.DatasetTable(tmp_path / "t")
    with pytest.raises(hr.HeadraceError, match="is no record"):
        committed(table, rows(2))


# Partitions that are links


def with_linked_partition(tmp_path: Path) -> hr.DatasetTable:
    committed(new_table(tmp_path / "t", "city"), rows(1), rows(2, city="ulm"))
    (tmp_path / "t" / "city=ulm").rename(tmp_path / "elsewhere")
    (tmp_path / "t" / "city=ulm").symlink_to(tmp_path / "elsewhere")
    return hr.DatasetTable(tmp_path / "t")


def is_city(value: str) -> hr.Expr:
    return hr.Comparison("=", hr.Column("city"), hr.Literal(value, pa.string()))


def test_partition_that_is_a_link_is_read_and_neither_deleted_nor_replaced_in_silence(tmp_path: Path) -> None:
    table = with_linked_partition(tmp_path)
    assert ids(table) == [1, 2]
    before = everything(tmp_path)
    link = "city=ulm is a symbolic link"
    for filters in ((), (is_city("ulm"),)):
        with pytest.raises(hr.WriteError, match=link):
            table.delete(filters)
    for mode in (hr.WriteMode.APPEND, hr.WriteMode.DYNAMIC):
        with pytest.raises(hr.WriteError, match=link):
            committed(table, rows(3, city="ulm"), mode=mode)
    with pytest.raises(hr.WriteError, match=link):
        committed(table, rows(3), mode=hr.WriteMode.TRUNCATE)
    with pytest.raises(hr.WriteError, match=link):
        committed(table, rows(3), mode=hr.WriteMode.OVERWRITE, filters=(is_city("ulm"),))
    assert everything(tmp_path) == before


def test_statements_about_other_partitions_than_the_linked_one_go_on(tmp_path: Path) -> None:
    table = with_linked_partition(tmp_path)
    committed(table, rows(3), mode=hr.WriteMode.DYNAMIC)
    assert ids(table) == [2, 3]
    table.delete((is_city("bonn"),))
    assert ids(table) == ids(hr.DatasetTable(tmp_path / "t")) == [2]


def test_file_that_is_a_link_is_deleted_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    pq.write_table(rows(7).drop_columns(["city"]), tmp_path / "original.parquet")
    committed(new_table(tmp_path / "t", "city"), rows(1))
    (tmp_path / "t" / "city=bonn" / "linked.parquet").symlink_to(tmp_path / "original.parquet")
    table = hr.DatasetTable(tmp_path / "t")
    assert ids(table) == [1, 7]
    table.delete((is_city("bonn"),))
    assert ids(table) == []
    assert (tmp_path / "original.parquet").exists()


def test_link_to_a_directory_above_has_an_end(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", "city")
    committed(table, rows(1))
    for name in ("city=bonn/up", "city=bonn/here", "around"):
        target = tmp_path / "t" if "up" in name or name == "around" else tmp_path / "t" / "city=bonn"
        (tmp_path / "t" / name).symlink_to(target)
    assert [path.split("/")[0] for path in folders.Folder(str(tmp_path / "t")).data_files()] == ["city=bonn"]


# A write that fails leaves the folder open


LONG = "x" * 251  # city= and this make 256 bytes


@pytest.mark.parametrize("value", [LONG, "ö" * 126, "%" * 84], ids=["ASCII", "two bytes each", "escaped"])
def test_value_longer_than_a_file_name_is_refused_and_the_folder_stays_open(tmp_path: Path, value: str) -> None:
    table = new_table(tmp_path / "t", "city")
    with pytest.raises(hr.WriteError, match="'city' has a value whose directory"):
        committed(table, rows(1, city=value))
    committed(table, rows(1, city=value[:-1]))
    assert read_rows(hr.DatasetTable(tmp_path / "t"))["city"].to_pylist() == [value[:-1]]


def test_path_longer_than_the_system_opens_is_refused_and_the_folder_stays_open(tmp_path: Path) -> None:
    """Directories are made one by one, so the file would be there, and no listing of the folder would end well."""
    columns = [f"p{number}" for number in range(20)]
    schema = pa.schema([("id", pa.int64()), *((name, pa.string()) for name in columns)])
    table = hr.DatasetTable(tmp_path / "t", schema=schema, partition_by=columns)
    with pytest.raises(hr.WriteError, match=r"a path of [45],\d{3} bytes"):
        committed(table, pa.Table.from_pylist([{"id": 1, **dict.fromkeys(columns, "x" * 240)}], schema))
    committed(table, pa.Table.from_pylist([{"id": 2, **dict.fromkeys(columns, "x")}], schema))
    assert ids(table) == ids(hr.DatasetTable(tmp_path / "t")) == [2]


@pytest.mark.parametrize("path", [f"city={LONG}/a.parquet", "a\0b", "\ud800", "city=bonn", "no/such/file", "x/" * 3000])
def test_record_of_a_file_that_cannot_be_does_not_lock_the_folder(tmp_path: Path, path: str) -> None:
    table = new_table(tmp_path / "t", "city")
    committed(table, rows(1))
    replace_record(str(tmp_path / "t"), read_record(str(tmp_path / "t")), adding=(path,))
    committed(table, rows(2))
    committed(table, rows(3), mode=hr.WriteMode.TRUNCATE)
    table.delete(())
    committed(table, rows(4))
    assert ids(table) == ids(hr.DatasetTable(tmp_path / "t")) == [4]
    assert read_record(str(tmp_path / "t")).hidden == ()


def test_files_that_cannot_be_deleted_stay_hidden_and_the_folder_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, left = new_table(tmp_path / "t"), "left.parquet"
    committed(table, rows(1))
    pq.write_table(rows(99), tmp_path / "t" / left)
    replace_record(str(tmp_path / "t"), read_record(str(tmp_path / "t")), adding=(left,))
    unlink = os.unlink

    def failing(path: Any, **kwargs: Any) -> None:
        if path == left:
            raise PermissionError(errno.EACCES, "not yours", path)
        unlink(path, **kwargs)

    monkeypatch.setattr(os, "unlink", failing)
    committed(table, rows(2))
    assert ids(table) == ids(hr.DatasetTable(tmp_path / "t")) == [1, 2]
    committed(table, rows(3), mode=hr.WriteMode.TRUNCATE)
    assert ids(table) == ids(hr.DatasetTable(tmp_path / "t")) == [3]
    monkeypatch.undo()
    committed(table, rows(4))
    assert files(tmp_path / "t") == sorted(part.whole.path for part in table._parts)
    assert read_record(str(tmp_path / "t")).hidden == ()


def test_no_error_of_a_deletion_locks_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, unlink = folders.Folder(str(tmp_path)), os.unlink
    folder.publish([], lambda: [])
    for number in errno.errorcode:

        def failing(path: str, number: int = number, **kwargs: Any) -> None:
            if path.endswith(".parquet"):
                raise OSError(number, os.strerror(number), path)
            unlink(path, **kwargs)

        replace_record(folder.path, read_record(folder.path), adding=("a.parquet",), removing=("b.parquet",))
        with monkeypatch.context() as patched:
            patched.setattr(os, "unlink", failing)
            assert folder.publish([], lambda: [])
        left = () if number in folders._NOT_THERE else ("a.parquet", "b.parquet")
        assert read_record(folder.path).hidden == left, errno.errorcode[number]


def test_message_has_one_size_whatever_the_number_of_partitions(tmp_path: Path) -> None:
    table = hr.DatasetTable(tmp_path / "t", schema="id BIGINT, p STRING", partition_by=["p"])
    data = pa.table({"id": range(200), "p": [f"{i:0200}" for i in range(200)]}, table.schema())
    (message,) = committed(table, data)
    assert len(json.dumps(message)) < 100
    assert ids(table) == list(range(200))


def test_task_that_writes_too_many_files_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_writers, "MOST_FILES", 3)
    table = new_table(tmp_path / "t", "city")
    with pytest.raises(hr.WriteError, match="may write 3 files"):
        committed(table, pa.concat_tables([rows(i, city=str(i)) for i in range(4)]))


def test_staged_files_that_go_while_a_folder_is_listed_are_no_error(tmp_path: Path) -> None:
    committed(new_table(tmp_path), rows(1))
    tries: list[Record] = []

    def listing(record: Record) -> str:
        tries.append(record)
        if len(tries) < 4:
            raise FileNotFoundError(f"Cannot list directory '{tmp_path}/_headrace/writes/0-1'")
        return "files"

    assert consistent(str(tmp_path), listing)[1] == "files"
    with pytest.raises(FileNotFoundError, match="another"):
        consistent(str(tmp_path), lambda record: os.listdir(tmp_path / "another"))


@pytest.mark.parametrize("answer", ["city", ["city", "no such"], [["city"]], None])
def test_partition_columns_that_a_table_has_not_are_named(tmp_path: Path, answer: Any) -> None:
    class Answering(hr.DatasetTable):
        def partition_columns(self) -> Any:
            return answer

    assert partition_columns(RegisteredTable.of("t", new_table(tmp_path / "t", "city"))) == ["city"]
    with pytest.raises(hr.WriteError, match=r"Answering\.partition_columns returned .* 't'"):
        partition_columns(RegisteredTable.of("t", Answering(tmp_path / "t", schema=SCHEMA)))
