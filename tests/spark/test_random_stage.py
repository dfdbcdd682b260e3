"""Random queries over a provider that does nothing, worked on by Headrace's stage, against Spark over the same rows."""

from __future__ import annotations

from pathlib import Path

import pytest

import headrace as hr
from effort import cases, share
from stage_queries import compare
from stage_tables import of_data_source

pytestmark = [pytest.mark.core, pytest.mark.usefixtures("drops_views")]

PARTS = share(share(range(20)))  # 2,000 queries in make soak; else three parts of 33, of which make test runs the first


@pytest.mark.timeout(900)
@pytest.mark.daily("0")
@pytest.mark.parametrize("part", PARTS)
def test_stage_answers_random_queries_as_spark_does(ctx: hr.SessionContext, tmp_path: Path, part: int) -> None:
    counts = compare(ctx, tmp_path, range(part * 1000, part * 1000 + cases(100)))
    assert counts["worked"] >= cases(100) // 6, counts
    assert counts["failed"] <= cases(100) // 4, counts


@pytest.mark.timeout(900)
@pytest.mark.daily
def test_stage_answers_random_queries_over_a_data_source_as_spark_does(ctx: hr.SessionContext, tmp_path: Path) -> None:
    counts = compare(ctx, tmp_path, range(50_000, 50_000 + cases(100)), of_data_source)
    assert counts["worked"] >= cases(100) // 6, counts
