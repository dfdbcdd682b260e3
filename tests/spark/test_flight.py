"""FlightTable against real pyarrow.flight servers: endpoints, authentication, errors, early stop, TLS."""

from __future__ import annotations

import base64
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
from headrace.tables.flight.stream import FlightEndpoint, FlightStream
from headrace.testing import check_provider

SCHEMA = pa.schema([("a", pa.int64()), ("s", pa.string())])
USER, PASSWORD, TOKEN = "reader", "open sesame", "tok-1234"


def batch(start: int, rows: int = 10) -> pa.RecordBatch:
    numbers = range(start, start + rows)
    return pa.record_batch([pa.array(numbers, pa.int64()), pa.array([f"s{n % 3}" for n in numbers])], SCHEMA)


class Authentication(fl.ServerMiddlewareFactory):
    """Basic credentials buy the token; everything else needs it."""

    def start_call(self, info: Any, headers: dict[str, list[str]]) -> Any:
        sent = next((values[0] for name, values in headers.items() if name.lower() == "authorization"), "")
        kind, _, value = sent.partition(" ")
        if kind == "Basic":
            if base64.b64decode(value).decode() != f"{USER}:{PASSWORD}":
                raise fl.FlightUnauthenticatedError("wrong user or password")
            return Bearer()
        if kind != "Bearer" or value != TOKEN:
            raise fl.FlightUnauthenticatedError("no valid token")
        return None


class NoHandshake(fl.ServerAuthHandler):
    """Without one pyarrow's server refuses the call in which basic credentials are sent."""

    def authenticate(self, outgoing: Any, incoming: Any) -> None: ...

    def is_valid(self, token: bytes) -> str:
        return ""


class Bearer(fl.ServerMiddleware):
    def sending_headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {TOKEN}"}


class Server(fl.FlightServerBase):
    """Answers tickets ``n`` with three batches from n on, and a few with misbehaviour."""

    def __init__(
        self, endpoints: list[fl.FlightEndpoint] | None = None, location: str = "grpc://127.0.0.1:0", **options: Any
    ):
        super().__init__(location, **options)
        self.endpoints = (
            endpoints if endpoints is not None else [fl.FlightEndpoint(b"%d" % n, []) for n in (0, 100, 200)]
        )
        self.asked = 0
        self.descriptor: Any = None
        self.release = threading.Event()
        self.waiting = threading.Event()
        self.cancelled = threading.Event()
        self.headers: dict[str, list[str]] = {}

    @property
    def location(self) -> str:
        return f"grpc://127.0.0.1:{self.port}"

    def get_flight_info(self, context: Any, descriptor: Any) -> fl.FlightInfo:
        self.asked += 1
        self.descriptor = descriptor
        return fl.FlightInfo(SCHEMA, descriptor, self.endpoints, 90, 2000)

    def do_get(self, context: Any, ticket: fl.Ticket) -> Any:
        name = ticket.ticket
        if name == b"refused":
            raise fl.FlightUnauthorizedError("this shard is not yours")
        if name == b"late":
            self._wait(context)
        return fl.GeneratorStream(SCHEMA, self._batches(name, context))

    def _batches(self, name: bytes, context: Any) -> Iterator[pa.RecordBatch]:
        start = int(name) if name.isdigit() else 0
        for number in range(3):
            yield batch(start + 10 * number)
            if name == b"broken":
                raise fl.FlightServerError("the disk of this shard is gone")
            if name == b"endless":
                self._wait(context)

    def _wait(self, context: Any) -> None:
        self.waiting.set()
        while not self.release.wait(0.02):
            if context.is_cancelled():
                self.cancelled.set()
                return


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    """Starts servers; they are shut down after the test."""
    servers: list[Server] = []

    def start(*arguments: Any, **options: Any) -> Server:
        servers.append(Server(*arguments, **options))
        return servers[-1]

    yield start
    for server in servers:
        server.release.set()
        server.shutdown()


def endpoints(*tickets: bytes) -> list[fl.FlightEndpoint]:
    return [fl.FlightEndpoint(ticket, []) for ticket in tickets]


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


EVERYTHING = [*range(30), *range(100, 130), *range(200, 230)]


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


def test_flight_keeps_every_promise(serve: Callable[..., Server]) -> None:
    check_provider(hr.FlightTable(serve().location, b"command"), samples=1, planning_budget_s=5).raise_if_failed()


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
    assert server.waiting.wait(20)
    stream.interrupt("test")
    assert ended.wait(5)
    if ticket == b"endless":
        assert server.cancelled.wait(5)


def test_flight_limit_ends_the_call_of_a_query(ctx: hr.SessionContext, serve: Callable[..., Server]) -> None:
    server = serve(endpoints(b"endless"))
    ctx.register_table("endless", hr.FlightTable(server.location, "x"))
    assert ctx.collect("SELECT a FROM endless LIMIT 10").num_rows == 10
    assert server.cancelled.wait(20)


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
