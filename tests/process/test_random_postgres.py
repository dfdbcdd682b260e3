"""Random queries of tables with every awkward value in a real PostgreSQL, held against Spark over the same rows."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

import headrace as hr
from database_queries import compare_part
from effort import cases, share
from random_databases import POSTGRES, fill_postgres

pytestmark = pytest.mark.usefixtures("drops_views")

if TYPE_CHECKING:
    from postgres import Postgres

PARTS = share(share(range(20)))  # 2,000 queries in make soak; else three parts of 33, of which make test runs the first


@pytest.mark.timeout(900)  # the first one may have to install PostgreSQL
@pytest.mark.daily("0")
@pytest.mark.parametrize("part", PARTS)
def test_postgres_answers_random_queries_as_spark_does(
    ctx: hr.SessionContext, postgres: Postgres, tmp_path: Path, part: int
) -> None:
    def make(columns: dict[str, list[Any]], rng: Random) -> hr.AdbcTable:
        with psycopg.connect(postgres.uri, autocommit=True) as connection:
            fill_postgres(connection, "random_rows", columns)
        key = rng.choice([None, "id", "i", "t", "p", "z"])
        order = rng.choice([[], ["s"], ["d", "id"]])
        return hr.AdbcTable(
            "postgresql", postgres.uri, "random_rows", key, partitions=3, order_by=order, out_of_range_as_null=True
        )

    compare_part(ctx, tmp_path, range(part * 1000, part * 1000 + cases(100)), POSTGRES, make)
