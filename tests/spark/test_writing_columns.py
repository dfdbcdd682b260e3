"""Writes of a table's columns: batches are handed over as they are, anything else comes as rows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import headrace as hr
from effort import cases
from flat_values import POOLS, PRIMITIVE, random_table
from headrace.errors import ScanEndedError
from producing import wait_until
from session_settings import session_settings
from shown_writes import last_write
from versions import spark_version
from write_faults import Fault
from written_files import FileTable, read

pytestmark = pytest.mark.core

PLACEMENTS = [hr.Placement.EXECUTORS, hr.Placement.DRIVER]
ADAPTIVE = "spark.sql.adaptive.enabled"
CODEGEN = "spark.sql.codegen.wholeStage"
SOURCES = ("parquet", "cache", "headrace")


@pytest.fixture
def source(ctx: hr.SessionContext, spark: SparkSession, tmp_path: Path) -> Iterator[Callable[..., DataFrame]]:
    """Makes a frame of rows that lie in a Parquet file, in Spark's cache or in a table of Headrace's."""
    cached = []

    def made(rows: pa.Table, kind: str, **parquet: Any) -> DataFrame:
        if kind == "headrace":
            ctx.register_table("source", rows, replace=True)
            return spark.table("source")
        pq.write_table(rows, tmp_path / "source.parquet", **parquet)
        frame = spark.read.parquet(str(tmp_path / "source.parquet"))
        if kind == "cache":
            frame = frame.select("*").cache()  # of its own: the file itself stays as it is
            frame.count()
            cached.append(frame)
        return frame

    yield made
    for frame in cached:
        frame.unpersist(blocking=True)


@pytest.fixture
def target(ctx: hr.SessionContext, tmp_path: Path) -> Callable[..., FileTable]:
    """Registers a table of files under a name."""

    def made(columns: pa.Schema, name: str = "t", **options: Any) -> FileTable:
        directory = tmp_path / name
        directory.mkdir(exist_ok=True)
        table = FileTable(directory, columns, **options)
        ctx.register_table(name, table, replace=True)
        return table

    return made


@pytest.fixture(autouse=True)
def frees_all_memory(ctx: hr.SessionContext, spark: SparkSession) -> Iterator[None]:
    yield
    jvm: Any = spark.sparkContext._jvm
    allocator = jvm.org.apache.spark.sql.util.ArrowUtils.rootAllocator()
    wait_until(lambda: allocator.getAllocatedMemory() == 0, what="Arrow's memory to be given back")


def in_order(table: FileTable) -> list[str]:
    """The rows by their number, as text: NaN is one value there, and -0.0 another than 0.0."""
    return [repr(row) for row in sorted(table.rows(), key=lambda row: row["n"])]


@pytest.mark.daily("parquet-adaptive-executors", "headrace-plain-driver", "cache-adaptive-driver")
@pytest.mark.parametrize("placement", PLACEMENTS, ids=lambda one: one.name.lower())
@pytest.mark.parametrize("adaptive", ["true", "false"], ids=["adaptive", "plain"])
@pytest.mark.parametrize("kind", SOURCES)
def test_values_of_all_types_arrive_as_columns_and_as_rows(
    spark: SparkSession,
    source: Callable[..., DataFrame],
    target: Callable[..., FileTable],
    kind: str,
    adaptive: str,
    placement: hr.Placement,
) -> None:
    rows = random_table(Random(7), PRIMITIVE if kind == "cache" else list(POOLS), 9000)
    columns, plain = (target(rows.schema, name, placement=placement) for name in ("columns", "plain"))
    with session_settings(spark, {ADAPTIVE: adaptive}):
        frame = source(rows, kind)
        frame.writeTo("columns").append()
        shown = last_write(spark)
        assert shown.is_of_columns, shown.plan
        assert shown.written["rows"] == 9000
        assert shown.written.get("output", 9000) == 9000
        assert "output" in shown.written or spark_version() < (4, 3)
        frame.repartition(2).writeTo("plain").append()
        assert not last_write(spark).is_of_columns
    assert in_order(columns) == in_order(plain) == [repr(row) for row in rows.to_pylist()]


@pytest.mark.parametrize("seed", range(cases(60)))
@pytest.mark.daily(every=7)
def test_random_columns_arrive_as_the_rows_that_they_are(
    spark: SparkSession, source: Callable[..., DataFrame], target: Callable[..., FileTable], seed: int
) -> None:
    rng = Random(seed)
    kind = rng.choice(SOURCES)
    kinds = [rng.choice(PRIMITIVE if kind == "cache" else list(POOLS)) for _ in range(rng.randint(0, 8))]
    rows = random_table(rng, kinds, rng.choice([0, 1, 7, 1000, 5000, 70_000]), rng.choice([0.0, 0.1, 1.0]))
    chosen = ["n", *rng.sample(rows.column_names[1:], rng.randint(0, len(kinds)))]
    rng.shuffle(chosen)
    settings = {
        ADAPTIVE: rng.choice(["true", "false"]),
        "spark.sql.parquet.columnarReaderBatchSize": rng.choice([1, 13, 4096, 100_000]) if len(rows) < 2000 else 4096,
        "spark.sql.inMemoryColumnarStorage.batchSize": rng.choice([9, 1000, 100_000]) if len(rows) < 2000 else 10_000,
        "spark.sql.columnVector.offheap.enabled": rng.choice(["true", "false"]),
        CODEGEN: rng.choice(["true", "true", "false"]),
    }
    table = target(rows.select(chosen).schema)
    with session_settings(spark, settings):
        frame = source(rows, kind, use_dictionary=rng.random() < 0.5, row_group_size=rng.choice([100, 5000, 100_000]))
        frame.select(*chosen).writeTo("t").append()
        shown = last_write(spark)
    by_rows = kind == "parquet" and settings[CODEGEN] == "false"  # there Spark's own reader makes rows
    assert shown.is_of_columns != by_rows, (seed, shown.plan)
    assert shown.written["rows"] == len(rows), seed
    assert in_order(table) == [repr(row) for row in rows.select(chosen).to_pylist()], seed


def test_dictionaries_and_views_of_a_headrace_table_arrive_as_plain_text(
    ctx: hr.SessionContext, spark: SparkSession, target: Callable[..., FileTable]
) -> None:
    words = ["a", None, "日本語", "", "a long one of more than twelve bytes"] * 400
    encoded = pa.array(words).dictionary_encode()
    rows = pa.table({"n": range(2000), "d": encoded, "v": pa.array(words, pa.string_view()), "s": words})
    ctx.register_table("source", rows)
    table = target(pa.schema([("n", pa.int64()), ("d", pa.string()), ("v", pa.string()), ("s", pa.string())]))
    spark.sql("INSERT INTO t SELECT * FROM source")
    assert last_write(spark).is_of_columns
    assert in_order(table) == [repr({"n": n, "d": word, "v": word, "s": word}) for n, word in enumerate(words)]


def test_columns_of_partitioned_orc_and_parquet_files_arrive(
    spark: SparkSession, target: Callable[..., FileTable], tmp_path: Path
) -> None:
    rows = spark.range(0, 3000, 1, 1).selectExpr(
        "id AS n", "IF(id % 7 = 0, NULL, concat('row ', id)) AS s", "IF(id % 3 = 0, NULL, 'p' || id % 3) AS p"
    )
    expected = [repr(row.asDict()) for row in rows.collect()]
    for form in ("orc", "parquet"):
        rows.write.partitionBy("p").format(form).save(str(tmp_path / form))
        table = target(pa.schema([("n", pa.int64()), ("s", pa.string()), ("p", pa.string())]), f"from_{form}")
        spark.read.format(form).load(str(tmp_path / form)).writeTo(f"from_{form}").append()
        assert last_write(spark).is_of_columns
        assert in_order(table) == expected


@pytest.mark.parametrize("adaptive", ["true", "false"], ids=["adaptive", "plain"])
def test_cached_rows_of_a_shuffle_arrive_as_columns(
    spark: SparkSession, target: Callable[..., FileTable], adaptive: str
) -> None:
    """Adaptive execution plans again, once it has the cached rows."""
    table = target(pa.schema([("n", pa.int64()), ("k", pa.int64())]))
    with session_settings(spark, {ADAPTIVE: adaptive}):
        frame = spark.range(1000).selectExpr("id % 10 AS k", "id AS n").repartition(3).cache()
        try:
            frame.select("n", "k").writeTo("t").append()
            assert last_write(spark).is_of_columns
        finally:
            frame.unpersist(blocking=True)
    assert in_order(table) == [repr({"n": n, "k": n % 10}) for n in range(1000)]


NUMBERS = pa.table({"n": range(3000), "s": [f"row {n}" for n in range(3000)]})


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("INSERT INTO t SELECT n, s FROM source", [0, 1, *range(3000)]),
        ("INSERT INTO t (s, n) SELECT s AS other, n AS m FROM source", [0, 1, *range(3000)]),
        ("INSERT OVERWRITE t SELECT n, s FROM source", list(range(3000))),
        ("INSERT INTO t REPLACE WHERE n = 0 SELECT n, s FROM source", [1, *range(3000)]),
    ],
    ids=["insert", "renamed", "overwrite", "replace"],
)
def test_statements_that_choose_columns_hand_them_over(
    spark: SparkSession,
    source: Callable[..., DataFrame],
    target: Callable[..., FileTable],
    statement: str,
    expected: list[int],
) -> None:
    table = target(NUMBERS.schema)
    spark.sql("INSERT INTO t VALUES (0, 'old'), (1, 'old')")
    source(NUMBERS, "parquet").createOrReplaceTempView("source")
    spark.sql(statement)
    assert last_write(spark).is_of_columns
    assert sorted(row["n"] for row in table.rows()) == sorted(expected)
    assert {row["s"] for row in table.rows()} <= {"old", *NUMBERS["s"].to_pylist()}


def test_partitions_that_are_replaced_get_columns(
    spark: SparkSession, source: Callable[..., DataFrame], target: Callable[..., FileTable]
) -> None:
    table = target(NUMBERS.schema)
    spark.sql("INSERT INTO t VALUES (1, 'old'), (-1, 'old')")
    source(NUMBERS, "headrace").writeTo("t").overwritePartitions()
    assert last_write(spark).is_of_columns
    assert [row["s"] for row in table.rows() if row["n"] in (-1, 1)] == ["old", "row 1"]


NO_COLUMNS = {
    "computed": "SELECT n + 1 AS n, s FROM source",
    "constant": "SELECT n, 'a' AS s FROM source",
    "cast": "SELECT CAST(n AS int) AS n, s FROM source",
    "filtered": "SELECT n, s FROM source WHERE length(s) % 2 = 0",
    "limited": "SELECT n, s FROM source LIMIT 10",
    "distinct": "SELECT DISTINCT n, s FROM source",
    "sorted": "SELECT n, s FROM source ORDER BY n DESC",
    "joined": "SELECT a.n, b.s FROM source a JOIN source b USING (n)",
    "united": "SELECT n, s FROM source UNION ALL SELECT n + 1, s FROM source",
    "no table": "SELECT id AS n, 'a' AS s FROM range(5)",
}


@pytest.mark.daily("computed", "joined")
@pytest.mark.parametrize("query", NO_COLUMNS.values(), ids=NO_COLUMNS)
def test_query_that_does_more_than_choose_columns_comes_as_rows(
    spark: SparkSession, source: Callable[..., DataFrame], target: Callable[..., FileTable], query: str
) -> None:
    table = target(NUMBERS.schema)
    source(NUMBERS, "parquet").createOrReplaceTempView("source")
    expected = sorted(repr(row.asDict()) for row in spark.sql(query).collect())
    spark.sql(f"INSERT INTO t {query}")
    assert not last_write(spark).is_of_columns
    assert sorted(map(repr, table.rows())) == expected


def test_layout_is_kept_where_the_source_is_columnar(
    spark: SparkSession, source: Callable[..., DataFrame], target: Callable[..., FileTable]
) -> None:
    rows = pa.table({"k": [n % 5 for n in range(2000)], "n": range(2000)})
    table = target(rows.schema, wanted=hr.WriteLayout(("k",), (hr.SortKey("n"),), partitions=3))
    source(rows, "parquet").writeTo("t").append()
    assert not last_write(spark).is_of_columns
    files = [read(table.directory / name) for name in table.published()]
    keys = [set(file["k"].to_pylist()) for file in files]
    assert sum(map(len, keys)) == len(set.union(*keys)) == 5
    assert all(file["n"].to_pylist() == sorted(file["n"].to_pylist()) for file in files)


def test_null_for_a_column_that_has_none_is_refused_as_in_rows(
    spark: SparkSession, source: Callable[..., DataFrame], target: Callable[..., FileTable]
) -> None:
    table = target(pa.schema([pa.field("n", pa.int64(), nullable=False)]))
    with pytest.raises(PySparkException, match="NOT_NULL_ASSERT_VIOLATION"):
        source(pa.table({"n": [1, None, 3]}), "parquet").writeTo("t").append()
    assert table.rows() == []
    assert table.calls("commit") == []


def test_nested_columns_come_as_rows(
    spark: SparkSession, source: Callable[..., DataFrame], target: Callable[..., FileTable]
) -> None:
    rows = pa.table({"n": [1, 2], "l": pa.array([[1, None], None], pa.list_(pa.int32()))})
    table = target(rows.schema)
    source(rows, "parquet").writeTo("t").append()
    assert not last_write(spark).is_of_columns
    assert table.rows() == rows.to_pylist()


def test_large_values_are_split_into_small_batches(
    spark: SparkSession, source: Callable[..., DataFrame], target: Callable[..., FileTable]
) -> None:
    """Beside them a column of short ones, with nulls, which goes back to the rows that fit."""
    short = [None if n % 3 == 0 else f"row {n}" for n in range(60)]
    large = [None if n % 7 == 0 else chr(97 + n % 26) * 1_000_000 for n in range(60)]
    rows = pa.table({"n": range(60), "short": short, "large": large})
    table = target(rows.schema)
    source(rows, "parquet").writeTo("t").append()
    shown = last_write(spark)
    assert shown.is_of_columns
    assert 10 <= shown.written["batches"] <= 30  # of four megabytes at most, shared by two columns, and a value more
    assert in_order(table) == [repr(row) for row in rows.to_pylist()]


@pytest.mark.parametrize("placement", PLACEMENTS, ids=lambda one: one.name.lower())
def test_write_that_raises_midway_fails_the_statement_and_publishes_nothing(
    spark: SparkSession, source: Callable[..., DataFrame], target: Callable[..., FileTable], placement: hr.Placement
) -> None:
    rows = random_table(Random(1), ["string", "double"], 200_000)
    table = target(rows.schema, placement=placement, fault=Fault("batch"))
    with pytest.raises(PySparkException, match="raised at batch"):
        source(rows, "headrace").writeTo("t").append()
    assert table.rows() == []
    assert table.calls("commit") == []
    assert len(table.calls("abort")) == 1


def test_source_that_fails_midway_fails_the_write(
    ctx: hr.SessionContext, spark: SparkSession, target: Callable[..., FileTable]
) -> None:
    class FailingPlan(hr.ExecutionPlan):
        placement = hr.Placement.DRIVER
        schema = NUMBERS.schema

        def execute(self, partition: int) -> Iterator[pa.RecordBatch]:
            yield from NUMBERS.to_batches()
            raise LookupError("no more of it")

    class Failing(hr.TableProvider):
        def schema(self) -> pa.Schema:
            return NUMBERS.schema

        def scan(self, request: hr.ScanRequest) -> hr.ExecutionPlan:
            return FailingPlan()

    ctx.register_table("source", Failing())
    table = target(NUMBERS.schema)
    with pytest.raises(PySparkException, match="no more of it"):
        spark.table("source").writeTo("t").append()
    assert table.rows() == []
    assert table.calls("commit") == []


def test_write_of_columns_that_is_cancelled_ends(
    ctx: hr.SessionContext, spark: SparkSession, source: Callable[..., DataFrame], target: Callable[..., FileTable]
) -> None:
    source(random_table(Random(2), ["long", "string"], 300_000), "headrace")
    table = target(schema_of(["long", "string"]), fault=Fault("batch", "sleep"))
    failed: list[BaseException] = []

    def work() -> None:
        spark.sparkContext.setJobGroup("write", "", interruptOnCancel=False)
        try:
            ctx.collect("INSERT INTO t SELECT * FROM source")
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    wait_until(lambda: bool(table.calls("write")), what="the write")
    spark.sparkContext.cancelJobGroup("write")
    thread.join(60)
    assert [type(error) for error in failed] == [ScanEndedError]
    assert table.rows() == []
    assert table.calls("commit") == []


def schema_of(kinds: list[str]) -> pa.Schema:
    return random_table(Random(0), kinds, 0).schema
