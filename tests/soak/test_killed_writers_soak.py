"""The tests of killed writers, 200 kills each."""

from __future__ import annotations

from pathlib import Path

import pytest

from killed_streams import check_killed_streams
from killed_writers import check_killed_folder, check_killed_postgres, check_killed_sqlite
from postgres import Postgres

KILLS = 200


@pytest.mark.timeout(3600)
def test_folder_has_each_row_once_after_200_kills(tmp_path: Path) -> None:
    check_killed_folder(tmp_path, KILLS, seed=100)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("staged", [True, False])
def test_postgres_has_each_row_once_after_200_kills(postgres: Postgres, staged: bool) -> None:
    check_killed_postgres(postgres, KILLS, seed=200, staged=staged)


@pytest.mark.timeout(3600)
def test_sqlite_has_each_row_once_after_200_kills(tmp_path: Path) -> None:
    check_killed_sqlite(tmp_path, KILLS, seed=300)


@pytest.mark.timeout(7200)
def test_streaming_queries_of_processes_killed_200_times_write_each_row_once(
    tmp_path: Path, postgres: Postgres
) -> None:
    within = check_killed_streams(tmp_path, postgres, KILLS, seed=400)
    assert within > KILLS / 2, "too few kills came in the middle of a micro-batch"
