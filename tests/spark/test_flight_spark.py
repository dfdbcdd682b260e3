"""FlightTable through Spark: endpoints as partitions, errors, early stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow.flight as fl
import pytest

import headrace as hr
from flight_server import (
    EVERYTHING,
    USER,
    Authentication,
    NoHandshake,
    Server,
    endpoints,
    serving,
)


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    with serving() as start:
        yield start


def test_flight_endpoints_are_partitions_of_a_query(ctx: hr.SessionContext, serve: Callable[..., Server]) -> None:
    server = serve()
    table = hr.FlightTable(server.location, ["shop", "orders"])
    ctx.register_table("orders", table)
    assert server.descriptor.path == [b"shop", b"orders"]
    frame = ctx.sql("SELECT sum(a) AS total, count(*) AS n FROM orders WHERE s <> 's0'")
    expected = [n for n in EVERYTHING if n % 3]
    assert ctx.collect(frame).to_pylist() == [{"total": sum(expected), "n": len(expected)}]
    assert "flight, 3 endpoints" in ctx.explain(frame)
    assert table.statistics() == hr.Statistics(90, 2000)
    assert server.asked == 1


@pytest.mark.parametrize("credentials", [{"basic": (USER, "wrong secret")}, {"token": "wrong secret"}, {}])
def test_flight_refused_credentials_are_named_but_not_shown(
    ctx: hr.SessionContext, serve: Callable[..., Server], credentials: dict[str, Any]
) -> None:
    server = serve(auth_handler=NoHandshake(), middleware={"auth": Authentication()})
    with pytest.raises(fl.FlightUnauthenticatedError, match=r"wrong user or password|no valid token") as caught:
        ctx.register_table("secret", hr.FlightTable(server.location, "secret", **credentials))
    assert "wrong secret" not in str(caught.value)
    assert not ctx.table_exists("secret")


@pytest.mark.parametrize(
    ("ticket", "text"), [(b"refused", "this shard is not yours"), (b"broken", "the disk of this shard is gone")]
)
def test_flight_server_error_reaches_the_query(
    ctx: hr.SessionContext, serve: Callable[..., Server], ticket: bytes, text: str
) -> None:
    ctx.register_table("shards", hr.FlightTable(serve(endpoints(ticket)).location, "shards"))
    with pytest.raises(hr.ProviderError, match=text) as caught:
        ctx.collect("SELECT a FROM shards")
    assert caught.value.exception_type.startswith("pyarrow._flight.Flight")
    assert caught.value.partition == 0


def test_flight_limit_ends_the_call_of_a_query(ctx: hr.SessionContext, serve: Callable[..., Server]) -> None:
    server = serve(endpoints(b"endless"))
    ctx.register_table("endless", hr.FlightTable(server.location, "x"))
    assert ctx.collect("SELECT a FROM endless LIMIT 10").num_rows == 10
    assert server.cancelled.wait(60)
