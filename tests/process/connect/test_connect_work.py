"""Work at the source over Spark Connect: random queries, answered as Spark answers them over the same rows."""

from __future__ import annotations

from pathlib import Path

import pytest

import headrace as hr
from effort import cases
from stage_queries import compare

pytestmark = pytest.mark.timeout(900)


@pytest.mark.daily("0")
@pytest.mark.parametrize("part", range(2))
def test_connect_stage_answers_random_queries_as_spark_does(ctx: hr.SessionContext, tmp_path: Path, part: int) -> None:
    first = 60_000 + part * 1000
    counts = compare(ctx, tmp_path, range(first, first + cases(50)))
    assert counts["worked"] >= cases(50) // 6, counts
