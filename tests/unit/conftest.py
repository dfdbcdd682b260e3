"""The unit layer has no Spark: a test that loads pyspark, or asks for a session, fails. And what its files share."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

import inboxes
from headrace.results.inbox import ResultInbox
from headrace.transport.endpoint import Endpoint


@pytest.fixture(autouse=True)
def no_pyspark() -> Iterator[None]:
    """Says which test loaded pyspark. Silent where a test of another layer has loaded it before."""
    before = "pyspark" in sys.modules
    yield
    assert before or "pyspark" not in sys.modules, "a test of tests/unit loaded pyspark; it belongs in tests/spark"


@pytest.fixture(scope="session")
def spark() -> None:
    pytest.fail("there is no Spark in tests/unit; this test belongs in tests/spark")


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    served = Endpoint()
    try:
        yield served
    finally:
        served.close()


@pytest.fixture
def inbox() -> Iterator[ResultInbox]:
    made = ResultInbox(inboxes.SCHEMA)
    yield made
    made.close()
