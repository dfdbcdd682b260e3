"""The driver's endpoint: who may open what, and that strangers disturb nobody; no Spark."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import socket
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import headrace as hr
from headrace.execute.partition_stream import ScanTask
from headrace.push.channel import Channel
from headrace.push.packing import Packing
from headrace.push.spill import ArrowSpill
from headrace.push.table import StreamingTable
from headrace.transport import endpoint as endpoint_module
from headrace.transport.claims import Claim
from headrace.transport.driver_partition import DriverPartition
from headrace.transport.endpoint import Endpoint
from headrace.transport.protocol import CHALLENGE, CLAIM, FRAME_HEADER, PROTOCOL_VERSION, FrameKind, answer, proof
from producing import NUMBERS, FunctionPlan, numbers, ten_rows, wait_until

NONCE = 0x1122334455667788


def opener(function: Callable[[int], Any] = ten_rows) -> Callable[[Claim], DriverPartition]:
    task = ScanTask("t", FunctionPlan(NUMBERS, function, 2, hr.Placement.DRIVER), NUMBERS, NUMBERS, None)
    return lambda claim: DriverPartition(task, claim.partition)


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    served = Endpoint()
    try:
        yield served
    finally:
        served.close()


class Client:
    """What an executor does, step by step."""

    def __init__(self, address: dict[str, Any], *, tcp: bool = False) -> None:
        self.address = address
        self.awaited = b""  # what the endpoint has to send before anything else
        if tcp:
            self.sock = socket.create_connection((address["host"], address["port"]), 10)
        else:
            self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.sock.settimeout(60)
            self.sock.connect(address["path"])

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def greeting(self) -> bytes:
        return self.read(CHALLENGE.size)

    def claim(
        self, greeting: bytes, partition: int = 0, secret: bytes | None = None, ticket: bytes | None = None
    ) -> bytes:
        of = ticket or base64.b64decode(self.address["ticket"])
        claim = CLAIM.pack(b"HDRC", of, partition, 0, -1, NONCE, b"")[:-32]
        secret = secret or base64.b64decode(self.address["secret"])
        claim += proof(secret, greeting, claim)
        self.awaited = answer(secret, greeting, claim)
        return claim

    def read(self, length: int) -> bytes:
        if self.awaited:
            expected, self.awaited = self.awaited, b""
            assert self.read(len(expected)) == expected, "the endpoint does not prove that it knows the secret"
        data = b""
        while len(data) < length:
            piece = self.sock.recv(length - len(data))
            if not piece:
                raise EOFError(data)
            data += piece
        return data

    def frames(self) -> list[tuple[FrameKind, bytes]]:
        frames = []
        while not frames or frames[-1][0] not in (FrameKind.END, FrameKind.ERROR):
            kind, version, _, first, second, nonce = FRAME_HEADER.unpack(self.read(FRAME_HEADER.size))
            assert (version, nonce) == (PROTOCOL_VERSION, NONCE)
            frames.append((FrameKind(kind), self.read(first + second)))
        return frames

    def is_dropped(self) -> bool:
        with contextlib.suppress(ConnectionError):
            return self.sock.recv(1) == b""
        return True


def error_of(client: Client) -> dict[str, Any]:
    kind, body = client.frames()[-1]
    assert kind is FrameKind.ERROR
    failure: dict[str, Any] = json.loads(body)
    return failure


def reads_whole(address: dict[str, Any], *, partition: int = 0, tcp: bool = False) -> bool:
    with Client(address, tcp=tcp) as client:
        client.sock.sendall(client.claim(client.greeting(), partition))
        kinds = [kind for kind, _ in client.frames()]
    return kinds == [FrameKind.SCHEMA, FrameKind.BATCH, FrameKind.END]


# -- who gets in --------------------------------------------------------------------------------------------------


def test_endpoint_opened_with_the_secret_serves_the_partition(endpoint: Endpoint) -> None:
    assert reads_whole(endpoint.address(endpoint.offer(opener(), 2)), partition=1)


def test_endpoint_given_a_wrong_secret_drops_the_connection_without_a_word(endpoint: Endpoint) -> None:
    address = endpoint.address(endpoint.offer(opener(), 2))
    with Client(address) as client:
        client.sock.sendall(client.claim(client.greeting(), secret=b"x" * 32))
        assert client.is_dropped()
    assert reads_whole(address)


def test_endpoint_given_a_replayed_handshake_drops_it(endpoint: Endpoint) -> None:
    address = endpoint.address(endpoint.offer(opener(), 2))
    with Client(address) as first, Client(address) as second:
        recorded = first.claim(first.greeting())
        first.sock.sendall(recorded)
        assert first.frames()[-1][0] is FrameKind.END
        assert second.greeting()
        second.sock.sendall(recorded)
        assert second.is_dropped()


@pytest.mark.parametrize("position", [4, 36, 40, 44, 52], ids=["ticket", "partition", "attempt", "execution", "nonce"])
def test_endpoint_given_a_claim_changed_on_the_way_drops_it(endpoint: Endpoint, position: int) -> None:
    with Client(endpoint.address(endpoint.offer(opener(), 2))) as client:
        claim = bytearray(client.claim(client.greeting()))
        claim[position] ^= 1
        client.sock.sendall(claim)
        assert client.is_dropped()


@pytest.mark.parametrize("garbage", [b"\0" * CLAIM.size, b"GET / HTTP/1.1\r\n" * 20, os.urandom(1 << 20)])
def test_endpoint_given_garbage_drops_it_and_serves_others(endpoint: Endpoint, garbage: bytes) -> None:
    address = endpoint.address(endpoint.offer(opener(), 2))
    with Client(address) as client:
        with contextlib.suppress(ConnectionError):  # dropped while it is still sending
            client.sock.sendall(garbage)
        with contextlib.suppress(EOFError, ConnectionError):
            client.greeting()
        assert client.is_dropped()
    assert reads_whole(address)


def test_endpoint_given_a_slow_handshake_drops_it_in_time_and_serves_others_meanwhile(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint_module, "HANDSHAKE_SECONDS", 1.0)
    address = endpoint.address(endpoint.offer(opener(), 2))
    with Client(address) as silent, Client(address) as slow:
        claim = slow.claim(slow.greeting())
        assert silent.greeting()
        monkeypatch.setattr(endpoint_module, "HANDSHAKE_SECONDS", 60.0)  # both have their deadlines
        slow.sock.sendall(claim[:10])
        assert reads_whole(address)
        assert silent.is_dropped()
        assert slow.is_dropped()


def test_endpoint_given_a_handshake_in_pieces_serves_it(endpoint: Endpoint) -> None:
    with Client(endpoint.address(endpoint.offer(opener(), 2))) as client:
        for byte in client.claim(client.greeting()):
            client.sock.sendall(bytes([byte]))
        assert client.frames()[-1][0] is FrameKind.END


def test_endpoint_flooded_with_silent_connections_starts_no_threads_and_serves_others(endpoint: Endpoint) -> None:
    address = endpoint.address(endpoint.offer(opener(), 2))
    before = threading.active_count()
    with contextlib.ExitStack() as stack:
        flood = [stack.enter_context(Client(address)) for _ in range(endpoint_module.MAX_HANDSHAKES + 50)]
        assert reads_whole(address)
        assert threading.active_count() <= before + 1
        assert flood[0].greeting()
        assert flood[0].is_dropped()  # the oldest make room


def test_endpoint_given_an_unknown_ticket_answers_with_a_named_error(endpoint: Endpoint) -> None:
    with Client(endpoint.address(endpoint.offer(opener(), 2))) as client:
        client.sock.sendall(client.claim(client.greeting(), ticket=b"t" * 32))
        failure = error_of(client)
    assert failure["error"] == "TransportError"
    assert "the scan behind this query is gone" in failure["text"]


def test_endpoint_given_a_withdrawn_ticket_answers_with_a_named_error(endpoint: Endpoint) -> None:
    ticket = endpoint.offer(opener(), 2)
    endpoint.withdraw(ticket)
    endpoint.withdraw(ticket)
    with Client(endpoint.address(ticket)) as client:
        client.sock.sendall(client.claim(client.greeting()))
        assert error_of(client)["error"] == "TransportError"


def test_endpoint_given_a_partition_that_is_not_there_answers_with_a_named_error(endpoint: Endpoint) -> None:
    called: list[Claim] = []

    def never(claim: Claim) -> DriverPartition:
        called.append(claim)
        raise AssertionError

    for partition in (2, 2**32 - 1):
        with Client(endpoint.address(endpoint.offer(never, 2))) as client:
            client.sock.sendall(client.claim(client.greeting(), partition))
            failure = error_of(client)
        assert failure["error"] == "TransportError"
        assert f"there is no partition {partition}: this scan has 2" in failure["text"]
    assert called == []


def test_endpoint_whose_opener_raises_sends_that_error_and_serves_others(endpoint: Endpoint) -> None:
    def consumed(_claim: Claim) -> DriverPartition:
        raise hr.StreamConsumedError("read already")

    with Client(endpoint.address(endpoint.offer(consumed, 2))) as client:
        client.sock.sendall(client.claim(client.greeting()))
        assert error_of(client)["error"] == "StreamConsumedError"
    assert reads_whole(endpoint.address(endpoint.offer(opener(), 2)))


# -- where it listens ---------------------------------------------------------------------------------------------


def test_endpoint_socket_and_its_directory_are_private_and_removed_by_close() -> None:
    endpoint = Endpoint()
    path = Path(endpoint.address(endpoint.offer(opener()))["path"])
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    endpoint.close()
    endpoint.close()
    assert not path.parent.exists()


def test_endpoint_without_a_tcp_host_has_no_port(endpoint: Endpoint) -> None:
    address = endpoint.address(endpoint.offer(opener()))
    assert (address["host"], address["port"]) == ("", 0)
    assert json.dumps(address)


def listening_hosts(port: int) -> set[str]:
    """Local addresses that listen on ``port``, as the kernel writes them (IPv4)."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    local = [line.split()[1] for line in lines if line.split()[3] == "0A"]
    return {address.split(":")[0] for address in local if int(address.split(":")[1], 16) == port}


@pytest.mark.parametrize("bind", ["127.0.0.1", "0.0.0.0"])
def test_endpoint_on_tcp_listens_on_the_drivers_own_address_only(bind: str) -> None:
    endpoint = Endpoint(bind, "127.0.0.1")
    try:
        address = endpoint.address(endpoint.offer(opener(), 2))
        assert listening_hosts(address["port"]) == {"0100007F"}
        assert reads_whole(address, tcp=True)
    finally:
        endpoint.close()


def test_endpoint_that_cannot_listen_says_what_to_set_and_leaves_nothing(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(hr.TransportError, match=r"203\.0\.113\.7.*spark\.driver\.bindAddress"):
        Endpoint("203.0.113.7", "203.0.113.7")
    assert list(tmp_path.iterdir()) == []


def test_endpoint_under_a_long_temporary_directory_still_listens(tmp_path: Path, monkeypatch: Any) -> None:
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    endpoint = Endpoint()
    try:
        assert reads_whole(endpoint.address(endpoint.offer(opener(), 2)))
    finally:
        endpoint.close()
    assert list(long.iterdir()) == []


# -- readers that go, endpoints that close ------------------------------------------------------------------------


@pytest.mark.parametrize("tcp", [False, True], ids=["unix", "tcp"])
def test_reader_going_away_closes_the_generator_at_once(tcp: bool) -> None:
    started, closed = threading.Event(), threading.Event()

    def endless(_partition: int) -> Iterator[pa.RecordBatch]:
        try:
            while True:
                started.set()
                yield numbers(1)
                threading.Event().wait(0.05)
        finally:
            closed.set()

    endpoint = Endpoint("127.0.0.1", "127.0.0.1")
    try:
        with Client(endpoint.address(endpoint.offer(opener(endless), 2)), tcp=tcp) as client:
            client.sock.sendall(client.claim(client.greeting()))
            assert started.wait(60)
        assert closed.wait(60)
    finally:
        endpoint.close()


def test_endpoint_close_breaks_off_open_partitions_and_ends_their_threads() -> None:
    waiting, closed = threading.Event(), threading.Event()

    def endless(_partition: int) -> Iterator[pa.RecordBatch]:
        try:
            yield numbers(1)
            waiting.set()
            while True:
                threading.Event().wait(0.05)
        finally:
            closed.set()

    endpoint = Endpoint()
    with Client(endpoint.address(endpoint.offer(opener(endless), 2))) as client:
        client.sock.sendall(client.claim(client.greeting()))
        assert waiting.wait(60)
        endpoint.close()
        with pytest.raises((EOFError, ConnectionError)):
            client.frames()
        assert closed.wait(60)
    wait_until(lambda: not any_partition_threads(), what="the partition's thread to end")


def any_partition_threads() -> bool:
    return any(thread.name.startswith("headrace-partition") for thread in threading.enumerate())


def test_endpoint_serving_many_readers_leaks_no_descriptor_or_thread(endpoint: Endpoint) -> None:
    address = endpoint.address(endpoint.offer(opener(), 2))
    assert reads_whole(address)
    wait_until(lambda: not any_partition_threads())
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(300):
        assert reads_whole(address)
    wait_until(lambda: not any_partition_threads())
    wait_until(lambda: len(os.listdir("/proc/self/fd")) <= before, what="descriptors to be closed")


# -- an interrupt of the user's own ---------------------------------------------------------------------------------


class Interruptible:
    """Batches until it is interrupted; ``interrupt`` is what the user's own object has under that name."""

    def __init__(self, interrupt: Callable[..., object]) -> None:
        self.interrupt = interrupt
        self.closed = threading.Event()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        time.sleep(0.001)
        return numbers(1)

    def close(self) -> None:
        self.closed.set()


def leave_early(endpoint: Endpoint, source: Interruptible) -> None:
    """After the first batch began to arrive, so ``execute`` was called."""
    with Client(endpoint.address(endpoint.offer(opener(lambda _: source), 2))) as client:
        client.sock.sendall(client.claim(client.greeting()))
        _, _, _, first, second, _ = FRAME_HEADER.unpack(client.read(FRAME_HEADER.size))
        client.read(first + second + FRAME_HEADER.size)


@pytest.mark.parametrize("library", ["sqlite3", "duckdb"])
def test_interrupt_of_a_database_connection_is_called_without_a_reason(
    endpoint: Endpoint, library: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A long query runs inside the library; its connection's interrupt takes no argument."""
    running = threading.Event()

    def mark(value: int) -> int:
        running.set()
        return value

    if library == "duckdb":
        connection: Any = duckdb.connect(":memory:")
        connection.create_function("mark", mark, ["BIGINT"], "BIGINT")
    else:
        connection = sqlite3.connect(":memory:", check_same_thread=False)
        connection.create_function("mark", 1, mark)

    class Query(Interruptible):
        def __next__(self) -> pa.RecordBatch:
            connection.execute(_ENDLESS).fetchall()
            raise AssertionError("the query came to its end")

    source = Query(connection.interrupt)
    with Client(endpoint.address(endpoint.offer(opener(lambda _: source), 2))) as client:
        client.sock.sendall(client.claim(client.greeting()))
        assert running.wait(60)
    assert source.closed.wait(60)
    assert caplog.records == []
    assert reads_whole(endpoint.address(endpoint.offer(opener(), 2)))


_ENDLESS = "WITH RECURSIVE t(a) AS (SELECT 1 UNION ALL SELECT mark(a) + 1 FROM t) SELECT count(*) FROM t"


@pytest.mark.parametrize("error", [RuntimeError("no"), SystemExit(3)], ids=repr)
def test_interrupt_that_raises_is_logged_and_the_stream_stopped(
    endpoint: Endpoint, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    def interrupt(_reason: str) -> None:
        raise error

    source = Interruptible(interrupt)
    leave_early(endpoint, source)
    assert source.closed.wait(60)
    wait_until(lambda: len(caplog.records) == 1)
    assert type(error).__name__ in caplog.text
    assert reads_whole(endpoint.address(endpoint.offer(opener(), 2)))


def test_interrupt_that_blocks_disturbs_nobody(endpoint: Endpoint) -> None:
    called, let_go = threading.Event(), threading.Event()

    def interrupt(_reason: str) -> None:
        called.set()
        let_go.wait(60)

    source = Interruptible(interrupt)
    try:
        leave_early(endpoint, source)
        assert called.wait(60)
        assert reads_whole(endpoint.address(endpoint.offer(opener(), 2)))
        assert source.closed.wait(60)  # it was between two batches, where it can be stopped without
        endpoint.close()
    finally:
        let_go.set()


def test_interrupt_of_a_stream_read_to_its_end_is_not_called(endpoint: Endpoint) -> None:
    called: list[str] = []

    class Short(Interruptible):
        def __next__(self) -> pa.RecordBatch:
            if self.closed.is_set():
                raise StopIteration
            self.closed.set()
            return numbers(10)

    source = Short(called.append)
    assert reads_whole(endpoint.address(endpoint.offer(opener(lambda _: source), 2)))
    endpoint.close()
    assert called == []


def test_partition_that_takes_long_to_open_disturbs_nobody(endpoint: Endpoint) -> None:
    opening, let_go, stopped = threading.Event(), threading.Event(), threading.Event()

    class Late:
        def serve(self, sock: socket.socket, nonce: int) -> None: ...

        def stop(self, reason: str) -> None:
            stopped.set()

    def slow(_claim: Claim) -> Late:
        opening.set()
        let_go.wait(60)
        return Late()

    with Client(endpoint.address(endpoint.offer(slow, 2))) as client:
        client.sock.sendall(client.claim(client.greeting()))
        assert opening.wait(60)
        assert reads_whole(endpoint.address(endpoint.offer(opener(), 2)))
    assert reads_whole(endpoint.address(endpoint.offer(opener(), 2)))  # by now it was seen that the reader is gone
    let_go.set()
    assert stopped.wait(60)


def test_spilled_batches_are_not_deleted_on_the_endpoints_thread(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    deleting: list[str] = []
    original = ArrowSpill.close

    def close(spill: ArrowSpill) -> None:
        deleting.append(threading.current_thread().name)
        original(spill)

    monkeypatch.setattr(ArrowSpill, "close", close)
    channel: Channel[Any] = Channel("t", spill=ArrowSpill())
    table = StreamingTable("t", channel, Packing(NUMBERS, channel.capacity))
    plan = table.scan(hr.ScanRequest(NUMBERS, ("a",), (), None))
    task = ScanTask("t", plan, NUMBERS, NUMBERS, None)
    ticket = endpoint.offer(lambda claim: DriverPartition(task, claim.partition, 1), 1)
    with Client(endpoint.address(ticket)) as client:
        client.sock.sendall(client.claim(client.greeting()))
        client.read(FRAME_HEADER.size)
    wait_until(lambda: bool(deleting))
    assert "headrace-endpoint" not in deleting
