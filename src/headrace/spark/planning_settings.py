"""What the session that plans a scan has set, for providers that heed it; driver Python, the thread that is asked."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import Any

from headrace.spark import words

_source_filters_off: ContextVar[bool] = ContextVar("source_filters_off", default=False)


@contextlib.contextmanager
def planning_for(question: Mapping[str, Any]) -> Iterator[None]:
    """Surrounds the answer to a question of the JVM's, which tells some settings of its session."""
    token = _source_filters_off.set(bool(question.get(words.SOURCE_FILTERS_OFF)))
    try:
        yield
    finally:
        _source_filters_off.reset(token)


def source_filters_are_off() -> bool:
    """Whether ``spark.sql.python.filterPushdown.enabled`` was set, and to false."""
    return _source_filters_off.get()
