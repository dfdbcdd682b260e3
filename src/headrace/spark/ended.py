"""Ids of what has ended, so that a question that its end overtook does not begin it again; driver Python."""

from __future__ import annotations

_MOST = 4096


class EndedIds:
    """The last ids that ended. Not thread-safe: its owner has a lock.

    A thread of Spark's that is interrupted gives up its question, which may be on its way still when the JVM tells on
    another connection that the stream or scan has ended. It arrives milliseconds later: before thousands of others end.
    """

    def __init__(self) -> None:
        self._ids: dict[str, None] = {}

    def add(self, ended: str) -> None:
        self._ids[ended] = None
        if len(self._ids) > _MOST:
            del self._ids[next(iter(self._ids))]

    def __contains__(self, asked: str) -> bool:
        return asked in self._ids
