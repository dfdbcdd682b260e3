"""Planning asked over the endpoint: the golden question gets the golden answer, and nothing else is answered."""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headrace.transport.planning as planning_module
from certificates import make_identity
from endpoints import NONCE as CLIENT_NONCE
from endpoints import Client, opener, trusting_anyone
from headrace.errors import TransportError
from headrace.transport.endpoint import Endpoint
from headrace.transport.frames import frame_pieces, read_frame, send_all
from headrace.transport.listeners import TlsIdentity
from headrace.transport.planning import PlanningConnection
from headrace.transport.protocol import FRAME_HEADER, MAX_SECOND_BYTES, PROTOCOL_VERSION, SPLIT_BYTES, FrameKind
from headrace.transport.reaching import address_towards, listens, refuses
from places import ROOT
from pushing import InBackground
from raw_frames import NONCE, UNSEALED

GOLDEN = json.loads((ROOT / "connector" / "protocol" / "golden.json").read_text())
MESSAGES = {message["name"]: message for message in GOLDEN["messages"]}


def message(name: str) -> tuple[dict[str, Any], bytes]:
    found = MESSAGES[name]
    return {**found["fields"], "nonce": int(found["fields"]["nonce"], 16)}, bytes.fromhex(found["hex"])


def test_planning_connection_answers_the_golden_question_until_the_other_side_goes() -> None:
    asked: list[tuple[str, str]] = []
    question, sent = message("frame QUESTION")
    answer, expected = message("frame ANSWER")

    def call(operation: str, payload: str) -> str:
        asked.append((operation, payload))
        return str(answer["answer"])

    ours, theirs = socket.socketpair()
    with ours:
        ours.sendall(sent + sent)
        ours.shutdown(socket.SHUT_WR)
        with theirs:
            PlanningConnection(call).serve(theirs, question["nonce"], UNSEALED)
        assert ours.recv(1000) == expected + expected
    assert asked == [(question["operation"], question["question"])] * 2


@pytest.mark.parametrize("name", ["frame END", "frame ANSWER"])
def test_planning_connection_another_frame_is_a_transport_error(name: str) -> None:
    fields, sent = message(name)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(sent)
        with pytest.raises(TransportError, match="instead of a question"):
            PlanningConnection(lambda operation, question: "{}").serve(theirs, fields["nonce"], UNSEALED)


@pytest.fixture(params=["plain", "TLS"])
def identity(request: pytest.FixtureRequest, tmp_path: Path) -> TlsIdentity | None:
    return make_identity(tmp_path, "driver") if request.param == "TLS" else None


class Asked:
    """A planner's connection, and the JVM's end of it."""

    def __init__(self, tls: TlsIdentity | None) -> None:
        self.jvm, mine = socket.socketpair()
        self.jvm.settimeout(60)

        def serve() -> None:
            with mine if tls is None else tls.context.wrap_socket(mine, server_side=True) as sock:
                PlanningConnection(lambda operation, question: "{}").serve(sock, NONCE, UNSEALED)

        self.serving = InBackground(serve)
        if tls is not None:
            self.jvm = trusting_anyone().wrap_socket(self.jvm)


@pytest.mark.parametrize("sent", [1, FRAME_HEADER.size, FRAME_HEADER.size + 9], ids=["header", "first", "second"])
def test_planning_connection_a_frame_that_is_announced_and_does_not_come_is_given_up(
    monkeypatch: pytest.MonkeyPatch, identity: TlsIdentity | None, sent: int
) -> None:
    monkeypatch.setattr(planning_module, "STALL_SECONDS", 0.2)
    asked = Asked(identity)
    asked.jvm.sendall((FRAME_HEADER.pack(FrameKind.QUESTION, PROTOCOL_VERSION, 0, 5, 1000, NONCE) + b"list\n{")[:sent])
    with pytest.raises(TransportError, match="a frame stopped before its end"):
        asked.serving.result()
    asked.jvm.close()


def test_planning_connection_waits_between_questions_as_long_as_it_takes(
    monkeypatch: pytest.MonkeyPatch, identity: TlsIdentity | None
) -> None:
    monkeypatch.setattr(planning_module, "STALL_SECONDS", 0.05)
    asked = Asked(identity)
    for _ in range(2):
        asked.serving.join(0.3)
        assert asked.serving.is_alive()
        send_all(asked.jvm, frame_pieces(FrameKind.QUESTION, b"list\n", [b"{}"], NONCE, None))
        answer = read_frame(asked.jvm, NONCE)
        assert answer is not None
        assert answer.message.to_pybytes() == b"{}"
    asked.jvm.close()
    asked.serving.result()


def test_planning_connection_takes_memory_as_the_bytes_come() -> None:
    before = pa.total_allocated_bytes()
    asked = Asked(None)
    asked.jvm.sendall(
        FRAME_HEADER.pack(FrameKind.QUESTION, PROTOCOL_VERSION, 0, 5, MAX_SECOND_BYTES, NONCE) + b"list\n"
    )
    block = bytes(1 << 20)
    for _ in range(80):  # of 2,048
        asked.jvm.sendall(block)
    assert pa.total_allocated_bytes() - before <= 4 * SPLIT_BYTES
    asked.jvm.close()
    asked.serving.result()


def test_partition_s_ticket_opens_no_planner_and_the_planner_s_answers_no_other() -> None:
    asked: list[str] = []

    def call(operation: str, question: str) -> str:
        asked.append(operation)
        return "{}"

    endpoint = Endpoint()
    try:
        planner = endpoint.address(endpoint.offer(PlanningConnection.opener(call), 1, receives=True, answers=True))
        table = endpoint.address(endpoint.offer(opener(), 2))
        for address, expected in ((table, FrameKind.SCHEMA), (planner, FrameKind.ANSWER)):
            with Client(address) as client:
                client.sock.sendall(client.claim(client.greeting()))
                question = frame_pieces(FrameKind.QUESTION, b"list\n", [b"{}"], CLIENT_NONCE, client.seals.sent)
                send_all(client.sock, question)
                frame = client.frame()
                assert frame is not None
                assert frame.kind is expected
        assert asked == ["list"]
    finally:
        endpoint.close()


def test_endpoint_that_closes_lets_the_planner_finish_its_answer() -> None:
    asked, go_on = threading.Event(), threading.Event()

    def call(operation: str, question: str) -> str:
        asked.set()
        assert go_on.wait(60)
        return '{"done": true}'

    endpoint = Endpoint()
    opened = PlanningConnection.opener(call)
    address = endpoint.address(endpoint.offer(opened, 1, receives=True, answers=True))
    with Client(address) as waiting, Client(address) as client:
        waiting.sock.sendall(waiting.claim(waiting.greeting()))
        waiting.read(0)
        client.sock.sendall(client.claim(client.greeting()))
        send_all(client.sock, frame_pieces(FrameKind.QUESTION, b"delete\n", [b"{}"], CLIENT_NONCE, client.seals.sent))
        assert asked.wait(60)
        endpoint.close()
        assert waiting.frame() is None, "one that is asked nothing ends"
        go_on.set()
        frame = client.frame()
        assert frame is not None
        assert frame.message.to_pybytes() == b'{"done": true}'
        assert client.frame() is None


def test_address_towards_the_loopback_is_the_loopback() -> None:
    assert address_towards("127.0.0.1") == "127.0.0.1"
    with pytest.raises(OSError):
        address_towards("no.such.host.invalid")


def test_listens_tells_whether_somebody_accepts() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        server.listen()
        assert listens("127.0.0.1", port)
    assert not listens("127.0.0.1", port)


def test_refuses_tells_a_port_without_a_listener_from_one_with() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert not refuses("127.0.0.1", port)
    assert refuses("127.0.0.1", port)
    assert not refuses("no.such.host.invalid", port)
