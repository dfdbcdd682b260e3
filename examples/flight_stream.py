"""Arrow Flight streams as a push table, in both directions: read from a server, or be the server that is written to.

With ``do_get`` a thread reads a remote stream and pushes its batches; with ``do_put`` this program is the Flight
server, and each client's batches go straight into the sink. A full sink blocks ``write``, so Flight's own flow
control slows the far end down. For data behind Flight that can be read again, see ``hr.FlightTable``.

    python examples/flight_stream.py
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight

import headrace as hr

SCHEMA = pa.schema([("sensor", pa.string()), ("value", pa.int64())])
QUERY = "SELECT sensor, count(*) AS n, sum(value) AS total FROM {} GROUP BY sensor ORDER BY sensor"


def pull_into(sink: hr.TableSink, location: str, ticket: str) -> None:
    """Push a whole ``do_get`` stream; runs in a thread, beside the query."""
    with sink, flight.connect(location) as client:  # closes the sink at the end, fails it if the stream breaks
        stream = client.do_get(flight.Ticket(ticket))
        try:
            for chunk in stream:
                sink.write(chunk.data)
        except hr.StreamError:
            stream.cancel()  # nobody reads any more: the query has what it needs, or has failed


class Intake(flight.FlightServerBase):
    """A Flight server whose clients write into the sink with ``do_put``, any number at a time."""

    def __init__(self, sink: hr.TableSink) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self.sink = sink

    def do_put(
        self,
        context: flight.ServerCallContext,
        descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.FlightMetadataWriter,
    ) -> None:
        for chunk in reader:
            self.sink.write(chunk.data)  # what this raises reaches the client as a Flight error


def query_do_get(ctx: hr.SessionContext, ticket: str, query: str) -> pa.Table:
    """Run ``query`` over the table ``pulled`` while a thread fills it from a Flight server."""
    sink = ctx.register_streaming_table("pulled", SCHEMA, capacity=8)
    with Sensors() as server, ThreadPoolExecutor(1) as pulling:
        try:
            pulling.submit(pull_into, sink, f"grpc://127.0.0.1:{server.port}", ticket)
            return ctx.collect(query)
        finally:
            ctx.deregister_table("pulled")  # lets go of a thread that still writes, if the query failed


def query_do_put(ctx: hr.SessionContext, sensors: list[str]) -> pa.Table:
    """Reduce over what several Flight clients write to this program."""
    sink = ctx.register_streaming_table("put", SCHEMA, capacity=8)
    with Intake(sink) as server, ThreadPoolExecutor(1) as putting:
        try:
            putting.submit(put_all, sink, f"grpc://127.0.0.1:{server.port}", sensors)
            return ctx.collect(QUERY.format("put"))
        finally:
            ctx.deregister_table("put")


def main(ctx: hr.SessionContext | None = None) -> dict[str, list[dict[str, Any]]]:
    """Returns the rows of both queries."""
    if ctx is None:
        with hr.SessionContext() as own:
            return main(own)
    results = {
        "do_get": query_do_get(ctx, "50 batches", QUERY.format("pulled")).to_pylist(),
        "do_put": query_do_put(ctx, ["door", "roof"]).to_pylist(),
    }
    for name, rows in results.items():
        print(name, *(f"  -> {row}" for row in rows), sep="\n")
    return results


# ---- the far ends: a server with a stream of sensor values, and a client that writes some ----


def values(sensor: str) -> Iterator[pa.RecordBatch]:
    for first in itertools.count(step=100):
        yield pa.record_batch({"sensor": [sensor] * 100, "value": range(first, first + 100)}, SCHEMA)


class Sensors(flight.FlightServerBase):
    """``do_get("50 batches")`` sends so many; ``do_get("endless")`` goes on until it is cancelled."""

    def __init__(self) -> None:
        super().__init__("grpc://127.0.0.1:0")

    def do_get(self, context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.FlightDataStream:
        count, _, _ = ticket.ticket.decode().partition(" batches")
        batches = itertools.islice(values("pump"), None if count == "endless" else int(count))
        return flight.GeneratorStream(SCHEMA, batches)


def put_all(sink: hr.TableSink, location: str, sensors: list[str]) -> None:
    with sink, ThreadPoolExecutor() as clients:  # only this program knows when the last client is done
        for written in [clients.submit(put, location, sensor) for sensor in sensors]:
            written.result()


def put(location: str, sensor: str) -> None:
    with flight.connect(location) as client:
        writer, _ = client.do_put(flight.FlightDescriptor.for_path(sensor), SCHEMA)
        for batch in itertools.islice(values(sensor), 20):
            writer.write_batch(batch)
        writer.close()  # waits until the server has taken everything


if __name__ == "__main__":
    main()
