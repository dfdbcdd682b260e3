"""FlightTable as the target of writes, against a real pyarrow.flight server that keeps what it is sent."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl
import pytest

import headrace as hr
from headrace.testing import Promise, check_writer
from writing import committed, read_rows, request_for, written

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


class Store(fl.FlightServerBase):
    """One table, which takes the rows of every call."""

    def __init__(self) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self.rows = SCHEMA.empty_table()
        self.refuses = False
        self.lock = threading.Lock()

    @property
    def location(self) -> str:
        return f"grpc://127.0.0.1:{self.port}"

    def get_flight_info(self, context: Any, descriptor: Any) -> fl.FlightInfo:
        endpoints = [fl.FlightEndpoint(b"%d" % self.rows.num_rows, [])]
        return fl.FlightInfo(SCHEMA, descriptor, endpoints, self.rows.num_rows, -1)

    def do_get(self, context: Any, ticket: fl.Ticket) -> Any:
        return fl.RecordBatchStream(self.rows.slice(0, int(ticket.ticket)))

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        if self.refuses:
            raise fl.FlightUnauthorizedError("this table is not yours")
        sent = reader.read_all()
        with self.lock:
            self.rows = pa.concat_tables([self.rows, sent])


@pytest.fixture
def store() -> Iterator[Store]:
    with Store() as server:
        yield server


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": ids, "name": [f"n{i}" for i in ids]}, schema=SCHEMA)


def test_rows_of_each_task_are_put_and_read_again(store: Store) -> None:
    table = hr.FlightTable(store.location, "orders")
    committed(table, rows(1, 2), rows(3), rows())
    assert sorted(read_rows(table)["id"].to_pylist()) == [1, 2, 3]
    assert table.statistics() == hr.Statistics(3)
    assert table.write_modes() == {hr.WriteMode.APPEND}


def test_it_is_at_least_once_and_the_kit_says_so(store: Store) -> None:
    report = check_writer(hr.FlightTable(store.location, "orders"))
    broken = {promise for promise in report.promises if report.outcome(promise) == "broken"}
    assert {Promise.ATTEMPTS, Promise.ABORT, Promise.EPOCHS} <= broken
    plan = hr.FlightTable(store.location, "orders").insert(hr.WriteRequest(SCHEMA))
    assert plan.describe() == f"flight at {store.location}, at least once"


def test_cut_stream_fails_the_task_and_leaves_what_was_sent(store: Store) -> None:
    def cut() -> Iterator[pa.RecordBatch]:
        yield from rows(1).to_batches()
        raise ConnectionError("the stream was cut")

    table = hr.FlightTable(store.location, "orders")
    plan = table.insert(request_for(table))
    with pytest.raises(ConnectionError, match="the stream was cut"):
        plan.write(hr.WriteTask(0, 1), cut())
    assert store.rows["id"].to_pylist() == [1]  # pyarrow cannot cancel the call


def test_server_that_refuses_fails_the_task(store: Store) -> None:
    store.refuses = True
    table = hr.FlightTable(store.location, "orders", token="tok-secret-1234")
    with pytest.raises(fl.FlightUnauthorizedError, match="not yours"):
        written(table.insert(request_for(table)), rows(1))
    assert "tok-secret-1234" not in repr(vars(table.insert(request_for(table))))
