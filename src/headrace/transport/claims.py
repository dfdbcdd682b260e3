"""Who opens a partition, and what serves it then, or says why it cannot be had; driver Python."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from headrace.errors import TransportError
from headrace.execute.failure import Failure
from headrace.execute.stopping import Ending
from headrace.transport.frames import send_error
from headrace.transport.received import drop_frames
from headrace.transport.seal import Seals

_REFUSAL_SECONDS = 5.0  # until a task that sends has seen why nobody receives


@dataclass(frozen=True)
class Claim:
    """Who opens a partition: the attempt of Spark's task, and Spark's SQL execution (-1 outside of one).

    ``nonce`` is on every frame of that partition. ``task`` is Spark's id of this attempt, unique in the application.
    """

    partition: int
    attempt: int
    execution: int
    nonce: int
    task: int = 0


class PartitionServer(Protocol):
    """One open partition."""

    def serve(self, sock: socket.socket, nonce: int, seals: Seals) -> None:
        """Move frames up to END or ERROR, on a thread of its own. May raise OSError when the peer is gone."""

    def stop(self, reason: Ending) -> None:
        """The peer is gone or the endpoint closes. At most once, on any thread but the endpoint's own, which does
        not wait for it; ``serve`` may have ended meanwhile.
        """


OpenPartition = Callable[[Claim], PartitionServer]
"""Called on the partition's own thread; what it raises is what the reader's query fails with."""


@dataclass(frozen=True)
class Offer:
    """What a ticket opens."""

    open_partition: OpenPartition
    partitions: int | None
    receives: bool
    watched: bool
    answers: bool = False


def open_offer(offer: Offer | None, claim: Claim) -> PartitionServer:
    """The partition that is claimed, or what tells the reader why it cannot be had: others go on."""
    try:
        if offer is None:
            raise TransportError(
                "the scan behind this query is gone: its session context was closed or its plan released"
            )
        if offer.partitions is not None and claim.partition >= offer.partitions:
            raise TransportError(f"there is no partition {claim.partition}: this scan has {offer.partitions}")
        return offer.open_partition(claim)
    except BaseException as error:  # e.g. StreamConsumedError
        return _Refusal(Failure.of(error, partition=claim.partition))


class _Refusal:
    """Serves an error instead of a partition."""

    def __init__(self, failure: Failure) -> None:
        self._failure = failure

    def serve(self, sock: socket.socket, nonce: int, seals: Seals) -> None:
        send_error(sock, self._failure.to_json(), nonce, seals.sent)
        drop_frames(sock, _REFUSAL_SECONDS)

    def stop(self, reason: str) -> None: ...
