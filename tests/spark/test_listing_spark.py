"""ListingTable through Spark: files that are opened, groups without a shuffle, errors that name the file."""

from __future__ import annotations

from pathlib import Path

import pytest

import headrace as hr
from arrow_files import ArrowFormat, opened_files, write
from recording import executed_nodes


@pytest.fixture
def opened(tmp_path: Path) -> Path:
    (tmp_path / "opened").mkdir()
    return tmp_path / "opened"


def test_point_filter_on_a_thousand_files_opens_one(ctx: hr.SessionContext, tmp_path: Path, opened: Path) -> None:
    for i in range(1000):
        write(tmp_path / "data" / f"{i:04}.arrow", range(i * 10, i * 10 + 10))
    ctx.register_table("many", hr.ListingTable(tmp_path / "data", ArrowFormat(opened)))
    assert ctx.collect("SELECT id, name FROM many WHERE id = 4711").to_pylist() == [{"id": 4711, "name": "n4711"}]
    assert opened_files(opened) == ["0471.arrow"]
    assert "1 of 1,000 files" in ctx.explain("SELECT id FROM many WHERE id = 4711")


def test_partition_columns_group_without_a_shuffle(ctx: hr.SessionContext, tmp_path: Path) -> None:
    for year in (2022, 2023, None):
        for part in range(2):
            directory = f"year={year or '__HIVE_DEFAULT_PARTITION__'}"
            write(tmp_path / directory / f"{part}.arrow", range(10))
    ctx.register_table("years", hr.ListingTable(tmp_path, ArrowFormat()))
    frame = ctx.sql("SELECT year, sum(id) AS total FROM years GROUP BY year")
    assert {row.year: row.total for row in frame.collect()} == {2022: 90, 2023: 90, None: 90}
    assert not any("ShuffleExchange" in node for node in executed_nodes(frame))


def test_file_that_vanished_is_named_by_the_query(ctx: hr.SessionContext, tmp_path: Path) -> None:
    path = write(tmp_path / "a.arrow", [1])
    ctx.register_table("gone", hr.ListingTable(tmp_path, ArrowFormat()))
    path.unlink()
    with pytest.raises(hr.ProviderError) as caught:
        ctx.collect("SELECT id FROM gone")
    assert caught.value.exception_type == "FileNotFoundError"
    assert f"the file {path} was there when the ListingTable was made" in str(caught.value)
