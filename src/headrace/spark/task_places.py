"""Where Spark's tasks find a plan's code: pickled, for workers, or at the endpoint of this process; driver Python."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

from headrace.spark import words
from headrace.transport.endpoint import Endpoint
from headrace.worker.payload import payload_of


@dataclass
class TaskPlaces:
    """Says it in the planner's JSON; one for all that a planner answers, reads or not."""

    endpoint: Endpoint
    python: str
    archive: str
    by_value: bool
    """Whether modules that are not installed travel with the plans: executors could not import them."""

    def workers(self, pickled: bytes) -> dict[str, Any]:
        """Spark's Python workers unpickle the task."""
        task = base64.b64encode(payload_of(pickled)).decode()
        return {words.WORKER: {words.PYTHON: self.python, words.ARCHIVE: self.archive, words.TASK: task}}

    def here(self, ticket: bytes) -> dict[str, Any]:
        """The endpoint serves what the ticket was offered for."""
        return {words.ENDPOINT: self.endpoint.address(ticket)}
