"""Exceptions as data: how an error crosses processes and comes back as itself; runs in driver and executor Python.

An exception is code of the user's: whatever is asked of it may raise, and that must not hide what it is.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import headrace.errors as errors
from headrace.execute.rebuild import put_together, taken_apart

T = TypeVar("T")

_MAX_NAME_CHARS = 512
_MAX_MESSAGE_CHARS = 4 * 1024
_MAX_TRACEBACK_CHARS = 16 * 1024
_MAX_NOTES = 20
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
        """Describe ``exception``. Headrace's own errors keep their class; all others are a ProviderError.

        Never raises.
        """
        name = qualified_name(exception)
        own = getattr(errors, name.removeprefix(f"{errors.__name__}."), None) is type(exception)
        return cls(
            error=name.rpartition(".")[2] if own else "ProviderError",
            exception_type=name,
            message=message_of(exception),
            traceback=_clipped(_user_traceback(exception), _MAX_TRACEBACK_CHARS),
            where=where,
            table=table,
            partition=partition,
            parts=_asked(lambda: taken_apart(exception), None),
        )

    @classmethod
    def from_json(cls, text: str) -> Failure:
        """Raises ValueError when ``text`` is not a failure."""
        data = json.loads(text)
        if not isinstance(data, dict) or "error" not in data:
            raise ValueError(f"not a failure: {text[:200]}")
        own_fields = {field.name for field in fields(cls)}
        failure = cls(**{"exception_type": "", "message": "", **{k: v for k, v in data.items() if k in own_fields}})
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
        return _headline(self.exception_type, self.message)

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
        kind = getattr(errors, self.error, None)
        if not (isinstance(kind, type) and issubclass(kind, errors.HeadraceError)):
            return errors.HeadraceError(self.text())
        if kind is not errors.ProviderError:
            return _made(kind, self.text() if self.traceback else self.message)
        exception = errors.ProviderError(
            self.text(),
            exception_type=self.exception_type.removeprefix("builtins."),
            message=self.message,
            traceback=self.traceback,
            table=self.table,
            partition=self.partition,
        )
        exception.__cause__ = original
        return exception


def error_of(record: str, text: str) -> errors.HeadraceError:
    """The exception of a record that came through Spark. Where it is damaged, ``text``: what Spark itself says.

    Code of the user's can write to a worker's connection, so what looks like a record may be none. Never raises.
    """
    try:
        return Failure.from_json(record).to_exception()
    except Exception:
        return errors.TransportError(text)


def qualified_name(exception: BaseException) -> str:
    """Module and name of its class, without that of the main script. Never raises."""
    kind = type(exception)
    module = _asked(lambda: type.__dict__["__module__"].__get__(kind), "")
    name = type.__dict__["__qualname__"].__get__(kind)  # not the metaclass's answer, which may be any
    name = f"{module}.{name}" if type(module) is str and module not in ("", "__main__") else name
    return _clipped(name, _MAX_NAME_CHARS)


def message_of(exception: BaseException) -> str:
    """What ``str`` makes of it, and of one that this raises for at least its arguments. Never raises."""
    try:
        return _clipped(str(exception), _MAX_MESSAGE_CHARS)
    except BaseException as error:  # a user's __str__ may raise anything
        name, why = qualified_name(exception).rpartition(".")[2], qualified_name(error).removeprefix("builtins.")
    arguments = _asked(lambda: repr(BaseException.__dict__["args"].__get__(exception)), "()")
    given = f", given {arguments}" if arguments != "()" else ""
    return _clipped(f"<{name} whose str() raised {why}{given}>", _MAX_MESSAGE_CHARS)


def _made(kind: type[errors.HeadraceError], text: str) -> errors.HeadraceError:
    try:
        return kind(text)
    except TypeError:  # it is made from more than a text
        return errors.HeadraceError(text)


def headline_of(exception: BaseException) -> str:
    """Class and message. Never raises."""
    return _headline(qualified_name(exception), message_of(exception))


def traceback_of(exception: BaseException) -> TracebackType | None:
    """Its own, whatever the user's class makes of the attribute."""
    found: TracebackType | None = BaseException.__dict__["__traceback__"].__get__(exception)
    return found


def _headline(exception_type: str, message: str) -> str:
    name = exception_type.removeprefix("builtins.").removeprefix("headrace.errors.")
    return f"{name}: {message}" if message else name


def _asked(question: Callable[[], T], otherwise: T) -> T:
    """The answer, or ``otherwise`` where asking calls code of the user's that raises."""
    try:
        return question()
    except BaseException:
        return otherwise


def _clipped(text: str, max_chars: int) -> str:
    text = str.__str__(text)  # of a class derived from str, whose methods may be the user's
    if len(text) > max_chars:
        half = max_chars // 2
        text = f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[-half:]}"
    return text.encode("utf-8", "backslashreplace").decode()  # half a surrogate pair would not survive the JVM


def _clip_messages(formatted: Any) -> None:
    """Cut messages and notes before they are formatted: that copies them several times, and each line by itself."""
    waiting = [formatted]
    while waiting:
        found = waiting.pop()
        if isinstance(getattr(found, "_str", None), str):
            found._str = _clipped(found._str, _MAX_MESSAGE_CHARS)
        if isinstance(found.__notes__, list):
            notes = found.__notes__[:_MAX_NOTES]
            found.__notes__ = [_clipped(note, _MAX_MESSAGE_CHARS) if isinstance(note, str) else note for note in notes]
        others = (found.__cause__, found.__context__, *(getattr(found, "exceptions", None) or ()))
        waiting += [other for other in others if other is not None]


def _user_traceback(exception: BaseException) -> str:
    """The traceback without Headrace's own leading frames: it starts where the user's code does.

    Empty for an error that no code of the user's is part of.
    """
    tb = traceback_of(exception)
    while tb is not None and tb.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        tb = tb.tb_next
    try:
        if tb is None and exception.__cause__ is None and exception.__context__ is None:
            return ""
        formatted = traceback.TracebackException(type(exception), exception, tb)
        _clip_messages(formatted)
        return "".join(formatted.format())
    except BaseException as error:  # formatting calls the user's __str__, __repr__ and properties
        why = qualified_name(error).removeprefix("builtins.")
        return "".join(traceback.format_tb(tb)) + f"<its traceback could not be written: {why}>"
