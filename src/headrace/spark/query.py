"""A query that runs on a thread of its own, and its result in an inbox; driver Python."""

from __future__ import annotations

import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable
from time import monotonic

import pyarrow as pa

from headrace.errors import HeadraceError, TransportError
from headrace.results.inbox import ResultInbox
from headrace.spark.results import check_types

_CANCEL_AGAIN_SECONDS = 0.1
_CANCEL_SECONDS = 30.0


class QueryOnThread(ABC):
    """A RunningQuery. The result is whole only where its work came to its end."""

    def __init__(self, schema: pa.Schema, *, bounded: bool) -> None:
        check_types(schema)
        self.schema = schema
        self.inbox = ResultInbox(schema, bounded=bounded)
        self._tag = f"headrace-{uuid.uuid4().hex}"
        self._over = threading.Event()

    @property
    def failed(self) -> bool:
        return self.inbox.failed

    def is_over(self) -> bool:
        return self._over.is_set()

    def take(self) -> pa.RecordBatch | None:
        return self.inbox.take()

    def progress(self) -> tuple[int, int | None]:
        return self.inbox.progress()

    @abstractmethod
    def start(self) -> None:
        """Start the thread. It calls ``_run`` with a function that brings the whole result to the inbox."""

    def cancel(self) -> None:
        """End the query and wait until it has ended. Asks repeatedly: Spark cannot cancel what has not begun."""
        self.inbox.close()
        deadline = monotonic() + _CANCEL_SECONDS
        while not self._over.wait(_CANCEL_AGAIN_SECONDS) and monotonic() < deadline:
            if not self._ask_to_cancel():
                return

    @abstractmethod
    def _ask_to_cancel(self) -> bool:
        """Ask Spark to cancel the query; False where Spark is gone, and the query with it."""

    @abstractmethod
    def _error_behind(self, error: BaseException) -> HeadraceError | None:
        """The Headrace error that made Spark raise ``error``, if any did."""

    def _run(self, work: Callable[[], None]) -> None:
        """All of the thread: whatever ends it but the end of ``work`` is an error, even one of memory."""
        error: BaseException | None = TransportError("the result broke off, and nothing tells why")
        try:
            work()
            error = None
        except BaseException as raised:
            error = raised
            error = self._error_behind(raised) or raised
        finally:
            if error is None:
                self.inbox.finish()
            else:
                self.inbox.fail(error)
            self._over.set()
