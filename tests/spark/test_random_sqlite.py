"""Random queries of SQLite tables with every awkward value, held against Spark over the same rows."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

import headrace as hr
from database_queries import compare_part
from effort import cases, share
from random_databases import SQLITE, fill_sqlite

pytestmark = pytest.mark.usefixtures("drops_views")

PARTS = share(share(range(20)))  # 2,000 queries in make soak; else three parts of 33, of which make test runs the first


@pytest.mark.timeout(900)
@pytest.mark.daily("0")
@pytest.mark.parametrize("part", PARTS)
def test_sqlite_answers_random_queries_as_spark_does(ctx: hr.SessionContext, tmp_path: Path, part: int) -> None:
    def make(columns: dict[str, list[Any]], rng: Random) -> hr.AdbcTable:
        path = str(tmp_path / f"{rng.random()}.db")
        fill_sqlite(path, "random_rows", columns)
        return hr.AdbcTable(
            "sqlite", path, "random_rows", rng.choice([None, "id", "l"]), order_by=rng.choice([[], ["s", "id"]])
        )

    compare_part(ctx, tmp_path, range(part * 1000, part * 1000 + cases(100)), SQLITE, make)
