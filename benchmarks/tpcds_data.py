"""TPC-DS's tables as Parquet files, and its 99 queries in Spark's dialect; for the benchmark and the tests."""

from __future__ import annotations

import functools
from pathlib import Path

import duckdb
import duckdb_extension_tpcds
import pyarrow.parquet as pq
import sqlglot
from sqlglot import expressions as exp

CACHE = Path(__file__).parent.parent / "build" / "tpcds"
FILES = 4  # of each table that is worth it: work for several tasks
ROWS_WORTH_A_FILE = 10_000


def generated(scale_factor: float, root: Path = CACHE) -> Path:
    """The directory with one directory of Parquet files for each table; made unless it is there."""
    directory = root / f"sf{scale_factor:g}"
    complete = directory / "complete"
    if not complete.exists():
        with _generator(scale_factor) as connection:
            for table in tables():
                _write(connection, table, directory / table)
        complete.touch()
    return directory


@functools.cache
def tables() -> tuple[str, ...]:
    with _generator(0) as connection:
        return tuple(name for (name,) in connection.execute("SHOW TABLES").fetchall())


@functools.cache
def queries() -> dict[str, str]:
    """Name (q01 to q99) and text in DuckDB's dialect, in an order that leaves no choice.

    TPC-DS sorts by some columns only; the others follow here, so that LIMIT keeps the same rows every time.
    """
    with _generator(0) as connection:
        found = connection.execute("SELECT query_nr, query FROM tpcds_queries() ORDER BY query_nr").fetchall()
        widths = [len(connection.execute(f"DESCRIBE {text}").fetchall()) for _, text in found]
    return {f"q{number:02}": _ordered(text, width) for (number, text), width in zip(found, widths, strict=True)}


def for_spark(query: str, prefix: str) -> str:
    """The query in Spark's dialect, over the tables whose names begin with ``prefix``."""
    tree = sqlglot.parse_one(query, read="duckdb")
    for table in tree.find_all(exp.Table):
        if table.name.lower() in tables():
            if not table.alias:
                table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name)))
            table.set("this", exp.to_identifier(prefix + table.name.lower()))
    return tree.sql(dialect="spark")


def _ordered(query: str, width: int) -> str:
    tree = sqlglot.parse_one(query, read="duckdb")
    assert isinstance(tree, exp.Query)
    for place in range(1, width + 1):
        tree = tree.order_by(exp.Ordered(this=exp.Literal.number(place), nulls_first=False), copy=False)
    return tree.sql(dialect="duckdb")


def _generator(scale_factor: float) -> duckdb.DuckDBPyConnection:
    """DuckDB with the tables, empty ones for 0. Needs no network: the extension is a package."""
    packaged = Path(duckdb_extension_tpcds.__file__).parent / "extensions" / f"v{duckdb.__version__}"
    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")
    connection.execute(f"LOAD '{packaged / 'tpcds.duckdb_extension'}'")
    connection.execute(f"CALL dsdgen(sf = {scale_factor})")
    return connection


def _write(connection: duckdb.DuckDBPyConnection, table: str, directory: Path) -> None:
    """Decimals as integers, as Spark itself would write them and reads them fastest."""
    directory.mkdir(parents=True, exist_ok=True)
    rows = connection.execute(f"FROM {table}").to_arrow_table()
    count = min(FILES, 1 + rows.num_rows // ROWS_WORTH_A_FILE)
    for i in range(count):
        start, end = rows.num_rows * i // count, rows.num_rows * (i + 1) // count
        file = directory / f"part-{i}.parquet"
        pq.write_table(rows.slice(start, end - start), file, store_decimal_as_integer=True)
