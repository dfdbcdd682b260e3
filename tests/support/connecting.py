"""Providers for tests of Spark Connect, and what makes its server look farther away than it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from headrace.transport.endpoint import Endpoint
from producing import Marks, numbers


def hides_the_unix_socket(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    """As if the server were on another host."""
    told = Endpoint.address
    monkeypatch.setattr(Endpoint, "address", lambda self, ticket: {**told(self, ticket), "path": "", **changes})


def fails_after_a_batch(partition: int) -> Iterator[pa.RecordBatch]:
    yield numbers(3)
    raise ValueError(f"no more: {partition}\nsee the manual")


def endless(marks: Marks) -> Any:
    """Leaves "started" and "stopped"."""

    def produce(partition: int) -> Iterator[pa.RecordBatch]:
        marks.leave("started")
        try:
            start = 0
            while True:
                yield numbers(100, start)
                start += 100
        finally:
            marks.leave("stopped")

    return produce
