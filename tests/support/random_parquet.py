"""Random Parquet files by four writers, Spark, pyarrow, polars and DuckDB, with every awkward value; for the tests."""

from __future__ import annotations

import datetime as dt
import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

import headrace as hr
from session_settings import session_settings

LONG_TEXT = "prefix that many have in common, longer than what writers keep of it in statistics: "
TEXTS = ["", "a", "ab", "abc", "B", "é", "e\u0301", "日本", "日本語", "😀", "\U0010ffff", "a%", "a_b", "it's", "a\\b"]
TEXTS += [LONG_TEXT, LONG_TEXT + "a", LONG_TEXT + "b", "é" * 60, "\U0010ffff" * 40, "\ud7ff" * 50, "a" * 63 + "é"]
INTS = [-(2**31), -1000, -1, 0, 1, 2, 3, 7, 1000, 2**31 - 1]
LONGS = [*INTS, 2**53 + 1, -(2**63), 2**63 - 1]
DOUBLES = [math.nan, math.inf, -math.inf, -0.0, 0.0, 1.5, -1.5, 0.1, 1e300, 5e-324, 123456789.125]
FLOATS = [math.nan, math.inf, -math.inf, -0.0, 0.0, 1.5, -1.5, 0.25]
DAYS = [dt.date(1, 1, 3), dt.date(1582, 10, 4), dt.date(1582, 10, 15), dt.date(1899, 12, 31), dt.date(1969, 12, 31)]
DAYS += [dt.date(1970, 1, 1), dt.date(2020, 2, 29), dt.date(2262, 4, 12), dt.date(9999, 12, 30)]
TIMES = [dt.datetime(day.year, day.month, day.day, 3, 4, 5, 678901) for day in DAYS]
TIMES += [dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, 3), dt.datetime(1677, 9, 21, 0, 12, 43, 145224)]
INSTANTS = [time.replace(tzinfo=dt.UTC) for time in TIMES]
SMALL_DECIMALS = [Decimal(text) for text in ("-9999999.99", "-0.01", "0.00", "0.01", "1.50", "9999999.99")]
LARGE_DECIMALS = [
    Decimal(text) for text in ("9" * 28 + "." + "9" * 10, "-" + "9" * 28 + "." + "9" * 10, "0", "0.0000000001", "1.5")
]
UTC, NAIVE = pa.timestamp("us", "UTC"), pa.timestamp("us")

POOLS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "b": (pa.bool_(), [False, True]),
    "t": (pa.int8(), [-128, -1, 0, 1, 127]),
    "i": (pa.int32(), INTS),
    "l": (pa.int64(), LONGS),
    "f": (pa.float32(), FLOATS),
    "x": (pa.float64(), DOUBLES),
    "s": (pa.string(), TEXTS),
    "y": (pa.binary(), [b"", b"\x00", b"a", b"a" * 70 + b"\xff", b"\x7f", b"\x80", b"\xff", b"\xff" * 70]),
    "d": (pa.date32(), DAYS),
    "at": (UTC, INSTANTS),
    "n": (NAIVE, TIMES),
    "dec": (pa.decimal128(18, 2), SMALL_DECIMALS),
    "big": (pa.decimal128(38, 10), LARGE_DECIMALS),
}
STRUCT = pa.struct([("a", pa.int32()), ("s", pa.string()), ("at", UTC), ("q", pa.struct([("x", pa.float64())]))])
NESTED: dict[str, pa.DataType] = {
    "st": STRUCT,
    "arr": pa.list_(pa.int32()),
    "m": pa.map_(pa.string(), pa.int32()),
}
SCHEMA = pa.schema(
    [("id", pa.int64()), *((name, type_) for name, (type_, _) in POOLS.items()), *NESTED.items()],
)
NARROW = {"l": (pa.int32(), INTS), "x": (pa.float32(), FLOATS), "dec": (pa.decimal128(9, 2), SMALL_DECIMALS)}
"""Types that Spark widens to those of the schema, and values that they have room for."""
WRITERS = ["spark", "pyarrow", "polars", "duckdb"]


@dataclass(frozen=True)
class Files:
    """A directory of Parquet files, and whether all of them have the columns and types of ``SCHEMA``, in its order."""

    root: Path
    alike: bool
    old_calendar: bool
    story: str

    def table(self) -> hr.DatasetTable:
        import pyarrow.dataset as ds

        return hr.DatasetTable(self.root if self.alike else ds.dataset(self.root, schema=SCHEMA))


def write_files(ctx: hr.SessionContext, root: Path, seed: int) -> Files:
    """One to four files, each by one of the writers with settings of its own."""
    rng = Random(seed)
    evolved = rng.random() < 0.6
    root.mkdir(parents=True)
    story, old = [], False
    next_id = 0
    count = rng.randint(1, 4)
    for number in range(count):
        writer = rng.choice(WRITERS)
        names, narrow = SCHEMA.names, []
        if writer in ("polars", "duckdb") or not evolved:  # neither writes maps as Parquet means them
            names = [name for name in names if name != "m"]
        if evolved:
            names = [name for name in names if name == "id" or rng.random() < 0.85]
            rng.shuffle(names)
            narrow = [name for name in NARROW if name in names and rng.random() < 0.3]
        rows = rng.choice([0, 1, 7, 60, 250])
        table = random_table(rng, names, narrow, range(next_id, next_id + rows))
        next_id += rows
        path = root / f"{number}.parquet"
        settings = _WRITE[writer](ctx, rng, table, path, evolved or count == 1)
        old = old or "LEGACY" in settings
        story.append(f"{writer} {settings}: {rows} rows of {', '.join(names)}; narrow {narrow}")
    return Files(root, not evolved, old, "\n".join(story))


def random_table(rng: Random, names: Sequence[str], narrow: Sequence[str], ids: range) -> pa.Table:
    columns = {}
    for name in names:
        if name == "id":
            columns[name] = pa.array(ids, pa.int64())
        elif name in NESTED:
            columns[name] = pa.array([_nested(rng, name) for _ in ids], NESTED[name])
        else:
            type_, pool = NARROW[name] if name in narrow else POOLS[name]
            columns[name] = pa.array(_clustered(rng, pool, len(ids)), type_)
    return pa.table(columns)


def _clustered(rng: Random, pool: list[Any], count: int) -> list[Any]:
    """Values in runs, so that row groups differ: all null, all equal, sorted or mixed."""
    found: list[Any] = []
    while len(found) < count:
        few = rng.sample(pool, rng.randint(1, min(3, len(pool))))
        nulls = rng.choice([0.0, 0.0, 0.2, 1.0])
        found += [None if rng.random() < nulls else rng.choice(few) for _ in range(rng.randint(5, 60))]
    return found[:count]


def _nested(rng: Random, name: str) -> Any:
    if rng.random() < 0.15:
        return None
    if name == "st":
        inner = rng.choice([None, {"x": None}, {"x": rng.choice(DOUBLES)}])
        return {"a": rng.choice([None, *INTS]), "s": rng.choice([None, *TEXTS]), "at": rng.choice(INSTANTS), "q": inner}
    if name == "arr":
        return [rng.choice([None, *INTS]) for _ in range(rng.randint(0, 3))]
    return [(key, rng.choice([None, *INTS])) for key in rng.sample(TEXTS[:6], rng.randint(0, 3))]


def _by_spark(ctx: hr.SessionContext, rng: Random, table: pa.Table, path: Path, any_unit: bool) -> str:
    coarse = ["TIMESTAMP_MILLIS"] if any_unit else []  # the first file's types are the table's
    mode = "LEGACY" if rng.random() < 0.1 else "CORRECTED"
    settings = {
        "spark.sql.parquet.outputTimestampType": rng.choice(["INT96", "INT96", "TIMESTAMP_MICROS", *coarse]),
        "spark.sql.parquet.datetimeRebaseModeInWrite": mode,
        "spark.sql.parquet.int96RebaseModeInWrite": mode,
        "spark.sql.parquet.writeLegacyFormat": rng.choice(["true", "false"]),
        "spark.sql.session.timeZone": rng.choice(["UTC", "America/Sao_Paulo", "Asia/Kolkata"]),
    }
    ctx.register_table("written", hr.MemTable(table), replace=True)
    made = path.with_suffix(".made")
    options = {"parquet.block.size": "1", "parquet.enable.dictionary": rng.choice(["true", "false"])}
    with session_settings(ctx.spark, settings):
        ctx.spark.table("written").coalesce(1).write.options(**options).parquet(str(made))
    part = next(iter(sorted(made.glob("*.parquet"))), None)
    if part is None:  # Spark writes no file for no rows
        shutil.rmtree(made)
        return f"no rows, by pyarrow: {_by_pyarrow(ctx, rng, table, path, any_unit)}"
    part.rename(path)
    shutil.rmtree(made)
    return ", ".join(settings.values())


def _by_pyarrow(ctx: hr.SessionContext, rng: Random, table: pa.Table, path: Path, any_unit: bool) -> str:
    settings = {
        "row_group_size": rng.choice([5, 20, 100]),
        "use_dictionary": rng.choice([True, False]),
        "write_statistics": rng.choice([True, True, False]),
        "use_deprecated_int96_timestamps": rng.choice([True, False]),
        "store_schema": rng.choice([True, False]),
        "data_page_version": rng.choice(["1.0", "2.0"]),
        "store_decimal_as_integer": rng.choice([True, False]),
    }
    if settings["use_deprecated_int96_timestamps"]:  # of both kinds of timestamps: those without a zone stay away
        table = table.drop_columns(["n"]) if "n" in table.column_names else table
    with pq.ParquetWriter(path, table.schema, **{k: v for k, v in settings.items() if k != "row_group_size"}) as writer:
        if rng.random() < 0.3:
            writer.write_table(table.slice(0, 0))  # an empty row group
        writer.write_table(table, row_group_size=settings["row_group_size"])
    return str(settings)


def _by_polars(ctx: hr.SessionContext, rng: Random, table: pa.Table, path: Path, any_unit: bool) -> str:
    settings = {"row_group_size": rng.choice([10, 50, 1000]), "statistics": rng.choice([True, "full", False])}
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    frame.write_parquet(path, **settings)
    return str(settings)


def _by_duckdb(ctx: hr.SessionContext, rng: Random, table: pa.Table, path: Path, any_unit: bool) -> str:
    # In V2 pyarrow does not read columns without a value: "Unexpected end of stream".
    version = rng.choice(["V1", "V2"]) if _has_values(table) else "V1"
    with duckdb.connect() as connection:
        connection.register("source", table)
        connection.execute(f"COPY (SELECT * FROM source) TO '{path}' (FORMAT parquet, PARQUET_VERSION {version})")
    return version


def _has_values(table: pa.Table) -> bool:
    """Whether there is a value in every column, and in every field of one."""
    plain = [table.column(name) for name in table.column_names if name not in ("arr", "st")]
    if "st" in table.column_names:
        flat = table.select(["st"]).flatten().flatten()
        plain += flat.columns
    if "arr" in table.column_names:
        plain += [pa.chunked_array([chunk.flatten()]) for chunk in table.column("arr").chunks] or [
            pa.chunked_array([[]])
        ]
    return all(column.null_count < len(column) for column in plain)


_WRITE = {"spark": _by_spark, "pyarrow": _by_pyarrow, "polars": _by_polars, "duckdb": _by_duckdb}
