"""How long a Spark Connect client asks a server that is gone; driver Python.

PySpark asks ten minutes long, whatever it hears. That is right for a network that comes back, and the query goes on
then. Where the server's machine itself says that nobody listens any more, the sessions are gone with the server.
"""

from __future__ import annotations

from time import monotonic
from typing import Any

from pyspark.sql.connect.client.retries import RetryPolicy, RetryPolicyState

from headrace.transport.reaching import listens, refuses

PATIENCE_SECONDS = 10.0
_MOST_MILLISECONDS = 2000  # between two questions, while nobody listens


def be_told_of_a_lost_server(client: Any) -> None:
    """From now on every call through ``client`` fails some seconds after the server's port refuses connections.

    For the calls of PySpark too, and for good: ``spark.stop()`` comes after the context was closed.
    """
    address = server_address(client)
    if address is None:
        return
    policies = client.get_retry_policies()
    client.set_retry_policies(
        [one if isinstance(one, UnlessRefused) else UnlessRefused(one, *address) for one in policies]
    )


def server_address(client: Any) -> tuple[str, int] | None:
    """Host and port; None where a channel of the user's own leads to the server."""
    host, _, port = str(getattr(client._builder, "endpoint", "")).rpartition(":")
    return (host.strip("[]"), int(port)) if port.isdigit() else None


def answers(client: Any) -> bool:
    """Whether something listens at the server's address, asked without PySpark's patience."""
    address = server_address(client)
    return address is None or listens(*address)


class UnlessRefused(RetryPolicy):
    """Another policy, as long as connections to the server are not refused for longer than PATIENCE_SECONDS."""

    def __init__(self, policy: RetryPolicy, host: str, port: int) -> None:
        super().__init__()
        self.inner = policy
        self.host, self.port = host, port
        self._name = policy.name

    def can_retry(self, exception: BaseException) -> bool:
        return self.inner.can_retry(exception)

    def to_state(self) -> RetryPolicyState:
        return _OneCall(self)


class _OneCall(RetryPolicyState):
    """What one call has met so far."""

    def __init__(self, policy: UnlessRefused) -> None:
        super().__init__(policy)
        self._inner = policy.inner.to_state()
        self._address = policy.host, policy.port
        self._refused_since: float | None = None

    def can_retry(self, exception: BaseException) -> bool:
        if not self._inner.can_retry(exception):
            return False
        if not refuses(*self._address):
            self._refused_since = None
            return True
        if self._refused_since is None:
            self._refused_since = monotonic()
        return monotonic() - self._refused_since < PATIENCE_SECONDS

    def next_attempt(self, *exception: Any) -> int | None:  # Spark 4.0 gives none
        wait = self._inner.next_attempt(*exception)
        return wait if wait is None or self._refused_since is None else min(wait, _MOST_MILLISECONDS)
