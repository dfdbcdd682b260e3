"""Random queries over random Parquet files of four writers, against Spark's own reader; ``make soak`` runs 2,000."""

from __future__ import annotations

from pathlib import Path

import pytest

import headrace as hr
from effort import cases
from parquet_comparison import QUERIES, compare

pytestmark = pytest.mark.usefixtures("drops_views")


@pytest.mark.parametrize("seed", range(cases(6)))
def test_parquet_files_of_any_writer_are_read_as_spark_reads_them(
    ctx: hr.SessionContext, tmp_path: Path, seed: int
) -> None:
    counts = compare(ctx, tmp_path / "files", seed)
    assert counts["equal"] >= QUERIES // 2, counts
