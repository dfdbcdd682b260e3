"""The driver's endpoint: who may open what, and that strangers disturb nobody; no Spark."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from endpoints import Client, error_of, opener, reads_whole
from headrace.transport import endpoint as endpoint_module
from headrace.transport.claims import Claim
from headrace.transport.driver_partition import DriverPartition
from headrace.transport.endpoint import Endpoint
from headrace.transport.protocol import CLAIM, FrameKind
from producing import numbers, wait_until

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
