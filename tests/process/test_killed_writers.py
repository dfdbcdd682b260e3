"""Epochs of a stream, committed by processes that are killed (SIGKILL) at random moments: each row is there once."""

from __future__ import annotations

from pathlib import Path

import pytest

from effort import cases
from killed_streams import check_killed_streams
from killed_writers import check_killed_folder, check_killed_postgres, check_killed_sqlite
from postgres import Postgres

KILLS = 15  # with --soak all of them, else a third; 200 in tests/soak


def test_folder_has_each_row_once(tmp_path: Path) -> None:
    check_killed_folder(tmp_path, cases(KILLS), seed=1)


@pytest.mark.parametrize("staged", [True, False])
@pytest.mark.daily("True")
def test_postgres_has_each_row_once(postgres: Postgres, staged: bool) -> None:
    check_killed_postgres(postgres, cases(KILLS), seed=2, staged=staged)


@pytest.mark.daily
def test_sqlite_has_each_row_once(tmp_path: Path) -> None:
    check_killed_sqlite(tmp_path, cases(KILLS), seed=3)


@pytest.mark.daily
@pytest.mark.timeout(600)
def test_streaming_queries_of_killed_processes_write_each_row_once(tmp_path: Path, postgres: Postgres) -> None:
    check_killed_streams(tmp_path, postgres, cases(6), seed=4)
