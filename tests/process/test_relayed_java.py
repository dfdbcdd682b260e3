"""Somebody on the way passes the handshake on and then changes frames: the connector refuses every one of them."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from echoing import Echo, echo_task
from endpoints import opener_of
from headrace.errors import HeadraceError
from headrace.results.inbox import ResultInbox
from headrace.transport.driver_partition import ReceivingPartition
from headrace.transport.endpoint import Endpoint
from headrace.transport.planning import PlanningConnection
from headrace.transport.protocol import PLANNER_VERSION
from java_checks import GOLDEN, java_check
from raw_frames import NUMBERS, numbers
from relay import Relay, alterations

SEED = 23
BATCHES = [numbers(0, 3), numbers(3, 40_000)]  # too large to be sent together


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return java_check("org.headrace.spark.transport.RelayedCheck", tmp_path_factory.mktemp("classes"))


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    endpoint = Endpoint("127.0.0.1", "127.0.0.1")
    yield endpoint
    endpoint.close()


class Executor:
    """The connector, on whose connections a relay is."""

    def __init__(self, java: list[str], what: str, relay: Relay) -> None:
        self.relay = relay
        address = json.dumps({**relay.address, "planner_version": PLANNER_VERSION})
        self.process = subprocess.Popen(
            [*java, what, address, str(GOLDEN)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Executor:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate(timeout=60)

    def outcome(self) -> dict[str, Any]:
        """Of one more connection."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("once more\n")
        self.process.stdin.flush()
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found

    def altered(self) -> Iterator[str]:
        """What is done to the frames from now on, one thing after the other; two connections were honest before."""
        frames, others = self.relay.seen
        for what, alter in alterations(frames, others[-1], random.Random(SEED)):
            self.relay.alter = alter
            yield what


def is_transport_error(outcome: dict[str, Any]) -> bool:
    return "lost" in outcome or json.loads(outcome["failure"])["error"] == "TransportError"


def two_batches(_partition: int) -> Iterator[pa.RecordBatch]:
    yield from BATCHES


def test_table_changed_on_its_way_is_refused_by_the_connector(endpoint: Endpoint, java: list[str]) -> None:
    ticket = endpoint.offer(opener_of(NUMBERS, two_batches), 1)
    with Relay(endpoint.address(ticket), to_endpoint=False) as relay, Executor(java, "read", relay) as executor:
        assert [executor.outcome(), executor.outcome()] == [{"rows": 40_003}] * 2
        refused = {what: is_transport_error(executor.outcome()) for what in executor.altered()}
    assert len(refused) > 100
    assert all(refused.values()), refused


def test_answer_changed_on_its_way_is_refused_by_the_connector(endpoint: Endpoint, java: list[str]) -> None:
    answer = json.dumps({"worker": {"task": "gASVAAAA" * 20}})
    ticket = endpoint.offer(PlanningConnection.opener(lambda operation, question: answer), 1, receives=True)
    with Relay(endpoint.address(ticket), to_endpoint=False) as relay, Executor(java, "ask", relay) as executor:
        assert [executor.outcome(), executor.outcome()] == [{"answer": answer}] * 2
        for what in executor.altered():
            outcome = executor.outcome()
            if "sent twice" in what:  # the first of the two is the honest one
                assert outcome == {"answer": answer}
            else:
                assert is_transport_error(outcome), what


def test_message_changed_on_its_way_is_refused_by_the_connector(endpoint: Endpoint, java: list[str]) -> None:
    task = echo_task(Echo(7), NUMBERS)
    ticket = endpoint.offer(lambda claim: ReceivingPartition(task, claim), 1, receives=True, watched=True)
    with Relay(endpoint.address(ticket), to_endpoint=False) as relay, Executor(java, "send", relay) as executor:
        outcomes = [executor.outcome(), executor.outcome()]
        assert [json.loads(outcome["message"])[:4] for outcome in outcomes] == [[7, 0, 3, 1]] * 2
        for what in executor.altered():
            outcome = executor.outcome()
            if "sent twice" in what:  # the first of the two is the honest one
                assert outcome == outcomes[0]
            else:
                assert is_transport_error(outcome), what


def test_result_of_the_connector_changed_on_its_way_is_refused(endpoint: Endpoint, java: list[str]) -> None:
    inboxes: list[ResultInbox] = []
    ticket = endpoint.offer(lambda claim: inboxes[-1].open(claim), 1, receives=True)

    def received() -> tuple[dict[str, Any], list[Any]]:
        inboxes.append(ResultInbox(NUMBERS))
        inboxes[-1].announce(1)
        outcome = executor.outcome()
        inboxes[-1].finish()
        batches = []
        while (batch := inboxes[-1].take(timeout_s=60)) is not None:
            batches += batch.to_pylist()
        return outcome, batches

    with Relay(endpoint.address(ticket), to_endpoint=True) as relay, Executor(java, "send", relay) as executor:
        for _ in range(2):
            outcome, rows = received()
            assert outcome == {"message": ""}
            assert [row["i"] for row in rows] == [1, 2, 3]
        for what in executor.altered():
            with pytest.raises(HeadraceError, match=r"was damaged|never arrived"):
                raise AssertionError(f"{what}: {received()}")
