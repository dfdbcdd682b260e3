"""Calls into a provider while Spark plans: what user code raises there travels as data; driver Python."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

from headrace.errors import HeadraceError
from headrace.execute.failure import Failure


class ProviderRaised(HeadraceError):
    """User code raised while planning; carries the Failure to send. Never reaches users."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.text())
        self.failure = failure


@contextlib.contextmanager
def asking(where: str, table: str) -> Iterator[None]:
    """Surrounds calls of user code, which may raise anything. Raises ProviderRaised, caused by it."""
    try:
        yield
    except BaseException as error:
        raise ProviderRaised(Failure.of(error, where=where, table=table)) from error


def kind_of(value: Any) -> str:
    """What user code returned instead of what it should, for a message."""
    return "None" if value is None else f"{type(value).__name__} {json.dumps(str(value)[:80])}"
