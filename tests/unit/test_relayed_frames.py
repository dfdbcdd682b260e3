"""Somebody on the way passes the handshake on and then changes frames: Python's end refuses every one of them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from endpoints import NONCE, Client, opener
from headrace.errors import HeadraceError, TransportError
from headrace.results.inbox import ResultInbox
from headrace.transport.endpoint import Endpoint
from headrace.transport.frames import FrameWriter, frame_pieces, read_frame, send_all
from headrace.transport.planning import PlanningConnection
from headrace.transport.protocol import FrameKind
from inboxes import SCHEMA, batch, values
from producing import numbers
from relay import Relay, RelayedFrame, alterations

SEED = 23
BATCHES = [numbers(3), numbers(40_000)]  # too large to be sent together
QUESTION = json.dumps({"table": "orders"})


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    endpoint = Endpoint("127.0.0.1", "127.0.0.1")
    yield endpoint
    endpoint.close()


def claimed(address: dict[str, Any]) -> Client:
    client = Client(address, tcp=True)
    client.sock.sendall(client.claim(client.greeting()))
    client.read(0)
    return client


def every_alteration(relay: Relay, honest: Callable[[], None], altered: Callable[[str], None]) -> int:
    """Runs ``honest`` twice, on connections of their own, then ``altered`` for all that can be done to its frames."""
    honest()
    honest()
    frames, others = relay.seen
    foreign: RelayedFrame = others[-1]
    count = 0
    for what, alter in alterations(frames, foreign, random.Random(SEED)):
        relay.alter = alter
        altered(what)
        count += 1
    return count


def two_batches(_partition: int) -> Iterator[pa.RecordBatch]:
    yield from BATCHES


def test_table_changed_on_its_way_is_refused(endpoint: Endpoint) -> None:
    with Relay(endpoint.address(endpoint.offer(opener(two_batches), 2)), to_endpoint=False) as relay:

        def honest() -> None:
            with claimed(relay.address) as client:
                assert client.frames()[-1][0] is FrameKind.END

        def altered(what: str) -> None:
            with claimed(relay.address) as client, pytest.raises((TransportError, EOFError)):
                raise AssertionError(f"{what}: {client.frames()}")

        assert every_alteration(relay, honest, altered) > 100


def test_result_changed_on_its_way_is_refused(endpoint: Endpoint) -> None:
    inboxes: list[ResultInbox] = []
    ticket = endpoint.offer(lambda claim: inboxes[-1].open(claim), 1, receives=True)
    with Relay(endpoint.address(ticket), to_endpoint=True) as relay:

        def is_confirmed() -> bool:
            inboxes.append(ResultInbox(SCHEMA))
            inboxes[-1].announce(1)
            with claimed(relay.address) as client:
                writer = FrameWriter(client.sock, SCHEMA, NONCE, client.seals.sent)
                writer.schema()
                writer.batch(batch(1))
                writer.batch(batch(2))
                writer.end()
                try:
                    frame = client.frame()
                except (ConnectionError, EOFError):
                    return False
                return frame is not None and frame.kind is FrameKind.MESSAGE

        def honest() -> None:
            assert is_confirmed()
            inboxes[-1].finish()
            assert values(inboxes[-1]) == [1, 2]

        def altered(what: str) -> None:
            assert not is_confirmed(), what
            inboxes[-1].finish()
            with pytest.raises(HeadraceError, match=r"was damaged|never arrived"):
                values(inboxes[-1])

        assert every_alteration(relay, honest, altered) > 100


def test_question_changed_on_its_way_is_not_answered(endpoint: Endpoint) -> None:
    asked: list[tuple[str, str]] = []

    def call(operation: str, question: str) -> str:
        asked.append((operation, question))
        return "{}"

    ticket = endpoint.offer(PlanningConnection.opener(call), 1, receives=True)
    with Relay(endpoint.address(ticket), to_endpoint=True) as relay:

        def ask() -> str | None:
            with claimed(relay.address) as client:
                pieces = frame_pieces(FrameKind.QUESTION, b"add_table\n", [QUESTION.encode()], NONCE, client.seals.sent)
                send_all(client.sock, pieces)
                try:
                    frame = read_frame(client.sock, NONCE, client.seals.received)
                except ConnectionError:
                    return None
                return None if frame is None else frame.message.to_pybytes().decode()

        def honest() -> None:
            assert ask() == "{}"

        def altered(what: str) -> None:
            asked.clear()
            answer = ask()
            if "sent twice" in what:  # the first of the two is the honest one; the second may cut its answer short
                assert answer in ("{}", None)
                assert asked == [("add_table", QUESTION)]
            else:
                assert (answer, asked) == (None, []), what

        assert every_alteration(relay, honest, altered) > 50


def test_frame_with_the_tag_of_the_other_direction_is_refused(endpoint: Endpoint) -> None:
    ticket = endpoint.offer(PlanningConnection.opener(lambda operation, question: "{}"), 1, receives=True)
    with claimed(endpoint.address(ticket)) as client:
        send_all(client.sock, frame_pieces(FrameKind.QUESTION, b"list\n", [b"{}"], NONCE, client.seals.received))
        assert client.is_dropped()


def test_frame_without_a_tag_is_refused(endpoint: Endpoint) -> None:
    ticket = endpoint.offer(PlanningConnection.opener(lambda operation, question: "{}"), 1, receives=True)
    with claimed(endpoint.address(ticket)) as client:
        send_all(client.sock, frame_pieces(FrameKind.QUESTION, b"list\n", [b"{}" * 100], NONCE, None))
        assert client.is_dropped()
