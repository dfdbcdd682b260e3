"""Exceptions as data: how an error crosses processes and comes back as itself; runs in driver and executor Python."""

from __future__ import annotations

import json
import traceback
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import Any

import headrace.errors as errors
from headrace.execute.rebuild import put_together, taken_apart

_MAX_MESSAGE_CHARS = 4 * 1024
_MAX_TRACEBACK_CHARS = 16 * 1024
_PACKAGE = str(Path(errors.__file__).parent)


@dataclass(frozen=True)
class Failure:
    """One error, ready to travel: ``error`` names a class of ``headrace.errors``, the rest is the original.

    ``parts`` are what the original is put together from, see ``headrace.execute.rebuild``.
    """

    error: str
    exception_type: str
    message: str
    traceback: str = ""
    where: str = ""
    table: str | None = None
    partition: int | None = None
    parts: dict[str, Any] | None = None

    @classmethod
    def of(
        cls,
        exception: BaseException,
        *,
        where: str = "",
        table: str | None = None,
        partition: int | None = None,
    ) -> Failure:
        """Describe ``exception``. Headrace's own errors keep their class; all others are a ProviderError."""
        own = type(exception).__module__ == errors.__name__
        return cls(
            error=type(exception).__name__ if own else "ProviderError",
            exception_type=_qualified(type(exception)),
            message=_clipped(_message(exception), _MAX_MESSAGE_CHARS),
            traceback=_clipped(_user_traceback(exception), _MAX_TRACEBACK_CHARS),
            where=where,
            table=table,
            partition=partition,
            parts=taken_apart(exception),
        )

    @classmethod
    def from_json(cls, text: str) -> Failure:
        """Raises ValueError when ``text`` is not a failure."""
        data = json.loads(text)
        if not isinstance(data, dict) or "error" not in data:
            raise ValueError(f"not a failure: {text[:200]}")
        known = {field.name for field in fields(cls)}
        failure = cls(**{"exception_type": "", "message": "", **{k: v for k, v in data.items() if k in known}})
        texts = (failure.error, failure.exception_type, failure.message, failure.traceback, failure.where)
        if not all(isinstance(text, str) for text in texts):
            raise ValueError(f"not a failure: {text[:200]}")
        return failure

    def to_dict(self) -> dict[str, Any]:
        """For embedding in a JSON message; ``text`` is what the JVM shows, and begins with ``headline``."""
        return {**asdict(self), "text": self.text(), "headline": self.headline()}

    def to_json(self) -> str:
        return json.dumps(self.to_dict())

    def headline(self) -> str:
        """Class and message."""
        name = self.exception_type.removeprefix("builtins.").removeprefix("headrace.errors.")
        return f"{name}: {self.message}" if self.message else name

    def text(self) -> str:
        """What a person reads: class and message first, then where, then the traceback of the user's code."""
        place = [self.where] if self.where else []
        if self.table is not None:
            place.append(f"table {self.table!r}")
        if self.partition is not None:
            place.append(f"partition {self.partition}")
        lines = [self.headline()]
        if place:
            lines.append(f"  in {', '.join(place)}")
        if self.traceback:
            lines += ["", self.traceback.rstrip()]
        return "\n".join(lines)

    def to_exception(self) -> errors.HeadraceError:
        """The Headrace exception, with the original as ``__cause__`` where it could be rebuilt."""
        original = put_together(self.exception_type, self.parts)
        if isinstance(original, errors.HeadraceError):
            return original
        kind = getattr(errors, self.error, errors.HeadraceError)
        exception: errors.HeadraceError
        if kind is errors.ProviderError:
            exception = errors.ProviderError(
                self.text(),
                exception_type=self.exception_type.removeprefix("builtins."),
                message=self.message,
                traceback=self.traceback,
                table=self.table,
                partition=self.partition,
            )
        elif isinstance(kind, type) and issubclass(kind, errors.HeadraceError):
            exception = kind(self.text() if self.traceback else self.message)
        else:
            exception = errors.HeadraceError(self.text())
        exception.__cause__ = original
        return exception


def _qualified(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("__main__.")


def _message(exception: BaseException) -> str:
    try:
        return str(exception)
    except BaseException as error:  # a user's __str__ may raise anything
        return f"<{type(exception).__name__} whose str() raised {type(error).__name__}>"


def _clipped(text: str, max_chars: int) -> str:
    text = text.encode("utf-8", "backslashreplace").decode()  # half a surrogate pair would not survive the JVM
    if len(text) <= max_chars:
        return text
    half = max_chars // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[-half:]}"


def _user_traceback(exception: BaseException) -> str:
    """The traceback without Headrace's own leading frames: it starts where the user's code does.

    Empty for an error that no code of the user's is part of.
    """
    tb: TracebackType | None = exception.__traceback__
    while tb is not None and tb.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        tb = tb.tb_next
    if tb is None and exception.__cause__ is None and exception.__context__ is None:
        return ""
    try:
        return "".join(traceback.format_exception(type(exception), exception, tb))
    except BaseException as error:  # formatting calls the user's __str__, __repr__ and properties
        return "".join(traceback.format_tb(tb)) + f"<its traceback could not be written: {type(error).__name__}>"
