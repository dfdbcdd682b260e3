"""How an Arrow Flight server is reached and one endpoint of a flight is read; driver and executors."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headrace.errors import ScanEndedError


@dataclass(frozen=True, repr=False)
class FlightAccess:
    """Credentials and certificates for a Flight server. Pickled with plans; its repr shows no credentials."""

    token: str | None = None
    basic: tuple[str, str] | None = None
    tls_root_certs: bytes | None = None
    headers: tuple[tuple[str, str], ...] = ()
    encrypted: bool = False

    def __repr__(self) -> str:
        return "FlightAccess(...)"

    def connect(self, location: str) -> tuple[Any, Any]:
        """A client and the call options that authenticate. Raises pyarrow's Flight errors.

        Raises ConnectionError for an unencrypted location where credentials were meant to travel encrypted.
        """
        from pyarrow import flight

        secret = self.token is not None or self.basic is not None or bool(self.headers)
        if self.encrypted and secret and not location.startswith("grpc+tls:"):
            raise ConnectionError(
                f"the server sends readers on to {location}, which is not encrypted: credentials are not sent there"
            )
        tls = location.startswith("grpc+tls:") and self.tls_root_certs is not None
        client = flight.FlightClient(location, **({"tls_root_certs": self.tls_root_certs} if tls else {}))
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


@dataclass(frozen=True)
class FlightEndpoint:
    """A ticket and the locations that accept it."""

    ticket: bytes
    locations: tuple[str, ...]

    def open(self, access: FlightAccess) -> tuple[Any, Any]:
        """A client and the reader of its call, from the first location that answers. Waits for the first message.

        A server that answers with an error has answered: that is raised. ConnectionError if none does.
        """
        from pyarrow import flight

        failures = []
        for location in self.locations:
            client = None
            try:
                client, options = access.connect(location)
                return client, client.do_get(flight.Ticket(self.ticket), options)
            except (flight.FlightUnavailableError, ConnectionError) as error:
                failures.append(f"  {location}: {error}")
                _close(client)
            except BaseException:
                _close(client)
                raise
        raise ConnectionError("\n".join(["no location of the flight's endpoint answers", *failures]))


class FlightStream:
    """The batches of one endpoint. Connects when the first one is asked for.

    Iterated by one thread; ``interrupt`` may come from any: it cancels the call, so that a thread that waits for the
    server wakes. pyarrow cannot cancel a call before its first message, so that is waited for on a thread of its own,
    which a stop leaves behind to cancel the call as soon as it can.
    """

    def __init__(self, endpoint: FlightEndpoint, access: FlightAccess) -> None:
        self._endpoint = endpoint
        self._access = access
        self._lock = threading.Lock()
        self._opened = threading.Event()
        self._stopped = False
        self._client: Any = None
        self._reader: Any = None
        self._failure: BaseException | None = None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        if self._reader is None and not self._stopped:
            threading.Thread(target=self._open, name="headrace-flight", daemon=True).start()
            self._opened.wait()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        while not self._stopped:
            batch = self._reader.read_chunk().data  # StopIteration at the end
            if batch is not None:  # a chunk of metadata alone
                return batch
        raise ScanEndedError("the call was stopped before its end")

    def interrupt(self, reason: str) -> None:
        with self._lock:
            self._stopped = True
            reader = self._reader
        self._opened.set()
        if reader is not None:
            reader.cancel()

    def close(self) -> None:
        """Idempotent."""
        self.interrupt("closed")
        with self._lock:
            client, self._client, self._reader = self._client, None, None
        _close(client)

    def _open(self) -> None:
        client = reader = None
        try:
            client, reader = self._endpoint.open(self._access)
        except BaseException as error:  # raised where the stream is read
            self._failure = error
        with self._lock:
            wanted = not self._stopped
            if wanted:
                self._client, self._reader = client, reader
        if reader is not None and not wanted:
            reader.cancel()
            _close(client)
        self._opened.set()


def _close(client: Any) -> None:
    if client is not None:
        with contextlib.suppress(Exception):  # of a connection that failed
            client.close()
