"""FlightTable: a table behind an Arrow Flight server; described in the driver, read and written where tasks run."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headrace.arguments import checked
from headrace.arrow.rows import counted
from headrace.errors import HeadraceError
from headrace.plan import ExecutionPlan, ScanRequest, Statistics, UnknownPartitioning
from headrace.tables.flight.stream import FlightAccess, FlightEndpoint, FlightStream
from headrace.tables.flight.writing import FlightWrite
from headrace.write import WritableProvider, WritePlan, WriteRequest

_SAME_CONNECTION = "arrow-flight-reuse-connection:"


class FlightTable(WritableProvider):
    """One partition per endpoint of a flight; each task reads its ticket itself, from the first location that answers.

    ``location`` is ``grpc://host:port``, or ``grpc+tls://`` with ``tls_root_certs`` (PEM) unless the system trusts the
    server already. ``descriptor`` is a ``pyarrow.flight.FlightDescriptor``, a path (str or a sequence of str) or a
    command (bytes). ``token`` is sent as a bearer token, ``basic`` is (user, password), ``headers`` are sent with every
    call; none of them is shown in EXPLAIN, reprs or errors, nor sent unencrypted if ``location`` is encrypted.

    Flight has no standard way to ask for columns or filters: whole batches come, and Headrace selects. The endpoints
    are asked for at registration and their tickets used for every query; those that the server says expire are asked
    for again, while Spark plans, after they have.

    Rows can be appended, if the server takes them: each task sends its own by ``do_put``, with the descriptor. That is
    at-least-once. The server has the rows of a task before Spark commits, so a task that Spark runs again sends them
    again, and a task or a statement that fails leaves what it has sent. After a write endpoints are asked for again.

    Raises ValueError for a token together with basic credentials, TypeError for a descriptor of something else.
    """

    @checked()
    def __init__(
        self,
        location: str,
        descriptor: Any,
        *,
        token: str | None = None,
        basic: tuple[str, str] | None = None,
        tls_root_certs: bytes | None = None,
        headers: Sequence[tuple[str, str]] = (),
    ) -> None:
        if token is not None and basic is not None:
            raise ValueError("give a token or basic credentials, not both")
        self._location = location
        self._descriptor = _descriptor(descriptor)
        encrypted = location.startswith("grpc+tls:")
        self._access = FlightAccess(token, basic, tls_root_certs, tuple(headers), encrypted)
        self._flight: _Flight | None = None

    def __repr__(self) -> str:
        return f"<FlightTable: {self._descriptor} at {self._location}>"

    def schema(self) -> pa.Schema:
        """Asks the server for the flight: its schema, endpoints and size. Raises pyarrow's Flight errors."""
        self._flight = self._asked()
        return self._flight.schema

    def scan(self, request: ScanRequest) -> ExecutionPlan:
        flight = self._flight
        if flight is None:
            raise HeadraceError("FlightTable: schema() has not been called; register the table first")
        if flight.expires is not None and flight.expires <= datetime.datetime.now(datetime.UTC):
            flight = self._asked_again(flight.schema)
        return FlightPlan(flight.schema, flight.endpoints, self._access)

    def refresh(self) -> None:
        """Asks the server for the endpoints and the size again. Raises as ``schema`` does, and HeadraceError where the
        columns have changed."""
        if self._flight is not None:
            self._asked_again(self._flight.schema)

    def statistics(self) -> Statistics | None:
        return None if self._flight is None else self._flight.statistics

    def insert(self, request: WriteRequest) -> WritePlan:
        def written() -> None:
            self._asked_again(request.schema)

        return FlightWrite(self._location, self._descriptor.serialize(), request.schema, self._access, written)

    def _asked_again(self, schema: pa.Schema) -> _Flight:
        fresh = self._asked()
        if not fresh.schema.equals(schema):
            raise HeadraceError(
                "the flight's schema has changed since the table was registered; register it again\n"
                f"registered:\n{schema}\nnow:\n{fresh.schema}"
            )
        self._flight = fresh
        return fresh

    def _asked(self) -> _Flight:
        client, options = self._access.connect(self._location)
        with client:
            info = client.get_flight_info(self._descriptor, options)
        endpoints = []
        expiries = []
        for endpoint in info.endpoints:
            given = [location.uri.decode() for location in endpoint.locations]
            locations = [self._location if uri.startswith(_SAME_CONNECTION) else uri for uri in given]
            endpoints.append(FlightEndpoint(endpoint.ticket.ticket, tuple(locations) or (self._location,)))
            expiry = getattr(endpoint, "expiration_time", None)
            if expiry is not None:
                expiries.append(expiry.cast(pa.timestamp("us", tz="UTC"), safe=False).as_py())
        rows, size = (value if value >= 0 else None for value in (info.total_records, info.total_bytes))
        return _Flight(info.schema, tuple(endpoints), Statistics(rows, size), min(expiries, default=None))


@dataclass(frozen=True)
class _Flight:
    """What the server said of the flight."""

    schema: pa.Schema
    endpoints: tuple[FlightEndpoint, ...]
    statistics: Statistics
    expires: datetime.datetime | None


class FlightPlan(ExecutionPlan):
    """One endpoint a partition; batches have the flight's schema."""

    def __init__(self, schema: pa.Schema, endpoints: tuple[FlightEndpoint, ...], access: FlightAccess) -> None:
        self.schema = schema
        self.partitioning = UnknownPartitioning(len(endpoints))
        self._endpoints = endpoints
        self._access = access

    def execute(self, partition: int) -> FlightStream:
        return FlightStream(self._endpoints[partition], self._access)

    def describe(self) -> str:
        return f"flight, {counted(len(self._endpoints), 'endpoint')}"


def _descriptor(descriptor: Any) -> Any:
    from pyarrow import flight

    if isinstance(descriptor, flight.FlightDescriptor):
        return descriptor
    if isinstance(descriptor, bytes):
        return flight.FlightDescriptor.for_command(descriptor)
    if isinstance(descriptor, str):
        return flight.FlightDescriptor.for_path(descriptor)
    if isinstance(descriptor, Sequence) and descriptor and all(isinstance(part, str) for part in descriptor):
        return flight.FlightDescriptor.for_path(*descriptor)
    raise TypeError(
        "a flight's descriptor is a FlightDescriptor, a path (str or several) or a command (bytes), "
        f"not {type(descriptor).__name__}"
    )
