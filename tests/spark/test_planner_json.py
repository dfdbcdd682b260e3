"""The planner's questions and answers as JSON, against the golden ones; Java's half is checked in test_connector.py.

No Spark runs here, but the planner's room loads pyspark.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import headrace as hr
from endpoints import Client, error_of
from golden_planner import GOLDEN, GoldenTable, differences, golden_planner
from headrace.negotiate.pickling import pickled_table
from headrace.negotiate.registry import RegisteredTable
from headrace.spark import words
from headrace.spark.planner import Planner
from headrace.transport.endpoint import Endpoint
from headrace.worker.payload import payload_of

CONVERSATIONS = {one["name"]: one["steps"] for one in GOLDEN["conversations"]}


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    endpoint = Endpoint()
    yield endpoint
    endpoint.close()


@pytest.fixture
def planner(endpoint: Endpoint) -> Planner:
    return golden_planner(endpoint)


def ask(planner: Planner, operation: str, question: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(planner.call(operation, json.dumps(question)))
    return answer


def test_every_word_of_the_planner_is_a_golden_one() -> None:
    found = {name: value for name, value in vars(words).items() if name.isupper()}
    assert found == {word.upper(): word for word in GOLDEN["words"]}
    pushdowns = {one.value for kind in (hr.Pushdown, hr.AggregatePushdown) for one in kind}
    assert pushdowns <= set(GOLDEN["words"])


def test_every_operation_of_the_planner_has_a_golden_example(planner: Planner) -> None:
    assert {step["operation"] for steps in CONVERSATIONS.values() for step in steps} == set(planner._operations)


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_planner_answers_the_golden_questions_with_the_golden_answers(
    planner: Planner, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.path", [*sys.path])  # to unpickle a client's table changes it
    for step in CONVERSATIONS[name]:
        operation, question = step["operation"], step["question"]
        if operation == words.ADD_TABLE:
            table = payload_of(pickled_table(RegisteredTable.of("added", GoldenTable())))
            question = {words.TABLE: base64.b64encode(table).decode()}
        assert differences(step["answer"], ask(planner, operation, question), f"{name}: {operation}") == []
    assert len(planner.scans) == 0


PLAN, NARROWED = (
    step["question"] for step in CONVERSATIONS["a plan by keys, narrowed"] if step["operation"] == words.PLAN
)


def test_scan_that_is_planned_a_thousand_times_keeps_the_plans_in_use_alone(
    planner: Planner, endpoint: Endpoint
) -> None:
    current = ask(planner, words.PLAN, PLAN)[words.PLAN]
    first = current
    for number in range(1000):
        replaced = current
        if number % 2:
            current = ask(planner, words.PLAN, {**NARROWED, words.NARROWS: first})[words.PLAN]
        else:
            current = ask(planner, words.PLAN, {**PLAN, words.OFFERS: {}})[words.PLAN]
        if replaced != first:
            ask(planner, words.RELEASE_PLAN, {words.SCAN: PLAN[words.SCAN], words.PLAN: replaced})
        assert {plan.id for plan in planner.scans.plans()} == {first, current}
        assert len(endpoint._tickets) == 2
    ask(planner, words.RELEASE, {words.SCAN: PLAN[words.SCAN]})
    assert (len(planner.scans), planner.scans.plans(), len(endpoint._tickets)) == (0, [], 0)


def test_plan_that_is_released_can_no_longer_be_opened_and_the_others_can(planner: Planner) -> None:
    first, second = (ask(planner, words.PLAN, {**PLAN, words.OFFERS: offers}) for offers in (PLAN[words.OFFERS], {}))
    for _ in range(2):  # one that is gone is ignored
        ask(planner, words.RELEASE_PLAN, {words.SCAN: PLAN[words.SCAN], words.PLAN: first[words.PLAN]})
    for plan, error in ((first, "TransportError"), (second, "ProviderError")):
        with Client(plan[words.ENDPOINT]) as client:
            client.sock.sendall(client.claim(client.greeting()))
            assert error_of(client)["error"] == error


def test_runtime_filters_that_are_left_out_are_told_to_explain(planner: Planner) -> None:
    for step in CONVERSATIONS["a plan by keys, narrowed"][:4]:
        ask(planner, step["operation"], step["question"])
    (plan,) = planner.scans.plans()
    assert plan.left_out == (
        "a list of 10,001 values, more than 10,000",
        "a filter of Spark's that has no form here",
        "the one on k, as it would be learnt in more than two steps, each a query to plan",
    )
