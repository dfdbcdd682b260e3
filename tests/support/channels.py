"""A channel for tests: what is put into it and taken out of it, and threads that wait at it."""

from __future__ import annotations

from typing import Any

from headrace.push.channel import END, Channel, Reader
from producing import wait_until

PATIENCE_S = 60.0


def blocked(channel: Channel[Any], count: int = 1) -> None:
    wait_until(lambda: channel._lanes.blocked == count)


def hungry(channel: Channel[Any], count: int = 1) -> None:
    wait_until(lambda: channel._lanes.hungry == count)


def drain(reader: Reader[Any]) -> list[Any]:
    items: list[Any] = []
    while (taken := reader.take(1 << 30, 1 << 40)) is not END:
        assert isinstance(taken, list)
        items += taken
    return items


def put(channel: Channel[Any], *items: Any, partition: int | None = None) -> None:
    for item in items:
        channel.offer(item, 1, 10, partition, timeout_s=PATIENCE_S)
