"""The examples: each gives the results it shows, and runs as a script from anywhere."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest

import headrace as hr
from places import EXAMPLES
from versions import has


@pytest.fixture
def example(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module(request.param)


@pytest.mark.parametrize("example", ["counting_table"], indirect=True)
def test_counting_table_query_counts_the_even_numbers(ctx: hr.SessionContext, example: ModuleType) -> None:
    assert example.main(ctx) == {"numbers": 500_000, "total": 249_999_500_000, "largest": 999_998}


@pytest.mark.parametrize("example", ["data_you_hold"], indirect=True)
def test_data_you_hold_is_joined_in_one_query(ctx: hr.SessionContext, example: ModuleType) -> None:
    assert example.main(ctx) == [{"name": "ann", "euros": 28.0}, {"name": "bob", "euros": 5.0}]


@pytest.mark.parametrize("example", ["paged_api"], indirect=True)
def test_paged_api_pushed_filters_and_limit_save_pages(ctx: hr.SessionContext, example: ModuleType) -> None:
    everything, inexact, limited = example.main(ctx)
    assert everything["answer"] == [{"n": 900}]
    assert everything["rows"] == 900
    books = [p for p in example.PRODUCTS if p["category"] == "books" and p["created"] > "2024-03-01"]
    assert inexact["answer"] == [{"n": len(books)}]
    assert len(books) < inexact["rows"] <= len(books) + 5  # those of the first of March were sent and dropped
    assert len(limited["answer"]) == 3
    assert (limited["pages"], limited["rows"]) == (1, 3)


@pytest.mark.parametrize("example", ["paged_api"], indirect=True)
def test_paged_api_second_filter_of_a_kind_is_left_to_spark(ctx: hr.SessionContext, example: ModuleType) -> None:
    with example.product_service() as service:
        ctx.register_table("products", example.ProductsTable(service.url))
        where = "created >= DATE '2024-02-01' AND created > DATE '2024-06-01' AND price > 60"
        expected = sum(p["created"] > "2024-06-01" and p["price"] > 60 for p in example.PRODUCTS)
        assert ctx.collect(f"SELECT count(*) AS n FROM products WHERE {where}").to_pylist() == [{"n": expected}]


@pytest.mark.parametrize("example", ["sharded_source"], indirect=True)
def test_sharded_source_told_sharding_needs_no_shuffle(
    ctx: hr.SessionContext, example: ModuleType, capfd: pytest.CaptureFixture[str]
) -> None:
    result = example.main(ctx)
    assert result["amounts"] == {"east": 43_500, "north": 87_000, "south": 130_500, "west": 174_000}
    assert result["reached"] == dict.fromkeys(("east", "north", "south", "west"), 43_500 / 40_000)
    assert result["shuffles"] == {
        "group by, sharding told": 0,
        "group by, sharding not told": 1,
        "join, sharding told": 0,
    }
    assert "KEY(region; 4 keys)" in capfd.readouterr().out


@pytest.mark.daily
@pytest.mark.parametrize("example", ["without_jar"], indirect=True)
def test_without_jar_reads_the_provider_through_sparks_own_data_source(
    ctx: hr.SessionContext, example: ModuleType
) -> None:
    answers = example.main(ctx.spark)
    assert answers["events"] == {"kind": {"login": 667, "logout": 667, "purchase": 666}}
    assert answers["columns"] == ["day"]
    assert answers["days"] == 10


@pytest.mark.parametrize("example", ["own_catalog"], indirect=True)
def test_own_catalog_names_tables_versions_and_a_function(ctx: hr.SessionContext, example: ModuleType) -> None:
    found = example.main(ctx)
    assert found["schemas"] == ["desk", "sales"]
    assert found["joined"] == [{"id": 7, "state": "open"}, {"id": 8, "state": "open"}]
    assert found["first two"] == [{"n": 2}]
    assert found["open since February"] == [{"id": 2}, {"id": 4}]
    assert sorted(found["made"]) == ["desk.tickets", "desk.tickets of 2", "sales.orders"]


@pytest.mark.parametrize("example", ["daily_store"], indirect=True)
def test_daily_store_counts_by_its_index_and_opens_only_the_days_it_needs(
    ctx: hr.SessionContext, example: ModuleType, capfd: pytest.CaptureFixture[str]
) -> None:
    found = example.main(ctx)
    assert found["counted"] == [{"n": 100_000}]
    assert found["newest"] == [{"day": 99, "amount": 99}, {"day": 99, "amount": 100}]
    assert found["scan of the newest"] == "scan 1: sales (Sales: days 99)"
    assert found["total of holidays"] == [{"total": sum(range(1000)) + sum(range(50, 1050))}]
    opened = "days 0, 50" if has("filters put back") else "all days"
    assert found["scan of the join"] == f"scan 1: sales (Sales: {opened})"
    assert "count(*) GROUP BY day  COMPLETE" in capfd.readouterr().out
