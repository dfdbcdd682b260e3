"""Error messages that say what to do next: what differs between schemas, what to wrap, what to call."""

from __future__ import annotations

import asyncio
import logging
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from typer.testing import CliRunner

import headrace as hr
import headrace.push.channel
import headrace.push.table
from headrace.arrow.mismatch import difference, mismatch, nearest_difference
from headrace.arrow.sources import batch_iterator, hint_for
from headrace.cli.app import app
from headrace.push.channel import Channel
from headrace.push.packing import Packing
from headrace.push.sink import TableSink
from headrace.push.table import PushTable
from headrace.tables.choose import not_a_provider
from headrace.testing import Promise, Severity, check_provider

AB = pa.schema([("a", pa.int64()), ("b", pa.string())])

# What differs between two schemas

DIFFERENCES = {
    "order": (
        pa.schema([("b", pa.string()), ("a", pa.int64())]),
        "only the order of the columns differs; fix it with batch.select(['a', 'b'])",
    ),
    "missing": (pa.schema([("a", pa.int64())]), "column 'b' is missing"),
    "extra": (
        pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.int8())]),
        "column 'c' is not expected; fix it with batch.select(schema.names)",
    ),
    "both": (
        pa.schema([("a", pa.int64()), ("c", pa.int8())]),
        "column 'b' is missing, and column 'c' is not expected",
    ),
    "case": (pa.schema([("A", pa.int64()), ("b", pa.string())]), "the names differ in case: 'A' should be 'a'"),
    "type": (
        pa.schema([("a", pa.int32()), ("b", pa.string())]),
        "column 'a' is int32, expected int64\nfix it with batch.cast(schema), if every value fits",
    ),
    "type and order": (
        pa.schema([("b", pa.string()), ("a", pa.int32())]),
        "column 'a' is int32, expected int64\nfix it with batch.select(['a', 'b']).cast(schema), if every value fits",
    ),
    "twice": (
        pa.schema([("a", pa.int64()), ("b", pa.string()), ("b", pa.string())]),
        "the columns 'b' come more than once; give each column once",
    ),
    "nothing": (AB, ""),
}


@pytest.mark.parametrize("case", DIFFERENCES)
def test_difference_names_what_differs_and_the_remedy(case: str) -> None:
    found, text = DIFFERENCES[case]
    assert difference(AB, found) == text


def test_difference_in_nested_nullability_alone_says_so() -> None:
    strict = pa.schema([("a", pa.list_(pa.field("item", pa.int64(), nullable=False)))])
    loose = pa.schema([("a", pa.list_(pa.int64()))])
    assert difference(strict, loose).startswith("only what is declared nullable inside differs: column 'a' is list<")


def test_difference_of_many_columns_names_the_first_few() -> None:
    wide = pa.schema([(f"c{i}", pa.int64()) for i in range(20)])
    assert difference(wide, pa.schema([])) == "the columns 'c0', 'c1', 'c2', 'c3', 'c4' and 15 more are missing"
    other = pa.schema([(f"c{i}", pa.int32()) for i in range(20)])
    assert "column 'c4' is int32, expected int64; 15 more" in difference(wide, other)


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (pa.schema([("b", pa.string())]), ""),
        (pa.schema([("b", pa.int32())]), "column 'b' is int32, expected string"),
        (pa.schema([("b", pa.string()), ("a", pa.int64())]), "only the order of the columns differs"),
        (pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.int64())]), "column 'c' is not expected"),
    ],
    ids=["none", "type", "order", "more"],
)
def test_difference_is_told_from_the_nearest_of_several(found: pa.Schema, text: str) -> None:
    assert nearest_difference((pa.schema([AB.field("b")]), AB), found) == text


def test_plan_of_another_schema_says_what_differs() -> None:
    table = hr.SimpleTable(AB, lambda request: [pa.record_batch({"a": [1], "c": ["x"]})])
    (error, *_) = check_provider(table).of(Severity.ERROR)
    assert error.message.splitlines()[-1].strip() == "column 'b' is missing, and column 'c' is not expected"


@pytest.mark.parametrize("case", ["order", "type", "type and order"])
def test_difference_remedy_really_fixes_the_batch(case: str) -> None:
    found, text = DIFFERENCES[case]
    batch = pa.RecordBatch.from_pylist([{"a": 1, "b": "x"}], found)
    remedy = text.partition("fix it with ")[2].partition(", if")[0]
    assert eval(remedy, {"batch": batch, "schema": AB}).schema.equals(AB)


def test_mismatch_ends_with_both_schemas() -> None:
    text = mismatch(AB, pa.schema([("a", pa.int64())]))
    assert text == "column 'b' is missing\nexpected:\n  a: int64\n  b: string\nfound:\n  a: int64"


# What is yielded instead of a RecordBatch


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (pa.table({"a": [1]}), "Table.to_batches()"),
        (pd.DataFrame({"a": [1]}), "RecordBatch.from_pandas(frame, schema=schema, preserve_index=False)"),
        (pl.DataFrame({"a": [1]}), "frame.to_arrow().cast(schema).to_batches()"),
        ({"a": [1]}, "RecordBatch.from_pydict(columns, schema=schema)"),
        ({"a": 1}, "RecordBatch.from_pylist(rows, schema=schema)"),
        ([{"a": 1}], "RecordBatch.from_pylist(rows, schema=schema)"),
    ],
    ids=["Table", "pandas", "polars", "columns", "row", "rows"],
)
def test_value_that_is_not_a_batch_has_a_hint_that_makes_one(value: Any, hint: str) -> None:
    schema = pa.schema([("a", pa.int64())])
    assert hint in hint_for(value)
    names = {"value": value, "frame": value, "columns": value, "rows": value, "schema": schema, "pyarrow": pa}
    names["rows"] = value if isinstance(value, list) else [value]
    names["Table"] = value
    call = hint_for(value).removeprefix("; use ").partition(", where")[0]
    made = eval(call, names)
    assert (made[0] if isinstance(made, list) else made).schema.equals(schema)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "yielded NoneType, expected pyarrow.RecordBatch"),
        ("a", "yielded str, expected pyarrow.RecordBatch"),
        ((1,), "yielded tuple, expected pyarrow.RecordBatch"),
        ([1], "yielded list, expected pyarrow.RecordBatch"),
        (pl.LazyFrame({"a": [1]}), "frame.collect()"),
        (pl.Series("a", [1]), "a single column, not a table"),
        ({"a": 1}, "one row is a list of one dict, [row]"),
        ([{"a": 1}, 2], "item 1 is a int"),
        ([{"b": 1}], "rows with the key 'b' do not fit the plan's schema"),
        ([(1, 2)], "rows with 2 values do not fit the plan's schema"),
    ],
    ids=lambda value: "" if isinstance(value, str) else type(value).__name__,
)
def test_yielded_value_that_is_no_data_is_named(value: Any, words: str) -> None:
    report = check_provider(hr.SimpleTable([("a", pa.int64())], lambda: iter([value])))
    assert words in next(finding.message for finding in report.of(Severity.ERROR))


def test_execute_that_returns_nothing_is_asked_for_a_yield() -> None:
    with pytest.raises(TypeError, match=r"f returned NoneType, .*; is a yield or return missing\?"):
        batch_iterator(None, "f")


# What is registered instead of a provider


class NumbersTable(hr.TableProvider):
    def __init__(self, upto: int) -> None:
        self.upto = upto

    def schema(self) -> pa.Schema:
        return AB

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        raise SystemExit(3)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (pa.table({"a": [1]}), "Table: wrap it in hr.MemTable(...)"),
        (pd.DataFrame({"a": [1]}), "DataFrame: wrap it in hr.MemTable(...)"),
        (pl.DataFrame({"a": [1]}), "DataFrame: wrap it in hr.MemTable(...)"),
        ([pa.record_batch({"a": [1]})], "list: wrap it in hr.MemTable(...)"),
        ([{"a": 1}], "list: wrap it in hr.MemTable(...)"),
        ({"a": [1]}, "dict: wrap it in hr.MemTable(...)"),
        (ds.dataset(pa.table({"a": [1]})), "InMemoryDataset: wrap it in hr.DatasetTable(...)"),
        (Path("x.parquet"), "PosixPath: for files pass hr.DatasetTable(path), or hr.ListingTable(path, format)"),
        (len, "builtin_function_or_method: for a function that returns batches pass hr.SimpleTable(schema, function)"),
        (NumbersTable, "the class NumbersTable: pass an instance, NumbersTable(...), not the class"),
        (3, "int: write a subclass of hr.TableProvider, or use one of the ready-made tables"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_not_a_provider_names_what_to_pass_instead(value: Any, text: str) -> None:
    assert not_a_provider(value) == text


# Plans


class Partitioned(hr.ExecutionPlan):
    schema = AB

    def __init__(self, partitioning: Any) -> None:
        self.partitioning = partitioning

    def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pylist([], AB)


class PartitionedTable(hr.TableProvider):
    def __init__(self, partitioning: Any) -> None:
        self.partitioning = partitioning

    def schema(self) -> pa.Schema:
        return AB

    def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
        return Partitioned(self.partitioning)


def test_partitioning_that_is_a_number_is_told_the_class() -> None:
    report = check_provider(PartitionedTable(3))
    messages = [finding.message for finding in report.of(Severity.ERROR)]
    assert any("for 3 partitions write hr.UnknownPartitioning(3)" in message for message in messages), messages


def test_no_partitions_is_a_warning_of_the_check() -> None:
    report = check_provider(PartitionedTable(hr.UnknownPartitioning(0)))
    assert report.ok
    (finding,) = [finding for finding in report.of(Severity.WARNING) if finding.promise is Promise.PARTITIONING]
    assert finding.message == "the plan of all rows has 0 partitions, so the table is empty; one partition is one task"


# The check itself


def test_check_provider_that_exits_is_a_finding() -> None:
    report = check_provider(NumbersTable(1))
    assert not report.ok
    assert any("NumbersTable.scan raised SystemExit: 3" in finding.message for finding in report.of(Severity.ERROR))


@pytest.mark.parametrize("where", ["schema", "execute"])
def test_check_provider_that_exits_elsewhere_is_a_finding(where: str) -> None:
    def leave() -> Any:
        sys.exit("no licence")

    class Leaving(hr.TableProvider):
        def schema(self) -> pa.Schema:
            return leave() if where == "schema" else AB

        def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
            return hr.SimpleTable(AB, leave).scan(request)

    report = check_provider(Leaving())
    assert any("SystemExit: no licence" in finding.message for finding in report.of(Severity.ERROR)), str(report)


def test_check_command_for_a_class_with_arguments_names_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "import headrace as hr\nclass Shop(hr.MemTable):\n    def __init__(self, url, *, token): pass\n"
    (tmp_path / "teaching_shop.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    result = CliRunner().invoke(app, ["check", "teaching_shop:Shop"], env={"COLUMNS": "400"})
    assert result.exit_code == 2
    assert "teaching_shop:Shop needs url, token to be called" in result.output
    assert "def table(): return Shop(...)" in result.output


# Sinks that nobody reads, and queries for which nobody writes


def new_sink(capacity: int = 1) -> tuple[TableSink, PushTable]:
    channel: Channel[Any] = Channel("t", capacity)
    packing = Packing(AB, capacity)
    return TableSink(channel, packing), PushTable("t", channel, packing)


ONE = pa.RecordBatch.from_pylist([{"a": 1, "b": "x"}], AB)


def test_write_timeout_without_a_reader_says_that_no_query_reads() -> None:
    sink, table = new_sink()
    sink.write(ONE)
    with pytest.raises(hr.WriteTimeout, match=r"stayed full for 0\.01 s; nothing was written; no query is reading"):
        sink.write(ONE, timeout=0.01)
    stream = table.claim(0, "query")
    with pytest.raises(hr.WriteTimeout, match=r"nothing was written$"):
        sink.write(ONE, timeout=0.01)
    stream.close()


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(headrace.push.channel, "HINT_S", 0.05)
    monkeypatch.setattr(headrace.push.table, "HINT_S", 0.05)


def await_warning(caplog: pytest.LogCaptureFixture) -> str:
    waited = threading.Event()
    for _ in range(400):
        if caplog.messages:
            return caplog.messages[0]
        waited.wait(0.05)
    pytest.fail("no warning came")


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("writers", [1, 3])
def test_write_blocked_without_a_reader_warns_once(caplog: pytest.LogCaptureFixture, writers: int) -> None:
    caplog.set_level(logging.WARNING, "headrace")
    sink, table = new_sink()
    sink.write(ONE)
    blocked = [threading.Thread(target=sink.write, args=(ONE,)) for _ in range(writers)]
    for writer in blocked:
        writer.start()
    message = await_warning(caplog)
    assert message.startswith(
        "a write to the streaming table 't' has been blocked for 0.05 s: it is full, and no query"
    )
    while sink.stats.blocked_s < writers * 1.5:  # until each has looked up, which is when it would warn
        threading.Event().wait(0.05)
    stream = table.claim(0, "query")
    assert sum(next(stream).num_rows for _ in range(writers + 1)) == writers + 1
    for writer in blocked:
        writer.join()
    assert len(caplog.messages) == 1


@pytest.mark.usefixtures("soon")
def test_reader_that_waits_for_an_open_sink_warns_once_with_what_it_read(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "headrace")
    sink, table = new_sink(capacity=4)
    stream = table.claim(0, "query")
    read: list[int] = []
    reader = threading.Thread(target=lambda: read.extend(batch.num_rows for batch in stream))
    for _ in range(3):
        sink.write(ONE)
    reader.start()
    message = await_warning(caplog)
    assert re.fullmatch(
        r"a query waits for the streaming table 't': it has read 3 batches, and nothing has come for [\d.]+ s\. The "
        r"sink is open; if all is written, call its close\(\), which ends the query",
        message,
    )
    sink.write(ONE)
    waited = threading.Event()
    while len(read) < 2:
        waited.wait(0.05)
    waited.wait(1.2)  # two more ticks, at each of which it could say so again
    sink.close()
    reader.join()
    assert (sum(read), len(caplog.messages)) == (4, 1)


@pytest.mark.usefixtures("soon")
def test_awrite_blocked_without_a_reader_warns(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "headrace")
    sink, _ = new_sink()

    async def write_twice() -> None:
        await sink.awrite(ONE)
        await asyncio.wait_for(sink.awrite(ONE), 2)

    with pytest.raises(TimeoutError):
        asyncio.run(write_twice())
    assert ["no query is reading this table" in message for message in caplog.messages] == [True]


@pytest.mark.usefixtures("soon")
def test_query_that_waits_for_a_first_write_warns_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "headrace")
    sink, table = new_sink()
    rows: list[int] = []
    stream = table.claim(0, "query")
    reader = threading.Thread(target=lambda: rows.extend(batch.num_rows for batch in stream))
    reader.start()
    message = await_warning(caplog)
    assert message.startswith("a query has been waiting for the streaming table 't' for 0.05 s, and nothing has been")
    sink.write(ONE)
    sink.close()
    reader.join()
    assert rows == [1]
    assert len(caplog.messages) == 1


# What tables look like


def iter_nothing() -> Iterator[pa.RecordBatch]:
    return iter(())


def test_ready_made_tables_show_what_they_are(tmp_path: Path) -> None:
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "x.parquet")
    memory = hr.MemTable(pa.table({"a": range(1000), "b": ["x"] * 1000}))
    assert repr(memory) == "<MemTable: 1,000 rows of a, b>"
    assert repr(hr.SimpleTable(AB, iter_nothing)) == "<SimpleTable: iter_nothing gives a, b>"
    assert repr(hr.StreamTable(AB, [lambda: iter([])] * 3)) == "<StreamTable: 3 streams of a, b>"
    assert repr(hr.SortedTable(memory, [hr.SortKey("a")])) == "<SortedTable: <MemTable: 1,000 rows of a, b> by a>"
    assert repr(hr.DatasetTable(tmp_path)) == "<DatasetTable: 1 file of a>"
    database = hr.AdbcTable("postgresql", "postgresql://u:secret@db/shop", "public.orders")
    assert repr(database) == "<AdbcTable: public.orders through postgresql>"
    flight = hr.FlightTable("grpc+tls://flight:8815", ["taxi"], token="secret")
    assert "grpc+tls://flight:8815" in repr(flight)
    assert "secret" not in repr(flight)


def test_pandas_frame_with_a_column_of_several_types_is_named_with_the_column() -> None:
    with pytest.raises(TypeError, match=r"is no table: .*Conversion failed for column mixed"):
        hr.MemTable(pd.DataFrame({"mixed": [1, "x"]}))
