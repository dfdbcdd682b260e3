"""Every error Headrace raises, in one tree; imported by every room, imports none.

HeadraceError
├── RegistrationError
│   ├── TableExistsError
│   └── UnsupportedTypeError
├── PlanError
├── ProviderError
├── SchemaMismatchError
├── BrokenPromiseError
├── EvaluationError
├── ClosedError
├── StreamError
│   ├── SinkClosedError, also a ClosedError
│   ├── ScanEndedError
│   │   └── ResultClosedError, also a ClosedError
│   ├── StreamConsumedError
│   ├── WriteTimeout
│   ├── ProducerLostError
│   └── DeregisteredError
├── LogError
│   └── OffsetLostError
├── WriteError
├── TransportError
└── MissingPackageError
"""

from __future__ import annotations

from typing import Literal

ScanEnd = Literal["limit", "cancelled", "failed", "lost"]


class HeadraceError(Exception):
    """The root: catch this to catch everything Headrace raises on its own account."""


class RegistrationError(HeadraceError):
    """A table could not be registered; nothing was registered."""


class TableExistsError(RegistrationError):
    """The name is taken and ``replace=True`` was not given."""


class UnsupportedTypeError(RegistrationError):
    """A column's Arrow type has no Spark type that keeps every value."""


class PlanError(HeadraceError):
    """The provider broke the contract while Spark was planning."""


class ProviderError(HeadraceError):
    """User code raised. ``__cause__`` is the original exception where it can be rebuilt."""

    def __init__(
        self,
        text: str,
        *,
        exception_type: str = "",
        message: str = "",
        traceback: str = "",
        table: str | None = None,
        partition: int | None = None,
    ) -> None:
        super().__init__(text)
        self.exception_type = exception_type
        self.message = message
        self.traceback = traceback
        self.table = table
        self.partition = partition


class SchemaMismatchError(HeadraceError):
    """Batches (or a plan) do not have the schema that was promised; names both schemas."""


class BrokenPromiseError(HeadraceError):
    """A table registered with ``verify`` yielded rows that break a promise of its provider's.

    ``promise`` is "filters", "partitioning", "ordering" or "top-n".
    """

    def __init__(self, promise: str, message: str) -> None:
        super().__init__(promise, message)
        self.promise = promise

    def __str__(self) -> str:
        return str(self.args[1])


class EvaluationError(HeadraceError):
    """``Expr.evaluate`` met a value for which Spark, with ANSI on, fails the query: overflow, a zero divisor, bad text.

    ``condition`` is Spark's own name of it: ``ARITHMETIC_OVERFLOW``, ``DIVIDE_BY_ZERO``, ``CAST_INVALID_INPUT``...
    ``DIVISION_IMPOSSIBLE``, the remainder of decimals that are too far apart, has none, and fails with ANSI off too.
    """

    def __init__(self, condition: str, message: str) -> None:
        super().__init__(condition, message)
        self.condition = condition

    def __str__(self) -> str:
        return f"[{self.condition}] {self.args[1]}"


class ClosedError(HeadraceError):
    """A context, a result stream or a sink that is closed was used, or a context whose Spark was stopped."""


class StreamError(HeadraceError):
    """Something about a streaming table or a result stream."""


class SinkClosedError(StreamError, ClosedError):
    """Written to after ``close()`` or ``fail()``: you ended this sink yourself."""


class ScanEndedError(StreamError):
    """The reading query ended, so nobody will read this.

    ``reason`` is "limit" (the query needs no more rows), "cancelled" (somebody cancelled it, closed its result stream
    or dropped its iterator), "failed", or "lost" (its task, its executor or Spark is gone).
    """

    def __init__(self, message: str = "", reason: ScanEnd = "cancelled") -> None:
        super().__init__(message)
        self.reason = reason


class ResultClosedError(ScanEndedError, ClosedError):
    """A result stream was read after it, or its context, was closed before its end. ``reason`` is "cancelled"."""


class StreamConsumedError(StreamError):
    """A streaming table can be scanned once, and that scan has been taken."""


class WriteTimeout(StreamError):
    """The channel stayed full for the whole timeout; nothing was written."""


class ProducerLostError(StreamError):
    """The producing side went away without ``close()``: the stream is not whole."""


class DeregisteredError(StreamError):
    """The table was deregistered while its stream was still open."""


class LogError(HeadraceError):
    """The base class of ``OffsetLostError``; nothing raises it itself."""


class OffsetLostError(LogError):
    """A streaming query asks for rows that its source does not have any more."""


class WriteError(HeadraceError):
    """A write plan broke the contract, or a write that was planned cannot be done."""


class TransportError(HeadraceError):
    """Connection, authentication or protocol failure between Headrace's processes."""


class MissingPackageError(HeadraceError, ImportError):
    """What was asked for needs a package that is not installed; the message says what to install."""
