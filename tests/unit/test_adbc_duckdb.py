"""AdbcTable on one DuckDB file from many threads: all connections of a process share one handle."""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import headrace as hr
from headrace.tables.adbc import duckdb_file
from headrace.tables.adbc.access import AdbcStream
from writing import committed, read_rows


@pytest.fixture
def path(tmp_path: Path) -> str:
    file = str(tmp_path / "shop.duckdb")
    with duckdb.connect(file) as database:
        database.execute("CREATE TABLE a (id BIGINT); CREATE TABLE b (id BIGINT)")
    return file


def stored(path: str, table: str) -> list[int]:
    with duckdb.connect(path, read_only=True) as database:
        return [row[0] for row in database.execute(f"SELECT id FROM {table} ORDER BY id").fetchall()]


def one(number: int) -> pa.Table:
    return pa.table({"id": [number]})


def half_read(path: str) -> AdbcStream:
    table = hr.AdbcTable("duckdb", path, "a")
    table.schema()
    stream = table.scan(hr.ScanRequest(table.schema(), ("id",))).execute(0)
    assert isinstance(stream, AdbcStream)
    next(stream)
    return stream


def test_duckdb_commits_of_many_threads_are_all_there(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link.duckdb").symlink_to(path)
    paths = [path, "shop.duckdb", str(tmp_path / "link.duckdb")]

    def write(thread: int) -> int:
        table = hr.AdbcTable("duckdb", paths[thread % 3], "ab"[thread % 2])
        for n in range(8):
            committed(table, one(thread * 100 + n))
            assert thread * 100 + n in read_rows(table)["id"].to_pylist()
        return thread

    with ThreadPoolExecutor(8) as threads:
        assert len(list(threads.map(write, range(8)))) == 8
    for first, name in enumerate("ab"):
        assert stored(path, name) == [thread * 100 + n for thread in range(first, 8, 2) for n in range(8)]


def test_duckdb_overwrites_of_many_threads_take_turns(path: str) -> None:
    committed(hr.AdbcTable("duckdb", path, "a"), one(-1))

    def write(thread: int) -> None:
        table = hr.AdbcTable("duckdb", path, "a")
        committed(table, one(thread), mode=hr.WriteMode.TRUNCATE)
        table.delete(())
        committed(table, one(thread), mode=hr.WriteMode.TRUNCATE)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(write, range(8)))
    assert len(stored(path, "a")) == 1


def test_duckdb_writer_is_not_kept_out_by_readers_that_overlap(path: str) -> None:
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            hr.AdbcTable("duckdb", path, "a").schema()

    with ThreadPoolExecutor(4) as threads:
        readers = [threads.submit(read) for _ in range(4)]
        try:
            committed(hr.AdbcTable("duckdb", path, "a"), one(1))
        finally:
            done.set()
        for reader in readers:
            reader.result()
    assert stored(path, "a") == [1]


def test_duckdb_write_waits_for_a_reader_and_says_so_when_that_does_not_end(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = hr.AdbcTable("duckdb", path, "a")
    committed(table, one(1))
    monkeypatch.setattr(duckdb_file, "_WAIT_S", 0.05)
    with contextlib.closing(half_read(path)), pytest.raises(OSError, match="in use by other statements of this"):
        committed(table, one(2))
    monkeypatch.undo()
    stream = half_read(path)
    with ThreadPoolExecutor(1) as threads:
        write = threads.submit(committed, table, one(3))
        assert read_rows(table)["id"].to_pylist() == [1]  # a reader does not wait for long
        stream.close()
        write.result()
    assert stored(path, "a") == [1, 3]


def test_duckdb_reader_that_was_dropped_keeps_no_writer_out(path: str) -> None:
    committed(hr.AdbcTable("duckdb", path, "a"), one(1))
    stream = half_read(path)
    del stream
    gc.collect()
    committed(hr.AdbcTable("duckdb", path, "a"), one(2))
    assert stored(path, "a") == [1, 2]


def test_duckdb_file_that_took_the_place_of_another_is_another(path: str, tmp_path: Path) -> None:
    table = hr.AdbcTable("duckdb", path, "a")
    committed(table, one(1))
    with contextlib.closing(half_read(path)):
        with duckdb.connect(str(tmp_path / "new")) as database:
            database.execute("CREATE TABLE a AS SELECT CAST(7 AS BIGINT) AS id")
        os.replace(tmp_path / "new", path)
        committed(table, one(8))
        assert read_rows(table)["id"].to_pylist() == [7, 8]
    assert stored(path, "a") == [7, 8]


def test_duckdb_failed_write_leaves_the_file_free(path: str) -> None:
    with duckdb.connect(path) as database:
        database.execute("CREATE TABLE keyed (id BIGINT PRIMARY KEY)")
    table = hr.AdbcTable("duckdb", path, "keyed")
    committed(table, one(1))
    for _ in range(3):
        with pytest.raises(Exception, match=r"(?i)constraint"):
            committed(table, one(1))
        with pytest.raises(Exception, match="no_such_option"):
            hr.AdbcTable("duckdb", path, "a", db_kwargs={"no_such_option": "1"}).schema()
    committed(table, one(2))
    assert stored(path, "keyed") == [1, 2]
    assert not duckdb_file._HANDLES


def test_duckdb_tables_with_different_options_take_turns(path: str) -> None:
    few = hr.AdbcTable("duckdb", path, "a", db_kwargs={"threads": "1"})
    committed(few, one(1))
    stream = half_read(path)
    with ThreadPoolExecutor(1) as threads:
        read = threads.submit(read_rows, few)
        stream.close()
        assert read.result()["id"].to_pylist() == [1]


def test_duckdb_catalog_makes_a_file_from_many_threads(tmp_path: Path) -> None:
    path = str(tmp_path / "new.duckdb")

    def make(thread: int) -> None:
        catalog = hr.AdbcCatalog("duckdb", path)
        made = catalog.create_table("main", f"t{thread}", pa.schema([("id", pa.int64())]))
        committed(made, one(thread))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(make, range(4)))
    assert [stored(path, f"t{thread}") for thread in range(4)] == [[0], [1], [2], [3]]


def test_duckdb_file_that_is_read_elsewhere_is_not_written_to(path: str) -> None:
    table = hr.AdbcTable("duckdb", path, "a")
    table.schema()
    with (
        duckdb.connect(path, read_only=True),
        pytest.raises(OSError, match=r"this process has the DuckDB file .* open:"),
    ):
        committed(table, one(1))
    code = f"import duckdb; d = duckdb.connect({path!r}, read_only=True); print('open', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:
        try:
            assert reader.stdout is not None
            assert reader.stdout.readline() == b"open\n"
            with pytest.raises(OSError, match=r"another process has the DuckDB file .* open:"):
                committed(table, one(1))
        finally:
            reader.communicate(b"\n", timeout=60)
    committed(table, one(2))
    assert stored(path, "a") == [2]
