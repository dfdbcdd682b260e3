"""TPC-H's tables as Parquet files, its 22 queries, and DuckDB's answers to them; for the benchmark and the tests."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import duckdb_extension_tpch
import pyarrow as pa
import pyarrow.dataset as ds
import sqlglot
from sqlglot import expressions as exp

TABLES = ("region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem")
CACHE = Path(__file__).parent.parent / "build" / "tpch"
FILES = 4  # of each table but the two smallest: work for several tasks
Rows = list[tuple[Any, ...]]


def generated(scale_factor: float, root: Path = CACHE) -> Path:
    """The directory with one directory of Parquet files for each table; made unless it is there."""
    directory = root / f"sf{scale_factor:g}"
    complete = directory / "complete"
    if not complete.exists():
        generator = Path(sys.executable).with_name("tpchgen-cli")
        what = ["--scale-factor", f"{scale_factor:g}", "--parts", str(FILES), "--output-dir", str(directory)]
        subprocess.run([generator, "parquet", *what, "--overwrite", "--quiet"], check=True)
        complete.touch()
    return directory


def dataset(directory: Path, table: str) -> ds.Dataset:
    """A table's files with plain strings: the generator writes string views, which few readers take."""
    written = ds.dataset(directory / table).schema
    plain = [field.with_type(pa.string()) if field.type == pa.string_view() else field for field in written]
    return ds.dataset(directory / table, schema=pa.schema(plain))


class DuckDB:
    """DuckDB over the same files, and the texts of the queries, which are its own."""

    def __init__(self, directory: Path) -> None:
        self._connection = duckdb.connect()
        self._connection.execute("SET enable_progress_bar = false")
        for table in TABLES:
            self._connection.execute(f"CREATE VIEW {table} AS FROM read_parquet('{directory / table}/*.parquet')")
        self._answers: dict[str, Rows] = {}

    def answer(self, query: str) -> Rows:
        if query not in self._answers:
            self._answers[query] = self._connection.execute(query).fetchall()
        return self._answers[query]


def queries() -> dict[str, str]:
    """Name (q01 to q22) and text in DuckDB's dialect. Needs no network: the extension is a package."""
    packaged = Path(duckdb_extension_tpch.__file__).parent / "extensions" / f"v{duckdb.__version__}"
    with duckdb.connect() as connection:
        connection.execute(f"LOAD '{packaged / 'tpch.duckdb_extension'}'")
        found = connection.execute("SELECT query_nr, query FROM tpch_queries() ORDER BY query_nr").fetchall()
    return {f"q{number:02}": text for number, text in found}


def for_spark(query: str, prefix: str) -> str:
    """The query in Spark's dialect, over the tables whose names begin with ``prefix``."""
    tree = sqlglot.parse_one(query, read="duckdb")
    for table in tree.find_all(exp.Table):
        if table.name in TABLES:
            table.set("this", exp.to_identifier(prefix + table.name))
    return tree.sql(dialect="spark")


def is_answer(query: str, rows: Rows, right: Rows) -> bool:
    """Whether both hold the same rows, in the order that ORDER BY asks for; rows that tie may come in any order."""
    keys = _order_columns(query)
    return _same_rows(sorted(rows), sorted(right)) and _same_rows(_columns(rows, keys), _columns(right, keys))


def _order_columns(query: str) -> list[int]:
    """The places of the ORDER BY columns, which in these queries are all selected ones."""
    tree = sqlglot.parse_one(query, read="duckdb")
    assert isinstance(tree, exp.Query)
    order = tree.args.get("order")
    return [tree.named_selects.index(key.this.name) for key in order.expressions] if order else []


def _columns(rows: Rows, places: Sequence[int]) -> Rows:
    return [tuple(row[place] for place in places) for row in rows]


def _same_rows(ours: Iterable[tuple[Any, ...]], right: Iterable[tuple[Any, ...]]) -> bool:
    ours, right = list(ours), list(right)
    if [len(row) for row in ours] != [len(row) for row in right]:
        return False
    return all(_same(a, b) for one, other in zip(ours, right, strict=True) for a, b in zip(one, other, strict=True))


def _same(ours: Any, right: Any) -> bool:
    """Exactly, but for averages and quotients, where DuckDB gives a float and Spark a rounded decimal."""
    if not isinstance(right, float) or ours is None:
        return bool(ours == right)
    rounding = 0.5 * 10.0 ** int(ours.as_tuple().exponent) if isinstance(ours, Decimal) else 0.0
    return abs(float(ours) - right) <= rounding + 1e-9 * max(1.0, abs(right))
