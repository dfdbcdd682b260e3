"""PySpark's writers through from_data_source, and a WritableProvider's writes through as_data_source."""

from __future__ import annotations

import base64
import datetime as dt
import enum
import json
import os
import pickle
import sys
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa
import pyspark.cloudpickle
import pytest
from pyspark import TaskContext
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamWriter,
    DataSourceWriter,
    WriterCommitMessage,
)
from pyspark.sql.functions import col
from pyspark.sql.types import StructType

import headrace as hr
from headrace.spark.data_source import writers
from headrace.spark.data_source.writers import WriterPlan
from versions import has
from written_files import FileTable

pytestmark = pytest.mark.core

SCHEMA = "id BIGINT, name STRING, at TIMESTAMP, b BINARY, n DECIMAL(10, 2), list ARRAY<INT>, st STRUCT<a: INT>"


@dataclass
class Written(WriterCommitMessage):
    """What a task wrote: the rows themselves, as text."""

    partition: int
    kind: str
    rows: list[str]


class Log:
    """Calls, in a file that every process appends to."""

    def __init__(self, options: Any) -> None:
        self.path = Path(options["log"])
        self.options = dict(options)

    def add(self, **call: Any) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(call) + "\n")


def calls(path: Path, kind: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [line for line in lines if line["call"] == kind]


class Recording:
    """What all writers here have in common."""

    def __init__(self, log: Log, schema: StructType, overwrite: bool) -> None:
        self.log = log
        log.add(call="writer", names=schema.names, overwrite=overwrite, options=log.options)

    def written(self, kind: str, rows: list[str]) -> WriterCommitMessage:
        if any("'bad'" in row for row in rows):
            raise ValueError("a bad row")
        context = TaskContext.get()
        assert context is not None
        return Written(context.partitionId(), kind, rows)

    def told(self, call: str, messages: list[Any], *batch: int) -> None:
        assert all(one is None or isinstance(one, Written) for one in messages)
        rows = sorted(row for one in messages if one is not None for row in one.rows)
        kinds = sorted({one.kind for one in messages if one is not None})
        self.log.add(call=call, rows=rows, kinds=kinds, batch=list(batch), none=messages.count(None))
        if "'uncommitted'" in str(rows):
            raise OSError("the disk is full")


class RowWriter(Recording, DataSourceWriter):
    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        return self.written("rows", [str(row) for row in iterator])

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self.told("commit", messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self.told("abort", messages)


class ArrowWriter(Recording, DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        batches = list(iterator)
        assert all(isinstance(batch, pa.RecordBatch) for batch in batches)
        return self.written("arrow", [str(row) for batch in batches for row in batch.to_pylist()])

    commit, abort = RowWriter.commit, RowWriter.abort


class StreamRowWriter(Recording, DataSourceStreamWriter):
    write = RowWriter.write

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self.told("commit", messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self.told("abort", messages, batchId)


class Silent(DataSourceWriter):
    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        next(iterator, None)  # and leaves the rest
        return None  # type: ignore[return-value]


class Leaving(Silent):
    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        next(iterator, None)
        return Written(0, "left", [])


class Sink(DataSource):
    @classmethod
    def name(cls) -> str:
        return "sink_of_tests"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        kind = self.options["kind"]
        if kind == "none":
            return object()  # type: ignore[return-value]
        if kind in ("silent", "leaving"):
            return Silent() if kind == "silent" else Leaving()
        return {"rows": RowWriter, "arrow": ArrowWriter}[kind](Log(self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        if self.options["kind"] == "rows":
            return StreamRowWriter(Log(self.options), schema, overwrite)
        from pyspark.sql.datasource import DataSourceStreamArrowWriter

        class StreamArrowWriter(Recording, DataSourceStreamArrowWriter):
            write = ArrowWriter.write
            commit, abort = StreamRowWriter.commit, StreamRowWriter.abort

        return StreamArrowWriter(Log(self.options), schema, overwrite)


def frame(spark: SparkSession, *names: str) -> DataFrame:
    at = dt.datetime(2026, 1, 2, 3, 4, 5)
    rows = [(n, name, at, b"\x00x", Decimal("1.25"), [n, None], Row(a=n)) for n, name in enumerate(names)]
    return spark.createDataFrame(rows, SCHEMA).coalesce(1)


def registered(ctx: hr.SessionContext, log: Path, kind: str) -> None:
    ctx.register_table("sunk", hr.from_data_source(Sink, {"kind": kind, "log": str(log)}, schema=SCHEMA))


@pytest.fixture
def classes_travel() -> Iterator[None]:
    """For Spark's own path, whose workers cannot import this module; Headrace brings it by itself."""
    module = sys.modules[__name__]
    pyspark.cloudpickle.register_pickle_by_value(module)
    yield
    pyspark.cloudpickle.unregister_pickle_by_value(module)


# PySpark's writers


@pytest.mark.daily("rows")
@pytest.mark.usefixtures("classes_travel")
@pytest.mark.parametrize("kind", ["rows", "arrow"])
def test_writer_of_a_data_source_gets_what_spark_itself_gives_it(
    ctx: hr.SessionContext, spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    own, ours = tmp_path / "own", tmp_path / "ours"
    spark.dataSource.register(Sink)
    writer = frame(spark, "a", "b").write.format("sink_of_tests").options(kind=kind, log=str(own), color="red")
    writer.mode("append").save()
    registered(ctx, ours, kind)
    frame(spark, "a", "b").writeTo(f"{ctx.catalog}.sunk").option("color", "red").append()
    for path in (own, ours):
        (made,) = calls(path, "writer")[:1]
        assert made["names"] == ["id", "name", "at", "b", "n", "list", "st"]
        assert (made["overwrite"], made["options"]["color"]) == (False, "red")
    (committed,) = calls(ours, "commit")
    assert committed["kinds"] == [kind]
    assert committed == calls(own, "commit")[0] or kind == "arrow"  # Spark's batches are in the session's time zone
    assert len(committed["rows"]) == 2
    assert calls(ours, "abort") == []


def test_writer_of_a_data_source_is_told_to_overwrite(
    ctx: hr.SessionContext, spark: SparkSession, tmp_path: Path
) -> None:
    registered(ctx, tmp_path / "log", "arrow")
    frame(spark, "a").write.insertInto("sunk", overwrite=True)
    assert [call["overwrite"] for call in calls(tmp_path / "log", "writer")] == [True]
    with pytest.raises(AnalysisException, match="takes no REPLACE WHERE"):
        frame(spark, "a").writeTo("sunk").overwrite(col("id") == 1)


def test_writer_that_raises_is_aborted_with_its_own_error_first(
    ctx: hr.SessionContext, spark: SparkSession, tmp_path: Path
) -> None:
    registered(ctx, tmp_path / "log", "rows")
    rows = frame(spark, "a").union(frame(spark, "bad"))
    with pytest.raises(Exception, match="ValueError: a bad row"):
        rows.writeTo("sunk").append()
    assert calls(tmp_path / "log", "commit") == []
    (aborted,) = calls(tmp_path / "log", "abort")
    assert aborted["none"] >= 1
    with pytest.raises(Exception, match="OSError: the disk is full"):
        frame(spark, "uncommitted").writeTo("sunk").append()


def test_writer_that_breaks_pyspark_s_contract_fails_as_in_spark(
    ctx: hr.SessionContext, spark: SparkSession, tmp_path: Path
) -> None:
    registered(ctx, tmp_path / "log", "silent")
    with pytest.raises(Exception, match=r"DATA_SOURCE_TYPE_MISMATCH.*WriterCommitMessage.*NoneType"):
        frame(spark, "a", "b").writeTo("sunk").append()
    ctx.register_table(
        "nothing", hr.from_data_source(Sink, {"kind": "none", "log": ""}, schema="id BIGINT"), replace=True
    )
    with pytest.raises(Exception, match=r"DATA_SOURCE_TYPE_MISMATCH.*an instance of DataSourceWriter"):
        spark.range(1).writeTo("nothing").append()
    ctx.register_table("left", hr.from_data_source(Sink, {"kind": "leaving", "log": ""}, schema="id BIGINT"))
    spark.range(10).coalesce(1).writeTo("left").append()  # Spark does not mind


class Kind(enum.Enum):
    WHOLE = "whole"


class Place(NamedTuple):
    shard: int
    file: str


@dataclass(frozen=True, slots=True)
class File:
    path: Path
    rows: int


@dataclass
class Told(WriterCommitMessage):
    value: Any


class Acting(Told):
    """A message that would act where it is unpickled."""

    def __reduce__(self) -> Any:
        return os.mkdir, (self.value,)


class WithEnding(Told):
    def __del__(self) -> None:
        Path(self.value).touch()


class Keeping(DataSourceWriter):
    """Its ``commit`` keeps what it is told, in the process that it runs in."""

    committed: ClassVar[list[Any]] = []
    aborted: ClassVar[list[Any]] = []

    def __init__(self, message: WriterCommitMessage) -> None:
        self.message = message

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        return self.message

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        Keeping.committed[:] = messages

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        Keeping.aborted[:] = messages


def kept(message: WriterCommitMessage) -> WriterPlan:
    return WriterPlan(Keeping(message), StructType(), "kept")


def sent(message: WriterCommitMessage) -> str:
    """What a task sends for it."""
    return str(kept(message).write(hr.WriteTask(0, 1), iter(())))


VALUES = [
    *(None, True, 2**70, 1.5, -0.0, float("inf"), "a\ud800\0", b"\0", bytearray(b"x"), Decimal("1.20"), Path("/a b")),
    *(
        [1, (2, {3}), frozenset([4])],
        {1: "a", (1, 2): [None]},
        Kind.WHOLE,
        Place(1, "f"),
        File(Path("f"), 3),
        Row(a=1, b="x"),
    ),
    *(
        dt.date(2026, 1, 2),
        dt.datetime(2026, 1, 2, 3, tzinfo=dt.UTC),
        dt.time(1, 2),
        dt.timedelta(-1, 3, 4),
        uuid.UUID(int=7),
    ),
    Told(Told([File(Path("f"), 3)])),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_commit_message_of_data_comes_back_as_it_was(value: Any) -> None:
    plan = kept(Told(value))
    plan.commit([sent(Told(value))])
    (found,) = Keeping.committed
    assert (repr(found), type(found.value), found) == (repr(Told(value)), type(value), Told(value))


def test_commit_message_beside_a_class_whose_metaclass_raises_comes_back() -> None:
    class Refusing(type):
        def __getattribute__(cls, name: str) -> Any:
            raise RuntimeError("refused")

        def __hash__(cls) -> int:
            raise RuntimeError("refused")

    class Loaded(metaclass=Refusing):
        pass

    kept(Told(1)).commit([sent(Told(1))])
    assert Keeping.committed == [Told(1)]
    assert type(Loaded) is Refusing


def test_commit_message_of_a_class_in_a_function_comes_back() -> None:
    def made() -> type[Told]:
        class Local(Told):
            pass

        return Local

    cls = made()
    plan = kept(cls(1))
    plan.commit([sent(cls(1))])
    assert type(Keeping.committed[0]) is cls


@pytest.mark.parametrize(
    "value",
    [object(), print, int, threading.Lock(), pa.array([1]), [{"a": {1: object()}}]],
    ids=lambda value: type(value).__name__,
)
def test_commit_message_with_more_than_data_is_refused_by_name(value: Any) -> None:
    with pytest.raises(hr.WriteError, match=r"commit message Told cannot travel to commit .* is not data"):
        sent(Told(value))


def test_commit_message_that_holds_itself_is_refused() -> None:
    message = Told([])
    message.value.append(message)
    with pytest.raises(hr.WriteError, match="commit message Told cannot travel"):
        sent(message)


def test_numbers_of_numpy_in_a_commit_message_arrive_as_numbers() -> None:
    kept(Told(0)).commit([sent(Told([pa.array([5]).to_numpy()[0], pa.array([2.5]).to_numpy()[0]]))])
    assert Keeping.committed == [Told([5, 2.5])]


def test_pickle_in_place_of_a_commit_message_is_not_opened(tmp_path: Path) -> None:
    message = base64.b64encode(pickle.dumps(Acting(str(tmp_path / "made")))).decode()
    plan = kept(Told(0))
    with pytest.raises(hr.WriteError, match="a commit message cannot be read"):
        plan.commit([message])
    plan.abort([message, sent(Told(1)), None])
    assert Keeping.aborted == [None, Told(1), None]
    assert not (tmp_path / "made").exists()


def forged(name: str, items: Any = None, **attributes: Any) -> str:
    return json.dumps({"object": [name, items, attributes]})


TOLD = f"{Told.__module__}.Told"
FORGED = {
    "no text": 5,
    "no JSON": "{",
    "no object": '"x"',
    "another kind": '{"call": ["os.system", "x"]}',
    "two kinds": '{"list": [], "tuple": []}',
    "no class": forged("nowhere.Nothing"),
    "a function": forged("os.system", None, value="x"),
    "a class that acts": forged("subprocess.Popen", None, args="x"),
    "a class that acts, as a value": forged(TOLD, value={"object": ["subprocess.Popen", None, {"pid": 1}]}),
    "a class that acts when it goes": forged(f"{Told.__module__}.WithEnding", value="x"),
    "a tuple that C made": forged("os.stat_result", [1]),
    "no member of an enum": forged(TOLD, value={"enum": [f"{Told.__module__}.Kind", "__class__"]}),
    "a key that is no key": forged(TOLD, value={"dict": [[{"list": []}, 1]]}),
    "too deep": "[" * 100_000,
    "deep lists": '{"list": [' * 5_000 + "]}" * 5_000,
    "no attributes": json.dumps({"object": [TOLD, None, [1]]}),
}


@pytest.mark.parametrize("message", FORGED.values(), ids=list(FORGED))
def test_forged_commit_message_is_an_error_and_nothing_else(message: Any) -> None:
    with pytest.raises(hr.WriteError, match="a commit message cannot be read"):
        kept(Told(0)).commit([message])


class ActingWriter(Keeping):
    """Sends a message that would act where it is unpickled; as a hostile worker does it, or as a friendly one."""

    def __init__(self, options: Any) -> None:
        self.path, self.hostile = options["path"], options["hostile"] == "true"

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        message = Acting(self.path)
        if self.hostile:
            encode = writers.encode_message

            def pickled(message: WriterCommitMessage) -> str:
                writers.encode_message = encode
                return base64.b64encode(pyspark.cloudpickle.dumps(message)).decode()

            writers.encode_message = pickled
        return message


class ActingSource(DataSource):
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return ActingWriter(self.options)


@pytest.mark.daily("hostile")
@pytest.mark.parametrize("hostile", [True, False], ids=["hostile", "friendly"])
def test_commit_message_that_would_act_does_nothing_to_the_driver(
    ctx: hr.SessionContext, spark: SparkSession, tmp_path: Path, hostile: bool
) -> None:
    path = str(tmp_path / "made")
    Keeping.committed.clear()
    Keeping.aborted.clear()
    options = {"path": path, "hostile": hostile}
    ctx.register_table("acting", hr.from_data_source(ActingSource, options, schema="id BIGINT"))
    if hostile:
        with pytest.raises(Exception, match="WriteError: a commit message cannot be read"):
            spark.range(1).coalesce(1).writeTo("acting").append()
    else:
        spark.range(1).coalesce(1).writeTo("acting").append()
    assert not os.path.exists(path)
    assert (Keeping.committed, Keeping.aborted) == (([], [None]) if hostile else ([Acting(path)], []))


def test_data_source_without_a_writer_is_read_only(ctx: hr.SessionContext, spark: SparkSession) -> None:
    class Plain(DataSource):
        def schema(self) -> str:
            return "id BIGINT"

    ctx.register_table("plain", hr.from_data_source(Plain))
    with pytest.raises(AnalysisException, match="WriteError: the table 'plain' is read-only"):
        spark.range(1).writeTo("plain").append()


@pytest.mark.daily("rows")
@pytest.mark.parametrize("kind", ["rows", "arrow"])
def test_stream_writer_of_a_data_source_gets_each_batch(
    ctx: hr.SessionContext, spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    if kind == "arrow" and not has("stream Arrow writer"):
        return
    log, source = tmp_path / "log", str(tmp_path / "source")
    registered(ctx, log, kind)
    for run in range(2):
        frame(spark, f"run {run}").write.mode("append").parquet(source)
        stream = spark.readStream.schema(SCHEMA).parquet(source)
        options = {"checkpointLocation": str(tmp_path / "checkpoint"), "color": "blue", "table": "sunk"}
        query = stream.writeStream.format("headrace").options(**options).trigger(availableNow=True).start()
        assert query.awaitTermination(60)
    committed = calls(log, "commit")
    assert [(call["batch"], len(call["rows"]), call["kinds"]) for call in committed] == [
        ([0], 1, [kind]),
        ([1], 1, [kind]),
    ]
    assert calls(log, "writer")[0]["options"]["color"] == "blue"


# A provider on PySpark's own API


@pytest.fixture
def files(spark: SparkSession, tmp_path: Path) -> tuple[FileTable, str]:
    directory = tmp_path / "files"
    directory.mkdir()
    table, name = FileTable(directory), f"files_{uuid.uuid4().hex}"
    spark.dataSource.register(hr.as_data_source(table, name))
    return table, name


def small(spark: SparkSession, *ids: int) -> DataFrame:
    return spark.createDataFrame([(f"row {n}", n) for n in ids], "name STRING, id BIGINT")


def test_as_data_source_appends_and_overwrites_by_name(spark: SparkSession, files: tuple[FileTable, str]) -> None:
    table, name = files
    small(spark, 1, 2, 3).repartition(2).write.format(name).option("color", "red").mode("append").save()
    assert table.rows() == [{"id": n, "name": f"row {n}"} for n in (1, 2, 3)]
    assert spark.read.format(name).load().count() == 3
    (insert,) = table.calls("insert")
    assert (insert[1], insert[4]["color"]) == ("APPEND", "red")
    assert table.staged() == []
    small(spark, 4).write.format(name).mode("overwrite").save()
    assert [row["id"] for row in table.rows()] == [4]
    assert len({call[2] for call in table.calls("write")}) == len(table.calls("write"))  # attempts


def test_as_data_source_writes_each_epoch_of_a_stream(
    spark: SparkSession, files: tuple[FileTable, str], tmp_path: Path
) -> None:
    table, name = files
    source = str(tmp_path / "source")
    for run in range(2):
        small(spark, run).write.mode("append").parquet(source)
        stream = spark.readStream.schema("name STRING, id BIGINT").parquet(source)
        writing = stream.writeStream.format(name).option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writing.trigger(availableNow=True).start()
        assert query.awaitTermination(100)
        query_id = query.id
    assert [row["id"] for row in table.rows()] == [0, 1]
    assert [call[2:4] for call in table.calls("insert")] == [[query_id, 0], [query_id, 1]]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT 1L AS id", "SchemaMismatchError: the columns that are written .* are id; the table has id, name"),
        ("SELECT 1 AS id, 'a' AS name", r"(?s)SchemaMismatchError: .*expected.*id: long.*found:.*id: integer"),
    ],
    ids=["columns", "types"],
)
def test_as_data_source_refuses_other_columns(
    spark: SparkSession, files: tuple[FileTable, str], query: str, message: str
) -> None:
    table, name = files
    with pytest.raises(Exception, match=message):
        spark.sql(query).write.format(name).mode("append").save()
    assert table.calls() == []


def test_as_data_source_refuses_what_would_be_lost(spark: SparkSession, tmp_path: Path) -> None:
    sources = {
        "live": (FileTable(tmp_path, placement=hr.Placement.DRIVER), "append", "Placement.DRIVER"),
        "read_only": (hr.SimpleTable("id BIGINT, name STRING", lambda: []), "append", "is read-only"),
        "appending": (FileTable(tmp_path, modes=frozenset({hr.WriteMode.APPEND})), "overwrite", "no TRUNCATE"),
    }
    for kind, (table, mode, message) in sources.items():
        name = f"{kind}_{uuid.uuid4().hex}"
        spark.dataSource.register(hr.as_data_source(table, name))
        with pytest.raises(Exception, match=f"WriteError: .*{message}"):
            small(spark, 1).write.format(name).mode(mode).save()


def test_as_data_source_that_fails_is_aborted(spark: SparkSession, tmp_path: Path) -> None:
    def fault(place: str, task: hr.WriteTask | None) -> None:
        if place == "end" and task is not None and task.partition == 1:
            raise RuntimeError("no more room")

    name = f"failing_{uuid.uuid4().hex}"
    table = FileTable(tmp_path, fault=fault)
    spark.dataSource.register(hr.as_data_source(table, name))
    with pytest.raises(Exception, match="RuntimeError: no more room"):
        small(spark, 1, 2, 3, 4).repartition(2).write.format(name).mode("append").save()
    assert table.rows() == []
    assert table.calls("commit") == []
    assert len(table.calls("abort")) == 1


def test_round_trip_of_a_writable_provider_writes(ctx: hr.SessionContext, spark: SparkSession, tmp_path: Path) -> None:
    table = FileTable(tmp_path)
    ctx.register_table("again", hr.from_data_source(hr.as_data_source(table, "again_source")))
    spark.sql("INSERT INTO again VALUES (1, 'row 1')")
    assert table.rows() == [{"id": 1, "name": "row 1"}]
