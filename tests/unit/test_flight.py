"""FlightTable against real pyarrow.flight servers: endpoints, authentication, errors, TLS."""

from __future__ import annotations

import contextlib
import datetime as dt
import pickle
import threading
from collections.abc import Callable, Iterator
from typing import Any

import cloudpickle
import pyarrow as pa
import pyarrow.flight as fl
import pytest

import headrace as hr
from flight_server import (
    EVERYTHING,
    PASSWORD,
    SCHEMA,
    TOKEN,
    USER,
    Authentication,
    NoHandshake,
    Server,
    serving,
)
from headrace.tables.flight.stream import FlightEndpoint, FlightStream
from headrace.testing import check_provider


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    with serving() as start:
        yield start


def rows_of(table: hr.FlightTable) -> list[int]:
    schema = table.schema()
    plan = table.scan(hr.ScanRequest(schema, tuple(schema.names)))
    rows: list[int] = []
    for partition in range(plan.partitioning.n):
        stream: Any = plan.execute(partition)
        try:
            rows += [value for chunk in stream for value in chunk["a"].to_pylist()]
        finally:
            stream.close()
    return rows


def test_flight_keeps_every_promise(serve: Callable[..., Server]) -> None:
    check_provider(hr.FlightTable(serve().location, b"command"), samples=1, planning_budget_s=60).raise_if_failed()


def test_flight_without_endpoints_is_an_empty_table(serve: Callable[..., Server]) -> None:
    assert rows_of(hr.FlightTable(serve([]).location, "empty")) == []


@pytest.mark.parametrize(
    "credentials", [{"basic": (USER, PASSWORD)}, {"token": TOKEN}, {"headers": [("Authorization", f"Bearer {TOKEN}")]}]
)
def test_flight_authentication_reaches_the_executors(serve: Callable[..., Server], credentials: dict[str, Any]) -> None:
    server = serve(auth_handler=NoHandshake(), middleware={"auth": Authentication()})
    table = hr.FlightTable(server.location, "secret", **credentials)
    assert rows_of(table) == EVERYTHING
    plan = table.scan(hr.ScanRequest(SCHEMA, ("a", "s")))
    again = pickle.loads(cloudpickle.dumps(plan))
    assert sum(chunk.num_rows for chunk in again.execute(1)) == 30
    for text in (repr(vars(table)), repr(vars(plan)), plan.describe()):
        assert PASSWORD not in text
        assert TOKEN not in text


def test_flight_second_location_answers_where_the_first_is_down(serve: Callable[..., Server]) -> None:
    data = serve()
    gone = "grpc://127.0.0.1:1"
    info = serve(
        [fl.FlightEndpoint(b"5", [gone, data.location]), fl.FlightEndpoint(b"7", ["arrow-flight-reuse-connection://?"])]
    )
    assert rows_of(hr.FlightTable(info.location, "spread")) == [*range(5, 35), *range(7, 37)]


def test_flight_no_location_answers_names_them_all(serve: Callable[..., Server]) -> None:
    info = serve([fl.FlightEndpoint(b"5", ["grpc://127.0.0.1:1", "grpc://127.0.0.1:2"])])
    with pytest.raises(ConnectionError, match=r"127\.0\.0\.1:1: .*\n.*127\.0\.0\.1:2: "):
        rows_of(hr.FlightTable(info.location, "gone"))


def test_flight_expired_endpoints_are_asked_for_again(serve: Callable[..., Server]) -> None:
    past = pa.scalar(dt.datetime(2020, 1, 1, tzinfo=dt.UTC), pa.timestamp("ns", tz="UTC"))
    future = pa.scalar(dt.datetime(2120, 1, 1, tzinfo=dt.UTC), pa.timestamp("ns", tz="UTC"))
    server = serve([fl.FlightEndpoint(b"1", [], past, b"")])
    table = hr.FlightTable(server.location, "short-lived")
    table.schema()
    server.endpoints = [fl.FlightEndpoint(b"2", [], future, b"")]
    request = hr.ScanRequest(SCHEMA, ("a", "s"))
    for _ in range(2):
        stream: Any = table.scan(request).execute(0)
        assert next(stream)["a"][0].as_py() == 2
        stream.close()
    assert server.asked == 2


def test_flight_refresh_asks_for_the_endpoints_again(serve: Callable[..., Server]) -> None:
    server = serve([fl.FlightEndpoint(b"1", [])])
    table = hr.FlightTable(server.location, "grows")
    request = hr.ScanRequest(table.schema(), ("a", "s"))
    server.endpoints = [*server.endpoints, fl.FlightEndpoint(b"2", [])]
    assert table.scan(request).partitioning.n == 1
    table.refresh()
    assert table.scan(request).partitioning.n == 2
    server.endpoints = []
    server.shutdown()
    with pytest.raises(fl.FlightError):
        table.refresh()
    assert table.scan(request).partitioning.n == 2


@pytest.mark.parametrize("ticket", [b"endless", b"late"])
def test_flight_early_stop_cancels_the_call(serve: Callable[..., Server], ticket: bytes) -> None:
    """``late``: nothing has come yet, and pyarrow cannot cancel; the reader must be free at once nevertheless."""
    server = serve()
    access = hr.FlightTable(server.location, "x")._access
    stream = FlightStream(FlightEndpoint(ticket, (server.location,)), access)
    ended = threading.Event()

    def read() -> None:
        with contextlib.suppress(fl.FlightCancelledError, hr.ScanEndedError):
            for _ in stream:
                pass
        stream.close()
        ended.set()

    threading.Thread(target=read, daemon=True).start()
    assert server.waiting.wait(60)
    stream.interrupt("test")
    assert ended.wait(60)
    if ticket == b"endless":
        assert server.cancelled.wait(60)


def test_flight_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="not both"):
        hr.FlightTable("grpc://h:1", "x", token="t", basic=("u", "p"))
    with pytest.raises(TypeError, match="not int"):
        hr.FlightTable("grpc://h:1", 5)
    with pytest.raises(hr.HeadraceError, match="register"):
        hr.FlightTable("grpc://h:1", "x").scan(hr.ScanRequest(SCHEMA, ("a", "s")))


# --- TLS -------------------------------------------------------------------------------------------------


def certificate() -> tuple[bytes, bytes]:
    """A certificate for localhost, signed by itself, and its key, as PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return signed.public_bytes(serialization.Encoding.PEM), private


def test_flight_tls_reads_and_sends_no_credentials_in_the_clear(serve: Callable[..., Server]) -> None:
    public, private = certificate()
    server = serve(
        location="grpc+tls://127.0.0.1:0",
        tls_certificates=[(public, private)],
        middleware={"auth": Authentication()},
    )
    location = f"grpc+tls://localhost:{server.port}"
    table = hr.FlightTable(location, "x", token=TOKEN, tls_root_certs=public)
    assert rows_of(table) == EVERYTHING
    server.endpoints = [fl.FlightEndpoint(b"1", [serve().location])]
    with pytest.raises(ConnectionError, match="not encrypted"):
        rows_of(table)
    with pytest.raises(fl.FlightUnavailableError):
        hr.FlightTable(location, "x", token=TOKEN).schema()
