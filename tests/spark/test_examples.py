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


@pytest.mark.parametrize("example", ["growing_counter"], indirect=True)
def test_growing_counter_is_read_while_it_grows_and_afterwards(ctx: hr.SessionContext, example: ModuleType) -> None:
    assert example.main(ctx) == {"first": list(range(1, 1001)), "second": list(range(1001, 1501))}


@pytest.mark.parametrize("example", ["written_gauges"], indirect=True)
def test_written_gauges_show_what_was_inserted(
    ctx: hr.SessionContext, example: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert example.main(ctx) == [{"sensor": "cellar", "celsius": 12.0}]
    assert capsys.readouterr().out.splitlines() == [
        "{'oven': 180.0, 'fridge': 4.5}",
        "{'oven': 200.0, 'fridge': 4.5}",
        "{'cellar': 12.0}",
    ]


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


@pytest.mark.parametrize("example", ["incremental_load"], indirect=True)
def test_incremental_load_that_broke_down_is_taken_up(ctx: hr.SessionContext, example: ModuleType) -> None:
    result = example.main(ctx)
    assert result["first"] == [100]
    assert 100 < result["by then"] < 450
    assert sum(result["third"]) > 0
    assert sum(result["fourth"]) == 0
    assert result["found"] == result["expected"]
    assert len(result["found"]) == 450


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


@pytest.mark.parametrize("example", ["load_database"], indirect=True)
def test_load_database_replaces_the_rows_of_a_day(ctx: hr.SessionContext, example: ModuleType) -> None:
    rows = example.main(ctx)
    assert [(row["day"], row["city"]) for row in rows] == [
        (day, city) for day in ("2024-05-17", "2024-05-18") for city in ("Bonn", "Kiel", "Ulm")
    ]
    assert [round(sum(row["amount"] for row in part)) for part in (rows[:3], rows[3:])] == [148_500_000, 99_000_000]


@pytest.mark.parametrize("example", ["reverse_etl"], indirect=True)
def test_reverse_etl_posts_every_customer(ctx: hr.SessionContext, example: ModuleType) -> None:
    found = example.main(ctx)
    assert found["customers"] == 1000
    assert found["one"] == sum(n % 7 for n in range(7, 100_000, 1000)) / 100
    assert found["requests"] > 10
