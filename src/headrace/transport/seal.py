"""Tags on frames: nobody on the way can change, drop, repeat or add one unnoticed; driver Python.

They are on the endpoint's connections, whose handshake gives them their keys. A worker's connection has none: it does
not leave the machine, and Spark has authenticated it.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import Any

from headrace.errors import TransportError
from headrace.transport.protocol import FROM_ENDPOINT, SEQUENCE, TAG_BYTES, TO_ENDPOINT, tag_key


class FrameSeal:
    """One direction of one connection: makes its tags, or checks them, in their order. One thread at a time."""

    def __init__(self, key: bytes) -> None:
        self._keyed = hmac.new(key, digestmod="sha256")
        self._count = 0

    def tag(self, *parts: Any) -> bytes:
        """The next tag, over ``parts`` as they follow each other."""
        mac = self._keyed.copy()
        mac.update(SEQUENCE.pack(self._count))
        for part in parts:
            mac.update(part)
        self._count += 1
        return mac.digest()[:TAG_BYTES]

    def check(self, tag: Any, *parts: Any) -> None:
        """Raises TransportError where ``tag`` is not the next one, over ``parts``."""
        if not hmac.compare_digest(self.tag(*parts), tag):
            raise TransportError("a frame was changed, lost, repeated or added on its way: its tag is wrong")


@dataclass(frozen=True)
class Seals:
    """Both directions of one connection, as one of its ends has them; None where frames have no tags."""

    sent: FrameSeal | None
    received: FrameSeal | None

    @classmethod
    def of_endpoint(cls, secret: bytes, challenge: bytes, claim: bytes) -> Seals:
        """The endpoint's, after the handshake with these messages."""
        from_endpoint, to_endpoint = (
            FrameSeal(tag_key(secret, direction, challenge, claim)) for direction in (FROM_ENDPOINT, TO_ENDPOINT)
        )
        return cls(sent=from_endpoint, received=to_endpoint)
