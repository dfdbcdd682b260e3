"""Exceptions as data: how an error crosses processes and comes back as itself; runs in driver and executor Python."""

from __future__ import annotations

import base64
import json
import pickle
import traceback
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import Any

import cloudpickle

import headrace.errors as errors

_MAX_PICKLED_BYTES = 64 * 1024
_MAX_MESSAGE_CHARS = 4 * 1024
_MAX_TRACEBACK_CHARS = 16 * 1024
_PACKAGE = str(Path(errors.__file__).parent)


@dataclass(frozen=True)
class Failure:
    """One error, ready to travel: ``error`` names a class of ``headrace.errors``, the rest is the original."""

    error: str
    exception_type: str
    message: str
    traceback: str = ""
    where: str = ""
    table: str | None = None
    partition: int | None = None
    pickled: str = ""

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
            pickled=_pickled(exception),
        )

    @classmethod
    def from_json(cls, text: str) -> Failure:
        """Raises ValueError when ``text`` is not a failure."""
        data = json.loads(text)
        if not isinstance(data, dict) or "error" not in data:
            raise ValueError(f"not a failure: {text[:200]}")
        known = {field.name for field in fields(cls)}
        return cls(**{key: value for key, value in data.items() if key in known})

    def to_dict(self) -> dict[str, Any]:
        """For embedding in a JSON message; ``text`` is what the JVM shows."""
        return {**asdict(self), "text": self.text()}

    def to_json(self) -> str:
        return json.dumps(self.to_dict())

    def text(self) -> str:
        """What a person reads: class and message first, then where, then the traceback of the user's code."""
        place = [self.where] if self.where else []
        if self.table is not None:
            place.append(f"table {self.table!r}")
        if self.partition is not None:
            place.append(f"partition {self.partition}")
        name = self.exception_type.removeprefix("builtins.").removeprefix("headrace.errors.")
        lines = [f"{name}: {self.message}"]
        if place:
            lines.append(f"  in {', '.join(place)}")
        if self.traceback:
            lines += ["", self.traceback.rstrip()]
        return "\n".join(lines)

    def to_exception(self) -> errors.HeadraceError:
        """The Headrace exception, with the original as ``__cause__`` where it could be rebuilt."""
        original = self._original()
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

    def _original(self) -> BaseException | None:
        if not self.pickled:
            return None
        try:
            original = pickle.loads(base64.b64decode(self.pickled))
        except BaseException:  # user classes may fail to unpickle in any way; the text still tells all
            return None
        return original if isinstance(original, BaseException) else None


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


def _pickled(exception: BaseException) -> str:
    try:
        data = cloudpickle.dumps(exception)
        pickle.loads(data)  # many exceptions pickle but cannot be rebuilt; find out here
    except BaseException:  # user classes may fail to pickle in any way; the text still tells all
        return ""
    return base64.b64encode(data).decode() if len(data) <= _MAX_PICKLED_BYTES else ""
