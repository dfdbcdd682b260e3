"""CREATE TABLE and DROP TABLE in the catalog of a provider that can make tables, and the rows that come with them."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import headrace as hr
from headrace.errors import WriteError
from written_files import FileTable

pytestmark = pytest.mark.core


class Files(hr.CatalogProvider):
    """A directory for each table of the schema ``main``; it can make tables, and drop them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.tables: dict[str, FileTable] = {}
        self.fault: Callable[[str, hr.WriteTask | None], None] | None = None

    def schema_names(self) -> list[str]:
        return ["main"]

    def table_names(self, schema: str) -> list[str]:
        return sorted(self.tables)

    def table(
        self, schema: str, name: str, *, version: str | None = None, timestamp: datetime.datetime | None = None
    ) -> hr.TableProvider | None:
        return self.tables.get(name) if schema == "main" else None

    def create_table(self, schema: str, name: str, columns: pa.Schema) -> hr.WritableProvider:
        if name == "forbidden":
            raise PermissionError("not this one")
        directory = self.directory / name
        directory.mkdir()
        self.tables[name] = FileTable(directory, columns)
        if self.fault is not None:
            self.tables[name].fault = self.fault
        return self.tables[name]

    def drop_table(self, schema: str, name: str) -> bool:
        return self.tables.pop(name, None) is not None


class ReadOnly(Files):
    create_table = hr.CatalogProvider.create_table
    drop_table = hr.CatalogProvider.drop_table


@pytest.fixture
def files(ctx: hr.SessionContext, tmp_path: Path) -> Iterator[Files]:
    catalog = Files(tmp_path)
    ctx.register_catalog("files", catalog)
    yield catalog
    ctx.deregister_catalog("files")


ROWS = "SELECT id, struct(id AS a) AS s FROM range(5)"
DOORS: dict[str, Callable[[SparkSession], Any]] = {
    "sql": lambda spark: spark.sql(f"CREATE TABLE files.main.t AS {ROWS}"),
    "writeTo": lambda spark: spark.sql(ROWS).writeTo("files.main.t").create(),
    "saveAsTable": lambda spark: spark.sql(ROWS).write.saveAsTable("files.main.t"),
}


@pytest.mark.parametrize("door", DOORS)
def test_table_is_made_with_its_rows(spark: SparkSession, files: Files, door: str) -> None:
    DOORS[door](spark)
    assert files.tables["t"].rows() == [{"id": n, "s": {"a": n}} for n in range(5)]
    assert spark.sql("SELECT sum(s.a) FROM files.main.t").collect()[0][0] == 10
    assert [row.tableName for row in spark.sql("SHOW TABLES IN files.main").collect()] == ["t"]
    with pytest.raises(PySparkException, match="already exists"):
        DOORS[door](spark)
    spark.sql("INSERT INTO files.main.t VALUES (9, named_struct('a', 9L))")
    assert len(files.tables["t"].rows()) == 6


def test_table_is_made_empty_and_dropped(spark: SparkSession, files: Files) -> None:
    spark.sql("CREATE TABLE files.main.t (id INT NOT NULL COMMENT 'the key', tags MAP<STRING, ARRAY<DATE>>)")
    columns = files.tables["t"].columns
    assert columns.field("id").equals(pa.field("id", pa.int32(), nullable=False))
    assert pa.types.is_map(columns.field("tags").type)
    assert spark.table("files.main.t").count() == 0
    spark.sql("DROP TABLE files.main.t")
    assert files.tables == {}
    with pytest.raises(PySparkException, match="cannot be found"):
        spark.table("files.main.t").count()


ALTERATIONS = (
    "ALTER TABLE {table} ADD COLUMN b INT",
    "ALTER TABLE {table} RENAME TO other",
    "ALTER TABLE {table} SET TBLPROPERTIES ('a' = 'b')",
    "COMMENT ON TABLE {table} IS 'text'",
    "COMMENT ON SCHEMA {schema} IS 'text'",
    "CREATE SCHEMA {schema}2",
    "DROP SCHEMA {schema}",
)


@pytest.mark.parametrize("statement", ALTERATIONS)
def test_statement_that_would_alter_a_table_or_schema_is_a_write_error(
    ctx: hr.SessionContext, files: Files, statement: str
) -> None:
    ctx.register_table("t", hr.MemTable(pa.table({"a": [1]})))
    ctx.spark.sql("CREATE TABLE files.main.t (a INT)")
    for table, schema in ((f"{ctx.catalog}.t", f"{ctx.catalog}.default"), ("files.main.t", "files.main")):
        with pytest.raises(WriteError, match=f"catalog '{table.split('.')[0]}'"):
            ctx.collect(statement.format(table=table, schema=schema))


def test_read_only_catalog_refuses_every_change_of_its_tables(ctx: hr.SessionContext, tmp_path: Path) -> None:
    catalog = Files(tmp_path)
    ctx.register_catalog("kept", catalog)
    ctx.spark.sql("CREATE TABLE kept.main.t AS SELECT 1L AS id")
    ctx.register_catalog("kept", catalog, replace=True, read_only=True)
    for statement in (
        "INSERT INTO kept.main.t VALUES (2)",
        "INSERT OVERWRITE kept.main.t VALUES (2)",
        "DELETE FROM kept.main.t",
        "TRUNCATE TABLE kept.main.t",
        "CREATE TABLE kept.main.u (id BIGINT)",
        "DROP TABLE kept.main.t",
    ):
        with pytest.raises(WriteError, match="is read-only: it was registered with read_only=True"):
            ctx.collect(statement)
    assert ctx.collect("SELECT * FROM kept.main.t").to_pylist() == [{"id": 1}]
    ctx.deregister_catalog("kept")


def test_table_whose_rows_fail_is_not_left(spark: SparkSession, files: Files) -> None:
    def fail(place: str, task: hr.WriteTask | None) -> None:
        if place == "end":
            raise LookupError("no more room")

    files.fault = fail
    with pytest.raises(PySparkException, match="no more room"):
        spark.sql("CREATE TABLE files.main.t AS SELECT id FROM range(5)")
    assert files.tables == {}


def test_what_a_catalog_cannot_do_is_refused_by_name(ctx: hr.SessionContext, files: Files, tmp_path: Path) -> None:
    ctx.register_catalog("frozen", ReadOnly(tmp_path))
    for statement, message in {
        "CREATE TABLE frozen.main.t (id INT)": "ReadOnly makes no tables",
        "CREATE TABLE frozen.main.t AS SELECT 1 AS id": "ReadOnly makes no tables",
        f"CREATE TABLE {ctx.catalog}.t (id INT)": "ctx.register_table",
        "CREATE TABLE files.main.t (id INT) PARTITIONED BY (id)": "PARTITIONED BY",
        "CREATE TABLE files.main.t (id INT) USING csv": "provider",
        "CREATE TABLE files.main.t (id INT) LOCATION '/x'": "location",
    }.items():
        with pytest.raises(WriteError, match=message):
            ctx.collect(statement)
    with pytest.raises(hr.ProviderError, match="not this one"):
        ctx.collect("CREATE TABLE files.main.forbidden AS SELECT 1 AS id")
    assert files.tables == {}
    ctx.deregister_catalog("frozen")
