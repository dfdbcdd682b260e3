"""Two thousand random queries over random Parquet files of four writers, against Spark's own reader."""

from __future__ import annotations

from pathlib import Path

import pytest

import headrace as hr
from parquet_comparison import QUERIES, compare

pytestmark = pytest.mark.usefixtures("drops_views")


@pytest.mark.parametrize("seed", range(100, 100 + 2000 // QUERIES))
def test_parquet_files_of_any_writer_are_read_as_spark_reads_them(
    ctx: hr.SessionContext, tmp_path: Path, seed: int
) -> None:
    """To replay one seed: its id, ``-k "[117]"``, with ``--soak``."""
    counts = compare(ctx, tmp_path / "files", seed)
    assert counts["failed in both"] <= QUERIES // 4, counts
    assert counts["equal"] or counts["refused by name"], counts
