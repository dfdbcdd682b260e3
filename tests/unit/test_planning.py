"""Planning asked over the endpoint: the golden question gets the golden answer, and nothing else is answered."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest

from headrace.errors import TransportError
from headrace.transport.planning import PlanningConnection
from headrace.transport.reaching import address_towards, listens, refuses
from places import ROOT
from raw_frames import UNSEALED

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
