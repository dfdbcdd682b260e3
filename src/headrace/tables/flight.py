"""FlightTable: a table behind an Arrow Flight server; planned in the driver, read on the executors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headrace.errors import HeadraceError
from headrace.plan import ExecutionPlan, ScanRequest, Statistics, UnknownPartitioning
from headrace.provider import TableProvider


@dataclass(frozen=True)
class FlightAccess:
    """How to reach and convince a Flight server. Its repr shows no credentials."""

    token: str | None = None
    basic: tuple[str, str] | None = None
    tls_root_certs: bytes | None = None
    headers: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return "FlightAccess(...)"

    def connect(self, location: str) -> tuple[Any, Any]:
        """A client and the call options that authenticate. Raises pyarrow's Flight errors."""
        from pyarrow import flight

        options = {} if self.tls_root_certs is None else {"tls_root_certs": self.tls_root_certs}
        client = flight.FlightClient(location, **options)
        headers = [(key.lower().encode(), value.encode()) for key, value in self.headers]
        if self.basic is not None:
            try:
                headers.append(client.authenticate_basic_token(*self.basic))
            except BaseException:
                client.close()
                raise
        elif self.token is not None:
            headers.append((b"authorization", f"Bearer {self.token}".encode()))
        return client, flight.FlightCallOptions(headers=headers)


class FlightTable(TableProvider):
    """One partition per endpoint of the flight; each executor reads its tickets itself.

    ``descriptor`` is a ``pyarrow.flight.FlightDescriptor``, a path (str or a sequence of str) or a command (bytes).
    ``token`` is sent as a bearer token, ``basic`` is (user, password); neither is shown in EXPLAIN or errors.
    Flight has no standard way to ask for columns or filters, so whole batches come and Headrace selects.
    """

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
        self._access = FlightAccess(token, basic, tls_root_certs, tuple(headers))
        self._endpoints: tuple[_Endpoint, ...] = ()
        self._statistics: Statistics | None = None
        self._schema: pa.Schema | None = None

    def schema(self) -> pa.Schema:
        """Asks the server about the flight: its schema, endpoints and sizes. The only I/O of planning."""
        client, options = self._access.connect(self._location)
        with client:
            info = client.get_flight_info(self._descriptor, options)
        self._endpoints = tuple(
            _Endpoint(
                endpoint.ticket.ticket,
                tuple(location.uri.decode() for location in endpoint.locations) or (self._location,),
            )
            for endpoint in info.endpoints
        )
        self._statistics = Statistics(
            info.total_records if info.total_records >= 0 else None,
            info.total_bytes if info.total_bytes >= 0 else None,
        )
        self._schema = info.schema
        return info.schema

    def scan(self, request: ScanRequest) -> ExecutionPlan:
        if self._schema is None:
            raise HeadraceError("FlightTable.scan() before schema(): register the table first")
        return FlightPlan(self._schema, self._endpoints, self._access)

    def statistics(self) -> Statistics | None:
        return self._statistics


@dataclass(frozen=True)
class _Endpoint:
    ticket: bytes
    locations: tuple[str, ...]


class FlightPlan(ExecutionPlan):
    """Reads each endpoint from the first of its locations that answers."""

    def __init__(self, schema: pa.Schema, endpoints: tuple[_Endpoint, ...], access: FlightAccess) -> None:
        self.schema = schema
        self.partitioning = UnknownPartitioning(len(endpoints))
        self._endpoints = endpoints
        self._access = access

    def execute(self, partition: int) -> FlightStream:
        return FlightStream(self._endpoints[partition], self._access)

    def describe(self) -> str:
        return f"Flight, {len(self._endpoints)} endpoints"


class FlightStream:
    """The batches of one endpoint. ``interrupt`` cancels the call, so a reader that waits for the server wakes."""

    def __init__(self, endpoint: _Endpoint, access: FlightAccess) -> None:
        self._client, self._reader = _opened(endpoint, access)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        while True:
            batch = self._reader.read_chunk().data  # StopIteration at the end
            if batch is not None:  # a chunk of metadata alone
                return batch

    def interrupt(self, reason: str) -> None:
        self._reader.cancel()

    def close(self) -> None:
        self._reader.cancel()
        self._client.close()


def _opened(endpoint: _Endpoint, access: FlightAccess) -> tuple[Any, Any]:
    from pyarrow import flight

    failure: BaseException | None = None
    for location in endpoint.locations:
        client, options = None, None
        try:
            client, options = access.connect(location)
            return client, client.do_get(flight.Ticket(endpoint.ticket), options)
        except flight.FlightUnavailableError as error:  # try the next location; any other error is an answer
            failure = error
            if client is not None:
                client.close()
        except BaseException:
            if client is not None:
                client.close()
            raise
    raise ConnectionError(
        f"no location of the flight's endpoint answers ({', '.join(endpoint.locations)}): {failure}"
    ) from failure


def _descriptor(descriptor: Any) -> Any:
    from pyarrow import flight

    if isinstance(descriptor, flight.FlightDescriptor):
        return descriptor
    if isinstance(descriptor, bytes):
        return flight.FlightDescriptor.for_command(descriptor)
    if isinstance(descriptor, str):
        return flight.FlightDescriptor.for_path(descriptor)
    if isinstance(descriptor, Sequence):
        return flight.FlightDescriptor.for_path(*descriptor)
    raise TypeError(f"a flight's descriptor is a FlightDescriptor, a path or a command, not {type(descriptor).__name__}")
