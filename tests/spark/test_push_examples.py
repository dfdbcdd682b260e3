"""The examples that push: each gives the results it shows, and its producers end as they should."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest

import headrace as hr
from places import EXAMPLES


@pytest.fixture
def example(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module(request.param)


@pytest.mark.parametrize("example", ["shard_coordinator"], indirect=True)
def test_shard_coordinator_shard_breaks_off_is_asked_again_and_counted_once(
    ctx: hr.SessionContext, example: ModuleType
) -> None:
    result = example.main(ctx)
    pages = [400, 400, 20, 20, 5]
    assert result["rows"] == [
        {"word": "grain", "hits": sum(sum(range(n)) for n in pages), "answers": sum(pages)},
        {"word": "river", "hits": sum(pages), "answers": sum(pages)},
        {"word": "stone", "hits": 10 * sum(pages), "answers": sum(pages)},
    ]
    assert result["attempts"] == {"shard-0": 1, "shard-1": 1, "shard-2": 1, "shard-3": 2, "shard-4": 1}
    stats = result["stats"]
    assert (stats.state, stats.batches_written, stats.batches_delivered) == ("finished", sum(pages), sum(pages))
    assert stats.blocked_s > 0  # 400 pages at once do not fit in 4 places


@pytest.mark.parametrize("example", ["shard_coordinator"], indirect=True)
def test_shard_coordinator_shard_stays_away_fails_the_query_at_once(
    ctx: hr.SessionContext, example: ModuleType
) -> None:
    lost = example.Shard("lost", pages=3, seconds_a_page=0.01, breaks_at=1, failures=99)
    endless = example.Shard("endless", pages=1_000_000_000, seconds_a_page=0.01)
    with pytest.raises(hr.ProviderError) as raised:
        example.coordinate(ctx, [endless, lost])
    assert isinstance(raised.value.__cause__, ConnectionError)
    assert (raised.value.table, raised.value.message) == ("answers", "lost broke off at page 1")


@pytest.mark.parametrize("example", ["shard_coordinator"], indirect=True)
def test_shard_coordinator_query_that_never_reads_lets_the_shards_go(
    ctx: hr.SessionContext, example: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(example, "QUERY", "SELECT nothing FROM nowhere")
    endless = example.Shard("endless", pages=1_000_000_000, seconds_a_page=0)
    with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
        example.coordinate(ctx, [endless])
    assert ctx.table_names() == []


@pytest.mark.parametrize("example", ["asyncio_producer"], indirect=True)
def test_asyncio_producer_limit_reached_ends_every_producer(ctx: hr.SessionContext, example: ModuleType) -> None:
    result = example.main(ctx)
    table = result["table"]
    assert table.num_rows == 1000
    assert set(table["feed"].to_pylist()) <= set(range(example.FEEDS))
    assert all(row["price"] == (row["tick"] * 37 + row["feed"]) % 100 >= 50 for row in table.to_pylist())
    assert len(result["endings"]) == example.FEEDS
    assert all("its limit was reached" in ending for ending in result["endings"])
    assert result["stats"].state == "ended"


@pytest.mark.parametrize("example", ["flight_stream"], indirect=True)
def test_flight_stream_both_directions_give_the_sums(ctx: hr.SessionContext, example: ModuleType) -> None:
    def sums(name: str, rows: int) -> dict[str, object]:
        return {"sensor": name, "n": rows, "total": sum(range(rows))}

    assert example.main(ctx) == {
        "do_get": [sums("pump", 5000)],
        "do_put": [sums("door", 2000), sums("roof", 2000)],
    }


@pytest.mark.parametrize("example", ["flight_stream"], indirect=True)
def test_flight_stream_endless_do_get_is_cancelled_by_the_limit(ctx: hr.SessionContext, example: ModuleType) -> None:
    table = example.query_do_get(ctx, "endless", "SELECT value FROM pulled WHERE value % 2 = 0 LIMIT 300")
    assert table["value"].to_pylist() == list(range(0, 600, 2))


@pytest.mark.parametrize("example", ["live_polars"], indirect=True)
def test_live_polars_totals_grow_while_the_producer_writes(ctx: hr.SessionContext, example: ModuleType) -> None:
    pytest.importorskip("polars")
    updates = example.main(ctx)
    assert updates[0]["state"] == "open"
    assert len(updates) > 1
    assert [sum(update["totals"].values()) for update in updates] == sorted(
        sum(update["totals"].values()) for update in updates
    )
    amounts = {
        name: [minute + product for minute in range(12)] for product, name in enumerate(("lamp", "desk", "chair"))
    }
    assert updates[-1]["totals"] == {name: sum(n for n in ns if n > 4) for name, ns in amounts.items()}
