"""A channel for tests: what is put into it and taken out of it, and threads that wait at it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from headrace.push.channel import END, Channel, Reader
from producing import wait_until

PATIENCE_S = 60.0


class Background:
    """A function in a thread of its own, whose result or exception is awaited with a limit."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._error: BaseException | None = None
        self._result: Any = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._result = self._function()
        except BaseException as error:
            self._error = error

    def result(self, patience_s: float = PATIENCE_S) -> Any:
        self._thread.join(patience_s)
        assert not self._thread.is_alive(), "hangs"
        if self._error is not None:
            raise self._error
        return self._result


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
