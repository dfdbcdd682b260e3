"""Exceptions taken apart into plain data and put together again; driver and executor Python.

Executors are not trusted with the driver: what they send is data, never a pickle. An exception is put together without
running any code but the interpreter's own, only of a class that this process has loaded already, and only from values
that JSON has plus bytes and tuples.
"""

from __future__ import annotations

import base64
import contextlib
import json
import math
import sys
from typing import Any

_MAX_CHARS = 64 * 1024
_MAX_DEPTH = 4
_MAX_BITS = 1024  # of a number: neither Python nor the JVM reads thousands of digits


def taken_apart(exception: BaseException) -> dict[str, Any] | None:
    """Its arguments and attributes as JSON; None where an argument is not plain, or all is too large to send.

    Attributes that are not plain are left out. Raises what properties of the user's class do.
    """
    room = _Room()
    try:
        arguments = [_plain(value, _MAX_DEPTH, room) for value in (*exception.args, *_files(exception))]
        attributes = {}
        for name, value in vars(exception).items():
            if type(name) is str:
                room.take(len(name))
                if _is_text(name):
                    with contextlib.suppress(_NotPlain):
                        attributes[name] = _plain(value, _MAX_DEPTH, room)
    except (_NotPlain, _TooLarge):
        return None
    data = {"arguments": arguments, "attributes": attributes}
    return data if len(json.dumps(data)) <= _MAX_CHARS else None


def put_together(name: str, data: Any) -> BaseException | None:
    """The exception of the class ``name`` (module and qualified name), or None where that cannot be had.

    Never raises. What the original kept as its cause, its notes and attributes that are not plain is not there: its
    own ``str`` may miss them.
    """
    try:
        kind = _loaded_class(name)
        if kind is None or not isinstance(data, dict):
            return None
        arguments = tuple(_value(part) for part in data.get("arguments", ()))
        attributes = {str(key): _value(part) for key, part in data.get("attributes", {}).items()}
        # The built-in class behind it: its C code makes and fills the object, a user's __init__ is not called.
        builtin: Any = next(base for base in kind.__mro__ if base.__module__ == "builtins")
        exception: BaseException = builtin.__new__(kind, *arguments)
        builtin.__init__(exception, *arguments)
        vars(exception).update(attributes)
    except Exception:  # data that none of ours made, or a class (a metaclass) that has it otherwise
        return None
    return exception


def _files(exception: BaseException) -> tuple[Any, ...]:
    """An OSError was given the names of its files as arguments, but does not keep them there."""
    if not isinstance(exception, OSError) or len(exception.args) != 2 or exception.filename is None:
        return ()
    return (exception.filename,) if exception.filename2 is None else (exception.filename, None, exception.filename2)


class _NotPlain(Exception):
    pass


class _TooLarge(Exception):
    pass


class _Room:
    """How many characters may still come: a value is measured before it is walked or copied."""

    def __init__(self) -> None:
        self._chars = _MAX_CHARS

    def take(self, chars: int) -> None:
        """Raises _TooLarge where it is not enough."""
        self._chars -= chars
        if self._chars < 0:
            raise _TooLarge


def _plain(value: Any, depth: int, room: _Room) -> Any:
    """Raises _NotPlain for what is not plain, and _TooLarge."""
    room.take(len(value) if type(value) in (str, bytes, list, tuple) else 1)
    if value is None or type(value) is bool or (type(value) is float and math.isfinite(value)):
        return value
    if type(value) is int and value.bit_length() <= _MAX_BITS:
        return value
    if type(value) is str and _is_text(value):
        return value
    if type(value) is bytes:
        return {"bytes": base64.b64encode(value).decode()}
    if type(value) in (list, tuple) and depth:
        return {type(value).__name__: [_plain(part, depth - 1, room) for part in value]}
    raise _NotPlain


def _is_text(value: str) -> bool:
    """Half a surrogate pair would not survive the JVM."""
    return not any("\ud800" <= character <= "\udfff" for character in value)


def _value(data: Any) -> Any:
    """Raises ValueError for what ``_plain`` does not make."""
    if data is None or isinstance(data, (bool, int, float, str)):
        return data
    if isinstance(data, dict) and len(data) == 1:
        ((kind, content),) = data.items()
        if kind == "bytes" and isinstance(content, str):
            return base64.b64decode(content)
        if kind in ("list", "tuple") and isinstance(content, list):
            parts = [_value(part) for part in content]
            return parts if kind == "list" else tuple(parts)
    raise ValueError(f"not a plain value: {data!r}"[:200])


def _loaded_class(name: str) -> type[BaseException] | None:
    """An exception class of this process by its full name; nothing is imported, and no module's __getattr__ runs."""
    parts = name.split(".")
    for cut in range(len(parts) - 1, -1, -1):  # a class of the main script has no module in its name
        found: Any = sys.modules.get(".".join(parts[:cut]) or "__main__")
        for part in parts[cut:]:
            found = None if found is None else getattr(found, "__dict__", {}).get(part)
        if isinstance(found, type) and issubclass(found, BaseException):
            return found
    return None
