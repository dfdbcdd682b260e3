"""The planner of a Spark Connect session beside its server, for who cannot be reached from there; a process of its own.

The JVM starts it, with settings as the first line of its input, and reads the address of its endpoint from its output.
It ends when its input does. What it unpickles comes from the session's own client, through the server.
"""

from __future__ import annotations

import base64
import json
import os
import pickle
import sys
from typing import Any

from headrace.errors import PlanError
from headrace.negotiate.registry import RegisteredTable, Registry
from headrace.spark import words
from headrace.spark.attached import tls_identity
from headrace.spark.planner import Planner
from headrace.transport.endpoint import Endpoint
from headrace.transport.planning import PlanningConnection
from headrace.transport.protocol import PLANNER_VERSION
from headrace.worker.payload import PYTHON_VERSION, open_payload


class ServerPlanner(Planner):
    """A planner whose tables come and go through its own operations."""

    def __init__(self, registry: Registry, endpoint: Endpoint, archive: str) -> None:
        super().__init__(registry, endpoint, python="", archive=archive, by_value=True)
        self._operations |= {words.ADD_TABLE: self._add_table, words.DROP_TABLE: self._drop_table}

    def _add_table(self, question: dict[str, Any]) -> dict[str, Any]:
        self._registry.add(unpickled_table(base64.b64decode(question[words.TABLE])))
        return {}

    def _drop_table(self, question: dict[str, Any]) -> dict[str, Any]:
        self._registry.remove(question[words.TABLE])
        return {"left": len(self._registry.names())}


def unpickled_table(payload: bytes) -> RegisteredTable:
    """Raises PlanError where the client's Python is another one; or what the classes of the provider raise."""
    pickled = open_payload(payload, _mismatch)
    sys.path[:] = filter(os.path.isabs, sys.path)  # the client's own directory is no place of the server's
    table: RegisteredTable = pickle.loads(pickled)
    return table


def _mismatch(client: str) -> PlanError:
    return PlanError(
        f"the provider was pickled by Python {client}, and the server plans with {PYTHON_VERSION} "
        f"({sys.executable}); both must be of one minor version"
    )


def main() -> None:
    settings = json.loads(sys.stdin.readline())
    endpoint = Endpoint(settings["bind"], settings["host"], tls_identity(settings.get))
    planner = ServerPlanner(Registry(), endpoint, settings["archive"])
    ticket = endpoint.offer(PlanningConnection.opener(planner.call), 1, receives=True)
    print(json.dumps({**endpoint.address(ticket), "planner_version": PLANNER_VERSION}), flush=True)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what is printed from here on goes to the server's log,
    sys.stdout = sys.stderr  # and at once, where Python prints it
    sys.stdin.read()
    planner.close()
    endpoint.close()


if __name__ == "__main__":
    main()
