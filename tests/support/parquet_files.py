"""Parquet files in directories by year, for the tests of DatasetTable."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.fs
import pyarrow.orc
import pyarrow.parquet as pq

ROWS = 10_000


def table(n: int = ROWS, start: int = 0) -> pa.Table:
    ids = range(start, start + n)
    return pa.table({"id": ids, "x": [i / 2 for i in ids], "name": [f"n{i % 7}" for i in ids]})


def years(root: Path) -> Path:
    for i, year in enumerate(("2022", "2023", "__HIVE_DEFAULT_PARTITION__")):
        (root / f"year={year}").mkdir(parents=True)
        for part in range(2):
            pq.write_table(table(10, 20 * i + 10 * part), root / f"year={year}" / f"{part}.parquet")
    return root
